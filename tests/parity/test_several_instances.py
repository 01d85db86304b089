# SPDX-License-Identifier: Apache-2.0
"""Several instances, round by round with patches, against the plain way that works everything out anew."""

import random

import pytest
from tests.engines import FULL_SCAN

from roost import Flavor, Fleet, NoValidHost, RequestSpec, Scheduler, ServerGroup

SEEDS_PER_TEST = 30


def make_fleet(rng: random.Random) -> Fleet:
    """Few kinds of hosts, so that weights are often equal; some in an aggregate with multipliers of its own."""
    kinds = [
        {
            "vcpus_total": rng.choice([4, 8, 16]),
            "total_usable_ram_mb": rng.choice([4096, 8192, 16384]),
            "total_usable_disk_gb": rng.choice([50, 100]),
        }
        for _ in range(rng.choice([1, 2, 5]))
    ]
    hosts = []
    for number in range(rng.choice([2, 5, 30, 200])):
        host = {
            "host": f"h{rng.randrange(10**6):06d}-{number}",
            **rng.choice(kinds),
            "num_io_ops": rng.choice([0, 0, 3]),
            "hypervisor_version": rng.choice([1, 1, 2]),
            "failed_builds": rng.choice([0, 0, 0, 1]),
        }
        if rng.random() < 0.5:
            host["free_ram_mb"] = rng.randrange(0, host["total_usable_ram_mb"] + 1, 512)
        hosts.append(host)
    metadata = {
        "ram_weight_multiplier": rng.choice(["-1", "2", "0"]),
        "cpu_weight_multiplier": rng.choice(["1", "-3"]),
    }
    members = [host["host"] for host in hosts if rng.random() < 0.4]
    return Fleet.load({"hosts": hosts, "aggregates": [{"name": "a", "metadata": metadata, "hosts": members}]})


def make_options(rng: random.Random) -> dict:
    return {
        "filter_scheduler": {
            "ram_weight_multiplier": rng.choice([1.0, -1.0, 0.0]),
            "num_instances_weight_multiplier": rng.choice([0.0, -1.0]),
            "enabled_filters": rng.choice(
                [["ComputeFilter"], ["ComputeFilter", "IoOpsFilter", "RamFilter", "NumInstancesFilter"]]
            ),
            "max_io_ops_per_host": rng.choice([4, 8]),
        }
    }


def make_request(rng: random.Random) -> tuple[RequestSpec, int]:
    policy = rng.choice([None, None, "soft-anti-affinity", "soft-affinity"])
    spec = RequestSpec(
        flavor=Flavor(rng.choice([1, 2]), rng.choice([256, 512, 1024]), root_gb=rng.choice([1, 5])),
        num_instances=rng.choice([2, 3, 10, 40, 120]),
        instance_group=ServerGroup(policy=policy, uuid="g") if policy else None,
    )
    return spec, rng.choice([0, 2])


def place(seed: int, follows: bool) -> object:
    rng = random.Random(seed)
    scheduler = Scheduler(make_fleet(rng), make_options(rng), seed=1)
    if not follows:
        scheduler.pipeline = scheduler.pipeline.fresh(FULL_SCAN)
    spec, alternates = make_request(rng)
    try:
        decision = scheduler.place(spec, alternates)
    except NoValidHost as failure:
        return failure.decision.summary, failure.decision.steps
    return [(each.ranked, [other.host for other in each.alternates]) for each in decision.selections]


@pytest.mark.parametrize("first", range(0, 10 * SEEDS_PER_TEST, SEEDS_PER_TEST))
def test_rounds_with_patches_choose_score_and_fail_exactly_as_the_plain_way(first):
    for seed in range(first, first + SEEDS_PER_TEST):
        assert place(seed, follows=True) == place(seed, follows=False), f"seed {seed}"
