# SPDX-License-Identifier: Apache-2.0
"""The extremes of a weigher's numbers, and the reach: a bound on what a weight gains when they move."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.scheduler.full_scan import Term, weight_of
from roost.scheduler.incremental.order import TrackedScale
from roost.scheduler.search import Uncacheable
from roost.testing import make_hosts, make_spec
from roost.weighers.base import Weigher

NUMBERS = st.integers(-2000, 2000).map(float) | st.floats(-2000, 2000).map(lambda each: round(each, 3))
SPANS = st.tuples(NUMBERS, NUMBERS).map(lambda pair: (min(pair), max(pair)))
MULTIPLIERS = st.sampled_from([1.0, -1.0, 0.0, 0.3, -2.5, 1e6, -1e6])


def make_scale(multipliers=1.0, low=None, high=None):
    weigher = type("AnyWeigher", (Weigher,), {"minval": low, "maxval": high})
    return TrackedScale(weigher(), multipliers, make_hosts(3), make_spec())


def weight_between(number, span, multiplier):
    low, high = span
    terms = [Term(0, low, high - low, multiplier)] if low != high else []
    return weight_of(terms, [number], 0)


def gains(numbers, span, reference, multipliers):
    """What the weight of each number gains when the extremes move from the reference to the span."""
    return [
        weight_between(number, span, multiplier) - weight_between(number, reference, multiplier)
        for number in numbers
        for multiplier in multipliers
    ]


@settings(max_examples=300)
@given(st.lists(NUMBERS, min_size=1, max_size=6), SPANS, st.lists(MULTIPLIERS, min_size=1, max_size=3))
def test_no_weight_exceeds_that_of_the_reference_by_more_than_the_reach(numbers, reference, multipliers):
    scale = make_scale(multipliers[0] if len(multipliers) == 1 else np.array(multipliers))
    span = min(numbers), max(numbers)
    assert max(gains(numbers, span, reference, multipliers)) <= scale.reach(span, reference)


@settings(max_examples=300)
@given(st.lists(NUMBERS, min_size=2, max_size=6), SPANS, MULTIPLIERS)
def test_the_reach_is_no_larger_than_the_gain_of_some_number(numbers, reference, multiplier):
    """A larger reach gives the same answers, slower: more hosts than necessary are weighed anew."""
    span = min(numbers), max(numbers)
    width, far = (span[1] - span[0]) or 1.0, max(abs(weight_between(number, reference, 1.0)) for number in span)
    rounding = 1e-9 * max(1.0, abs(multiplier)) * (1 + far + 2000 / width)
    needed = max(gains(span, span, reference, [multiplier]))
    assert make_scale(multiplier).reach(span, reference) <= needed + rounding


@pytest.mark.parametrize(
    ("low", "high", "span"),
    [(None, None, (-1.0, 5.0)), (0, None, (0.0, 5.0)), (None, 9, (-1.0, 9.0)), (0, 9, (0.0, 9.0))],
)
def test_a_span_of_finite_numbers_goes_from_the_smallest_to_the_largest_unless_an_end_is_pinned(low, high, span):
    scale = make_scale(1.0, low, high)
    assert scale.span(np.array([2.0, -1.0, 5.0])) == span
    with pytest.raises(Uncacheable):
        scale.span(np.array([1.0, np.nan, 2.0]))
