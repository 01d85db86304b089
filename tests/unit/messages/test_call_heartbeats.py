# SPDX-License-Identifier: Apache-2.0
"""Heartbeats of running requests: by their caller's timeout, and nothing is kept of a request that was answered."""

import threading
import weakref
from types import SimpleNamespace

import pytest

from roost.clock import SystemClock
from roost.messages.broker_server import LONGEST_SECONDS, CallHeartbeats


class QuickClock(SystemClock):
    """A thousand times as fast."""

    def monotonic(self):
        return 1000 * super().monotonic()

    def wait(self, event, seconds):
        return super().wait(event, seconds / 1000)


class Incoming:
    """A message as oslo.messaging hands it on."""

    def __init__(self, client_timeout):
        self.client_timeout, self.was_sent = client_timeout, threading.Event()

    def heartbeat(self):
        self.was_sent.set()


@pytest.fixture
def heartbeats():
    made = CallHeartbeats(SystemClock())
    yield made
    made.stop()


def test_a_request_that_runs_gets_heartbeats(heartbeats):
    incoming = Incoming(1)
    with heartbeats.while_running(incoming):
        assert incoming.was_sent.wait(10)


@pytest.mark.parametrize("seconds", [60, 1e9])
def test_a_request_that_was_answered_is_forgotten_at_once(heartbeats, seconds):
    """D44: it was kept until its first heartbeat would have been due, however long its caller would wait."""
    incoming = Incoming(seconds)
    with heartbeats.while_running(incoming):
        pass
    known = weakref.ref(incoming)
    del incoming
    assert known() is None


def test_what_is_due_later_is_bounded_by_time_not_by_the_caller(heartbeats):
    with heartbeats.while_running(Incoming(1e9)):
        assert heartbeats.seconds_to_next() <= LONGEST_SECONDS


def test_whatever_one_caller_s_heartbeat_raises_the_others_get_theirs():
    """D23: an error in the heartbeat of one caller ended those of all."""
    """D23: an error of one caller's heartbeat ended those of all."""
    broken, told = threading.Event(), threading.Event()

    def fail():
        broken.set()
        raise AttributeError("the connection is half closed")

    heartbeats = CallHeartbeats(QuickClock())
    first = SimpleNamespace(client_timeout=2, heartbeat=fail)
    second = SimpleNamespace(client_timeout=4, heartbeat=lambda: broken.is_set() and told.set())
    with heartbeats.while_running(first), heartbeats.while_running(second):
        assert told.wait(20)
    heartbeats.stop()
