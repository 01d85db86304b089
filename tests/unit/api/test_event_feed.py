# SPDX-License-Identifier: Apache-2.0
"""The one reader of events that all streams of a process share."""

import asyncio

import pytest
from tests.clocks import HandClock

from roost.api.bounded_work import Overloaded
from roost.api.roost import events
from roost.api.roost.events import DECISION, CountedResponse, Event, EventFeed, EventPosition, StreamCount
from roost.errors import DatabaseUnreachable


class ScriptedLog:
    """Gives these pages of numbers of decisions, one per read; an error among them is raised."""

    def __init__(self, *pages):
        self.pages, self.asked = list(pages), []

    def present(self):
        return EventPosition.parse("d0.c0")

    def read(self, since, until=None):
        self.asked.append(str(since))
        page = self.pages.pop(0) if self.pages else []
        if isinstance(page, Exception):
            raise page
        return [Event(DECISION, number, "blue", {"id": number}) for number in page]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(events, "POLL_SECONDS", 0.0)


@pytest.fixture
def clock():
    return HandClock()


def test_one_user_has_some_of_the_streams_and_leaves_room_for_others(monkeypatch):
    monkeypatch.setattr(events, "MOST_OF_ONE", 1)
    monkeypatch.setattr(events, "MOST_STREAMS", 2)
    streams = StreamCount()
    give_back = streams.take("ann")
    with pytest.raises(Overloaded, match="or 1 of yours"):
        streams.take("ann")
    streams.take("bob")
    with pytest.raises(Overloaded, match="2 streams"):
        streams.take("eve")
    give_back()
    streams.take("ann")


def test_a_stream_whose_client_has_gone_before_it_began_is_given_back():
    """D42: what is taken before the answer begins may not depend on its begin."""
    ended = []

    async def never_asked():
        yield ""

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        await asyncio.Event().wait()

    asyncio.run(CountedResponse(never_asked(), lambda: ended.append(1))({"type": "http"}, receive, send))
    assert ended == [1]


async def taken(subscription, count):
    return [await asyncio.wait_for(subscription.events.get(), 10) for _ in range(count)]


def test_all_streams_get_all_events_with_the_position_after_each(clock):
    async def listen():
        feed = EventFeed(ScriptedLog([1, 3], [2]), clock)
        async with feed.subscribe() as one, feed.subscribe() as other:
            return await taken(one, 3), await taken(other, 3)

    one, other = asyncio.run(listen())
    assert one == other
    assert [(event.number, str(position)) for event, position in one] == [
        (1, "d1.c0"),
        (3, "d3-1.c0"),
        (2, "d3.c0"),
    ]


def test_a_slow_stream_falls_behind_and_the_others_go_on(clock, monkeypatch):
    monkeypatch.setattr(events, "MOST_BUFFERED", 2)

    async def listen():
        feed = EventFeed(ScriptedLog([1, 2], [], [3]), clock)
        async with feed.subscribe() as slow, feed.subscribe() as quick:
            found = [*await taken(quick, 2), *await taken(quick, 1)]
            return slow.is_behind, quick.is_behind, [event.number for event, _ in found]

    assert asyncio.run(listen()) == (True, False, [1, 2, 3])


def test_while_the_database_is_away_the_streams_wait(clock):
    async def listen():
        log = ScriptedLog(DatabaseUnreachable("away"), ValueError("unexpected"), [1])
        async with EventFeed(log, clock).subscribe() as subscription:
            return await taken(subscription, 1)

    assert [event.number for event, _ in asyncio.run(listen())] == [1]


def test_nothing_is_read_after_the_last_stream_ended(clock):
    log = ScriptedLog()

    async def listen():
        feed = EventFeed(log, clock)
        async with feed.subscribe():
            pass
        while feed.position is not None:
            await asyncio.sleep(0)

    asyncio.run(listen())
    assert len(log.asked) <= 1


def test_a_gap_is_given_up_when_its_transaction_has_surely_ended(clock):
    async def listen():
        log = ScriptedLog([1, 3])
        feed = EventFeed(log, clock)
        async with feed.subscribe() as subscription:
            await taken(subscription, 2)
            clock.seconds += 61
            while str(feed.position) != "d3.c0":
                await asyncio.sleep(0.001)
        return log.asked

    assert "d3-1.c0" in asyncio.run(listen())
