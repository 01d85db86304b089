# SPDX-License-Identifier: Apache-2.0
"""One reader of events for all streams of a process: it polls the database each second while there are any."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

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


class Subscription:
    """The events of one stream from a position on. `user_id`: who gets them."""

    def __init__(self, start: EventPosition, user_id: str) -> None:
        self.start, self.user_id = start, user_id
        self.events: asyncio.Queue[tuple[Event, EventPosition]] = asyncio.Queue(MOST_BUFFERED)
        self.is_behind = False
        """Whether an event did not fit into the buffer."""


class EventFeed:
    """Hands each new event to all subscriptions. For one event loop."""

    def __init__(self, log: EventLog, clock: Clock) -> None:
        self._log, self._clock = log, clock
        self._subscriptions: set[Subscription] = set()
        self._start = asyncio.Lock()
        self._poller: asyncio.Task[None] | None = None
        self._missing_since: dict[tuple[str, int], float] = {}
        self.position: EventPosition | None = None
        """What all subscriptions were handed; None while there are no subscribers."""

    def has_room_for(self, user_id: str) -> bool:
        """Whether one more stream of this user may begin."""
        present = [each.user_id for each in list(self._subscriptions)]
        return len(present) < MOST_STREAMS and present.count(user_id) < MOST_OF_ONE

    @asynccontextmanager
    async def subscribe(self, user_id: str = "") -> AsyncIterator[Subscription]:
        """Context in which all events after its start are handed to a subscription."""
        async with self._start:
            if self.position is None:
                self.position = await asyncio.to_thread(self._log.present)
            subscription = Subscription(self.position, user_id)
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
