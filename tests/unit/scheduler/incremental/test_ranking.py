# SPDX-License-Identifier: Apache-2.0
"""The order that is kept and patched, against weighing and sorting all hosts, to the bit."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.filters.compute import ComputeFilter
from roost.hosts import Hosts
from roost.model.decision import Scores
from roost.scheduler import Pipeline
from roost.scheduler.incremental import ranking as ranking_module
from roost.scheduler.incremental.ranking import Ranking
from roost.scheduler.incremental.scales import Term, TrackedScale, weight_of
from roost.scheduler.incremental.survivors import SurvivorsOfAnySize, SurvivorsOfOneSize, Uncacheable
from roost.scheduler.weighing import weigh
from roost.testing import make_hosts, make_spec
from roost.weighers.balance import BalanceWeigher
from roost.weighers.base import Weigher
from roost.weighers.best_fit import BestFitWeigher
from roost.weighers.build_failure import BuildFailureWeigher
from roost.weighers.cross_cell import CrossCellWeigher
from roost.weighers.hypervisor_version import HypervisorVersionWeigher
from roost.weighers.num_instances import NumInstancesWeigher
from roost.weighers.ram import RAMWeigher
from roost.weighers.server_group import ServerGroupSoftAffinityWeigher

PIPELINE = Pipeline([ComputeFilter()], [])
SPEC = make_spec(vcpus=1, memory_mb=1024)


def by(weigher, multiplier):
    return weigher(weigher.Options(**{weigher.multiplier_option: multiplier}))


class CappedIo(Weigher):
    """A scale with both ends fixed; higher means busier."""

    minval, maxval = 1, 4
    column = "num_io_ops"
    reads = frozenset({column})

    def multiplier(self):
        return -0.7


class RootOfMemory(Weigher):
    """Somebody's own, no number where less than nothing is free; higher means more room."""

    reads = frozenset({"free_ram_mb"})

    def weigh(self, hosts, spec):
        return np.where(hosts.free_ram_mb < 0, math.nan, np.sqrt(np.abs(hosts.free_ram_mb)))


class Ranked:
    """A fleet whose survivors are ranked: all that are up, and some of them that have room besides."""

    def __init__(self, weighers, spec=SPEC, count=30, **columns):
        self.weighers, self.spec = weighers, spec
        names = [f"h{row:03}" for row in range(count)]
        roomy = {"vcpus_total": 64, "total_usable_ram_mb": 65536}
        self.table = make_hosts(**({"host": names} | roomy | columns))
        for column in self.table.numbers:
            self.table.writable_column(column)  # a column that is replaced is for the family to notice
        self.table.writable_column("allocated:MEMORY_MB")[:] = 0
        checks = PIPELINE.checks(self.table, spec, 0)
        others = [check for check in checks if not check.is_about_room]
        self.all = SurvivorsOfAnySize(self.table, others)
        self.some = SurvivorsOfOneSize(self.all, checks, spec.amounts)
        self.ranking = Ranking(self.all, weighers, spec)

    def change(self, *changes):
        """(row, column, value), all at once, and everybody is told."""
        touched = {}
        for row, column, value in changes:
            self.table.writable_column(column)[row] = value
            touched[row] = touched.get(row, frozenset()) | {column}
        self.follow(touched)

    def follow(self, touched):
        moved = self.all.recheck(touched)
        self.some.recheck(touched)
        self.ranking.update(touched, moved)

    def plainly(self, who):
        """The obvious way: weigh these hosts, and sort."""
        rows = who.passed()
        weights = weigh_always(Hosts(self.table, rows, {}), self.weighers, self.spec)
        order = np.argsort(-weights, kind="stable")
        return [(-weights.item(at), rows.item(at)) for at in order]

    def check(self, count, who):
        found = self.ranking.best(count, who)
        if found is None:
            assert who is self.some, "the leaders of all hosts cannot tell about all hosts"
        else:
            assert found == self.plainly(who)[:count]
        return found is not None


def weigh_always(hosts, weighers, spec):
    """`weigh` leaves out a single host, whose weight says nothing; it has one here."""
    if len(hosts) != 1:
        return weigh(hosts, weighers, spec).weights
    twice = Hosts(hosts.table, np.repeat(hosts.rows, 2), {})
    return weigh(twice, weighers, spec).weights[:1]


