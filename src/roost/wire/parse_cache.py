# SPDX-License-Identifier: Apache-2.0
"""A cache of parsed values: thousands of requests contain the same few flavors and images."""

from __future__ import annotations

import json
import marshal
from typing import Any

from roost.model.kinds import Parser

MAX_ENTRIES = 512
MAX_VALUE_BYTES = 16_384
"""Bytes of the largest value that is cached; limits the cache to some megabytes."""
_MARSHAL_VERSION = 2
"""Version of marshal's format. In later versions the bytes of equal values depend on reference counts."""
_ENCODER = json.JSONEncoder()


def memoised(parse: Parser) -> Parser:
    """A memoised parser, for JSON data and parsers that return immutable records. Errors are not cached."""
    cached: dict[bytes, Any] = {}

    def parse_memoised(value: Any, where: str) -> Any:
        if type(value) is not dict:
            return parse(value, where)
        try:
            key = marshal.dumps(value, _MARSHAL_VERSION)  # only a cache key; JSON takes seven times as long
        except ValueError:  # not plain data, or nested too deeply
            return parse(value, where)
        record = cached.get(key)
        if record is None:
            record = parse(value, where)
            if len(key) <= MAX_VALUE_BYTES and _is_json(value):
                if len(cached) >= MAX_ENTRIES:
                    cached.clear()
                cached[key] = record
        return record

    return parse_memoised


def _is_json(value: Any) -> bool:
    """Whether the value is JSON data. Only that is cached: marshal also writes sets, in arbitrary order."""
    try:
        _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
