# SPDX-License-Identifier: Apache-2.0
"""Server-sent events: decisions and changes of hosts as they happen. Last-Event-ID resumes a lost connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Annotated

import structlog
from fastapi import Header, Request, Response
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from roost.api.admission import TOKEN_HEADER
from roost.api.call import Call, CurrentCall
from roost.api.roost.decisions import in_novas_words, own_project
from roost.api.roost.event_feed import EventFeed, Subscription
from roost.api.roost.event_log import DECISION, Event, EventLog, EventPosition, Record
from roost.clock import Clock
from roost.errors import AccessError, DatabaseError, RoostError

LOG = structlog.get_logger(__name__)
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
