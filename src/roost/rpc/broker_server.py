# SPDX-License-Identifier: Apache-2.0
"""A server on a broker: oslo.messaging's, with our dispatcher, no more at a time than it has threads for."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from roost.clock import Clock
from roost.rpc.dispatcher import Dispatcher
from roost.rpc.oslo import ExpectedException, RPCServer, messaging
from roost.rpc.wire_errors import is_expected

LOG = logging.getLogger(__name__)

RETRY_SECONDS = 3.0
"""Between two attempts to be let in by a broker that is there, and refuses."""
START_SECONDS = 5.0
"""How long `start` waits for the broker before it leaves that to a thread."""


class BrokerServer:
    """Takes messages from a broker and answers them, each in a thread."""

    def __init__(self, transport: Any, target: Any, dispatcher: Dispatcher, threads: int, clock: Clock) -> None:
        self._threads = threads
        self._clock = clock
        self._signs = SignsOfLife(clock)
        self._answering = _Answering(dispatcher, self._signs)
        self._transport, self._target = transport, target
        self._server = _BoundedServer(transport, target, self._answering, threads)
        self._lock = threading.Lock()
        self._is_listening = threading.Event()
        self._is_stopped = False
        self._name = f"{target.topic}.{target.server}"

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to the broker, and somebody who reads from it."""
        if self._is_stopped or not self._is_listening.is_set():
            return False
        connection = self._server.listener._poll_style_listener.conn.connection
        return connection is not None and bool(connection.connection.connected)

    def start(self) -> None:
        """Take messages from now on, or from when the broker is there."""
        threading.Thread(target=self._listen, name=f"rpc-start-{self._name}", daemon=True).start()
        if not self._clock.wait(self._is_listening, START_SECONDS):
            LOG.warning("%s: the broker does not answer; messages are taken when it does", self._name)

    def _listen(self) -> None:
        while not self._begin():
            self._clock.sleep(RETRY_SECONDS)
            if self._is_stopped:
                return
        with self._lock:
            self._is_listening.set()
            if self._is_stopped:
                self._server.stop()

    def _begin(self) -> bool:
        """Whether the broker let us in. One that is away is waited for here; one that says no is asked later."""
        try:
            self._server.start(override_pool_size=self._threads)
        except Exception as error:  # a password or a right that is missing, and may be given
            LOG.error("%s: the broker does not let us listen: %s", self._name, error)
            # One that failed to start is of no further use.
            self._server = _BoundedServer(self._transport, self._target, self._answering, self._threads)
            return False
        return True

    def stop(self) -> None:
        """Take no new messages. Those that the broker has sent and nobody has taken go to other servers now."""
        with self._lock:
            self._is_stopped = True
            if self._is_listening.is_set():
                self._server.stop()
                self._server.listener.cleanup()  # closes the connection; replies go over others

    def wait(self) -> None:
        """Come back when those that were taken have been answered."""
        if self._is_listening.is_set():
            self._server.wait()
        self._signs.stop()


class _BoundedServer(RPCServer):  # type: ignore[misc]  # oslo.messaging has no types
    """Takes a message only when there is a thread for it, so that what must wait waits where others can take it."""

    def __init__(self, transport: Any, target: Any, dispatcher: Any, threads: int) -> None:
        super().__init__(transport, target, dispatcher)
        self._executor_cls = ThreadPoolExecutor  # ends at once when it is told to; futurist's looks up once a second
        self._free = threading.Semaphore(threads)

    def _on_incoming(self, incoming: Any) -> None:
        self._free.acquire()
        super()._on_incoming(incoming)

    def _process_incoming(self, incoming: Any) -> None:
        try:
            super()._process_incoming(incoming)
            self.dispatcher.answered(incoming[0])
        finally:
            self._free.release()


class _Answering:
    """What oslo.messaging's server calls for each message."""

    def __init__(self, dispatcher: Dispatcher, signs: SignsOfLife) -> None:
        self._dispatcher = dispatcher
        self._signs = signs

    def dispatch(self, incoming: Any) -> Any:
        with self._signs.while_running(incoming):
            answer = self._dispatcher.answer(incoming.message, incoming.ctxt)
        incoming.asker = answer.asker
        if answer.failure is not None:
            raise _as_expected(answer.failure)
        return answer.result

    def answered(self, incoming: Any) -> None:
        """The answer is on its way; there is none where the broker took the message back before it was looked at."""
        asker = getattr(incoming, "asker", None)
        if asker is not None:
            asker.answered()


def _as_expected(failure: Exception) -> ExpectedException:
    """So that oslo.messaging sends it and does not log it: that was done where it was known what it is."""
    wrapped = ExpectedException()
    wrapped.exc_info = (type(failure), failure, None if is_expected(failure) else failure.__traceback__)
    return wrapped


class SignsOfLife:
    """Tells callers who asked for it that their request is still being worked on; one thread for all of them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._due: list[tuple[float, int, Any]] = []
        self._running: set[int] = set()
        self._numbers = itertools.count()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_stopped = False

    @contextmanager
    def while_running(self, incoming: Any) -> Iterator[None]:
        """Every half of the time that the caller is ready to hear nothing."""
        seconds = incoming.client_timeout
        if not isinstance(seconds, int | float) or seconds < 1:
            yield
            return
        number = self._begin(incoming, seconds / 2)
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(number)

    def stop(self) -> None:
        """Nobody is left to be told anything."""
        self._is_stopped = True
        self._wake.set()

    def _begin(self, incoming: Any, every: float) -> int:
        number = next(self._numbers)
        with self._lock:
            self._running.add(number)
            is_first = not self._due or self._clock.monotonic() + every < self._due[0][0]
            heapq.heappush(self._due, (self._clock.monotonic() + every, number, incoming))
            if self._thread is None:
                self._thread = threading.Thread(target=self._tell, name="rpc-signs-of-life", daemon=True)
                self._thread.start()
        if is_first:
            self._wake.set()
        return number

    def _tell(self) -> None:
        while not self._is_stopped:
            self._wake.clear()
            for number, incoming in self._take_due():
                self._send(number, incoming)
            with self._lock:
                seconds = self._due[0][0] - self._clock.monotonic() if self._due else 60.0
            self._clock.wait(self._wake, max(seconds, 0.01))

    def _take_due(self) -> list[tuple[int, Any]]:
        taken = []
        with self._lock:
            while self._due and self._due[0][0] <= self._clock.monotonic():
                _, number, incoming = heapq.heappop(self._due)
                if number in self._running:
                    taken.append((number, incoming))
                    next_time = self._clock.monotonic() + incoming.client_timeout / 2
                    heapq.heappush(self._due, (next_time, number, incoming))
        return taken

    def _send(self, number: int, incoming: Any) -> None:
        try:
            incoming.heartbeat()
        except (messaging.MessagingException, OSError) as error:
            LOG.info("a caller could not be told that its request is still worked on: %s", error)
