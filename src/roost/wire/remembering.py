# SPDX-License-Identifier: Apache-2.0
"""Requests repeat themselves: thousands name the same few flavors and images. Each is made from its message once."""

from __future__ import annotations

import json
from typing import Any

from roost.wire.values import Take

MOST_KNOWN = 512
LONGEST_KNOWN = 16_384
"""Characters of one that is kept. So all of them together take some megabytes at most."""

_ENCODER = json.JSONEncoder()


def remembered(take: Take) -> Take:
    """The same, for values that are JSON and make records that nobody changes. What is refused is looked at again."""
    known: dict[str, Any] = {}

    def take_once(value: Any, where: str) -> Any:
        if type(value) is not dict:
            return take(value, where)
        try:
            text = _ENCODER.encode(value)
        except (TypeError, ValueError, RecursionError):
            return take(value, where)
        record = known.get(text)
        if record is None:
            record = take(value, where)
            if len(text) <= LONGEST_KNOWN:
                if len(known) >= MOST_KNOWN:
                    known.clear()
                known[text] = record
        return record

    return take_once
