# SPDX-License-Identifier: Apache-2.0
"""What a request may be, checked before any handler sees it: its address, and size, depth and text of its body."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from roost.api.options import is_loopback
from roost.api.problems import Problem

MOST_DEPTH = 32
"""Objects and lists within one another in a body."""
LINGER_SECONDS = 1.0
"""For how long the rest of a body that is too large is read and discarded."""
LONGEST_ADDRESS = 8192
"""Bytes of path and query."""
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

_ILLEGAL_PATH = re.compile(r"[\x00-\x1f\x7f\\]|%00|//|/\.{1,2}(/|$)")
_HOST = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|[0-9A-Za-z_.-]{1,253})(:\d{1,5})?", re.ASCII)
_JSON = re.compile(r"application/(json|[\w.+-]+\+json|openstack-images-v2\.\d+-json-patch)", re.IGNORECASE | re.ASCII)


class Refusal(Exception):
    """A request that is refused before it is handled; `problem` is the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(status, message)


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""


def check_address(path: str, raw_path: bytes, query: bytes, headers: Mapping[str, str]) -> None:
    """Raise Refusal for an address that no client of ours sends: path tricks, overlong, an impossible host."""
    if len(raw_path) + len(query) > LONGEST_ADDRESS:
        raise Refusal(414, f"The address is longer than {LONGEST_ADDRESS} bytes.")
    if _ILLEGAL_PATH.search(path) or _ILLEGAL_PATH.search(raw_path.decode("latin-1")):
        raise Refusal(400, "The path has empty, relative or unprintable parts.")
    if has_no_text(path) or b"%00" in query:
        raise Refusal(400, "The address has characters that are no text.")
    try:
        query.decode("ascii")
    except UnicodeDecodeError:
        raise Refusal(400, "The query is not percent-encoded.") from None
    host = headers.get("host", "")
    if host and not _HOST.fullmatch(host):
        raise Refusal(400, "The Host header names no host.")


def check_loopback_host(headers: Mapping[str, str]) -> None:
    """Raise Refusal where the Host header names another machine.

    Without sign-in it is the name of a web site that points to this machine, so that its pages may ask us (DNS
    rebinding).
    """
    found = _HOST.fullmatch(headers.get("host", ""))
    if found and not is_loopback(found[1].strip("[]").lower()):
        raise Refusal(400, "With noauth2 only a loopback address is answered, and the Host header names another.")


async def read_body(receive: Receive, headers: Mapping[str, str], most_bytes: int, seconds: float) -> bytes:
    """The body of a request; Refusal where it is too large or arrives too slowly."""
    declared = headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > most_bytes:
        raise _too_large(most_bytes)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > most_bytes:
                    raise _too_large(most_bytes)
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise Refusal(408, f"The body did not arrive within {seconds:g} s.") from None


async def discard(receive: Receive, most_bytes: int) -> None:
    """Read on for a moment: a client that is still sending when the connection closes would lose the answer."""
    left = most_bytes
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return
    except TimeoutError:
        return


def check_json(body: bytes, headers: Mapping[str, str]) -> None:
    """Raise Refusal for a body that is no JSON text, or one that no handler should be given."""
    kind = headers.get("content-type", "").partition(";")[0].strip()
    if kind and not _JSON.fullmatch(kind):
        raise Refusal(415, f"Unsupported Content-Type {kind[:60]!r}: send application/json.")
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise Refusal(400, "The body is not UTF-8.") from None
    except ValueError as error:
        raise Refusal(400, f"The body is no JSON: {str(error)[:80]}.") from None
    except RecursionError:
        raise _too_deep() from None
    _check_value(value)


def _check_value(value: Any) -> None:
    """Raise Refusal for a value that is too deep, or has a text that no database can store."""
    left = [(value, 0)]
    while left:
        each, depth = left.pop()
        if isinstance(each, str) and has_no_text(each):
            raise Refusal(400, "The body has a text with NUL or half a character.")
        if isinstance(each, dict | list):
            if depth >= MOST_DEPTH:
                raise _too_deep()
            parts = [*each, *each.values()] if isinstance(each, dict) else each
            left.extend((part, depth + 1) for part in parts)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def has_no_text(text: str) -> bool:
    """Whether a text has NUL, which PostgreSQL cannot store, or a surrogate, which no encoding has."""
    return "\x00" in text or any("\ud800" <= each <= "\udfff" for each in text)


def _too_large(most_bytes: int) -> Refusal:
    return Refusal(413, f"The body is larger than {most_bytes} bytes.")


def _too_deep() -> Refusal:
    return Refusal(400, f"The body has more than {MOST_DEPTH} objects and lists within one another.")
