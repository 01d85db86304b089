# SPDX-License-Identifier: Apache-2.0
"""Server-sent events: decisions and changes of hosts as they happen. Last-Event-ID resumes a lost connection.

The id of an event says what its reader has read by then, gaps included, so one that commits late is neither lost nor
sent twice (docs/adr/0007, 0025). One reader polls the database each second for all streams of a process, while there
are any.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, NamedTuple, Self

import structlog
from fastapi import Header, Request, Response
from sqlalchemy import Connection, Engine, func, select
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from roost.api.bounded_work import Overloaded
from roost.api.call import TOKEN_HEADER, Call, CurrentCall
from roost.api.roost.decisions import in_novas_words, own_project
from roost.clock import Clock
from roost.errors import AccessError, BadInput, DatabaseError, RoostError
from roost.records.decisions import DecisionStore, describe_listed
from roost.records.hypervisors import read_changed_hosts
from roost.store.change_log import GAP_TIMEOUT_SECONDS, ReadPosition, present_position
from roost.store.schema.history import changes, decisions
from roost.store.transactions import database_errors

DECISION, HOST = "decision", "host"
PAGE_SIZE = 500
"""Rows of each table in one read."""
Record = dict[str, Any]


class Event(NamedTuple):
    """Something that happened. `data` None: nothing that is told, but it moves the position."""

    kind: str
    number: int
    project_id: str | None
    data: Record | None


@dataclass(frozen=True)
class EventPosition:
    """How far a reader of events has got."""

    decisions: ReadPosition
    changes: ReadPosition

    def after(self, event: Event) -> EventPosition:
        """The position after one more event."""
        if event.kind == DECISION:
            return replace(self, decisions=self.decisions.after(event.number))
        return replace(self, changes=self.changes.after(event.number))

    @property
    def gaps(self) -> set[tuple[str, int]]:
        """Kind and number of the rows that may still appear."""
        parts = {DECISION: self.decisions, HOST: self.changes}
        return {(kind, number) for kind, part in parts.items() for number in part.missing}

    def without(self, gaps: Collection[tuple[str, int]]) -> EventPosition:
        """The position in which some gaps are no longer waited for."""
        given_up = {kind: [number for of, number in gaps if of == kind] for kind in (DECISION, HOST)}
        return EventPosition(self.decisions.without(given_up[DECISION]), self.changes.without(given_up[HOST]))

    def __str__(self) -> str:
        return f"d{self.decisions}.c{self.changes}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The position that `str` wrote; BadInput for any other text."""
        first, _, second = text.partition(".")
        if not (first.startswith("d") and second.startswith("c")):
            raise BadInput(f"Last-Event-ID: {text[:60]!r} is no id of an event", "send the last one that you got")
        return cls(ReadPosition.parse(first[1:]), ReadPosition.parse(second[1:]))


class EventLog:
    """Reads events of one database. Thread-safe."""

    def __init__(self, engine: Engine, store: DecisionStore) -> None:
        self._engine, self._store = engine, store

    def present(self) -> EventPosition:
        """The position of a reader that begins now."""
        with database_errors(self._engine), self._engine.connect() as connection:
            found = (present_position(connection, each) for each in (decisions.c.id, changes.c.number))
            return EventPosition(*found)

    def read(self, since: EventPosition, until: EventPosition | None = None) -> list[Event]:
        """Some events that a reader at `since` has not read, in order; none is left where there are none.

        `until`: only those that a reader there has read.
        """
        ends = (None, None) if until is None else (until.decisions, until.changes)
        with database_errors(self._engine), self._engine.connect() as connection:
            made = self._store.list_unread(connection, since.decisions, ends[0], PAGE_SIZE)
            changed = read_changed_hosts(connection, since.changes, ends[1], PAGE_SIZE)
        events = [Event(DECISION, row.id, row.project_id, describe_listed(row)) for row in made]
        for each in changed:
            told = {"host": each.host, "node": each.node, "changed": each.what} if each.host else None
            events.append(Event(HOST, each.number, None, told))
        return events

    def is_lost(self, position: EventPosition) -> bool:
        """Whether events after this position are gone: they were removed, or an older database was restored."""
        parts = ((decisions.c.id, position.decisions), (changes.c.number, position.changes))
        with database_errors(self._engine), self._engine.connect() as connection:
            return any(_is_gone(connection, number, part) for number, part in parts)


def _is_gone(connection: Connection, number: Any, position: ReadPosition) -> bool:
    first, last = connection.execute(select(func.min(number), func.max(number))).one()
    if last is None:
        return position.highest > 0
    return bool(first > position.highest + 1 or last < position.highest)


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


MEDIA = "text/event-stream"
HEARTBEAT_SECONDS = 15.0
MOST_REPLAYED = 20_000
"""Events that a client gets which it missed; one that missed more is told to read the lists again."""
LOST = "Events in between are no longer known: read the lists again."


