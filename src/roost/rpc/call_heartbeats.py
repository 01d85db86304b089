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
IDLE_SECONDS = 60.0
"""How long the thread sleeps while no request wants heartbeats."""


class CallHeartbeats:
    """Sends the heartbeats of all running requests of a server, from one thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._due: list[tuple[float, int, Any]] = []
        """Heap of (when, number of the request, its incoming message), in monotonic seconds."""
        self._running: set[int] = set()
        self._numbers = itertools.count()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_stopped = False

    @contextmanager
    def while_running(self, incoming: Any) -> Iterator[None]:
        """Context in which heartbeats are sent for this message, twice within the timeout that its caller has set."""
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
        """Send no more heartbeats; the thread ends."""
        self._is_stopped = True
        self._wake.set()

    def _begin(self, incoming: Any, every: float) -> int:
        number = next(self._numbers)
        with self._lock:
            self._running.add(number)
            is_first = not self._due or self._clock.monotonic() + every < self._due[0][0]
            heapq.heappush(self._due, (self._clock.monotonic() + every, number, incoming))
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
            with self._lock:
                seconds = self._due[0][0] - self._clock.monotonic() if self._due else IDLE_SECONDS
            self._clock.wait(self._wake, max(seconds, 0.01))

    def _take_due(self) -> list[Any]:
        taken = []
        with self._lock:
            while self._due and self._due[0][0] <= self._clock.monotonic():
                _, number, incoming = heapq.heappop(self._due)
                if number in self._running:
                    taken.append(incoming)
                    next_time = self._clock.monotonic() + incoming.client_timeout / 2
                    heapq.heappush(self._due, (next_time, number, incoming))
        return taken


def _send(incoming: Any) -> None:
    try:
        incoming.heartbeat()
    except Exception as error:  # whatever a driver raises, the other callers get theirs
        LOG.info("a caller could not be told that its request is still worked on: %s", error)
