# SPDX-License-Identifier: Apache-2.0
"""One request of 200 instances on 500 hosts, all default weighers: host by host what a plain loop picks."""

import random

import pytest
from tests.parity import plain, plain_weighers

from roost.filters.compute import ComputeFilter
from roost.hosts import HostRecord, HostTable, Instance
from roost.hosts.pci import pools_from_json
from roost.model import Aggregate, Service
from roost.plugins import WEIGHERS
from roost.scheduler import Pipeline
from roost.testing import make_spec

HOSTS, INSTANCES = 500, 200
NEW = [f"new{number}" for number in range(INSTANCES)]
OLD = [f"old{number}" for number in range(40)]
STOCK = [each for each in WEIGHERS if each.__name__ in plain_weighers.WEIGHERS]
OPTIONS = {each.__name__: each.Options() for each in STOCK}

AGGREGATES = [
    Aggregate("spread", {"num_instances_weight_multiplier": "-0.5", "ram_weight_multiplier": "1.5"}, id=1),
    Aggregate("last", {"cpu_weight_multiplier": "-1", "io_ops_weight_multiplier": "-0.25"}, id=2),
    Aggregate("odd", {"disk_weight_multiplier": "bogus", "soft_anti_affinity_weight_multiplier": "2"}, id=3),
]


def varied(dice, at):
    """A host that is like no other."""
    memory_mb, disk_gb, cpus = dice.choice([4096, 8192, 65536]), dice.randrange(20, 500), dice.randrange(2, 65)
    return HostRecord(
        host=f"host{at:03}",
        total_usable_ram_mb=memory_mb,
        free_ram_mb=dice.randrange(0, memory_mb),
        total_usable_disk_gb=disk_gb,
        free_disk_mb=dice.randrange(1024, 1024 * disk_gb),
        vcpus_total=cpus,
        vcpus_used=dice.randrange(0, cpus),
        cpu_allocation_ratio=dice.choice([1.0, 1.5, 4.0]),
        num_io_ops=dice.choice([0, 0, 1, 3]),
        num_instances=dice.randrange(0, 20),
        failed_builds=dice.choice([0] * 8 + [1, 3]),
        hypervisor_version=dice.choice([6002000, 7000000]),
        service=dice.choice([Service()] * 9 + [Service(disabled=True), Service(up=False)]),
        aggregates=tuple(dice.sample(AGGREGATES, dice.choice([0, 0, 1, 2]))),
        instances=tuple(Instance(uuid) for uuid in dice.sample(OLD, 2)),
        pci_pools=pools_from_json([{"vendor_id": "10de", "product_id": "1eb8", "count": dice.choice([0, 2, 9])}]),
        cell=dice.choice(["cell1", "cell2"]),
    )


def alike(dice, at):
    """One of two sizes, empty: almost every weight is shared by many."""
    size = dice.choice([1, 2])
    return HostRecord(f"host{at:03}", total_usable_ram_mb=4096 * size, total_usable_disk_gb=40 * size, vcpus_total=4)


def crowded(dice, at):
    """Room for a few instances at most, so that hosts fill up on the way."""
    room = dice.randrange(0, 4)
    return HostRecord(
        f"host{at:03}", total_usable_ram_mb=8192, free_ram_mb=512 * room, total_usable_disk_gb=100, vcpus_total=16
    )


def pick(hosts, spec):
    """Capacity, ComputeFilter, the plain sum, a stable sort; survivors and their order go on to the next instance."""
    chosen = []
    for index, uuid in enumerate(NEW):
        hosts = [host for host in hosts if plain.capacity(host, spec)]
        if index == 0:  # the others are of the same request: their hosts have been asked
            hosts = [host for host in hosts if plain.compute(host, spec)]
        totals = plain_weighers.weights(hosts, spec, OPTIONS)
        hosts = [hosts[at] for at in sorted(range(len(hosts)), key=lambda at: totals[at], reverse=True)]
        best = hosts[0]
        plain.consume(best, spec)
        best.instances[uuid] = {}
        chosen.append(best.host)
    return chosen


def group(policy):
    return {"instance_group": {"policy": policy, "members": [*NEW, *OLD[:9]]}}


@pytest.mark.parametrize(
    ("make", "seed", "asked", "fewest"),
    [
        pytest.param(varied, 1, {}, 2, id="varied hosts"),
        pytest.param(alike, 2, {}, 100, id="many equal hosts"),
        pytest.param(varied, 3, group("soft-anti-affinity"), 50, id="soft anti-affinity"),
        pytest.param(crowded, 4, group("soft-affinity"), 60, id="soft affinity on hosts that fill up"),
    ],
)
def test_200_instances_go_where_the_plain_loop_puts_them(make, seed, asked, fewest):
    dice = random.Random(seed)
    table = HostTable.of(make(dice, at) for at in range(HOSTS))
    spec = make_spec(vcpus=1, memory_mb=512, root_gb=1, num_instances=INSTANCES, **asked)
    expected = pick(plain_weighers.plain_hosts(table), spec)
    pipeline = Pipeline([ComputeFilter()], [each() for each in STOCK])
    decision = pipeline.place(table, spec, NEW, randomness=random.Random(0), clock=lambda: 0)
    assert [each.host for each in decision.selections] == expected
    assert len(set(expected)) >= fewest, "too few hosts to say much"