def follow(
    call: CurrentCall,
    request: Request,
    last_event_id: Annotated[str | None, Header(max_length=8192, description="go on after this event")] = None,
) -> Response:
    """A stream of `decision`, for administrators and readers of the system also `host`, and of `lost` events.

    Each has an id. A client that sends the last one in `Last-Event-ID` gets what it missed, and nothing twice; `lost`
    says that this is not known any more. Every 15 s a comment shows that the connection lives.
    """
    feed: EventFeed = request.app.state.events
    since = EventPosition.parse(last_event_id) if last_event_id else None
    log: EventLog = request.app.state.event_log
    log.present()  # a database that is away is a status, and no stream that breaks off
    token = request.headers.get(TOKEN_HEADER, "")
    stream = Stream(call, own_project(call), token, feed, log)
    return CountedResponse(stream.run(since), feed.streams.take(call.caller.user_id))


class CountedResponse(StreamingResponse):
    """A stream of events that counts until it has ended, even if it never began. `give_back`: called at its end."""

    media_type = MEDIA

    def __init__(self, content: AsyncIterator[str], give_back: Callable[[], None]) -> None:
        super().__init__(content, headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        self._give_back = give_back

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._give_back()


class _Interval:
    """Is due once per HEARTBEAT_SECONDS."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.restart()

    def restart(self) -> None:
        """Begin anew."""
        self._at = self._clock.monotonic() + HEARTBEAT_SECONDS

    @property
    def is_due(self) -> bool:
        """Whether the time is over; it begins anew then."""
        is_due = self._clock.monotonic() >= self._at
        if is_due:
            self.restart()
        return is_due


@dataclass(frozen=True)
class Stream:
    """The events that one client gets."""

    call: Call
    own_project: str | None
    """The project whose decisions alone the client sees; None: the client sees all events."""
    token: str
    feed: EventFeed
    log: EventLog

    async def run(self, since: EventPosition | None) -> AsyncIterator[str]:
        """The text of the stream, until the service stops, the token is refused or the client is too slow.

        It ends, too, where the database is away while it begins; the client goes on from its last id.
        """
        try:
            async for text in self._followed(since):
                yield text
        except DatabaseError as error:
            LOG.warning("a stream of events has ended", reason=error.message)

    async def _followed(self, since: EventPosition | None) -> AsyncIterator[str]:
        async with self.feed.subscribe() as subscription:
            yield ": events follow\n\n"
            if since is not None:
                async for text in self._missed(since, subscription.start):
                    yield text
            yield _text("", subscription.start)
            async for text in self._present(subscription):
                yield text

    async def _missed(self, since: EventPosition, until: EventPosition) -> AsyncIterator[str]:
        """What was read between two positions; a `lost` event where that is not known, or too much."""
        count = 0
        is_lost = await asyncio.to_thread(self.log.is_lost, since)
        while not is_lost and (page := await asyncio.to_thread(self.log.read, since, until)):
            count += len(page)
            is_lost = count > MOST_REPLAYED
            for event in page:
                since = since.after(event)
                if text := self._told(event, since):
                    yield text
        if is_lost:
            yield _text("lost", until, {"message": LOST})

    async def _present(self, subscription: Subscription) -> AsyncIterator[str]:
        """What happens from now on, and a comment where nothing does."""
        heartbeat, check = _Interval(self.call.parts.clock), _Interval(self.call.parts.clock)
        while not self.call.parts.is_stopping.is_set():
            text = await self._next(subscription)
            if check.is_due and await asyncio.to_thread(self._is_refused):
                return
            if text is None and subscription.is_behind:
                return
            if text or heartbeat.is_due:
                heartbeat.restart()
                yield text or ": alive\n\n"

    async def _next(self, subscription: Subscription) -> str | None:
        """The next event, empty if it is not for the client; None if there is none for a second."""
        try:
            return self._told(*await asyncio.wait_for(subscription.events.get(), 1.0))
        except TimeoutError:
            return None

    def _is_refused(self) -> bool:
        """Whether the token ended or its rights changed meanwhile; no, where that cannot be found out now."""
        try:
            return self.call.parts.authenticator.authenticate(self.token) != self.call.caller
        except AccessError:
            return True
        except RoostError:
            return False

    def _told(self, event: Event, position: EventPosition) -> str:
        """The event as the caller may see it; empty if it may not be seen."""
        data, own = event.data, self.own_project
        if data is None:
            return ""
        if own is not None:
            if event.kind != DECISION or event.project_id != own:
                return ""
            data = in_novas_words(data)
        return _text(event.kind, position, data)


def _text(kind: str, position: EventPosition, data: Record | None = None) -> str:
    """An event as it is sent; without data it only tells the client the position."""
    lines = [f"event: {kind}"] if kind else []
    lines.append(f"id: {position}")
    if data is not None:
        lines.append(f"data: {json.dumps(data, separators=(',', ':'))}")
    return "\n".join(lines) + "\n\n"
