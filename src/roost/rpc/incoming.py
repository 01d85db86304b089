# SPDX-License-Identifier: Apache-2.0
"""Reads what a broker delivers: JSON of bounded size, in the shape of a message; MessageError for anything else.

Any client of the broker can put anything into a queue, and oslo.messaging deserialises it before it checks it.
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

_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "application/x-gzip": zlib.decompressobj,
    "application/x-bz2": bz2.BZ2Decompressor,
}
"""By kombu's names; what it calls gzip is zlib."""


def read_request(body: str | bytes, content_type: Any, compression: Any = None) -> dict[str, Any]:
    """A request of at most MAX_BYTES, whose reply address is valid or absent."""
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
    """A reply of any size; a failure in it becomes the exception that the caller gets as its result."""
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
    """At most `max_bytes` + 1 decompressed bytes: the one too many makes `decode` refuse it."""
    decompressor = _DECOMPRESSORS.get(compression) if isinstance(compression, str) else None
    if decompressor is None or isinstance(body, str):
        raise MessageError(f"it is compressed with {str(compression)[:80]!r}")
    try:
        inflated: bytes = decompressor().decompress(body, -1 if max_bytes is None else max_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise MessageError(f"it cannot be decompressed: {error}") from None
    return inflated
