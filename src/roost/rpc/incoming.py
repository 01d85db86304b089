# SPDX-License-Identifier: Apache-2.0
"""What a broker delivers, read with care: only JSON, only so much of it, and only in the shape of a message.

Whoever can reach the broker can put anything into a queue. oslo.messaging would load it first and look at it later.
"""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from roost.errors import MessageError
from roost.rpc.messages import MAX_BYTES, decode
from roost.rpc.wire_errors import from_wire

JSON = "application/json"
ENVELOPE_VERSION, ENVELOPE = "oslo.version", "oslo.message"

_OPENERS: dict[str, Callable[[], Any]] = {
    "application/x-gzip": zlib.decompressobj,
    "application/x-bz2": bz2.BZ2Decompressor,
}
"""By the names that kombu gives them; gzip is zlib there."""


def read_request(body: str | bytes, content_type: Any, compression: Any = None) -> dict[str, Any]:
    """A request: at most so large, and with a sender that can be answered or none at all."""
    message = _read(body, content_type, compression, MAX_BYTES)
    for name in ("_msg_id", "_reply_q", "_unique_id"):
        if not isinstance(message.get(name), str | None):
            raise MessageError(f"{name} is no text")
    if not isinstance(message.get("_timeout"), int | float | None):
        raise MessageError("_timeout is no number")
    if "_context_self" in message:
        raise MessageError("no context has a part named self")
    return message


def read_reply(body: str | bytes, content_type: Any, compression: Any = None) -> dict[str, Any]:
    """A reply, of any size; an error in it becomes the exception that the caller is to get."""
    message = _read(body, content_type, compression, None)
    failure = message.get("failure")
    message["failure"] = None
    if failure:
        message["result"] = from_wire(failure)
    return message


def _read(body: str | bytes, content_type: Any, compression: Any, max_bytes: int | None) -> dict[str, Any]:
    if content_type != JSON:
        raise MessageError(f"its content is {str(content_type)[:80]!r}, not {JSON}")
    if compression:
        body = _inflate(body, compression, max_bytes)
    message = decode(body, max_bytes)
    if isinstance(message, dict) and ENVELOPE in message and ENVELOPE_VERSION in message:
        message = decode(_contents(message), max_bytes)
    if not isinstance(message, dict):
        raise MessageError("it is no JSON object")
    return message


def _contents(envelope: Mapping[str, Any]) -> str:
    version, contents = envelope[ENVELOPE_VERSION], envelope[ENVELOPE]
    if version != "2.0":
        raise MessageError(f"its envelope has version {str(version)[:20]!r}, not 2.0")
    if not isinstance(contents, str):
        raise MessageError("there is no text in its envelope")
    return contents


def _inflate(body: str | bytes, compression: Any, max_bytes: int | None) -> bytes:
    """Never more than `max_bytes` and one, which is refused as any message of that size."""
    opener = _OPENERS.get(compression) if isinstance(compression, str) else None
    if opener is None or isinstance(body, str):
        raise MessageError(f"it is compressed with {str(compression)[:80]!r}")
    try:
        inflated: bytes = opener().decompress(body, -1 if max_bytes is None else max_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise MessageError(f"it cannot be decompressed: {error}") from None
    return inflated
