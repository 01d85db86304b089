# SPDX-License-Identifier: Apache-2.0
"""More instances than there are equal hosts: from what is kept, against the plain way that sorts each time."""

import random
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engines import EAGER, FULL_SCAN

from roost.errors import NoValidHost
from roost.filters.compute import ComputeFilter
from roost.filters.io_ops import IoOpsFilter
from roost.scheduler import Pipeline
from roost.scheduler.incremental import ranking as ranking_module
from roost.scheduler.incremental import tie_breaks as rounds_module
from roost.scheduler.incremental.cached_search import TieBreakingSearch
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
"""Its memory is not that of others, and does not count."""


def by(weigher, multiplier):
    return weigher(weigher.Options(**{weigher.multiplier_option: multiplier}))


WEIGHERS = {
    "spreading": lambda: [by(RAMWeigher, 1.0)],
    "packing": lambda: [by(RAMWeigher, -1.0), by(NumInstancesWeigher, -0.5)],
    "several": lambda: [by(CPUWeigher, 1.0), by(DiskWeigher, 1.0), by(RAMWeigher, 1.0), by(IoOpsWeigher, -1.0)],
    "groups": lambda: [ServerGroupSoftAffinityWeigher(), ServerGroupSoftAntiAffinityWeigher(), by(RAMWeigher, 0.5)],
    "nobody": list,
}


def place(hosts, weighers, instances, keeps_classes, policy=None, alternates=0):
    """Where all instances went, with their scores and alternates; or why they did not."""
    columns = (
        "vcpus_total",
        "total_usable_ram_mb",
        "total_usable_disk_gb",
        "free_ram_mb",
        "num_io_ops",
        "aggregates",
    )
    defaults = {"free_ram_mb": None, "num_io_ops": 0, "aggregates": []}
    table = make_hosts(**{name: [{**defaults, **host}[name] for host in hosts] for name in columns})
    uuids = [f"u{number}" for number in range(instances)]
    group = {"policy": policy, "members": uuids} if policy else None
    spec = make_spec(vcpus=1, memory_mb=512, root_gb=1, num_instances=instances, instance_group=group)
    filters = [ComputeFilter(), IoOpsFilter(IoOpsFilter.Options(max_io_ops_per_host=30))]
    pipeline = Pipeline(filters, weighers, engine=EAGER if keeps_classes else FULL_SCAN)
    try:
        decision = pipeline.place(
            table, spec, uuids, randomness=random.Random(0), clock=lambda: 0, alternates=alternates
        )
    except NoValidHost as failure:
        return failure.decision.summary, failure.decision.steps
    return [(each.ranked, [other.host for other in each.alternates]) for each in decision.selections]


def fleets(common, others):
    """Hosts that are almost all alike."""
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
def test_more_instances_than_hosts_go_where_the_plain_way_puts_them(
    name, hosts, instances, policy, alternates, sizes
):
    plainly = place(hosts, WEIGHERS[name](), instances, False, policy, alternates)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rounds_module, "SORTING", sizes[0])
        patched.setattr(ranking_module, "_FEW_TIED", sizes[1])
        patched.setattr(ranking_module, "FEWEST_TOP_ROWS", sizes[2])
        assert place(hosts, WEIGHERS[name](), instances, True, policy, alternates) == plainly


@pytest.mark.parametrize("name", WEIGHERS)
@pytest.mark.parametrize("others", [0, 7], ids=["all alike", "some are not"])
def test_many_times_as_many_instances_as_hosts_go_where_the_plain_way_puts_them(name, others):
    hosts = [APART if at % 9 == 4 and at < 9 * others else ROOMY for at in range(70)]
    kept, plainly = (
        place(hosts, WEIGHERS[name](), 500, keeps_classes, alternates=2) for keeps_classes in (True, False)
    )
    assert kept == plainly


def test_this_is_about_requests_that_are_answered_from_what_is_kept():
    real = TieBreakingSearch._best_after_ties
    with mock.patch.object(TieBreakingSearch, "_best_after_ties", autospec=True, side_effect=real) as chooses:
        place([ROOMY] * 3, [by(RAMWeigher, 1.0)], 7, keeps_classes=True)
    assert chooses.call_count == 6
