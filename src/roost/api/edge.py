# SPDX-License-Identifier: Apache-2.0
"""The first and last thing that sees a request: its id, limits, version headers, one log line, metrics.

An ASGI middleware around the application. What it refuses reaches no handler.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import structlog

from roost.api.microversions import Microversion, VersionNotOffered, requested_version, version_headers
from roost.api.options import NO_AUTH, ApiOptions
from roost.api.problems import Problem, body_of
from roost.api.request_limits import (
    ClientGone,
    Message,
    Receive,
    Refusal,
    check_address,
    check_json,
    check_loopback_host,
    discard,
    read_body,
)
from roost.best_effort import best_effort
from roost.clock import Clock
from roost.errors import BadInput
from roost.services.metrics import Metrics

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
