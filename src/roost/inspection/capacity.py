# SPDX-License-Identifier: Apache-2.0
"""How many more servers of each flavor fit, as records."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from roost.errors import BadInput
from roost.model import RequestSpec
from roost.model.json_records import to_json
from roost.scheduler.headroom.record import Headroom

Counted = Headroom | BadInput
"""The headroom of a flavor, or what is wrong with it."""
Count = Callable[[str, RequestSpec], Headroom]
"""Counts the headroom of a request; gets the name of its flavor, too."""
KeyOf = Callable[[RequestSpec], Hashable]
"""Gives what is equal for requests that have the same headroom; None where that is not known."""


def each_by_itself(spec: RequestSpec) -> None:
    """Stands for the key of requests of which none is known to be like another."""


def count_in_turn(
    specs: Mapping[str, RequestSpec], count: Count, key_of: KeyOf = each_by_itself
) -> Iterator[tuple[str, Counted]]:
    """Name of each flavor and its headroom, or what is wrong with it. Of those that are alike one is counted."""
    known: dict[Hashable, Counted] = {}
    for name, spec in specs.items():
        key = key_of(spec)
        found = known.get(key) if key is not None else None
        if found is None:
            found = known[key] = _count(name, spec, count)
        yield name, found


def _count(name: str, spec: RequestSpec, count: Count) -> Counted:
    try:
        return count(name, spec)
    except BadInput as error:
        return error


def count_each(specs: Mapping[str, RequestSpec], count: Count, key_of: KeyOf = each_by_itself) -> dict[str, Counted]:
    """Name of each flavor -> its headroom, or what is wrong with it. BadInput if something is wrong with all."""
    counted = dict(count_in_turn(specs, count, key_of))
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
