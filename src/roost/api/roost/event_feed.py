# SPDX-License-Identifier: Apache-2.0
"""One reader of events for all streams of a process: it polls the database each second while there are any."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import structlog

from roost.api.bounded_work import Overloaded
from roost.api.roost.event_log import Event, EventLog, EventPosition
from roost.clock import Clock
from roost.errors import DatabaseError
from roost.store.change_log import GAP_TIMEOUT_SECONDS

LOG = structlog.get_logger(__name__)
POLL_SECONDS = 1.0
MOST_BUFFERED = 2000
"""Events that wait for one slow client; with more its stream ends, and it goes on from its last id."""
MOST_STREAMS, MOST_OF_ONE = 100, 10
"""Streams in one process: of all users, and of one, so that one user cannot take them all."""
RETRY_AFTER_SECONDS = 30.0


class StreamCount:
    """How many streams each user has. Thread-safe: looking for room and taking it is one step."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_users: Counter[str] = Counter()

    def take(self, user_id: str) -> Callable[[], None]:
        """Count one more stream of a user; Overloaded where there are too many. Call the result once, at its end."""
        with self._lock:
            if self._of_users[user_id] >= MOST_OF_ONE or self._of_users.total() >= MOST_STREAMS:
                message = f"There are {MOST_STREAMS} streams of events, or {MOST_OF_ONE} of yours: no more."
                raise Overloaded(message, RETRY_AFTER_SECONDS)
            self._of_users[user_id] += 1
        return partial(self._give_back, user_id)

    def _give_back(self, user_id: str) -> None:
        with self._lock:
            self._of_users[user_id] -= 1
            self._of_users = +self._of_users  # without users that have none


class Subscription:
    """The events of one stream from a position on."""

    def __init__(self, start: EventPosition) -> None:
        self.start = start
        self.events: asyncio.Queue[tuple[Event, EventPosition]] = asyncio.Queue(MOST_BUFFERED)
        self.is_behind = False
        """Whether an event did not fit into the buffer."""


class EventFeed:
    """Hands each new event to all subscriptions. For one event loop, but for `streams`."""

    def __init__(self, log: EventLog, clock: Clock) -> None:
        self.streams = StreamCount()
        self._log, self._clock = log, clock
        self._subscriptions: set[Subscription] = set()
        self._start = asyncio.Lock()
        self._poller: asyncio.Task[None] | None = None
        self._missing_since: dict[tuple[str, int], float] = {}
        self.position: EventPosition | None = None
        """What all subscriptions were handed; None while there are no subscribers."""

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[Subscription]:
        """Context in which all events after its start are handed to a subscription."""
        async with self._start:
            if self.position is None:
                self.position = await asyncio.to_thread(self._log.present)
            subscription = Subscription(self.position)
            self._subscriptions.add(subscription)
            if self._poller is None:
                self._poller = asyncio.create_task(self._poll())
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)

    async def _poll(self) -> None:
        """Read and publish until there are no subscribers."""
        has_more = False
        while self._subscriptions:
            if not has_more:
                await asyncio.sleep(POLL_SECONDS)
            try:
                has_more = await self._read()
            except DatabaseError as error:
                LOG.warning("events are not read", reason=error.message)
                has_more = False
            except Exception:  # the streams go on when the next read succeeds
                LOG.exception("events are not read")
                has_more = False
        self._poller = self.position = None
        self._missing_since.clear()

    async def _read(self) -> bool:
        """Hand on what is new; whether there was something."""
        assert self.position is not None  # noqa: S101 - for mypy
        found = await asyncio.to_thread(self._log.read, self.position)
        for event in found:
            self.position = self.position.after(event)
            self._hand_on(event, self.position)
        self._give_up_old_gaps()
        return bool(found)

    def _hand_on(self, event: Event, position: EventPosition) -> None:
        for each in list(self._subscriptions):
            try:
                each.events.put_nowait((event, position))
            except asyncio.QueueFull:
                each.is_behind = True
                self._subscriptions.discard(each)

    def _give_up_old_gaps(self) -> None:
        """Wait no longer for numbers that have been missing for longer than a transaction may last."""
        assert self.position is not None  # noqa: S101 - for mypy
        now, gaps = self._clock.monotonic(), self.position.gaps
        self._missing_since = {each: self._missing_since.get(each, now) for each in gaps}
        old = [each for each, since in self._missing_since.items() if now - since > GAP_TIMEOUT_SECONDS]
        self.position = self.position.without(old)
