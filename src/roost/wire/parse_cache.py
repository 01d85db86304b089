# SPDX-License-Identifier: Apache-2.0
"""Requests repeat themselves: thousands name the same few flavors and images. Each is made from its message once."""

from __future__ import annotations

import json
import marshal
from typing import Any

from roost.wire.values import Take

MOST_KNOWN = 512
LONGEST_KNOWN = 16_384
"""Bytes of one that is kept. So all of them together take some megabytes at most."""
_SAME_BYTES = 2
"""Version of marshal's format: in later ones, equal values differ by who else refers to their parts."""
_ENCODER = json.JSONEncoder()


def remembered(take: Take) -> Take:
    """The same, for values that are JSON and make records that nobody changes. What is refused is looked at again."""
    known: dict[bytes, Any] = {}

    def take_once(value: Any, where: str) -> Any:
        if type(value) is not dict:
            return take(value, where)
        try:
            key = marshal.dumps(value, _SAME_BYTES)  # a key, never read again; JSON would take seven times as long
        except ValueError:  # no plain data, or too deep
            return take(value, where)
        record = known.get(key)
        if record is None:
            record = take(value, where)
            if len(key) <= LONGEST_KNOWN and _is_json(value):
                if len(known) >= MOST_KNOWN:
                    known.clear()
                known[key] = record
        return record

    return take_once


def _is_json(value: Any) -> bool:
    """Only that is kept: marshal also takes sets, whose bytes follow no order."""
    try:
        _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