def test_extremes_are_followed_to_whoever_has_them_now():
    fleet = Ranked([by(RAMWeigher, 1.0), by(NumInstancesWeigher, -1.0)], count=4, free_ram_mb=[9, 7, 5, 3])
    for row, column, value in (
        (2, "free_ram_mb", 20),  # somebody else is the end
        (2, "free_ram_mb", 4),  # the end falls back
        (1, "num_instances", 6),
        (1, "num_instances", 0),
        (0, "is_up", False),  # the end is out
        (0, "is_up", True),
        (3, "free_ram_mb", 3),  # nothing that matters
    ):
        assert fleet.check(3, fleet.all)
        fleet.change((row, column, value))
    assert fleet.check(3, fleet.all)


def test_extremes_of_some_are_not_taken_for_those_of_all():
    fleet = Ranked([by(RAMWeigher, 1.0), by(NumInstancesWeigher, -1.0)], count=4, free_ram_mb=[9, 7, 5, 3])
    fleet.change((0, "allocated:MEMORY_MB", 65000))
    for who in (fleet.all, fleet.some, fleet.all, fleet.some, fleet.all):
        assert fleet.check(2, who)


@pytest.fixture
def holds_few(monkeypatch):
    monkeypatch.setattr(ranking_module, "FEWEST_TOP_ROWS", 2)
    monkeypatch.setattr(ranking_module, "FEWEST_EXTREMES", 1)


AGGREGATES = ([], [{"ram_weight_multiplier": "-2.5"}], [{"ram_weight_multiplier": "0.5"}], [])
WEIGHERS = {
    "spreading": lambda: [by(RAMWeigher, 1.0)],
    "packing": lambda: [by(RAMWeigher, -1.0), by(NumInstancesWeigher, -0.3)],
    "a large one and a small one": lambda: [BuildFailureWeigher(), by(RAMWeigher, 1.0)],
    "without bounds": lambda: [by(NumInstancesWeigher, 1.5), by(HypervisorVersionWeigher, -0.1)],
    "both ends fixed": lambda: [CappedIo(), by(NumInstancesWeigher, -1.0)],
    "nothing to say": lambda: [ServerGroupSoftAffinityWeigher(), by(RAMWeigher, 1.0)],
    "many": lambda: [
        by(RAMWeigher, 1.0),
        by(NumInstancesWeigher, -1.0),
        CappedIo(),
        by(HypervisorVersionWeigher, 2.0),
    ],
    "nobody": list,
}
VALUES = {
    "free_ram_mb": [-512, 0, 100, 1000, 1001, 4000, 9000, 65536],
    "num_instances": [0, 1, 2, 3, 50],
    "hypervisor_version": [0, 6002000, 8002000],
    "num_io_ops": [0, 1, 2, 4, 9],
    "failed_builds": [0, 0, 1, 7],
    "is_up": [True, True, False],
    "allocated:MEMORY_MB": [0, 0, 65536],
}
ONE_CHANGE = st.sampled_from(list(VALUES)).flatmap(
    lambda column: st.tuples(st.integers(0, 29), st.just(column), st.sampled_from(VALUES[column]))
)
ROUNDS = st.lists(
    st.tuples(st.lists(ONE_CHANGE, max_size=12), st.integers(1, 8), st.booleans()), min_size=2, max_size=8
)


@pytest.mark.parametrize("name", WEIGHERS)
@pytest.mark.parametrize("aggregates", [(), AGGREGATES], ids=["one multiplier", "multipliers of aggregates"])
@settings(max_examples=25)
@given(rounds=ROUNDS, few=st.sampled_from([0, 1000]), most_near=st.sampled_from([0, 48]))
def test_whatever_changes_the_best_are_those_of_weighing_and_sorting_all(name, aggregates, rounds, few, most_near):
    with pytest.MonkeyPatch.context() as patched:
        for constant, value in {
            "FEWEST_TOP_ROWS": 2,
            "FEWEST_EXTREMES": 1,
            "FEW": few,
            "_MOST_NEAR": most_near,
        }.items():
            patched.setattr(ranking_module, constant, value)
        columns = {"aggregates": [aggregates[row % 4] for row in range(30)]} if aggregates else {}
        fleet = Ranked(WEIGHERS[name](), free_ram_mb=[1000 + 500 * (row * 7 % 11) for row in range(30)], **columns)
        for changes, count, has_room in rounds:
            fleet.change(*changes)
            who = fleet.some if has_room else fleet.all
            if who.left:
                fleet.check(count, who)


