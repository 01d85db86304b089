# SPDX-License-Identifier: Apache-2.0
"""What a service answers over HTTP: is it alive (/healthz), does it take requests (/readyz), /metrics.

The server is the standard library's, with limits that it lacks (ADR 0013). Any client that can connect is answered,
so it listens on loopback by default. It reads no more than the head of a request, bounds the time and the number of
connections, and never queries a name server.
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
from roost.services.metric_definitions import CONTENT_TYPE

LOG = logging.getLogger(__name__)
JSON_TYPE = "application/json"


class Readiness(NamedTuple):
    """Whether the service takes requests; if not, the reasons why."""

    is_ready: bool
    reasons: tuple[str, ...] = ()


class MetricsSource(Protocol):
    """Metrics of one process (`Metrics`) or of several (`WorkerMetrics`)."""

    def service_is(self, ready: bool) -> None:
        """Set the gauge that repeats what /readyz answers."""

    def render(self) -> bytes:
        """All metrics in Prometheus's text format."""


class HttpAnswer(NamedTuple):
    """Status, body and content type of an answer."""

    status: HTTPStatus
    body: bytes
    content_type: str = JSON_TYPE


def json_answer(status: HTTPStatus, **values: Any) -> HttpAnswer:
    """An answer whose body is a JSON object with these values, and a line end."""
    return HttpAnswer(status, json.dumps(values).encode() + b"\n")


class HealthPages:
    """The pages by their paths."""

    def __init__(
        self, readiness: Callable[[], Readiness], metrics: MetricsSource, is_alive: Callable[[], bool]
    ) -> None:
        self._readiness, self._metrics, self._is_alive = readiness, metrics, is_alive
        self._pages = {"/healthz": self._alive, "/readyz": self._ready, "/metrics": self._exposition}

    def answer(self, path: str) -> HttpAnswer:
        """The page at this path, whatever its query. An exception becomes status 500 and a record in the log."""
        page = self._pages.get(path.partition("?")[0])
        if page is None:
            return json_answer(HTTPStatus.NOT_FOUND, error="there is no such page", pages=list(self._pages))
        try:
            return page()
        except Exception as error:
            LOG.exception("health: %s cannot be answered", path)
            return json_answer(HTTPStatus.INTERNAL_SERVER_ERROR, error=f"{type(error).__name__}; the log says more")

    def _alive(self) -> HttpAnswer:
        """503 where this process answers here and hangs elsewhere: it should be restarted."""
        is_alive = self._is_alive()
        return json_answer(HTTPStatus.OK if is_alive else HTTPStatus.SERVICE_UNAVAILABLE, alive=is_alive)

    def _ready(self) -> HttpAnswer:
        """503 with reasons keeps load balancers away until the service takes requests."""
        state = self._state()
        status = HTTPStatus.OK if state.is_ready else HTTPStatus.SERVICE_UNAVAILABLE
        return json_answer(status, ready=state.is_ready, reasons=list(state.reasons))

    def _exposition(self) -> HttpAnswer:
        self._metrics.service_is(self._state().is_ready)
        return HttpAnswer(HTTPStatus.OK, self._metrics.render(), CONTENT_TYPE)

    def _state(self) -> Readiness:
        try:
            return self._readiness()
        except Exception as error:
            LOG.exception("health: whether the service is ready cannot be told")
            return Readiness(False, (f"it cannot be told: {type(error).__name__}; the log says more",))


MAX_HEAD_BYTES = 8192
"""Of the request line and the headers together."""
MAX_SECONDS = 5.0
"""For a client to send the whole head of its request, and again for each write of the answer."""
MAX_CONNECTIONS = 32
STOP_POLL_SECONDS = 0.5
"""Interval at which the thread checks whether the server was stopped."""
_REMEDIES = {
    errno.EADDRINUSE: "another program listens there: set [roost] health_port to a free one",
    errno.EACCES: "ports below 1024 are for root: set [roost] health_port to a higher one",
    errno.EADDRNOTAVAIL: "set [roost] health_address to an address of this machine",
}


