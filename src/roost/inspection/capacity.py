# SPDX-License-Identifier: Apache-2.0
"""How many more servers of each flavor fit, as records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roost.errors import BadInput
from roost.model import RequestSpec
from roost.model.json_records import to_json
from roost.scheduler.headroom import Headroom

Counted = Headroom | BadInput
"""The headroom of a flavor, or what is wrong with it."""


def count_each(specs: Mapping[str, RequestSpec], count: Callable[[str, RequestSpec], Headroom]) -> dict[str, Counted]:
    """Name of each flavor -> its headroom, or what is wrong with it. BadInput if something is wrong with all."""
    counted: dict[str, Counted] = {}
    for name, spec in specs.items():
        try:
            counted[name] = count(name, spec)
        except BadInput as error:
            counted[name] = error
    errors = [each for each in counted.values() if isinstance(each, BadInput)]
    if errors and len(errors) == len(counted):
        raise errors[0]
    return counted


def headroom_record(name: str, counted: Counted) -> dict[str, Any]:
    """The record of one flavor: its name and its headroom, or `error`."""
    if isinstance(counted, BadInput):
        return {"flavor": name, "error": str(counted)}
    record: dict[str, Any] = to_json(counted)
    return {"flavor": name} | record
