# SPDX-License-Identifier: Apache-2.0
"""The wait after failed sign-ins, by a clock that is turned by hand."""

import pytest
from tests.clocks import HandClock

from roost.errors import TooManyAttempts
from roost.identity import attempts
from roost.identity.attempts import AttemptLimiter, source_of


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def limiter(clock):
    return AttemptLimiter(clock)


def wait_of(limiter, name, source=""):
    try:
        limiter.check(name, source)
    except TooManyAttempts as error:
        return error.retry_after_seconds
    return 0.0


def fail(limiter, name, times):
    for _ in range(times):
        limiter.note_failure(name)


def test_five_failures_begin_a_wait_that_doubles_up_to_a_minute(limiter):
    fail(limiter, "ann", 4)
    assert wait_of(limiter, "ann") == 0
    waits = []
    for _ in range(8):
        limiter.note_failure("ann")
        waits.append(wait_of(limiter, "ann"))
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_the_wait_ends(limiter, clock):
    fail(limiter, "ann", 6)
    clock.seconds += 1.5
    assert wait_of(limiter, "ann") == 0.5
    clock.seconds += 0.5
    assert wait_of(limiter, "ann") == 0


def test_others_need_not_wait(limiter):
    fail(limiter, "ann", 20)
    assert wait_of(limiter, "bob") == 0


def test_a_success_forgives_the_failures_of_that_name_alone(limiter):
    fail(limiter, "ann", 6)
    fail(limiter, "bob", 6)
    limiter.note_success("ann")
    assert (wait_of(limiter, "ann"), wait_of(limiter, "bob")) == (0, 2)


def test_failures_are_forgotten_after_a_quarter_of_an_hour(limiter, clock):
    fail(limiter, "ann", 30)
    clock.seconds += attempts.FORGET_SECONDS
    limiter.note_failure("ann")
    assert wait_of(limiter, "ann") == 0


def test_many_names_from_one_address_make_it_wait_a_little(limiter):
    for number in range(100):
        limiter.note_failure(f"user-{number}", "192.0.2.7")
    assert wait_of(limiter, "ann", "192.0.2.7") == 1
    for number in range(100):
        limiter.note_failure(f"user-{number}", "192.0.2.7")
    assert wait_of(limiter, "ann", "192.0.2.7") == 4


def test_a_stranger_who_fails_all_the_time_keeps_no_other_address_out(limiter):
    for number in range(1000):
        limiter.note_failure(f"user-{number}", "192.0.2.7")
    assert wait_of(limiter, "ann", "192.0.2.8") == 0


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:aaaa::7", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::8", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("testclient", "testclient"),
    ],
)
def test_addresses_of_one_client_count_together(address, source):
    assert source_of(address) == source


def test_a_flood_of_names_and_addresses_takes_no_more_memory(limiter, monkeypatch):
    monkeypatch.setattr(attempts, "MOST_KEYS", 10)
    fail(limiter, "first", 6)
    for number in range(10):
        limiter.note_failure(f"user-{number}", f"address-{number}")
    assert len(limiter._names) == len(limiter._sources) == 10
    assert wait_of(limiter, "first") == 0
