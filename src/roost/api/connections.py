# SPDX-License-Identifier: Apache-2.0
"""Connections of clients: strict HTTP/1.1, and which are kept when there are too many.

Those that wait for their client go first. They are counted where the socket is accepted: what never finishes its TLS
handshake, or never sends a request, counts too. Before a request is whole nothing has been done for it, so that its
connection can be closed without harm.

RFC 9112 lets a server accept more than it defines: lines that end with LF alone, folded lines, a length beside
chunks. A proxy in front may see the end of such a message elsewhere, and then takes the rest for the request of
another client (request smuggling). So what somebody else could read in another way is refused.
"""

from __future__ import annotations

import re
import resource
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import h11
from h11._receivebuffer import ReceiveBuffer

from roost.api.problems import Problem
from roost.records.sign_in import source_of

VERSIONS = (b"1.0", b"1.1")
_LINES = re.compile(rb"(?:[^\x00-\x20\x7f][^\x00-\x08\x0a-\x1f\x7f]*\r\n)*\r\n")
"""Lines up to the empty one: no blank at their begin, no control characters but TAB, CRLF at their end."""
_CHUNK_LINE = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*\r\n")


class StrictConnection(h11.Connection):
    """The server's side of a connection. Its `next_event` raises RemoteProtocolError for what is not exact."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER)
        self._receive_buffer = StrictBuffer()  # private to h11: ADR 0023
        self.fault: str | None = None
        """Why nothing more is read from this connection."""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """The next part of a request; RemoteProtocolError for what is none, and ever after."""
        if self.fault is not None:
            raise h11.RemoteProtocolError(self.fault)
        try:
            event = super().next_event()
            if isinstance(event, h11.Request):
                _check_framing(event)
        except h11.RemoteProtocolError as error:
            self.fault = str(error).partition(": bytearray")[0]  # the line itself may have a token
            raise
        return event


class StrictBuffer(ReceiveBuffer):
    """What was received and not read yet. LocalProtocolError for lines that are not those of RFC 9112."""

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """The lines of a head, or the trailers after chunks, up to the empty line; None before that has come."""
        before = bytes(self)
        lines = super().maybe_extract_lines()
        if lines is not None and not _LINES.fullmatch(before, 0, len(before) - len(self)):
            raise h11.LocalProtocolError("a line is folded, does not end with CRLF, or has a control character")
        return lines

    def maybe_extract_next_line(self) -> bytearray | None:
        """The line before a chunk; None before it has come."""
        line = super().maybe_extract_next_line()
        if line is not None and not _CHUNK_LINE.fullmatch(line):
            raise h11.LocalProtocolError("the line before a chunk has a control character")
        return line


def _check_framing(request: h11.Request) -> None:
    """Raise RemoteProtocolError for a request whose end is not clear: RFC 9112, sections 2.5, 6.1 and 6.3."""
    if request.http_version not in VERSIONS:
        raise h11.RemoteProtocolError(f"version {request.http_version.decode()} of HTTP is not known: send 1.1")
    names = {name for name, _ in request.headers}
    if b"transfer-encoding" in names and b"content-length" in names:
        raise h11.RemoteProtocolError("Content-Length and Transfer-Encoding contradict each other: send one of them")
    if b"transfer-encoding" in names and request.http_version == b"1.0":
        raise h11.RemoteProtocolError("Transfer-Encoding does not exist in HTTP/1.0: send Content-Length")


MOST_CONNECTIONS = 1000
"""Of one process."""
OTHER_FILES = 256
"""Files that a process opens besides: of its database, its broker, its logs."""
MOST_CLOSING = 100
"""Connections that were told to close and are still open; with more no further one is taken before they are."""
_HEADERS = {"Retry-After": "1", "Connection": "close"}


class Connection(socket.socket):
    """A connection with a client. `source`: its address, or of IPv6 its network, as sign-ins count them."""

    def __init__(self, accepted: socket.socket, source: str, connections: Connections) -> None:
        """Takes the place of `accepted`."""
        super().__init__(fileno=accepted.detach())
        self.number, self.source, self._connections = self.fileno(), source, connections
        self.has_asked = False
        """Whether a whole request has ever come."""
        self.is_counted, self.is_closed = True, False
        self.requests = 0
        """Requests that are being handled; one may go on after its client has gone."""

    def close(self) -> None:
        """Close it, and say so to those who count."""
        self._connections.note_closed(self)
        super().close()

    @property
    def has_unread_bytes(self) -> bool:
        """Whether something has come that was not looked at yet."""
        try:
            return bool(self.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except OSError:
            return False


class Connections:
    """The connections of one event loop. `most_of_one`: of one client; 0: as many as of all."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most, self._most_of_one = most, most_of_one or most
        self._open: dict[int, Connection] = {}
        self._counts: Counter[str] = Counter()
        """Source -> connections that are open or have a request under way, and were not told to close."""
        self._unused: dict[Connection, None] = {}
        """Those that wait for their client, the one that waits longest first."""
        self._closing: set[Connection] = set()

    @property
    def is_closing_many(self) -> bool:
        """Whether those that were told to close have to go before another one comes."""
        return len(self._closing) >= MOST_CLOSING

    def find(self, number: int) -> Connection | None:
        """The open connection with this file number."""
        return self._open.get(number)

    def add(self, connection: Connection) -> None:
        """Count a new connection. Where it is one too many, an unused one is closed if there is one."""
        self._open[connection.number] = connection
        self._unused[connection] = None
        self._counts[connection.source] += 1
        self._make_room(connection)

    @contextmanager
    def request(self, connection: Connection) -> Iterator[Problem | None]:
        """Context in which a request is handled: why it is refused, or None."""
        connection.requests += 1
        try:
            yield self._make_room(connection)
        finally:
            connection.requests -= 1
            if connection.is_closed and not connection.requests:
                self._uncount(connection)

    def note_use(self, connection: Connection, is_used: bool) -> None:
        """Tell whether a whole request has come on a connection and is not answered yet."""
        if is_used:
            connection.has_asked = True
            self._unused.pop(connection, None)
        elif connection.is_counted and not connection.is_closed:
            self._unused.setdefault(connection)

    def note_closed(self, connection: Connection) -> None:
        """Tell that a connection is closed. It counts on while its request is handled."""
        connection.is_closed = True
        if self._open.get(connection.number) is connection:
            del self._open[connection.number]
        self._unused.pop(connection, None)
        self._closing.discard(connection)
        if not connection.requests:
            self._uncount(connection)

    def _make_room(self, newcomer: Connection) -> Problem | None:
        """Close unused connections where there are too many; why there is no room, if that does not help."""
        while self._counts[newcomer.source] > self._most_of_one:
            if not self._close_one(newcomer, newcomer.source):
                return _too_many_of_one(self._most_of_one)
        while self._counts.total() > self._most:
            if not self._close_one(newcomer):
                return Problem(503, f"{self._most} requests are under way: no more at once.", _HEADERS)
        return None

    def _close_one(self, newcomer: Connection, source: str | None = None) -> bool:
        """Close the unused connection of a source, or of all, that is missed least; whether there was another one.

        It is one of the client that has most of them. One on which nothing was ever asked goes before one that is
        kept for a next request, and then the one that waits longest.
        """
        counts = Counter(each.source for each in self._unused)
        candidates = [each for each in self._unused if each is not newcomer and source in (None, each.source)]
        for each in sorted(candidates, key=lambda unused: (-counts[unused.source], unused.has_asked)):
            if not each.has_unread_bytes:
                self._close(each)
                return True
        return False

    def _close(self, connection: Connection) -> None:
        self._unused.pop(connection)
        self._closing.add(connection)
        self._uncount(connection)
        with suppress(OSError):  # the client was faster
            connection.shutdown(socket.SHUT_RDWR)  # the event loop reads the end of it, and closes it

    def _uncount(self, connection: Connection) -> None:
        if connection.is_counted:
            connection.is_counted = False
            self._counts[connection.source] -= 1
            if not self._counts[connection.source]:
                del self._counts[connection.source]


class Listener(socket.socket):
    """A listening socket whose connections are counted."""

    def __init__(self, listener: socket.socket, connections: Connections) -> None:
        """Takes the place of `listener`."""
        super().__init__(fileno=listener.detach())
        self._connections = connections

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection and the address of its client. BlockingIOError where there is none for now."""
        if self._connections.is_closing_many:
            raise BlockingIOError
        accepted, address = super().accept()
        connection = Connection(accepted, source_of(str(address[0])), self._connections)
        self._connections.add(connection)
        return connection, address


def most_connections() -> int:
    """MOST_CONNECTIONS, or fewer where the process may not open as many files."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if files == resource.RLIM_INFINITY else max(1, min(MOST_CONNECTIONS, files - OTHER_FILES))


def _too_many_of_one(most: int) -> Problem:
    message = (
        f"{most} requests of your address are under way, as many as [roost] max_connections_per_client allows: "
        "wait for their answers."
    )
    return Problem(429, message, _HEADERS)
