# SPDX-License-Identifier: Apache-2.0
"""How long a message may have waited, and when its caller has given up."""

from datetime import UTC, datetime, timedelta
from math import inf

import pytest

from roost.messages.broker_server import QueueWait
from roost.messages.context import CallerPatience, RequestContext

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)


class Times:
    def __init__(self):
        self.now = 100.0
        self.wait = QueueWait(lambda: self.now)

    def arrive(self, after, connection="first"):
        self.now += after
        self.wait.note_arrival(connection)
        return self.wait.seconds()


def test_what_comes_right_after_the_start_may_be_of_any_age():
    times = Times()
    assert times.arrive(after=0.5) == inf
    times.wait.wait_for_next()
    assert times.arrive(after=0.01) == inf


def test_a_message_that_was_waited_for_is_new():
    times = Times()
    times.arrive(after=0.0)
    times.wait.wait_for_next()
    assert times.arrive(after=0.3) == 0.0


def test_a_server_that_starts_on_an_empty_queue_takes_new_messages():
    assert Times().arrive(after=3.0) == 0.0


def test_a_message_is_no_older_than_the_last_empty_queue():
    times = Times()
    times.arrive(after=10.0)
    times.now += 7.0  # all threads are busy
    times.wait.wait_for_next()
    assert times.arrive(after=0.0) == 7.0


def test_a_time_without_a_connection_says_nothing_about_the_queue():
    times = Times()
    times.arrive(after=10.0)
    times.wait.wait_for_next()
    assert times.arrive(after=120.0, connection="second") == inf
    times.wait.wait_for_next()
    assert times.arrive(after=0.3, connection="second") == 0.0


@pytest.mark.parametrize(
    ("made_before", "timeout", "queued", "is_abandoned"),
    [
        (61, 60, inf, True),
        (59, 60, inf, False),
        (600, 60, 2.0, False),  # its sender was slow: the message is new
        (600, 60, 61.0, True),
        (600, None, inf, False),
        (600, 0, inf, False),
        (-600, 60, inf, False),  # the sender's clock is ahead
    ],
)
def test_a_caller_has_given_up_if_message_and_request_are_older_than_it_waits(
    made_before, timeout, queued, is_abandoned
):
    values = {"timestamp": (NOON - timedelta(seconds=made_before)).isoformat()}
    context = RequestContext.from_dict(values, CallerPatience(timeout, queued))
    assert context.is_abandoned(NOON) == is_abandoned


def test_a_request_that_does_not_say_when_it_was_made_is_served():
    assert not RequestContext.from_dict({}, CallerPatience(60, inf)).is_abandoned(NOON)
