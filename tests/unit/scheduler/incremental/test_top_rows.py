# SPDX-License-Identifier: Apache-2.0
"""The first rows of an order, against all rows sorted."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.scheduler.incremental import top_rows as leaders_module
from roost.scheduler.incremental.top_rows import AFTER_ALL, BEFORE_ALL, TopRows

KEYS = st.sampled_from([-2.5, -1.0, 0.0, 0.0, 1.0, 1.0, 3.0]) | st.integers(-3, 3).map(float)
ABSENT = math.inf


def filled(keys, size):
    leaders = TopRows()
    leaders.fill(np.array(keys, dtype=float), size)
    return leaders


def in_order(keys):
    """The obvious way: all that are there, sorted by key, of equal ones the first rows first."""
    return sorted((key, row) for row, key in enumerate(keys) if key < ABSENT)


def put_many(leaders, changes):
    rows = np.array(list(changes), dtype=np.intp)
    positions = {row: at for at, row in enumerate(changes)}
    leaders.put_many(positions, rows, np.array(list(changes.values()), dtype=float))


def check(leaders, keys):
    """The entries are the first ones of all, and nobody else comes before the bound."""
    everybody = in_order(keys)
    assert leaders.entries == everybody[: len(leaders.entries)]
    assert all(entry <= leaders.bound for entry in leaders.entries)
    assert all(entry > leaders.bound for entry in everybody[len(leaders.entries) :])
    assert [row for row in range(len(keys)) if row in leaders] == sorted(row for _, row in leaders.entries)


# --- filling -----------------------------------------------------------------------------------------


def test_new_leaders_hold_nobody_and_know_of_nobody():
    leaders = TopRows()
    assert (leaders.entries, leaders.bound, 0 in leaders) == ([], BEFORE_ALL, False)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 15, 16, 17, 18, 33, 100])
def test_a_fill_of_any_size_holds_the_smallest_keys_and_of_equal_ones_the_first_rows(size):
    keys = [float(row * 7 % 5) for row in range(40)]
    assert filled(keys, size).entries == in_order(keys)[:size]


@pytest.mark.parametrize("size", [2, 20])
def test_a_fill_holds_no_row_with_an_infinite_key(size):
    keys = [ABSENT, 2.0, ABSENT, 1.0] + [ABSENT] * 30
    assert filled(keys, size).entries == [(1.0, 3), (2.0, 1)]


@pytest.mark.parametrize("size", [1, 8, 20])
def test_where_all_keys_are_infinite_nobody_is_held_and_nobody_is_missing(size):
    leaders = filled([ABSENT] * 30, size)
    assert (leaders.entries, leaders.bound) == ([], AFTER_ALL)


def test_a_fill_gives_back_who_is_held_best_first():
    assert TopRows().fill(np.array([5.0, 1.0, 3.0, 1.0]), 3).tolist() == [1, 3, 2]


@pytest.mark.parametrize("size", [1, 3, 20])
def test_a_fill_leaves_the_keys_as_they_are(size):
    keys = np.array([5.0, 1.0, 3.0, 1.0] * 8)
    before = keys.copy()
    TopRows().fill(keys, size)
    assert keys.tolist() == before.tolist()


@pytest.mark.parametrize("size", [4, 5, 100])
def test_where_all_are_held_whoever_gets_a_worse_key_stays(size):
    leaders = filled([1.0, ABSENT, 3.0, 2.0], size)
    assert leaders.bound == AFTER_ALL
    assert leaders.put(0, 9.0)
    assert leaders.entries == [(2.0, 3), (3.0, 2), (9.0, 0)]


def test_a_second_fill_forgets_the_first():
    leaders = filled([1.0, 2.0, 3.0], 2)
    leaders.fill(np.array([9.0, 8.0, 7.0]), 1)
    assert (leaders.entries, 0 in leaders, leaders.size) == ([(7.0, 2)], False, 1)


@given(st.lists(KEYS | st.just(ABSENT), min_size=1, max_size=60), st.integers(1, 40))
def test_after_a_fill_nobody_outside_comes_before_the_bound(keys, size):
    leaders = filled(keys, size)
    check(leaders, keys)
    assert len(leaders.entries) == min(size, len(in_order(keys)))


def test_the_first_row_is_known_and_an_empty_list_starts_with_anybody():
    leaders = filled([2.0, 1.0], 2)
    assert [leaders.starts_with(row) for row in (0, 1)] == [False, True]
    assert TopRows().starts_with(0)


# --- one change --------------------------------------------------------------------------------------


def test_a_row_that_comes_before_the_bound_is_taken_in():
    leaders = filled([1.0, 2.0, 3.0, 4.0], 2)
    assert leaders.put(3, 1.5)
    assert leaders.entries == [(1.0, 0), (1.5, 3), (2.0, 1)]


def test_a_row_after_the_bound_is_not_taken_in():
    leaders = filled([1.0, 2.0, 3.0, 4.0], 2)
    assert not leaders.put(3, 2.5)
    assert leaders.entries == [(1.0, 0), (2.0, 1)]


def test_a_held_row_that_falls_behind_the_bound_is_let_go():
    leaders = filled([1.0, 2.0, 3.0, 4.0], 2)
    assert not leaders.put(0, 2.5)
    assert (leaders.entries, 0 in leaders) == ([(2.0, 1)], False)


@pytest.mark.parametrize(("row", "is_held"), [(0, True), (2, False)])
def test_of_rows_with_the_key_of_the_bound_only_earlier_ones_are_taken_in(row, is_held):
    leaders = filled([9.0, 2.0, 9.0], 1)
    assert leaders.put(row, 2.0) is is_held


def test_a_row_that_keeps_its_key_stays_where_it_is():
    leaders = filled([1.0, 2.0, 3.0], 2)
    assert leaders.put(1, 2.0)
    assert leaders.entries == [(1.0, 0), (2.0, 1)]


def test_a_row_that_was_let_go_may_come_back():
    leaders = filled([1.0, 2.0, 3.0], 2)
    leaders.put(0, 9.0)
    assert leaders.put(0, 0.5)
    assert leaders.entries == [(0.5, 0), (2.0, 1)]


def test_a_dropped_row_is_gone_and_the_bound_stays():
    leaders = filled([1.0, 2.0, 3.0], 2)
    leaders.drop(1)
    assert (leaders.entries, leaders.bound, 1 in leaders) == ([(1.0, 0)], (2.0, 1), False)


def test_dropping_a_row_that_is_not_held_changes_nothing():
    leaders = filled([1.0, 2.0, 3.0], 2)
    leaders.drop(2)
    assert leaders.entries == [(1.0, 0), (2.0, 1)]


# --- trimming ----------------------------------------------------------------------------------------


def test_twice_the_size_is_held_before_anybody_is_let_go():
    leaders = filled([5.0] * 6, 2)
    leaders.put(4, 1.0)
    leaders.put(5, 2.0)
    assert leaders.entries == [(1.0, 4), (2.0, 5), (5.0, 0), (5.0, 1)]


def test_one_more_than_twice_the_size_is_trimmed_to_the_size_with_the_bound_at_the_last():
    leaders = filled([5.0] * 6, 2)
    for row, key in ((3, 3.0), (4, 1.0), (5, 2.0)):
        leaders.put(row, key)
    assert (leaders.entries, leaders.bound) == ([(1.0, 4), (2.0, 5)], (2.0, 5))
    assert not any(row in leaders for row in (0, 1, 3))


def test_a_row_that_is_trimmed_as_it_comes_in_is_not_held():
    leaders = filled([5.0] * 6, 1)
    leaders.put(0, 4.0)
    leaders.put(3, 1.0)
    assert leaders.put(4, 3.0) is False
    assert (leaders.entries, 4 in leaders) == ([(1.0, 3)], False)


def test_many_that_come_in_together_are_trimmed_too():
    leaders = filled([50.0] * 100, 2)
    put_many(leaders, {row: float(row - 60) for row in range(60, 100)})
    assert (leaders.entries, leaders.bound) == ([(0.0, 60), (1.0, 61)], (1.0, 61))


# --- many changes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("few", [0, 1000])
def test_many_changes_together_take_in_and_let_go(few, monkeypatch):
    monkeypatch.setattr(leaders_module, "FEW", few)
    leaders = filled([1.0, 2.0, 3.0, 4.0, 5.0], 3)
    put_many(leaders, {0: 9.0, 1: 2.5, 3: 0.5, 4: 3.5})
    assert leaders.entries == [(0.5, 3), (2.5, 1), (3.0, 2)]


def test_before_the_first_fill_nobody_is_taken_in():
    leaders = TopRows()
    leaders.put(0, -1e300)
    put_many(leaders, {1: -1e300, 2: 0.0})
    assert leaders.entries == []


OPERATIONS = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 39), KEYS),
    st.tuples(st.just("drop"), st.integers(0, 39), st.none()),
    st.tuples(st.just("put_many"), st.dictionaries(st.integers(0, 39), KEYS, min_size=1, max_size=40), st.none()),
    st.tuples(st.just("fill"), st.integers(1, 40), st.none()),
)


@settings(max_examples=200)
@given(
    st.lists(KEYS | st.just(ABSENT), min_size=40, max_size=40),
    st.integers(1, 24),
    st.lists(OPERATIONS, max_size=25),
    st.sampled_from([0, 3, 32]),
)
def test_whatever_happens_the_entries_are_the_first_of_all_rows(keys, size, operations, few):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(leaders_module, "FEW", few)
        leaders = filled(keys, size)
        for name, what, key in operations:
            if name == "put":
                keys[what] = key
                assert leaders.put(what, key) is (what in leaders)
            elif name == "drop":
                keys[what] = ABSENT
                leaders.drop(what)
            elif name == "put_many":
                for row, each in what.items():
                    keys[row] = each
                put_many(leaders, what)
            else:
                leaders.fill(np.array(keys), what)
            check(leaders, keys)
            assert len(leaders.entries) <= 2 * leaders.size
