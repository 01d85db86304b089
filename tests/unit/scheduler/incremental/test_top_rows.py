# SPDX-License-Identifier: Apache-2.0
"""The top rows against all rows in a sorted list."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.scheduler.incremental import order
from roost.scheduler.incremental.order import AFTER_ALL, TopRows

KEYS = st.sampled_from([-2.5, -1.0, 0.0, 0.0, 1.0, 1.0, 3.0]) | st.integers(-3, 3).map(float)
ABSENT = math.inf


def filled(keys, size):
    top = TopRows()
    top.fill(np.array(keys, dtype=float), size)
    return top


def put_many(top, changes):
    rows = np.array(list(changes), dtype=np.intp)
    top.put_many({row: at for at, row in enumerate(changes)}, rows, np.array(list(changes.values()), dtype=float))


def sorted_entries(keys):
    """All rows with a finite key by key, of equal keys the first rows first."""
    return sorted((key, row) for row, key in enumerate(keys) if key < ABSENT)


def check_invariants(top, keys):
    """The entries are the first of all, each at most the bound, and all others come after it."""
    expected = sorted_entries(keys)
    assert top.entries == expected[: len(top.entries)]
    assert all(entry <= top.bound for entry in top.entries)
    assert all(entry > top.bound for entry in expected[len(top.entries) :])
    assert [row for row in range(len(keys)) if row in top] == sorted(row for _, row in top.entries)
    assert len(top.entries) <= 2 * top.size


@given(st.lists(KEYS | st.just(ABSENT), min_size=1, max_size=60), st.integers(1, 40))
def test_a_fill_holds_the_smallest_keys_and_of_equal_ones_the_first_rows(keys, size):
    top, expected = filled(keys, size), sorted_entries(keys)
    check_invariants(top, keys)
    assert top.entries == expected[:size]
    assert top.bound == AFTER_ALL or len(expected) >= size
    assert all(top.starts_with(row) == (not expected or expected[0][1] == row) for row in range(len(keys)))


CHANGES = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 39), KEYS),
    st.tuples(st.just("drop"), st.integers(0, 39), st.none()),
    st.tuples(st.just("put_many"), st.dictionaries(st.integers(0, 39), KEYS, min_size=1, max_size=40), st.none()),
    st.tuples(st.just("fill"), st.integers(1, 40), st.none()),
)


@settings(max_examples=200)
@given(
    keys=st.lists(KEYS | st.just(ABSENT), min_size=40, max_size=40),
    size=st.integers(1, 24),
    changes=st.lists(CHANGES, max_size=25),
    few=st.sampled_from([0, 3, 32]),
)
def test_after_any_changes_the_entries_are_the_first_of_a_sorted_list(keys, size, changes, few):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(order, "FEW", few)
        top = filled(keys, size)
        for name, what, key in changes:
            if name == "put":
                keys[what] = key
                assert top.put(what, key) is (what in top)
            elif name == "drop":
                keys[what] = ABSENT
                top.drop(what)
            elif name == "put_many":
                for row, each in what.items():
                    keys[row] = each
                put_many(top, what)
            else:
                top.fill(np.array(keys), what)
            check_invariants(top, keys)


@pytest.mark.parametrize("is_bulk", [False, True])
def test_more_than_twice_the_size_is_trimmed_to_the_size_with_the_bound_at_the_last(is_bulk, monkeypatch):
    monkeypatch.setattr(order, "FEW", 0 if is_bulk else 32)
    top = filled([5.0] * 6, 2)
    put_many(top, {4: 1.0, 5: 2.0})
    assert top.entries == [(1.0, 4), (2.0, 5), (5.0, 0), (5.0, 1)]
    put_many(top, {3: 3.0})
    assert (top.entries, top.bound) == ([(1.0, 4), (2.0, 5)], (2.0, 5))
    assert [top.put(5, key) for key in (9.0, 2.0)] == [False, True]