@pytest.mark.parametrize("count", [1, 5, 12])
def test_a_fleet_of_which_most_are_not_held_is_in_order_as_hosts_fill_up(count):
    """As in service: the best takes the next instance, so that its weight and at times an extreme move."""
    fleet = Ranked([by(RAMWeigher, 1.0), by(NumInstancesWeigher, -0.5)], count=700)
    numbers = fleet.table.numbers
    for number in range(150):
        assert fleet.check(count, fleet.all)
        row = fleet.ranking.best(1, fleet.all)[0][1]
        fleet.change(
            (row, "free_ram_mb", numbers["free_ram_mb"][row] - 1024 - 64 * (number % 5)),
            (row, "num_instances", numbers["num_instances"][row] + 1),
        )


def test_a_fleet_of_which_most_are_not_held_is_in_order_as_the_extremes_move_up_and_down():
    fleet = Ranked(
        [by(RAMWeigher, -1.0), by(NumInstancesWeigher, 1.0)],
        count=700,
        free_ram_mb=[1000 + row % 300 for row in range(700)],
        num_instances=[row % 40 for row in range(700)],
    )
    for at, largest in enumerate([1300, 60000, 1299, 30000, 65536, 5000, 1301]):
        fleet.change((350, "free_ram_mb", largest), (351, "num_instances", at * 13), (352, "num_instances", -at))
        for count in (3, 1, 9):
            assert fleet.check(count, fleet.all)


@pytest.mark.usefixtures("holds_few")
@pytest.mark.parametrize("few", [0, 1000])
def test_all_may_fall_out_and_come_back_at_once(few, monkeypatch):
    monkeypatch.setattr(ranking_module, "FEW", few)
    fleet = Ranked([by(RAMWeigher, 1.0)], free_ram_mb=[1000 + 10 * (row % 9) for row in range(30)])
    fleet.check(3, fleet.all)
    fleet.check(3, fleet.all)
    fleet.change(*((row, "is_up", False) for row in range(30)))
    assert fleet.all.left == 0
    fleet.change(*((row, "is_up", True) for row in range(5, 30)), (7, "free_ram_mb", 9000))
    assert fleet.check(3, fleet.all)


@pytest.mark.usefixtures("holds_few")
def test_more_are_asked_for_than_there_are():
    fleet = Ranked([by(RAMWeigher, 1.0)], free_ram_mb=[1000 + row for row in range(30)])
    for _ in range(3):
        assert len(fleet.ranking.best(99, fleet.all)) == 30


@pytest.mark.usefixtures("holds_few")
def test_of_equal_hosts_the_first_rows_come_first():
    fleet = Ranked([by(RAMWeigher, 1.0)])
    for _ in range(3):
        assert [row for _, row in fleet.ranking.best(4, fleet.all)] == [0, 1, 2, 3]


def test_where_no_weigher_counts_all_hosts_are_equal():
    fleet = Ranked([by(RAMWeigher, 0.0)], free_ram_mb=[1000 + row for row in range(30)])
    for _ in range(3):
        assert fleet.ranking.best(2, fleet.all) == [(0.0, 0), (0.0, 1)]


# --- some of the survivors ---------------------------------------------------------------------------


@pytest.mark.usefixtures("holds_few")
def test_where_the_top_are_not_among_those_asked_about_they_cannot_tell():
    """Packing: the best of all are full, and who comes after them is not held."""
    fleet = Ranked([by(RAMWeigher, -1.0)], free_ram_mb=[100 + row for row in range(30)])
    fleet.check(1, fleet.all)
    fleet.change(*((row, "allocated:MEMORY_MB", 65536) for row in range(20)))
    assert fleet.ranking.best(1, fleet.some) is None