class HealthServer:
    """Answers from threads of its own, between `start` and `stop`. To be started after a fork, not before."""

    def __init__(
        self,
        address: str,
        port: int,
        readiness: Callable[[], Readiness],
        metrics: MetricsSource,
        is_alive: Callable[[], bool] = lambda: True,
    ) -> None:
        """Binds the port; 0 is any free one. OptionError where that is not possible."""
        self._server = _listen(address, port, HealthPages(readiness, metrics, is_alive))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(STOP_POLL_SECONDS,), name="health", daemon=True
        )

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more, and close the port. May be called twice."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _BoundedHttpServer(socketserver.ThreadingTCPServer):
    """One thread per connection, and a bounded number of them. Not an HTTPServer: that resolves its own name."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, family: socket.AddressFamily, address: Any, pages: HealthPages) -> None:
        self.address_family = family
        self.pages = pages
        self._free = threading.Semaphore(MAX_CONNECTIONS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for the connection, or close it where all threads are busy."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle one connection, in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that disconnected or was too slow is no error of the service."""
        LOG.debug("health: a connection ended early", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    """One request. The standard library parses the head from memory, once it has arrived, or too much of it has."""

    server: _BoundedHttpServer
    default_request_version = "HTTP/1.0"
    """So that a request without a version gets a status line too."""

    def setup(self) -> None:
        """Read the head of the request, and no body."""
        self.connection = self.request
        self.head = _read_head(self.request, time.monotonic() + MAX_SECONDS)
        self.rfile = io.BytesIO(self.head)
        self.request.settimeout(MAX_SECONDS)
        self.wfile = self.request.makefile("wb", buffering=65536)

    def parse_request(self) -> bool:
        """Whether the head is complete and asks for GET or HEAD; if not, the error has been sent."""
        if not _is_complete(self.head):
            self.command, self.request_version = "GET", "HTTP/1.0"
            is_long = len(self.head) >= MAX_HEAD_BYTES
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if is_long else HTTPStatus.BAD_REQUEST)
            return False
        if not super().parse_request():
            return False
        if self.command not in ("GET", "HEAD"):
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)
            return False
        return True

    def do_GET(self) -> None:
        """Send the page."""
        self._send(self.server.pages.answer(self.path))

    def do_HEAD(self) -> None:
        """Send status and headers of the page."""
        self.do_GET()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send the error as JSON, without anything that the client has sent."""
        status = HTTPStatus(code)
        self._send(json_answer(status, error=status.phrase.lower()))

    def version_string(self) -> str:
        """The Server header: without the version of Python."""
        return "roost"

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Not logged: probes come every few seconds."""

    def _send(self, answer: HttpAnswer) -> None:
        self.close_connection = True
        self.send_response(answer.status)
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)


def _read_head(connection: socket.socket, deadline: float) -> bytes:
    """Bytes up to the empty line. The deadline is for all of them: a byte now and then does not extend it."""
    head = b""
    while len(head) < MAX_HEAD_BYTES:
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        part = connection.recv(MAX_HEAD_BYTES - len(head))
        head += part
        if not part or _is_complete(head):
            break
    return head


def _is_complete(head: bytes) -> bool:
    return b"\r\n\r\n" in head or b"\n\n" in head


def _listen(address: str, port: int, pages: HealthPages) -> _BoundedHttpServer:
    where = f"the health server cannot listen on {address} port {port}"
    try:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        return _BoundedHttpServer(found[0][0], found[0][4], pages)
    except (OSError, UnicodeError, OverflowError) as error:
        code = getattr(error, "errno", None)
        hint = _REMEDIES.get(code or 0, "look at [roost] health_address and health_port")
        reason = getattr(error, "strerror", None) or error
        raise OptionError(f"{where}: {reason}", hint) from None
