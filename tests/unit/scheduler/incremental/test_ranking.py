# SPDX-License-Identifier: Apache-2.0
"""The ranking that is patched as hosts change, against weighing and sorting all hosts, to the bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.scheduler.incremental.compared import by, fleet

from roost.filters.compute import ComputeFilter
from roost.hosts import Hosts
from roost.scheduler.full_scan import weigh
from roost.scheduler.incremental import ranking as ranking_module
from roost.scheduler.incremental.ranking import Ranking
from roost.scheduler.incremental.survivors import SurvivorsOfAnySize, SurvivorsOfOneSize
from roost.scheduler.search import Rules
from roost.testing import make_spec
from roost.weighers.base import Weigher
from roost.weighers.build_failure import BuildFailureWeigher
from roost.weighers.cross_cell import CrossCellWeigher
from roost.weighers.hypervisor_version import HypervisorVersionWeigher
from roost.weighers.num_instances import NumInstancesWeigher
from roost.weighers.ram import RAMWeigher
from roost.weighers.server_group import ServerGroupSoftAffinityWeigher


class CappedIo(Weigher):
    """A scale with both ends pinned that counts how often it is asked; higher means more I/O operations."""

    minval, maxval = 1, 4
    reads = frozenset({"num_io_ops"})
    asked = 0

    def weigh(self, hosts, spec):
        self.asked += 1
        return hosts.num_io_ops

    def multiplier(self):
        return -0.7


class RankedFleet:
    """A ranking of the hosts that are up (`all`), and those of them that have room (`some`)."""

    def __init__(self, weighers, spec=None, count=30, **columns):
        self.weighers, self.spec = weighers, spec or make_spec(vcpus=1, memory_mb=1024)
        self.table = fleet(count, **columns)
        for column in self.table.numbers:
            self.table.writable_column(column)  # otherwise a change replaces the column, which rebuilds the family
        self.table.writable_column("allocated:MEMORY_MB")[:] = 0
        checks = Rules((ComputeFilter(),), ()).checks(self.table, self.spec, 0)
        self.all = SurvivorsOfAnySize(self.table, [check for check in checks if not check.is_about_room])
        self.some = SurvivorsOfOneSize(self.all, checks, self.spec.amounts)
        self.ranking = Ranking(self.all, weighers, self.spec)

    def change(self, *changes):
        """(row, column, value): written together, then patched."""
        touched = {}
        for row, column, value in changes:
            self.table.writable_column(column)[row] = value
            touched[row] = touched.get(row, frozenset()) | {column}
        moved = self.all.recheck(touched)
        self.some.recheck(touched)
        self.ranking.update(touched, moved)

    def sorted(self, among):
        """(Key, row) of these hosts by a full scan; a single host, which that does not weigh, is put in twice."""
        rows = among.passed()
        hosts = Hosts(self.table, rows if len(rows) > 1 else np.repeat(rows, 2), {})
        keys = -weigh(hosts, self.weighers, self.spec).weights
        return sorted(zip(keys.tolist(), rows.tolist(), strict=False))

    def check(self, count, among=None):
        """The best of these hosts, and what is tied with the best, are right, if the top rows can tell."""
        among = among or self.all
        ends = [end for scale in self.ranking.scales for end in (scale.lowest, scale.highest) if end is not None]
        held = {row for top in (self.ranking._top, *ends) for _, row in top.entries}
        assert held <= {*self.all.passed().tolist()}, "a rejected row takes the place of another"
        best, expected = self.ranking.best(count, among), self.sorted(among)
        if best is None:
            assert among is self.some, "the top rows of all hosts must tell the best of all hosts"
            return
        assert best == expected[:count]
        tied = sorted(row for row, _ in self.ranking.tied(best[0][0], among))
        assert tied == [row for key, row in expected if key == best[0][0]]


WEIGHERS = {
    "spreading": lambda: [by(RAMWeigher, 1.0)],
    "packing": lambda: [by(RAMWeigher, -1.0), by(NumInstancesWeigher, -0.3)],
    "a large one and a small one": lambda: [BuildFailureWeigher(), by(RAMWeigher, 1.0)],
    "no end pinned": lambda: [by(NumInstancesWeigher, 1.5), by(HypervisorVersionWeigher, -0.1)],
    "both ends pinned": lambda: [CappedIo(), by(NumInstancesWeigher, -1.0)],
    "a constant one": lambda: [ServerGroupSoftAffinityWeigher(), by(RAMWeigher, 1.0)],
    "none": list,
}
AGGREGATES = ([], [{"ram_weight_multiplier": "-2.5"}], [{"ram_weight_multiplier": "0.5"}], [])
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


@pytest.mark.usefixtures("holds_few")
@pytest.mark.parametrize("name", WEIGHERS)
@pytest.mark.parametrize("aggregates", [([],), AGGREGATES], ids=["one multiplier", "multipliers of aggregates"])
@settings(max_examples=25)
@given(rounds=ROUNDS, few=st.sampled_from([0, 1000]), most_near=st.sampled_from([0, 48]))
def test_after_any_changes_the_best_are_those_of_weighing_and_sorting_all(name, aggregates, rounds, few, most_near):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ranking_module, "FEW", few)
        patched.setattr(ranking_module, "_MOST_NEAR", most_near)
        hosts = RankedFleet(
            WEIGHERS[name](),
            free_ram_mb=[1000 + 500 * (row * 7 % 11) for row in range(30)],
            aggregates=[aggregates[row % len(aggregates)] for row in range(30)],
        )
        for changes, count, has_room in rounds:
            hosts.change(*changes)
            among = hosts.some if has_room else hosts.all
            if among.left:
                hosts.check(count, among)


def test_rounding_of_large_weights_does_not_hide_an_equal_host():
    """h000 weighs as much as the next ten and comes first; beside 1,000,000, thirds lose most of their digits."""
    hosts = RankedFleet(
        [CrossCellWeigher(), by(RAMWeigher, -1.0), by(NumInstancesWeigher, -1.0), by(HypervisorVersionWeigher, 64.0)],
        make_spec(requested_destination={"cell": "home", "allow_cross_cell_move": True}),
        count=12,
        cell=["home"] * 11 + ["away"],
        free_ram_mb=[0] * 10 + [3, 3],
        num_instances=[0] * 10 + [3, 3],
        hypervisor_version=[32] + [31] * 10 + [0],
    )
    for _ in range(3):
        hosts.check(5)
    hosts.change((0, "free_ram_mb", 1000), (0, "num_instances", 1000))
    hosts.check(5)


def test_only_weighers_that_read_a_changed_column_are_asked_again():
    weigher = CappedIo()
    hosts = RankedFleet([by(RAMWeigher, 1.0), weigher], num_io_ops=[row % 3 for row in range(30)])
    hosts.check(1)
    hosts.ranking.numbers_of(4)
    asked = weigher.asked
    hosts.change((4, "free_ram_mb", 3))
    assert weigher.asked == asked
    hosts.change((4, "num_io_ops", 7))
    assert weigher.asked > asked
