# SPDX-License-Identifier: Apache-2.0
"""When an outage of placement makes a scheduler unready, and what it says then."""

from datetime import UTC, datetime, timedelta

import pytest

from roost.errors import PlacementError, PlacementUnavailable
from roost.nova.backend import PlacementWatch
from roost.nova.placement.client import PlacementHealth


class TurnedClock:
    seconds = 0.0

    def now(self):
        return datetime(2026, 11, 17, 12, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self):
        return self.seconds


class Providers:
    """Stands in for `ProviderReader`: each read is one call, which fails if there is an error."""

    def __init__(self, clock, health):
        self._clock, self._health = clock, health
        self.read_at, self.error, self.other_calls_succeed = None, None, False

    def read_all(self):
        if self.other_calls_succeed:
            self._health.note_answer()
        if self.error:
            if isinstance(self.error, PlacementUnavailable):
                self._health.note_failure(self.error)
            raise self.error
        self._health.note_answer()
        self.read_at = self._clock.monotonic()


@pytest.fixture
def clock():
    return TurnedClock()


@pytest.fixture
def health(clock):
    return PlacementHealth(clock.monotonic)


@pytest.fixture
def providers(clock, health):
    return Providers(clock, health)


@pytest.fixture
def watch(clock, health, providers):
    return PlacementWatch(providers, health, clock, interval=5)


def run(watch, clock, seconds):
    for _ in range(seconds // 5):
        watch.read_providers()
        clock.seconds += 5


def test_a_placement_that_never_answered_is_a_reason_at_once(watch, providers, clock):
    providers.error = PlacementUnavailable("Connection refused")
    run(watch, clock, 5)
    said = "placement has not answered since 2026-11-17 12:00:00 UTC, the start: Connection refused"
    assert watch.unready() == [said]
    providers.error = None
    run(watch, clock, 5)
    assert watch.unready() == []


def test_providers_that_were_not_read_yet_are_no_reason_while_placement_answers(watch, health, clock):
    health.note_answer()
    clock.seconds += 59
    assert watch.unready() == []


def test_after_a_minute_without_an_answer_it_says_since_when_and_why(watch, providers, clock):
    run(watch, clock, 5)
    providers.error = PlacementUnavailable("Connection refused")
    run(watch, clock, 55)
    assert watch.unready() == []
    run(watch, clock, 5)
    assert watch.unready() == ["placement does not answer since 2026-11-17 12:00:00 UTC: Connection refused"]
    providers.error = None
    run(watch, clock, 5)
    assert watch.unready() == []


def test_a_call_that_is_not_answered_counts_before_it_fails(watch, health, clock):
    health.note_answer()
    clock.seconds += 61
    assert watch.unready() == ["placement does not answer since 2026-11-17 12:00:00 UTC: a call is not answered"]


def test_providers_that_cannot_be_read_are_a_reason_although_other_calls_succeed(watch, providers, clock):
    run(watch, clock, 5)
    providers.error, providers.other_calls_succeed = PlacementUnavailable("answered 500"), True
    run(watch, clock, 60)
    said = "placement's providers could not be read since 2026-11-17 12:00:00 UTC: answered 500"
    assert watch.unready() == [said]


def test_the_bound_grows_with_the_interval(providers, health, clock):
    watch = PlacementWatch(providers, health, clock, interval=60)
    watch.read_providers()
    clock.seconds += 240
    assert watch.unready() == []
    clock.seconds += 1
    assert len(watch.unready()) == 1


def test_an_answer_that_is_not_understood_is_left_to_the_log_of_the_task(watch, providers):
    providers.error = PlacementError("no JSON object")
    with pytest.raises(PlacementError):
        watch.read_providers()
