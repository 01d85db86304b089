# SPDX-License-Identifier: Apache-2.0
"""Tie-breaks among the instances of one request against a stable sort of all hosts in every round."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.scheduler.full_scan import Term, weight_of
from roost.scheduler.incremental import order
from roost.scheduler.incremental.order import Round, TieBreaks, first_of_each_kind

NUMBER = Term(0, 0.0, 1.0, 1.0)
"""A weigher whose raw number is the weight."""


class StableSort:
    """Hosts in the order that a stable sort by weight, round after round, puts them in."""

    def __init__(self, numbers):
        self.numbers = [tuple(map(float, each)) for each in numbers]
        self.order = list(range(len(numbers)))
        self.chosen = set()
        self.sorts = 0
        self.ties = TieBreaks(self)

    @property
    def left(self):
        return len(self.order)

    def numbers_left(self):
        self.sorts += 1
        rows = sorted(self.order)
        return np.array(rows, dtype=np.intp), np.array([self.numbers[row] for row in rows], dtype=float).T

    def weigh(self, terms):
        """A round: returns rows of equal weight with their numbers, best first, tied rows in reverse order."""
        self.terms = terms
        weights = {row: weight_of(terms, self.numbers[row], row) for row in self.order}
        self.order.sort(key=lambda row: -weights[row])
        rows = sorted(self.order, reverse=True)
        return [
            [(row, self.numbers[row]) for row in rows if weights[row] == weight]
            for weight in sorted(set(weights.values()), reverse=True)
        ]

    def choose(self, numbers, stays):
        """The first host takes an instance: its numbers change, and it may be rejected from then on."""
        row = self.order[0]
        self.ties.note(Round(self.terms, row, self.numbers[row]))
        self.chosen.add(row)
        self.numbers[row] = tuple(map(float, numbers))
        if not stays:
            self.order.remove(row)


def test_a_chosen_row_counts_in_each_round_with_the_numbers_that_it_had_then():
    ties = TieBreaks()
    ties.note(Round([NUMBER], 1, (9.0,)))
    assert ties.first([(0, (5.0,)), (1, (5.0,))]) == 1
    assert ties.in_order([(2, (1.0,)), (1, (5.0,)), (0, (5.0,))]) == [0, 2]


COUNT = 8
HOSTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=COUNT, max_size=COUNT) | st.lists(
    st.sampled_from([(3, 2)] * 6 + [(3, 1), (2, 2)]), min_size=COUNT, max_size=COUNT
)
MULTIPLIERS = st.sampled_from([1.0, -1.0, 0.5]) | st.lists(
    st.sampled_from([1.0, -1.0, 2.0]), min_size=COUNT, max_size=COUNT
).map(np.array)
LOSSES = st.sampled_from([(1, 0), (1, 0), (1, 1), (0, 0), (-1, 2)])


@st.composite
def many_rounds(draw):
    """Up to several times as many rounds as hosts: multipliers stay, extremes move at times, and hosts lose room."""
    multipliers = [draw(MULTIPLIERS), draw(MULTIPLIERS)]
    spans = st.tuples(st.sampled_from([0.0, -1.0, 1.0]), st.sampled_from([1.0, 3.0]))
    rounds = []
    for _ in range(draw(st.integers(1, 5))):
        terms = [Term(at, *draw(spans), multipliers[at]) for at in draw(st.sampled_from([(), (0,), (1,), (0, 1)]))]
        losses = draw(st.lists(st.tuples(LOSSES, st.sampled_from([True] * 9 + [False])), min_size=1, max_size=12))
        rounds += [(terms, *each) for each in losses]
    return rounds


@pytest.mark.parametrize("sorting", [0, 2, 16, math.inf], ids=["always sorted", "at times", "by default", "never"])
@settings(max_examples=150)
@given(numbers=HOSTS, rounds=many_rounds())
def test_ties_are_broken_as_a_stable_sort_round_by_round_does(sorting, numbers, rounds):
    hosts = StableSort(numbers)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(order, "SORTING", sorting)
        for at, (terms, loss, stays) in enumerate(rounds):
            tied = hosts.weigh(terms)
            assert hosts.ties.first(tied[0]) == hosts.order[0]
            if at % 5 == 4:
                in_order = [row for rows in tied for row in hosts.ties.in_order(rows)]
                assert in_order == [row for row in hosts.order if row not in hosts.chosen]
            hosts.choose(np.subtract(hosts.numbers[hosts.order[0]], loss), stays)
            if not hosts.order:
                break


@pytest.mark.parametrize(("hosts", "instances"), [(40, 40), (40, 100), (40, 800)])
def test_the_work_per_instance_does_not_grow_with_the_rounds(hosts, instances, monkeypatch):
    """All hosts are equal, and each instance lowers the weight of its host; sorting pays once each has taken one."""
    weighed, fleet = 0, StableSort([(1000, 0)] * hosts)

    def count_weights(*arguments):
        nonlocal weighed
        weighed += 1
        return weight_of(*arguments)

    monkeypatch.setattr(order, "weight_of", count_weights)
    for _ in range(instances):
        tied, *_ = fleet.weigh([NUMBER])
        assert fleet.ties.first(tied) == fleet.order[0]
        fleet.choose((fleet.numbers[fleet.order[0]][0] - 1, 0), stays=True)
    assert weighed < 4 * instances
    assert (fleet.sorts > 0) is (instances > hosts)


def test_the_first_of_each_kind_stands_for_all_except_rows_kept_apart():
    columns = np.repeat([500.0, 700.0], 100), np.tile([1.0, 2.0], 100)
    found = first_of_each_kind(np.arange(200), [0, 5, 150, 999], iter(columns))
    assert sorted(found) == [0, 1, 2, 5, 100, 101, 150]
