# SPDX-License-Identifier: Apache-2.0
"""More instances than hosts, most of which are equal: the tie-breaks of the cache against a full scan."""

import random
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engines import EAGER, FULL_SCAN

from roost.errors import NoValidHost
from roost.filters.compute import ComputeFilter
from roost.filters.io_ops import IoOpsFilter
from roost.scheduler.incremental import order, ranking
from roost.scheduler.incremental.engine import TieBreakingSearch
from roost.scheduler.pipeline import Pipeline
from roost.testing import make_hosts, make_spec
from roost.weighers.cpu import CPUWeigher
from roost.weighers.disk import DiskWeigher
from roost.weighers.io_ops import IoOpsWeigher
from roost.weighers.num_instances import NumInstancesWeigher
from roost.weighers.ram import RAMWeigher
from roost.weighers.server_group import ServerGroupSoftAffinityWeigher, ServerGroupSoftAntiAffinityWeigher

ROOMY = {"vcpus_total": 64, "total_usable_ram_mb": 65536, "total_usable_disk_gb": 500}
SMALL = {"vcpus_total": 4, "total_usable_ram_mb": 2048, "total_usable_disk_gb": 50}
HALF_FULL = {**SMALL, "free_ram_mb": 1024, "num_io_ops": 2}
APART = {**ROOMY, "aggregates": [{"ram_weight_multiplier": "-2"}]}
UNWEIGHED = {**ROOMY, "free_ram_mb": 9999, "aggregates": [{"ram_weight_multiplier": "0"}]}
"""Its free memory differs from that of the others and is multiplied by 0."""
DEFAULTS = {"free_ram_mb": None, "num_io_ops": 0, "aggregates": []}


def by(weigher, multiplier):
    return weigher(weigher.Options(**{weigher.multiplier_option: multiplier}))


WEIGHERS = {
    "spreading": lambda: [by(RAMWeigher, 1.0)],
    "packing": lambda: [by(RAMWeigher, -1.0), by(NumInstancesWeigher, -0.5)],
    "several": lambda: [by(CPUWeigher, 1.0), by(DiskWeigher, 1.0), by(RAMWeigher, 1.0), by(IoOpsWeigher, -1.0)],
    "groups": lambda: [ServerGroupSoftAffinityWeigher(), ServerGroupSoftAntiAffinityWeigher(), by(RAMWeigher, 0.5)],
    "none": list,
}


def place(hosts, weighers, instances, engine, policy=None, alternates=0):
    """The scores and alternates of each instance; summary and steps where one has no host."""
    columns = {name for host in hosts for name in host} | set(DEFAULTS)
    table = make_hosts(**{name: [{**DEFAULTS, **host}[name] for host in hosts] for name in columns})
    uuids = [f"u{number}" for number in range(instances)]
    group = {"policy": policy, "members": uuids} if policy else None
    spec = make_spec(vcpus=1, memory_mb=512, root_gb=1, num_instances=instances, instance_group=group)
    filters = [ComputeFilter(), IoOpsFilter(IoOpsFilter.Options(max_io_ops_per_host=30))]
    pipeline, dice = Pipeline(filters, weighers, engine=engine), random.Random(0)
    try:
        decision = pipeline.place(table, spec, uuids, randomness=dice, clock=lambda: 0, alternates=alternates)
    except NoValidHost as failure:
        return failure.decision.summary, failure.decision.steps
    return [(each.ranked, [other.host for other in each.alternates]) for each in decision.selections]


def fleets(common, others):
    """Hosts most of which are equal."""
    return st.lists(st.sampled_from([common] * 6 + others), min_size=2, max_size=9)


EQUAL = st.integers(2, 9).map(lambda count: [ROOMY] * count)
FLEETS = EQUAL | fleets(ROOMY, [SMALL, APART]) | fleets(SMALL, [HALF_FULL]) | fleets(UNWEIGHED, [ROOMY])


@pytest.mark.parametrize("name", WEIGHERS)
@settings(max_examples=60)
@given(
    hosts=FLEETS,
    instances=st.integers(2, 40),
    policy=st.sampled_from([None, None, "soft-affinity", "soft-anti-affinity", "anti-affinity"]),
    alternates=st.sampled_from([0, 2]),
    sizes=st.sampled_from([(0, 0, 2), (0, 64, 256), (2, 0, 2), (16, 64, 256)]),
)
def test_more_instances_than_hosts_go_where_a_full_scan_puts_them(name, hosts, instances, policy, alternates, sizes):
    expected = place(hosts, WEIGHERS[name](), instances, FULL_SCAN, policy, alternates)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(order, "SORTING", sizes[0])
        patched.setattr(ranking, "_FEW_TIED", sizes[1])
        patched.setattr(ranking, "FEWEST_TOP_ROWS", sizes[2])
        assert place(hosts, WEIGHERS[name](), instances, EAGER, policy, alternates) == expected


@pytest.mark.parametrize("name", WEIGHERS)
@pytest.mark.parametrize("others", [0, 7], ids=["all equal", "some are not"])
def test_many_times_as_many_instances_as_hosts_go_where_a_full_scan_puts_them(name, others):
    hosts = [APART if at % 9 == 4 and at < 9 * others else ROOMY for at in range(70)]
    cached, expected = (place(hosts, WEIGHERS[name](), 500, engine, alternates=2) for engine in (EAGER, FULL_SCAN))
    assert cached == expected


def test_all_instances_after_the_first_have_their_ties_broken_by_the_cache():
    real = TieBreakingSearch._best_after_ties
    with mock.patch.object(TieBreakingSearch, "_best_after_ties", autospec=True, side_effect=real) as breaks_ties:
        place([ROOMY] * 3, [by(RAMWeigher, 1.0)], 7, EAGER)
    assert breaks_ties.call_count == 6
