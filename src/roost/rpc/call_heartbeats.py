# SPDX-License-Identifier: Apache-2.0
"""Heartbeats for callers whose request takes long: while they arrive, the caller goes on waiting for the answer."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from roost.clock import Clock

LOG = logging.getLogger(__name__)
LONGEST_SECONDS = 30.0
"""Most seconds between two heartbeats, however long the caller would wait: so long is a request of it remembered."""
IDLE_SECONDS = 60.0
"""How long the thread sleeps while no request wants heartbeats."""


class CallHeartbeats:
    """Sends the heartbeats of all running requests of a server, from one thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._due: list[tuple[float, int]] = []
        """Heap of (when, number of the request), in monotonic seconds; also of requests that were answered since."""
        self._running: dict[int, Any] = {}
        """Number of a request -> its incoming message."""
        self._numbers = itertools.count()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_stopped = False

    @contextmanager
    def while_running(self, incoming: Any) -> Iterator[None]:
        """Context in which heartbeats are sent for this message, twice at least within the timeout of its caller."""
        seconds = incoming.client_timeout
        if not isinstance(seconds, int | float) or seconds < 1:
            yield
            return
        number = self._begin(incoming, _interval(seconds))
        try:
            yield
        finally:
            with self._lock:
                del self._running[number]

    def stop(self) -> None:
        """Send no more heartbeats; the thread ends."""
        self._is_stopped = True
        self._wake.set()

    def _begin(self, incoming: Any, every: float) -> int:
        number = next(self._numbers)
        with self._lock:
            self._running[number] = incoming
            is_first = not self._due or self._clock.monotonic() + every < self._due[0][0]
            heapq.heappush(self._due, (self._clock.monotonic() + every, number))
            if self._thread is None:
                self._thread = threading.Thread(target=self._send_all, name="rpc-heartbeats", daemon=True)
                self._thread.start()
        if is_first:
            self._wake.set()
        return number

    def _send_all(self) -> None:
        while not self._is_stopped:
            self._wake.clear()
            for incoming in self._take_due():
                _send(incoming)
            self._clock.wait(self._wake, max(self.seconds_to_next(), 0.01))

    def seconds_to_next(self) -> float:
        """Seconds until a heartbeat may be due."""
        with self._lock:
            return self._due[0][0] - self._clock.monotonic() if self._due else IDLE_SECONDS

    def _take_due(self) -> list[Any]:
        taken = []
        with self._lock:
            while self._due and self._due[0][0] <= self._clock.monotonic():
                _, number = heapq.heappop(self._due)
                if (incoming := self._running.get(number)) is not None:
                    taken.append(incoming)
                    next_time = self._clock.monotonic() + _interval(incoming.client_timeout)
                    heapq.heappush(self._due, (next_time, number))
        return taken


def _interval(timeout_seconds: float) -> float:
    """Seconds between two heartbeats for a caller that gives up after so long without one."""
    return min(LONGEST_SECONDS, timeout_seconds / 2)


def _send(incoming: Any) -> None:
    try:
        incoming.heartbeat()
    except Exception as error:  # whatever a driver raises, the other callers get theirs
        LOG.info("a caller could not be told that its request is still worked on: %s", error)
