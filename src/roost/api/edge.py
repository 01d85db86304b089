# SPDX-License-Identifier: Apache-2.0
"""The first and last thing that sees a request: its id, limits, version headers, one log line, metrics.

An ASGI middleware around the application. It checks address, and size, depth and text of the body; what it refuses
reaches no handler.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from typing import Any

import structlog

from roost.api.microversions import Microversion, VersionNotOffered, requested_version, version_headers
from roost.api.options import NO_AUTH, ApiOptions, is_loopback
from roost.api.problems import Problem, body_of
from roost.best_effort import best_effort
from roost.clock import Clock
from roost.errors import BadInput
from roost.services.metrics import Metrics

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


LOG = structlog.get_logger(__name__)
COMPUTE, IMAGES = "/v2.1", "/image/"
REFUSAL = "refusal"
"""Key of a request's state: the Problem that is its answer, where the server has one request too many."""
Scope = dict[str, Any]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
_WITH_BODY = ("POST", "PUT", "PATCH", "DELETE")
_GLOBAL_REQUEST_ID = re.compile(r"req-[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


class Edge:
    """The middleware. `collections`: first parts of paths under /v2.1; another one there is the id of a project."""

    def __init__(
        self, app: App, options: ApiOptions, collections: Collection[str], clock: Clock, metrics: Metrics
    ) -> None:
        self._app, self._options, self._collections = app, options, frozenset(collections)
        self._clock, self._metrics = clock, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        exchange = Exchange(scope, send, headers, self._clock)
        try:
            await self._handle(exchange, receive)
        except ClientGone:
            exchange.status = 499
        except Exception:  # the client gets a body, and the log the rest
            LOG.exception("request failed", request_id=exchange.request_id, path=scope["path"])
            await exchange.refuse(Problem(500, f"Unexpected error; the log has it under {exchange.request_id}."))
        finally:
            self._finish(exchange)

    async def _handle(self, exchange: Exchange, receive: Receive) -> None:
        scope, headers = exchange.scope, exchange.headers
        if (problem := scope.get("state", {}).get(REFUSAL)) is not None:
            await exchange.refuse(problem)
            return
        try:
            check_address(scope["path"], scope.get("raw_path") or b"", scope["query_string"], headers)
            if self._options.auth_strategy == NO_AUTH:
                check_loopback_host(headers)
            if scope["path"].startswith(COMPUTE):
                exchange.read_version()
            body = await self._read(exchange, receive)
        except Refusal as refusal:
            await exchange.refuse(refusal.problem, lambda: discard(receive, self._options.max_request_body_size))
            return
        self._normalise(scope)
        scope["state"] = {
            **scope.get("state", {}),
            "version": exchange.version,
            "request_id": exchange.request_id,
            "exchange": exchange,
        }
        await self._app(scope, _replayed(body, receive), exchange.send)

    async def _read(self, exchange: Exchange, receive: Receive) -> bytes:
        if exchange.scope["method"] not in _WITH_BODY:
            return b""
        options = self._options
        body = await read_body(
            receive, exchange.headers, options.max_request_body_size, options.client_socket_timeout
        )
        if exchange.scope["path"].startswith(IMAGES) and exchange.scope["path"].rstrip("/").endswith("/file"):
            exchange.has_data = bool(body)
            return b""
        return body if body and exchange.check_body(body) else b""

    def _normalise(self, scope: Scope) -> None:
        """Remove a slash at the end of the path, and the id of the project that older clients put into it."""
        path = scope["path"].rstrip("/") or "/"
        parts = path.split("/")
        if path.startswith(f"{COMPUTE}/") and parts[2] not in self._collections and len(parts) > 3:
            scope["project_in_path"] = parts.pop(2)
        scope["path"] = "/".join(parts) or "/"
        scope["raw_path"] = scope["path"].encode()

    @best_effort("access_log")
    def _finish(self, exchange: Exchange) -> None:
        seconds = self._clock.monotonic() - exchange.began
        method = exchange.scope["method"]
        self._metrics.api_request(method, exchange.status, seconds)
        LOG.info(
            "request",
            method=method[:10],
            path=exchange.scope["path"][:200],
            status=exchange.status,
            ms=round(seconds * 1000, 1),
            request_id=exchange.request_id,
            **exchange.about,
        )


class Exchange:
    """A request and its answer, as far as it has got."""

    def __init__(self, scope: Scope, send: Send, headers: dict[str, str], clock: Clock) -> None:
        self.scope, self._send, self.headers = scope, send, headers
        self.request_id, self.began = f"req-{uuid.uuid4()}", clock.monotonic()
        self.version: Microversion | None = None
        self.version_error: BadInput | VersionNotOffered | None = None
        """Why the version that is asked for is none; raised once it is known who asks."""
        self.body_error: Refusal | None = None
        """Why nothing can be made of the body; raised once it is known that the caller has the right to send one."""
        self.has_data = False
        """Whether the data of an image came; nothing else is made of it."""
        self.status = 0
        self.about: dict[str, str] = {}
        """What the log line says beside: user, project, why it was refused."""
        given = headers.get("x-openstack-request-id", "")
        if _GLOBAL_REQUEST_ID.fullmatch(given):
            self.about["global_request_id"] = given

    def read_version(self) -> None:
        """Read the microversion that the client asks for."""
        try:
            self.version = requested_version(self.headers)
        except (BadInput, VersionNotOffered) as error:
            self.version_error = error

    def check_body(self, body: bytes) -> bool:
        """Whether the body is JSON that a handler can be given; if so, the request says what it is."""
        try:
            check_json(body, self.headers)
        except Refusal as refusal:
            self.body_error = refusal
            return False
        _call_it_json(self.scope)
        return True

    async def send(self, message: Message) -> None:
        """Pass on a part of the answer; the first one gets the headers that all answers have."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *self._own_headers()]
        await self._send(message)

    def _own_headers(self) -> list[tuple[bytes, bytes]]:
        names = {"x-openstack-request-id": self.request_id, "x-content-type-options": "nosniff"}
        if self.scope["path"].startswith(COMPUTE):
            names["x-compute-request-id"] = self.request_id
        if self.version is not None:
            names |= version_headers(self.version)
        return [(name.lower().encode(), value.encode()) for name, value in names.items()]

    async def refuse(self, problem: Problem, discard_rest: Callable[[], Awaitable[None]] | None = None) -> None:
        """Answer with an error, unless an answer has begun. A request that was not read whole ends its connection.

        `discard_rest`: reads what the client still sends, before the connection is closed.
        """
        if self.status:
            return
        self.about["refused"] = problem.message[:200]
        body = json.dumps(body_of(self.scope["path"], problem)).encode()
        headers = {"content-type": "application/json", "content-length": str(len(body)), **problem.headers}
        if problem.status in (408, 413):
            headers["connection"] = "close"
        named = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": problem.status, "headers": named})
        await self.send({"type": "http.response.body", "body": body, "more_body": True})
        if problem.status == 413 and discard_rest is not None:
            await discard_rest()
        await self.send({"type": "http.response.body", "body": b""})


def _call_it_json(scope: Scope) -> None:
    """Say what the body is, in place of one of the other names that clients have for it, or of none."""
    others = [each for each in scope["headers"] if each[0].lower() != b"content-type"]
    scope["headers"] = [*others, (b"content-type", b"application/json")]


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body that was read already, and then what comes after it."""
    is_given = False

    async def replay() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
