# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from roost.scheduler.incremental.scales import Term, TrackedScale, part_of, weight_of
from roost.scheduler.incremental.survivors import Uncacheable
from roost.testing import make_hosts, make_spec
from roost.weighers.base import Weigher

NUMBERS = np.array([0.1, 3.0, 0.7, 1e15 / 3])


@pytest.mark.parametrize("low", [0.0, 0.1, -7.3])
@pytest.mark.parametrize("multipliers", [1.0, -1.0, 0.3, np.array([1.0, 2.0, -0.1, 3.3])])
def test_the_parts_of_many_rows_are_those_of_each_row_to_the_bit(low, multipliers):
    term = Term(0, low, 0.7, multipliers)
    expected = [weight_of([term], [number], row) for row, number in enumerate(NUMBERS.tolist())]
    assert part_of(term, NUMBERS, None).tolist() == expected
    rows = np.array([3, 1])
    assert part_of(term, NUMBERS[rows], rows).tolist() == [expected[3], expected[1]]


def test_numbers_are_left_as_they_are():
    before = NUMBERS.copy()
    part_of(Term(0, 0.0, 2.0, -1.0), NUMBERS, None)
    assert (before == NUMBERS).all()


def scale_between(low, high):
    weigher = Weigher()
    weigher.minval, weigher.maxval = low, high
    return TrackedScale(weigher, 1.0, make_hosts(1), make_spec())


@pytest.mark.parametrize(
    ("low", "high", "span"),
    [(None, None, (-1.0, 5.0)), (0, None, (0.0, 5.0)), (None, 9, (-1.0, 9.0)), (0, 9, (0.0, 9.0))],
)
def test_a_span_goes_from_the_least_to_the_most_unless_an_end_is_pinned(low, high, span):
    assert scale_between(low, high).span(np.array([2.0, -1.0, 5.0])) == span


@pytest.mark.parametrize("ends", [(None, None), (0, None), (None, 9), (0, 9)])
def test_what_is_no_number_has_no_span(ends):
    with pytest.raises(Uncacheable):
        scale_between(*ends).span(np.array([1.0, np.nan, 2.0]))
