# SPDX-License-Identifier: Apache-2.0
"""Which connections are kept when there are too many: those that wait for their client go first.

They are counted where the socket is accepted: what never finishes its TLS handshake, or never sends a request, counts
too. Before a request is whole nothing has been done for it, so that its connection can be closed without harm.
"""

from __future__ import annotations

import resource
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from roost.api.problems import Problem
from roost.records.sign_in import source_of

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
