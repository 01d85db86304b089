# SPDX-License-Identifier: Apache-2.0
"""Ties among several instances of one request, against sorting all hosts in every round."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.scheduler.incremental import tie_breaks as rounds_module
from roost.scheduler.incremental.scales import Term, weight_of
from roost.scheduler.incremental.tie_breaks import TieBreaks

WHOLE = Term(0, 0.0, 1.0, 1.0)
"""A weigher whose number is the weight."""


class Sorting:
    """The obvious way: the order of each round is that of the round before, sorted by the weights of now."""

    def __init__(self, numbers):
        self.numbers = [tuple(map(float, each)) for each in numbers]
        self.order = list(range(len(numbers)))
        self.chosen = set()
        self.rounds = TieBreaks()

    def weigh(self, terms):
        self.terms = terms
        self.weights = {row: weight_of(terms, self.numbers[row], row) for row in self.order}
        self.order.sort(key=lambda row: -self.weights[row])

    def groups(self):
        """Rows of equal weight with their numbers, best first, in no particular order among themselves."""
        weights = sorted(set(self.weights.values()), reverse=True)
        return [
            [(row, self.numbers[row]) for row in sorted(self.order, reverse=True) if self.weights[row] == weight]
            for weight in weights
        ]

    def choose(self, now, stays):
        """The first takes an instance, which changes its numbers, and may fall out by that."""
        row = self.order[0]
        self.rounds.note(self.terms, row, self.numbers[row])
        self.chosen.add(row)
        self.numbers[row] = tuple(map(float, now))
        if not stays:
            self.order.remove(row)


def test_before_any_round_the_first_row_is_first():
    assert TieBreaks().first([(4, (1.0,)), (2, (7.0,)), (3, (1.0,))]) == 2


def test_of_rows_that_were_never_told_apart_the_first_row_is_first():
    rounds = TieBreaks()
    rounds.note([WHOLE], 0, (9.0,))
    assert rounds.first([(3, (1.0,)), (2, (1.0,))]) == 2


def test_the_better_one_of_the_round_before_is_first():
    rounds = TieBreaks()
    rounds.note([WHOLE], 0, (9.0,))
    assert rounds.first([(1, (1.0,)), (2, (3.0,)), (3, (2.0,))]) == 2


def test_the_latest_round_that_told_them_apart_decides():
    rounds = TieBreaks()
    rounds.note([Term(0, 0.0, 1.0, 1.0)], 0, (9.0, 9.0))
    rounds.note([Term(1, 0.0, 1.0, 1.0)], 0, (9.0, 9.0))
    assert rounds.first([(1, (5.0, 1.0)), (2, (1.0, 5.0))]) == 2


def test_rows_that_a_later_round_did_not_tell_apart_are_settled_by_the_one_before():
    rounds = TieBreaks()
    rounds.note([Term(0, 0.0, 1.0, 1.0)], 0, (9.0, 9.0))
    rounds.note([Term(1, 0.0, 1.0, 1.0)], 0, (9.0, 9.0))
    assert rounds.first([(1, (1.0, 4.0)), (2, (5.0, 4.0))]) == 2


def test_a_chosen_row_counts_in_each_round_with_the_numbers_that_it_had_then():
    rounds = TieBreaks()
    rounds.note([WHOLE], 1, (9.0,))
    assert rounds.first([(0, (5.0,)), (1, (5.0,))]) == 1


def test_after_it_was_chosen_a_row_counts_with_its_numbers_of_now():
    rounds = TieBreaks()
    rounds.note([WHOLE], 1, (9.0,))
    rounds.note([WHOLE], 2, (7.0,))
    assert rounds.first([(0, (5.0,)), (1, (4.0,))]) == 0


def test_a_row_that_was_chosen_twice_counts_with_what_it_had_each_time():
    rounds = TieBreaks()
    rounds.note([WHOLE], 1, (9.0,))
    rounds.note([WHOLE], 1, (6.0,))
    assert rounds.first([(0, (7.0,)), (1, (3.0,))]) == 0
    assert rounds.first([(0, (6.0,)), (1, (3.0,))]) == 1


def test_a_round_that_weighed_nothing_tells_nobody_apart():
    rounds = TieBreaks()
    rounds.note([WHOLE], 9, (9.0,))
    rounds.note([], 9, (9.0,))
    assert rounds.first([(0, (1.0,)), (1, (2.0,))]) == 1


def test_the_multiplier_of_each_host_counts():
    rounds = TieBreaks()
    rounds.note([Term(0, 0.0, 1.0, np.array([1.0, 3.0, 2.0, 0.0]))], 3, (9.0,))
    assert rounds.first([(0, (1.0,)), (1, (1.0,)), (2, (1.0,))]) == 1


def test_in_order_leaves_out_those_that_were_chosen():
    rounds = TieBreaks()
    rounds.note([WHOLE], 1, (9.0,))
    assert rounds.in_order([(2, (4.0,)), (1, (4.0,)), (0, (4.0,))]) == [0, 2]


def test_in_order_goes_by_the_rounds_and_then_by_the_rows():
    rounds = TieBreaks()
    rounds.note([WHOLE], 9, (9.0,))
    assert rounds.in_order([(3, (4.0,)), (2, (1.0,)), (1, (4.0,)), (0, (1.0,))]) == [1, 3, 0, 2]


def test_in_order_counts_the_multiplier_of_each_host():
    rounds = TieBreaks()
    rounds.note([Term(0, 0.0, 1.0, np.array([1.0, 3.0, 2.0, 0.0]))], 3, (9.0,))
    assert rounds.in_order([(0, (1.0,)), (1, (1.0,)), (2, (1.0,))]) == [1, 2, 0]


def test_of_no_rows_none_are_in_order():
    assert TieBreaks().in_order([]) == []


COUNT = 8
NUMBERS = st.tuples(st.integers(0, 3), st.integers(0, 2))
MULTIPLIERS = st.sampled_from([1.0, -1.0, 0.5]) | st.lists(
    st.sampled_from([1.0, -1.0, 2.0]), min_size=COUNT, max_size=COUNT
).map(np.array)


@st.composite
def several_rounds(draw):
    """As in a request: multipliers stay the same, extremes move."""
    multipliers = [draw(MULTIPLIERS), draw(MULTIPLIERS)]
    spans = st.tuples(st.integers(-1, 1).map(float), st.sampled_from([0.0, 1.0, 3.0]))
    rounds = []
    for _ in range(draw(st.integers(1, 6))):
        found = [(at, *draw(spans), multipliers[at]) for at in (0, 1)]
        rounds.append(([Term(*each) for each in found if each[2]], draw(NUMBERS), draw(st.booleans())))
    return rounds


@settings(max_examples=400)
@given(st.lists(NUMBERS, min_size=COUNT, max_size=COUNT), several_rounds())
def test_ties_are_settled_as_sorting_round_by_round_does(numbers, rounds):
    hosts = Sorting(numbers)
    for terms, now, stays in rounds:
        hosts.weigh(terms)
        best, *_ = hosts.groups()
        assert hosts.rounds.first(best) == hosts.order[0]
        in_order = [row for group in hosts.groups() for row in hosts.rounds.in_order(group)]
        assert in_order == [row for row in hosts.order if row not in hosts.chosen]
        hosts.choose(now, stays)
        if not hosts.order:
            break


@pytest.mark.parametrize("count", [2, 50])
def test_many_equal_hosts_are_first_come_first_served(count):
    rounds = TieBreaks()
    rounds.note([WHOLE], 0, (4.0,))
    tied = [(row, (4.0,)) for row in range(count, 0, -1)]
    assert (rounds.first(tied), rounds.in_order(tied)) == (1, list(range(1, count + 1)))


# --- sorting instead of following back ---------------------------------------------------------------


class SortedAtTimes(Sorting):
    """The same with rounds that may sort everybody, which they must not be found out by."""

    def __init__(self, numbers):
        super().__init__(numbers)
        self.rounds = TieBreaks(self)
        self.sorted = 0

    @property
    def left(self):
        return len(self.order)

    def standings(self):
        self.sorted += 1
        rows = sorted(self.order)
        return np.array(rows, dtype=np.intp), np.array([self.numbers[row] for row in rows], dtype=float).T


@st.composite
def many_rounds(draw):
    """More rounds than hosts; extremes stay for a while, and most hosts that are chosen lose a little each time."""
    multipliers = [draw(MULTIPLIERS), draw(MULTIPLIERS)]
    spans = st.tuples(st.sampled_from([0.0, -1.0]), st.sampled_from([1.0, 3.0]))
    rounds = []
    for _ in range(draw(st.integers(1, 5))):
        terms = [Term(at, *draw(spans), multipliers[at]) for at in draw(st.sampled_from([(), (0,), (1,), (0, 1)]))]
        for _ in range(draw(st.integers(1, 12))):
            loss = draw(st.sampled_from([(1, 0), (1, 0), (1, 1), (0, 0), (-1, 2)]))
            rounds.append((terms, loss, draw(st.sampled_from([True] * 9 + [False]))))
    return rounds


NEARLY_EQUAL = st.lists(st.sampled_from([(3, 2)] * 6 + [(3, 1), (2, 2)]), min_size=COUNT, max_size=COUNT)


@pytest.mark.parametrize("sorting", [0, 2, 16], ids=["always sorted", "at times", "as in service"])
@settings(max_examples=200)
@given(numbers=NEARLY_EQUAL, rounds=many_rounds())
def test_ties_are_settled_alike_whenever_all_are_sorted(sorting, numbers, rounds):
    hosts = SortedAtTimes(numbers)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rounds_module, "SORTING", sorting)
        for at, (terms, loss, stays) in enumerate(rounds):
            hosts.weigh(terms)
            best, *_ = hosts.groups()
            assert hosts.rounds.first(best) == hosts.order[0]
            if at % 5 == 4:
                in_order = [row for group in hosts.groups() for row in hosts.rounds.in_order(group)]
                assert in_order == [row for row in hosts.order if row not in hosts.chosen]
            hosts.choose(np.subtract(hosts.numbers[hosts.order[0]], loss), stays)
            if not hosts.order:
                break


def place_on_equal_hosts(count, instances):
    """All hosts alike, and each instance makes its host a little worse."""
    hosts = SortedAtTimes([(1000, 0)] * count)
    for _ in range(instances):
        hosts.weigh([WHOLE])
        best, *_ = hosts.groups()
        assert hosts.rounds.first(best) == hosts.order[0]
        first, second = hosts.numbers[hosts.order[0]]
        hosts.choose((first - 1, second), stays=True)
    return hosts


def test_few_equal_hosts_are_followed_back():
    assert place_on_equal_hosts(2, 20).sorted == 0


def test_many_equal_hosts_are_sorted_once_each_of_them_was_chosen():
    """Until then the first row is first. When all were chosen the last one is: it was the best a round ago."""
    assert place_on_equal_hosts(60, 60).sorted == 0
    assert place_on_equal_hosts(60, 6 * 60).sorted <= 10


def test_how_much_is_looked_at_for_an_instance_does_not_grow_with_the_rounds(monkeypatch):
    looked_at = 0

    def counting(*arguments):
        nonlocal looked_at
        looked_at += 1
        return weight_of(*arguments)

    monkeypatch.setattr(rounds_module, "weight_of", counting)
    for instances in (100, 800):
        looked_at = 0
        place_on_equal_hosts(40, instances)
        assert looked_at < 4 * instances


def test_who_was_chosen_before_all_were_sorted_is_no_longer_apart(monkeypatch):
    monkeypatch.setattr(rounds_module, "SORTING", 0)
    hosts = SortedAtTimes([(2, 0), (2, 0), (1, 0)])
    for _ in range(2):
        hosts.weigh([WHOLE])
        hosts.choose((1, 0), stays=True)
    assert (set(hosts.rounds.changed), hosts.rounds.order) == ({0, 1}, None)
    hosts.weigh([WHOLE])
    assert hosts.rounds.first(hosts.groups()[0]) == 1
    assert (set(hosts.rounds.changed), hosts.rounds.order.tolist()) == (set(), [1, 0, 2])


def test_rows_that_fell_out_have_no_place(monkeypatch):
    monkeypatch.setattr(rounds_module, "SORTING", 0)
    hosts = SortedAtTimes([(2, 0), (1, 0), (1, 1)])
    hosts.weigh([WHOLE])
    hosts.choose((9, 0), stays=False)
    hosts.weigh([WHOLE])
    assert hosts.rounds.first(hosts.groups()[0]) == 1
    assert hosts.rounds.order.tolist() == [1, 2]
