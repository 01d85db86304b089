# SPDX-License-Identifier: Apache-2.0
"""The Unix socket of a development cloud: other processes of the same user call the services behind a transport.

One JSON object per line in each direction, of bounded size and depth. Only listed methods are forwarded. There is no
TCP port; the socket has mode 0600.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import socket
import socketserver
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from roost.errors import BadInput, MessageError, RemoteFailure, RoostError, RpcUnreachable
from roost.rpc.context import RequestContext
from roost.rpc.interface import Caller
from roost.rpc.loopback_address import LONGEST_PATH_BYTES
from roost.rpc.messages import MAX_BYTES, decode

LOG = logging.getLogger(__name__)
MAX_CONNECTIONS = 64
IDLE_SECONDS = 60.0
"""How long a client may take for the next byte of a request, and to take its reply."""
STOP_POLL_SECONDS = 0.1
"""Interval at which the thread checks whether the server was stopped."""
DEFAULT_TIMEOUT_SECONDS, LONGEST_TIMEOUT_SECONDS = 60.0, 1800.0


class LoopbackServer:
    """Answers from threads of its own, between `start` and `stop`."""

    def __init__(self, path: Path, transport: Caller, allowed: Mapping[str, Collection[str]]) -> None:
        """Makes the socket; one that a dead process left there is replaced. `allowed`: topic -> methods.

        BadInput where the socket cannot be made.
        """
        self.path = path
        self._server = _listen(path, transport, allowed)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(STOP_POLL_SECONDS,), name="loopback", daemon=True
        )

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more, end connections, and remove the socket. May be called twice."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        self._server.end_connections()
        self.path.unlink(missing_ok=True)


def answer_line(line: bytes, transport: Caller, allowed: Mapping[str, Collection[str]]) -> bytes:
    """The reply to one line, itself a line. Never fails: whatever is wrong with the line is its reply."""
    try:
        form = {"result": _forward(line, transport, allowed), "failure": None}
        return json.dumps(form).encode() + b"\n"
    except Exception as error:
        if not isinstance(error, RoostError):
            LOG.error("a call over the loopback socket failed", exc_info=error)
        return _failure_line(error)


def _forward(line: bytes, transport: Caller, allowed: Mapping[str, Collection[str]]) -> Any:
    message = decode(line)
    if not isinstance(message, dict):
        raise MessageError("a call is a JSON object", "one per line")
    topic, method, version = (_text_in(message, name) for name in ("topic", "method", "version"))
    if method not in allowed.get(topic, ()):
        raise MessageError(f"{method[:60]!r} of {topic[:60]!r} cannot be called over this socket")
    args, context = message.get("args", {}), message.get("context", {})
    if not isinstance(args, dict) or not isinstance(context, dict):
        raise MessageError(f"{method}: arguments and context are JSON objects")
    timeout = message.get("timeout", DEFAULT_TIMEOUT_SECONDS)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise MessageError(f"{method}: the timeout is no number")
    seconds = min(max(float(timeout), 0.0), LONGEST_TIMEOUT_SECONDS)
    return transport.call(topic, method, version, args, RequestContext.from_dict(context), seconds)


def _text_in(message: Mapping[str, Any], name: str) -> str:
    value = message.get(name)
    if not isinstance(value, str):
        raise MessageError(f"a call has a {name}, which is a text")
    return value


def _failure_line(error: Exception) -> bytes:
    return json.dumps({"result": None, "failure": _failure_form(error)}).encode() + b"\n"


def _failure_form(error: Exception) -> dict[str, Any]:
    """An error in oslo.messaging's form; one that a service replied with keeps its class name."""
    if isinstance(error, RemoteFailure):
        kwargs = {"reason": error.reason, "summary": error.summary, "hint": error.hint}
        return {"class": error.name, "message": error.message, "kwargs": kwargs, "tb": list(error.traceback)}
    return {"class": type(error).__name__, "message": str(error)}


def _too_many_connections() -> RpcUnreachable:
    problem = f"too many connections to the development cloud ({MAX_CONNECTIONS} at most)"
    return RpcUnreachable(problem, "try again when other commands have ended")


class _BoundedUnixServer(socketserver.ThreadingUnixStreamServer):
    """One thread per connection, and a bounded number of them."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, path: str, transport: Caller, allowed: Mapping[str, Collection[str]]) -> None:
        self.transport, self.allowed = transport, allowed
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        super().__init__(path, _Handler)

    def server_bind(self) -> None:
        """Bind with mode 0600 from the first moment on."""
        before = os.umask(0o177)
        try:
            super().server_bind()
        finally:
            os.umask(before)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for the connection; where there are too many, say so and close it."""
        with self._lock:
            is_free = len(self._open) < MAX_CONNECTIONS
            if is_free:
                self._open.add(request)
        if is_free:
            super().process_request(request, client_address)
            return
        with suppress(OSError):  # the client has closed it
            request.send(_failure_line(_too_many_connections()), socket.MSG_DONTWAIT)
        self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Close the connection."""
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def end_connections(self) -> None:
        """Interrupt the reads of all connections, whose threads then end."""
        with self._lock:
            for each in self._open:
                try:
                    each.shutdown(socket.SHUT_RDWR)
                except OSError:  # the client has closed it
                    continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that disconnected or was too slow is no error of the service."""
        LOG.debug("loopback: a connection ended early", exc_info=True)


class _Handler(socketserver.StreamRequestHandler):
    """One connection: a reply for each line, until the client closes it or sends a line that is too long."""

    server: _BoundedUnixServer
    timeout = IDLE_SECONDS

    def handle(self) -> None:
        """Answer line after line."""
        while line := self.rfile.readline(MAX_BYTES + 2):
            self.wfile.write(answer_line(line, self.server.transport, self.server.allowed))
            if not line.endswith(b"\n"):
                return


def _listen(path: Path, transport: Caller, allowed: Mapping[str, Collection[str]]) -> _BoundedUnixServer:
    name = os.fspath(path)
    if len(os.fsencode(name)) > LONGEST_PATH_BYTES:
        problem = f"{name}: a socket's path has at most {LONGEST_PATH_BYTES} bytes, this one {len(os.fsencode(name))}"
        raise BadInput(problem, "choose a shorter --state-dir")
    try:
        if path.is_socket():
            path.unlink()
        return _BoundedUnixServer(name, transport, allowed)
    except OSError as error:
        hint = "another program made it" if error.errno == errno.EADDRINUSE else "choose another --state-dir"
        raise BadInput(f"{name}: the socket cannot be made: {error.strerror}", hint) from None
