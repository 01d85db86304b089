# SPDX-License-Identifier: Apache-2.0
"""A cache of parsed messages: thousands of requests name the same few flavors and images."""

from __future__ import annotations

import json
import marshal
from typing import Any

from roost.validation.kinds import Parser

MOST_KNOWN = 512
LONGEST_KNOWN = 16_384
"""Bytes of one value that is kept: all of them together are some megabytes at most."""
_SAME_BYTES = 2
"""Version of marshal's format: in later ones, equal values differ by who else refers to their parts."""
_ENCODER = json.JSONEncoder()


def remembered(parse: Parser) -> Parser:
    """A parser that is memoised for values that are JSON. For records that never change; errors are not kept."""
    known: dict[bytes, Any] = {}

    def parse_once(value: Any, where: str) -> Any:
        if type(value) is not dict:
            return parse(value, where)
        try:
            key = marshal.dumps(value, _SAME_BYTES)  # a key, never read again; JSON would take seven times as long
        except ValueError:  # no plain data, or too deep
            return parse(value, where)
        record = known.get(key)
        if record is None:
            record = parse(value, where)
            if len(key) <= LONGEST_KNOWN and _is_json(value):
                if len(known) >= MOST_KNOWN:
                    known.clear()
                known[key] = record
        return record

    return parse_once


def _is_json(value: Any) -> bool:
    """Whether the value is JSON. Only that is kept: marshal also writes sets, whose bytes follow no order."""
    try:
        _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
