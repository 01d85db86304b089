# SPDX-License-Identifier: Apache-2.0
"""One request of many instances, all default weighers, by the pipeline and by a plain loop."""

import argparse
import random
import sys

from tests.parity import plain, plain_weighers

from roost.filters.compute import ComputeFilter
from roost.hosts import HostRecord, HostTable, Instance
from roost.hosts.pci import pools_from_json
from roost.model import Aggregate, Service
from roost.plugins.registry import WEIGHERS
from roost.scheduler.pipeline import Pipeline
from roost.testing import make_spec

OLD = [f"old{number}" for number in range(40)]
OPTIONS = {each.__name__: each.Options() for each in WEIGHERS}

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


def pick(hosts, spec, uuids):
    """Capacity, ComputeFilter, the plain sum, a stable sort; survivors and their order go on to the next instance."""
    chosen = []
    for index, uuid in enumerate(uuids):
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
    """A server group of this policy, with members old and new."""
    return {"policy": policy, "members": [*(f"new{number}" for number in range(1000)), *OLD[:9]]}


def place_both(make, seed, hosts, instances, **asked):
    """Host by host what the pipeline picked, and what the plain loop picks."""
    dice, uuids = random.Random(seed), [f"new{number}" for number in range(instances)]
    table = HostTable.of(make(dice, at) for at in range(hosts))
    spec = make_spec(vcpus=1, memory_mb=512, root_gb=1, num_instances=instances, **asked)
    expected = pick(plain_weighers.plain_hosts(table), spec, uuids)
    pipeline = Pipeline([ComputeFilter()], [each() for each in WEIGHERS])
    decision = pipeline.place(table, spec, uuids, randomness=random.Random(0), clock=lambda: 0)
    return [each.host for each in decision.selections], expected


def main():
    """1,000 instances on 10,000 hosts, a few minutes; pytest runs smaller ones."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity.many_instances", description=main.__doc__)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--instances", type=int, default=1000)
    sizes = parser.parse_args()
    for make in (varied, alike):
        picked, expected = place_both(make, 1, sizes.hosts, sizes.instances)
        same = "the same hosts" if picked == expected else "DIFFERENT hosts"
        print(f"{len(expected)} instances on {sizes.hosts} {make.__name__} hosts, {len(set(expected))} used: {same}")
        if picked != expected:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