@pytest.mark.usefixtures("holds_few")
def test_where_the_extremes_are_not_among_those_asked_about_the_top_cannot_tell():
    fleet = Ranked([by(NumInstancesWeigher, -1.0)], num_instances=[row % 20 for row in range(30)])
    fleet.check(1, fleet.all)
    fleet.change(*((row, "allocated:MEMORY_MB", 65536) for row in (0, 19, 20)))
    assert fleet.ranking.best(1, fleet.some) is None


def test_where_everybody_is_held_the_top_can_tell_about_some():
    fleet = Ranked([by(RAMWeigher, -1.0)], free_ram_mb=[100 + row for row in range(30)])
    fleet.check(1, fleet.all)
    fleet.change(*((row, "allocated:MEMORY_MB", 65536) for row in range(20)))
    assert [row for _, row in fleet.ranking.best(2, fleet.some)] == [20, 21]


def test_some_are_weighed_between_their_own_extremes():
    fleet = Ranked([by(RAMWeigher, 1.0)], count=3, free_ram_mb=[1000, 4000, 8000])
    fleet.change((2, "allocated:MEMORY_MB", 65536))
    for _ in range(3):
        assert fleet.ranking.best(2, fleet.some) == [(-1.0, 1), (-0.25, 0)]
        assert fleet.ranking.best(1, fleet.all) == [(-1.0, 2)]


# --- how far weights can move ------------------------------------------------------------------------

NUMBERS = st.integers(-2000, 2000).map(float) | st.floats(-2000, 2000).map(lambda each: round(each, 3))
MULTIPLIERS = st.sampled_from([1.0, -1.0, 0.0, 0.3, -2.5, 1e6, -1e6])


def weight_between(number, span, multiplier):
    low, high = span
    terms = [Term(0, low, high - low, multiplier)] if low != high else []
    return weight_of(terms, [number], 0)


@settings(max_examples=300)
@given(
    st.lists(NUMBERS, min_size=1, max_size=6),
    st.tuples(NUMBERS, NUMBERS).map(lambda pair: (min(pair), max(pair))),
    st.lists(MULTIPLIERS, min_size=1, max_size=3),
)
def test_no_weight_exceeds_that_of_the_reference_by_more_than_the_reach(numbers, reference, multipliers):
    held = multipliers[0] if len(multipliers) == 1 else np.array(multipliers)
    scale = TrackedScale(by(NumInstancesWeigher, 1.0), held, make_hosts(3), SPEC)
    span = min(numbers), max(numbers)
    reach = scale.reach(span, reference)
    for number in numbers:
        for multiplier in multipliers:
            gain = weight_between(number, span, multiplier) - weight_between(number, reference, multiplier)
            assert gain <= reach


@settings(max_examples=300)
@given(
    st.lists(NUMBERS, min_size=2, max_size=6),
    st.tuples(NUMBERS, NUMBERS).map(lambda pair: (min(pair), max(pair))),
    MULTIPLIERS,
)
def test_the_reach_is_no_larger_than_some_weight_needs(numbers, reference, multiplier):
    """Else too many hosts would be weighed anew: the answer would be right, and slow."""
    scale = TrackedScale(by(NumInstancesWeigher, 1.0), multiplier, make_hosts(1), SPEC)
    span = min(numbers), max(numbers)
    gains = [weight_between(n, span, multiplier) - weight_between(n, reference, multiplier) for n in span]
    width = (span[1] - span[0]) or 1.0
    far = max(abs(weight_between(n, reference, 1.0)) for n in span)
    assert scale.reach(span, reference) <= max(gains) + 1e-9 * max(1.0, abs(multiplier)) * (1 + far + 2000 / width)


def test_where_the_extremes_have_not_moved_the_reach_is_next_to_nothing():
    fleet = Ranked([by(RAMWeigher, 1.0), by(NumInstancesWeigher, 1.0)], free_ram_mb=[1000 + row for row in range(30)])
    for _ in range(3):
        fleet.check(3, fleet.all)
    assert 0 < fleet.ranking.reach() < 1e-9


