# SPDX-License-Identifier: Apache-2.0
"""The wait after failed sign-ins, by a clock that is turned by hand."""

from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice

import pytest
from tests.clocks import HandClock

from roost.errors import TooManyAttempts
from roost.records import sign_in
from roost.records.sign_in import AttemptLimiter, source_of


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def limiter(clock):
    return AttemptLimiter(clock)


def wait_of(limiter, name, source=""):
    try:
        limiter.begin(name, source)
    except TooManyAttempts as error:
        return error.retry_after_seconds
    limiter.settle(name, source)
    return 0.0


@pytest.fixture
def fail(limiter, clock):
    """Fails as often, with the waits that are asked for."""

    def fail(name, times=1, source=""):
        for _ in range(times):
            clock.seconds += wait_of(limiter, name, source)
            limiter.begin(name, source)
            limiter.settle(name, source, False)

    return fail


def test_five_failures_begin_a_wait_that_doubles_up_to_a_minute(limiter, fail):
    fail("ann", 4)
    assert wait_of(limiter, "ann") == 0
    waits = []
    for _ in range(8):
        fail("ann")
        waits.append(wait_of(limiter, "ann"))
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_the_wait_ends(limiter, clock, fail):
    fail("ann", 6)
    clock.seconds += 1.5
    assert wait_of(limiter, "ann") == 0.5
    clock.seconds += 0.5
    assert wait_of(limiter, "ann") == 0


def test_others_need_not_wait(limiter, fail):
    fail("ann", 20)
    assert wait_of(limiter, "bob") == 0


def test_a_success_forgives_the_failures_of_that_name_alone(limiter, clock, fail):
    fail("ann", 6)
    clock.seconds += 2
    fail("bob", 6)
    limiter.begin("ann")
    limiter.settle("ann", is_success=True)
    fail("ann")
    assert (wait_of(limiter, "ann"), wait_of(limiter, "bob")) == (0, 2)


def test_what_was_neither_right_nor_wrong_changes_nothing(limiter, fail):
    """The database was away."""
    fail("ann", 4)
    limiter.begin("ann")
    limiter.settle("ann")
    fail("ann")
    assert wait_of(limiter, "ann") == 1


@pytest.fixture
def begin_eight(limiter):
    """Eight attempts that begin at once: names of the first five, which do, and the others, which wait for them."""
    with ThreadPoolExecutor(8) as threads:

        def begin_eight(*names):
            sign_in = {threads.submit(wait_to_begin, limiter, name): name for name in names}
            first = list(islice(as_completed(sign_in, 10), 5))
            assert [each.result() for each in first] == [None] * 5
            return [sign_in.pop(each) for each in first], list(sign_in)

        yield begin_eight


def wait_to_begin(limiter, name):
    """None, or how long the attempt has to wait."""
    try:
        return limiter.begin(name, "192.0.2.7")
    except TooManyAttempts as error:
        return error.retry_after_seconds


def test_guesses_of_the_same_moment_are_no_more_than_one_after_another(limiter, begin_eight):
    """D42: all eight were let in, before the first had failed."""
    begun, others = begin_eight(*["ann"] * 8)
    for name in begun:
        limiter.settle(name, "192.0.2.7", False)
    assert [each.result(10) for each in others] == [1, 1, 1]


def test_guesses_of_the_same_moment_from_one_address_are_counted_too(limiter, begin_eight, monkeypatch):
    """D42: with a name each."""
    monkeypatch.setattr(limiter._sources, "_patience", sign_in.OF_ONE_NAME)
    begun, others = begin_eight(*[f"user-{number}" for number in range(8)])
    for name in begun:
        limiter.settle(name, "192.0.2.7", False)
    assert [each.result(10) for each in others] == [1, 1, 1]


def test_who_is_right_many_times_at_once_never_has_to_wait(limiter, begin_eight):
    """D42: an attempt that is under way counts as a failure only until it is none."""
    begun, others = begin_eight(*["ann"] * 8)
    for name in begun:
        limiter.settle(name, "192.0.2.7", True)
    assert [each.result(10) for each in others] == [None, None, None]


def test_failures_are_forgotten_after_a_quarter_of_an_hour(limiter, clock, fail):
    fail("ann", 30)
    clock.seconds += sign_in.FORGET_SECONDS
    fail("ann")
    assert wait_of(limiter, "ann") == 0


def test_many_names_from_one_address_make_it_wait_a_little(limiter, fail):
    for number in range(100):
        fail(f"user-{number}", source="192.0.2.7")
    assert wait_of(limiter, "ann", "192.0.2.7") == 1
    for number in range(100):
        fail(f"user-{number}", source="192.0.2.7")
    assert wait_of(limiter, "ann", "192.0.2.7") == 4


def test_a_stranger_who_fails_all_the_time_keeps_no_other_address_out(limiter, fail):
    for number in range(1000):
        fail(f"user-{number}", source="192.0.2.7")
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


def test_a_flood_of_names_and_addresses_takes_no_more_memory(limiter, fail, monkeypatch):
    monkeypatch.setattr(sign_in, "MOST_KEYS", 10)
    fail("first", 6)
    for number in range(10):
        fail(f"user-{number}", source=f"address-{number}")
    assert len(limiter._names) == len(limiter._sources) == 10
    assert (limiter._names.under_way, limiter._sources.under_way) == ({}, {})
    assert wait_of(limiter, "first") == 0
