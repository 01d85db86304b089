# SPDX-License-Identifier: Apache-2.0
"""Encodes and decodes messages: JSON of bounded size and depth."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from roost.errors import MessageError

MAX_BYTES = 8 * 1024 * 1024
"""Size of a request. The largest that nova sends, for a thousand instances, has a hundredth of it."""
MAX_DEPTH = 64
"""Nesting of objects and lists. nova's requests have about fifteen levels."""


def encode(value: Any, what: str) -> str:
    """JSON text of the value. `what` names it in the MessageError where it is not JSON."""
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise MessageError(f"{what} cannot be sent: {error}", "messages are JSON") from None


def encode_request(message: Any, what: str) -> str:
    """JSON text of a request; MessageError where it is larger than a server accepts."""
    text = encode(message, what)
    if len(text) > MAX_BYTES:
        raise MessageError(f"{what} cannot be sent: {len(text)} bytes are more than {MAX_BYTES}")
    return text


def decode(text: str | bytes, max_bytes: int | None = MAX_BYTES) -> Any:
    """The value of a JSON text; MessageError where it is too large or too deep. `max_bytes`: None for no limit."""
    if max_bytes is not None and len(text) > max_bytes:
        raise MessageError(f"{len(text)} bytes, which is more than {max_bytes}")
    try:
        value = _DECODER.decode(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:  # also bytes that are not UTF-8
        raise MessageError(f"no JSON: {error}") from None
    if is_deeper_than(MAX_DEPTH, value):
        raise _too_deep()
    return value


def is_deeper_than(limit: int, value: Any) -> bool:
    """Whether lists and objects are nested in more than `limit` levels."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(limit):
        level = [
            child
            for each in level
            for child in (each.values() if isinstance(each, dict) else each)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return True


def _too_deep() -> MessageError:
    return MessageError(f"objects within objects, more than {MAX_DEPTH} deep")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


_ENCODER = json.JSONEncoder(allow_nan=False)
_DECODER = json.JSONDecoder(parse_constant=_no_constant)