def test_the_reaches_of_all_weighers_whose_extremes_moved_add_up():
    fleet = Ranked(
        [by(RAMWeigher, 1.0), by(NumInstancesWeigher, -2.0)],
        free_ram_mb=[1000] * 29 + [4000],
        num_instances=[0] * 29 + [10],
    )
    for _ in range(3):
        fleet.check(3, fleet.all)
    fleet.change((29, "free_ram_mb", 2000), (29, "num_instances", 15))
    fleet.check(3, fleet.all)
    # Memory: 1 - 2000 / 4000 more for the largest; instances: -2 x (1 - 15 / 10) more for the largest.
    assert fleet.ranking.reach() == pytest.approx(0.5 + 1.0)


def test_rounding_of_large_weights_does_not_hide_a_host_that_is_as_good():
    """h000 has the same weight as the next ten and comes before them; next to 1,000,000 little is left of a third."""
    count = 12
    fleet = Ranked(
        [CrossCellWeigher(), by(RAMWeigher, -1.0), by(NumInstancesWeigher, -1.0), by(HypervisorVersionWeigher, 64.0)],
        make_spec(requested_destination={"cell": "home", "allow_cross_cell_move": True}),
        count=count,
        cell=["home"] * (count - 1) + ["away"],
        free_ram_mb=[0] * (count - 2) + [3, 3],
        num_instances=[0] * (count - 2) + [3, 3],
        hypervisor_version=[32] + [31] * (count - 2) + [0],
    )
    for _ in range(3):
        assert fleet.check(5, fleet.all)
    fleet.change((0, "free_ram_mb", 1000), (0, "num_instances", 1000))
    assert fleet.check(5, fleet.all)


# --- numbers that are none ---------------------------------------------------------------------------


def test_numbers_that_are_none_leave_no_order_to_keep():
    fleet = Ranked([RootOfMemory()], count=5, free_ram_mb=[100, 400, -1, 900, 1600])
    for _ in range(2):
        with pytest.raises(Uncacheable):
            fleet.ranking.best(1, fleet.all)


def test_a_number_that_becomes_none_leaves_no_order_to_keep():
    fleet = Ranked([RootOfMemory()], count=5, free_ram_mb=[100, 400, 2500, 900, 1600])
    for _ in range(3):
        fleet.check(1, fleet.all)

    def lose_a_number():
        fleet.change((4, "free_ram_mb", -1))
        fleet.ranking.best(1, fleet.all)

    with pytest.raises(Uncacheable):
        lose_a_number()


def test_once_all_are_numbers_again_there_is_an_order_again():
    fleet = Ranked([RootOfMemory()], count=5, free_ram_mb=[100, 400, -1, 900, 1600])
    with pytest.raises(Uncacheable):
        fleet.ranking.best(1, fleet.all)
    fleet.change((2, "free_ram_mb", 2500))
    assert fleet.check(2, fleet.all)


# --- ties and scores ---------------------------------------------------------------------------------


@pytest.mark.parametrize("leaders", [2, 256])
def test_tied_are_all_that_share_the_best_weight(leaders, monkeypatch):
    monkeypatch.setattr(ranking_module, "FEWEST_TOP_ROWS", leaders)
    fleet = Ranked([by(RAMWeigher, 1.0)], free_ram_mb=[9000 if row % 4 == 1 else 1000 + row for row in range(30)])
    for _ in range(3):
        (best, _) = fleet.ranking.best(1, fleet.all)[0]
        assert [row for row, _ in fleet.ranking.tied(best, fleet.all)] == list(range(1, 30, 4))


@pytest.mark.parametrize("leaders", [2, 256])
def test_after_the_extremes_moved_tied_are_those_who_share_the_best_weight_now(leaders, monkeypatch):
    monkeypatch.setattr(ranking_module, "FEWEST_TOP_ROWS", leaders)
    fleet = Ranked(
        [by(RAMWeigher, 1.0), by(NumInstancesWeigher, 1.0)],
        free_ram_mb=[5000 if row % 4 == 1 else 1000 for row in range(30)],
        num_instances=[10 if row % 4 == 1 else 5 if row == 7 else 0 for row in range(30)],
    )
    for _ in range(3):
        fleet.check(2, fleet.all)
    fleet.change((9, "free_ram_mb", 9000), (7, "free_ram_mb", 9000), (9, "num_instances", 0), (7, "num_instances", 0))
    (best, _) = fleet.ranking.best(1, fleet.all)[0]
    plain = [row for key, row in fleet.plainly(fleet.all) if key == best]
    assert [row for row, _ in fleet.ranking.tied(best, fleet.all)] == sorted(plain)


