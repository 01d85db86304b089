# SPDX-License-Identifier: Apache-2.0
"""A small HTTP server beside the service: is it alive (/healthz), does it take requests (/readyz), /metrics.

It answers whoever can connect, so it listens on loopback unless told otherwise. It reads no more than the head of a
request, gives nobody more than a few seconds, and asks no name server.
"""

from __future__ import annotations

import errno
import io
import json
import logging
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple, Protocol

from roost.errors import OptionError
from roost.observe.exposition import CONTENT_TYPE

LOG = logging.getLogger(__name__)
LONGEST_HEAD_BYTES = 8192
PATIENCE_SECONDS = 5.0
MOST_CONNECTIONS = 32
JSON_TYPE = "application/json"
_REMEDIES = {
    errno.EADDRINUSE: "another program listens there: set [roost] health_port to a free one",
    errno.EACCES: "ports below 1024 are for root: set [roost] health_port to a higher one",
    errno.EADDRNOTAVAIL: "set [roost] health_address to an address of this machine",
}


class Readiness(NamedTuple):
    """Whether the service takes requests, and if not, why."""

    is_ready: bool
    reasons: tuple[str, ...] = ()


class Rendering(Protocol):
    """Metrics of one process (`Metrics`) or of several (`WorkerMetrics`)."""

    def service_is(self, ready: bool) -> None:
        """As /readyz says."""

    def render(self) -> bytes:
        """What Prometheus reads."""


class HealthServer:
    """Answers from threads of its own, between `start` and `stop`. Start it after workers were forked, not before."""

    def __init__(
        self,
        address: str,
        port: int,
        readiness: Callable[[], Readiness],
        metrics: Rendering,
        is_alive: Callable[[], bool] = lambda: True,
    ) -> None:
        """Port 0 takes any free one. OptionError, here and not later, where the address cannot be had."""
        self._server = _listen(address, port, _Answers(readiness, metrics, is_alive))
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more, and give the port back. May be called twice."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Answer(NamedTuple):
    status: HTTPStatus
    body: bytes
    kind: str = JSON_TYPE


class _Answers:
    """What is said under which path."""

    def __init__(self, readiness: Callable[[], Readiness], metrics: Rendering, is_alive: Callable[[], bool]) -> None:
        self._readiness, self._metrics, self._is_alive = readiness, metrics, is_alive
        self._paths = {"/healthz": self.alive, "/readyz": self.ready, "/metrics": self.metrics}

    def to(self, path: str) -> _Answer:
        """The answer; a mistake of ours is one too, and is logged."""
        answer = self._paths.get(path.partition("?")[0])
        if answer is None:
            return _said(HTTPStatus.NOT_FOUND, error="there is no such page", pages=list(self._paths))
        try:
            return answer()
        except Exception as error:
            LOG.exception("health: %s cannot be answered", path)
            return _said(HTTPStatus.INTERNAL_SERVER_ERROR, error=f"{type(error).__name__}; the log says more")

    def alive(self) -> _Answer:
        """503 where the process answers here and hangs elsewhere: to be started anew."""
        is_alive = self._is_alive()
        return _said(HTTPStatus.OK if is_alive else HTTPStatus.SERVICE_UNAVAILABLE, alive=is_alive)

    def ready(self) -> _Answer:
        """503 keeps load balancers and operators away while there is something to wait for."""
        state = self._state()
        status = HTTPStatus.OK if state.is_ready else HTTPStatus.SERVICE_UNAVAILABLE
        return _said(status, ready=state.is_ready, reasons=list(state.reasons))

    def metrics(self) -> _Answer:
        """Prometheus's text format. It says the same as /readyz."""
        self._metrics.service_is(self._state().is_ready)
        return _Answer(HTTPStatus.OK, self._metrics.render(), CONTENT_TYPE)

    def _state(self) -> Readiness:
        try:
            return self._readiness()
        except Exception as error:
            LOG.exception("health: whether the service is ready cannot be told")
            return Readiness(False, (f"it cannot be told: {type(error).__name__}; the log says more",))


def _said(status: HTTPStatus, **values: Any) -> _Answer:
    return _Answer(status, json.dumps(values).encode() + b"\n")


class _Server(socketserver.ThreadingTCPServer):
    """One thread a connection, and no more of them than a few."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, family: socket.AddressFamily, address: Any, answers: _Answers) -> None:
        self.address_family = family
        self.answers = answers
        self._free = threading.Semaphore(MOST_CONNECTIONS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Those who come while all threads are busy are turned away."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """In the thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away or was too slow is nobody's error."""
        LOG.debug("health: a connection ended early", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    """One request. The standard library reads the head from memory, once all of it has come, or too much."""

    server: _Server
    default_request_version = "HTTP/1.0"
    """Who names none gets a status line all the same."""

    def setup(self) -> None:
        """Read the head and nothing else."""
        self.connection = self.request
        self.head = _read_head(self.request, time.monotonic() + PATIENCE_SECONDS)
        self.rfile = io.BytesIO(self.head)
        self.request.settimeout(PATIENCE_SECONDS)
        self.wfile = self.request.makefile("wb", buffering=65536)

    def parse_request(self) -> bool:
        """A head that is whole, and GET or HEAD."""
        if not _is_whole(self.head):
            self.command, self.request_version = "GET", "HTTP/1.0"
            is_long = len(self.head) >= LONGEST_HEAD_BYTES
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if is_long else HTTPStatus.BAD_REQUEST)
            return False
        if not super().parse_request():
            return False
        if self.command not in ("GET", "HEAD"):
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)
            return False
        return True

    def do_GET(self) -> None:
        """Say it."""
        self._send(self.server.answers.to(self.path))

    def do_HEAD(self) -> None:
        """The same, without the body."""
        self.do_GET()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """As JSON, and nothing that the client sent."""
        status = HTTPStatus(code)
        self._send(_said(status, error=status.phrase.lower()))

    def version_string(self) -> str:
        """Who we are; not which Python this is."""
        return "roost"

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Probes come every few seconds: they are no news."""

    def _send(self, answer: _Answer) -> None:
        self.close_connection = True
        self.send_response(answer.status)
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)


def _read_head(connection: socket.socket, deadline: float) -> bytes:
    """Until the empty line. The time is for all of it: one byte now and then does not keep a thread."""
    head = b""
    while len(head) < LONGEST_HEAD_BYTES:
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        part = connection.recv(LONGEST_HEAD_BYTES - len(head))
        head += part
        if not part or _is_whole(head):
            break
    return head


def _is_whole(head: bytes) -> bool:
    return b"\r\n\r\n" in head or b"\n\n" in head


def _listen(address: str, port: int, answers: _Answers) -> _Server:
    where = f"the health server cannot listen on {address} port {port}"
    try:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        return _Server(found[0][0], found[0][4], answers)
    except (OSError, UnicodeError, OverflowError) as error:
        code = getattr(error, "errno", None)
        hint = _REMEDIES.get(code or 0, "look at [roost] health_address and health_port")
        reason = getattr(error, "strerror", None) or error
        raise OptionError(f"{where}: {reason}", hint) from None
