# SPDX-License-Identifier: Apache-2.0
"""Positions in numbered tables: what was read, with its gaps, in one line of text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.errors import BadInput
from roost.store.change_log import MOST_GAPS, ReadPosition


def after(*numbers):
    position = ReadPosition()
    for each in numbers:
        position = position.after(each)
    return position


def test_a_gap_is_missing_until_its_number_is_read():
    assert after(1, 2, 5).missing == {3, 4}
    assert after(1, 2, 5, 3) == ReadPosition(5, frozenset({4}))
    assert [number for number in range(1, 8) if after(1, 2, 5, 3).has(number)] == [1, 2, 3, 5]


def test_a_gap_that_is_given_up_counts_as_read():
    assert after(1, 4).without([2, 3]) == ReadPosition(4)


def test_the_text_has_the_highest_number_and_the_distances_of_the_gaps():
    assert str(after(1, 2, 5, 8)) == "8-1-2-4-5"
    assert str(ReadPosition()) == "0"


def test_of_a_wide_gap_the_latest_numbers_are_missing():
    position = after(1, 10**15)
    assert len(position.missing) == MOST_GAPS
    assert max(position.missing) == 10**15 - 1


@given(st.lists(st.integers(1, 10_000), unique=True, max_size=50))
def test_a_position_survives_being_written_down(numbers):
    assert ReadPosition.parse(str(after(*numbers))) == after(*numbers)


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "5-0", "5-5", "5--1", "9" * 20, "5-", "\u0665", "9" + "-1" * (MOST_GAPS + 1)]
)
def test_another_text_is_refused(text):
    with pytest.raises(BadInput):
        ReadPosition.parse(text)