def test_tied_is_asked_of_a_ranking_that_gave_but_one_answer():
    fleet = Ranked([by(RAMWeigher, 1.0)], count=3, free_ram_mb=[1000, 4000, 4000])
    (best, _), *_ = fleet.ranking.best(2, fleet.all)
    assert [row for row, _ in fleet.ranking.tied(best, fleet.all)] == [1, 2]


def test_only_those_asked_about_are_tied():
    fleet = Ranked([by(RAMWeigher, 1.0)], count=4, free_ram_mb=[4000, 1000, 4000, 4000])
    fleet.change((2, "allocated:MEMORY_MB", 65536))
    for _ in range(3):
        (best, _), *_ = fleet.ranking.best(2, fleet.some)
        assert [row for row, _ in fleet.ranking.tied(best, fleet.some)] == [0, 3]


def test_in_order_come_all_and_those_of_equal_weight_together():
    fleet = Ranked([by(RAMWeigher, 1.0)], count=6, free_ram_mb=[1000, 4000, 2000, 4000, 1000, 3000])
    fleet.change((5, "is_up", False))
    for _ in range(3):
        groups = fleet.ranking.in_order(fleet.all.passed())
        assert [[row for row, _ in equal] for equal in groups] == [[1, 3], [2], [0, 4]]
        fleet.check(2, fleet.all)


def test_in_order_are_rows_between_their_own_extremes():
    """Of three hosts the large one is far ahead; of two, those with much memory and few instances are equal."""
    fleet = Ranked(
        [by(RAMWeigher, 1.0), by(NumInstancesWeigher, 1.0)],
        free_ram_mb=[0, 1000, 9000],
        num_instances=[1, 0, 0],
        count=3,
    )
    for rows, groups in (([0, 1], [[0, 1]]), ([0, 1, 2], [[0, 2], [1]]), ([2], [[2]]), ([], [])):
        found = fleet.ranking.in_order(np.array(rows, dtype=np.intp))
        assert [[row for row, _ in equal] for equal in found] == groups


def test_the_best_of_some_may_be_looked_for_among_them_all():
    fleet = Ranked([by(RAMWeigher, -1.0)], free_ram_mb=[100 + row % 7 for row in range(30)])
    fleet.change(*((row, "allocated:MEMORY_MB", 65536) for row in range(20)))
    for count in (1, 4, 99):
        assert fleet.ranking.best_of_all(count, fleet.some) == fleet.plainly(fleet.some)[:count]
        assert fleet.check(3, fleet.all)


def test_the_raw_numbers_of_a_host_come_weigher_by_weigher():
    fleet = Ranked([by(RAMWeigher, 1.0), CappedIo()], count=2, free_ram_mb=[-5, 7], num_io_ops=[9, 2])
    assert [fleet.ranking.numbers_of(row) for row in (0, 1)] == [(0.0, 4.0), (7.0, 2.0)]


@pytest.mark.parametrize("few", [0, 1000])
def test_raw_numbers_follow_a_change(few, monkeypatch):
    monkeypatch.setattr(ranking_module, "FEW", few)
    fleet = Ranked([by(RAMWeigher, 1.0), CappedIo()], count=2, free_ram_mb=[5, 7], num_io_ops=[3, 2])
    fleet.check(1, fleet.all)
    assert fleet.ranking.numbers_of(0) == (5.0, 3.0)
    fleet.change((0, "free_ram_mb", 6))
    assert fleet.ranking.numbers_of(0) == (6.0, 3.0)


def test_what_is_noted_of_a_host_makes_the_scores_of_weighing_it():
    fleet = Ranked(
        [by(RAMWeigher, 1.0), by(NumInstancesWeigher, -2.0), ServerGroupSoftAffinityWeigher()],
        count=4,
        free_ram_mb=[1000, 4000, 2000, 500],
        num_instances=[0, 7, 3, 3],
        aggregates=[[], [{"ram_weight_multiplier": "3"}], [], []],
    )
    weighed = weigh(fleet.table.in_the_running(), fleet.weighers, SPEC)
    for _ in range(3):
        fleet.check(4, fleet.all)
        for row in range(4):
            assert Scores(*fleet.ranking.noted_of([(0.0, row)])[0][2]) == weighed.ranked(row).scores


# --- what the ranking looks at -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weighers", "looks_at_size"),
    [
        ([RAMWeigher], False),
        ([RAMWeigher, BestFitWeigher], True),
        ([BalanceWeigher], True),
    ],
)
def test_some_weighers_look_at_the_size_of_the_request(weighers, looks_at_size):
    assert Ranked([by(each, 0.5) for each in weighers]).ranking.looks_at_size is looks_at_size


def test_a_weigher_that_is_off_does_not_count_as_looking_at_the_size():
    assert not Ranked([RAMWeigher(), BestFitWeigher()]).ranking.looks_at_size


def test_for_another_request_of_the_class_the_members_of_its_group_count():
    def of_group(*members):
        return make_spec(instance_group={"policy": "soft-affinity", "members": members})

    fleet = Ranked([ServerGroupSoftAffinityWeigher()], of_group("u1"), count=3, instances=[[], ["u1"], ["u2"]])
    for _ in range(3):
        assert fleet.ranking.best(1, fleet.all) == [(-1.0, 1)]
    fleet.spec = of_group("u2")
    fleet.ranking.renew(fleet.spec)
    fleet.follow(dict.fromkeys([1, 2], frozenset({"instances"})))
    assert fleet.ranking.best(1, fleet.all) == [(-1.0, 2)]


def test_only_weighers_that_read_a_changed_column_are_asked_again():
    class Counting(Weigher):
        """Counts; higher means nothing."""

        reads = frozenset({"num_io_ops"})
        asked = 0

        def weigh(self, hosts, spec):
            Counting.asked += 1
            return hosts.num_io_ops

    fleet = Ranked([by(RAMWeigher, 1.0), Counting()], num_io_ops=[row % 3 for row in range(30)])
    for _ in range(3):
        fleet.check(1, fleet.all)
    fleet.ranking.numbers_of(4)
    asked = Counting.asked
    fleet.change((4, "free_ram_mb", 3))
    assert Counting.asked == asked
    fleet.change((4, "num_io_ops", 7))
    assert Counting.asked > asked


def test_of_many_that_are_equal_in_every_number_the_first_is_named_and_those_apart():
    columns = {"free_ram_mb": [500] * 100 + [700] * 100, "num_io_ops": [1, 2] * 100}
    fleet = Ranked([RAMWeigher(), CappedIo()], count=200, **columns)
    fleet.ranking.best(1, fleet.all)
    found = fleet.ranking._first_of_each_kind(np.arange(200), apart=[0, 5, 150, 999])
    assert sorted(found) == [0, 1, 2, 5, 100, 101, 150]
    assert fleet.ranking._first_of_each_kind(np.arange(9), apart=[0]) == list(range(9))


def test_the_first_of_many_equals_is_that_of_the_order_that_is_asked_about():
    fleet = Ranked([RAMWeigher()], count=200, free_ram_mb=[500] * 100 + [700] * 100)
    (best, _), *_ = fleet.ranking.best(1, fleet.all)
    for order, first in ((None, 100), (np.arange(199, -1, -1), 199), (np.roll(np.arange(200), 50), 150)):
        assert [row for row, _ in fleet.ranking.tied(best, fleet.all, apart=[120], order=order)] == [first, 120]


def test_the_raw_numbers_of_many_are_those_of_each():
    weighers = [by(RAMWeigher, 1.0), ServerGroupSoftAffinityWeigher(), CappedIo()]
    fleet = Ranked(weighers, count=4, free_ram_mb=[-5, 7, 8, 9], num_io_ops=[9, 2, 0, 3])
    rows = np.array([3, 0, 2])
    numbers = fleet.ranking.numbers_of_many(rows)
    assert [tuple(each) for each in numbers.T.tolist()] == [fleet.ranking.numbers_of(row) for row in rows.tolist()]
