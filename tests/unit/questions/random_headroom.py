# SPDX-License-Identifier: Apache-2.0
"""Random small fleets and requests for headroom, and the plain way to count: `Scheduler.place`, again and again."""

from __future__ import annotations

import copy
import random
from typing import Any

from tests.engines import FULL_SCAN

from roost import Fleet, NoValidHost, RequestSpec, Scheduler

FLAVORS = [
    {"name": "tiny", "id": 1, "vcpus": 1, "memory_mb": 512},
    {"name": "small", "id": 2, "vcpus": 2, "memory_mb": 1024, "root_gb": 10},
    {"name": "wide", "id": 3, "vcpus": 6, "memory_mb": 1024, "root_gb": 5},
    {"name": "big", "id": 4, "vcpus": 4, "memory_mb": 6144, "root_gb": 20, "swap": 512},
    {"name": "pinned", "id": 5, "vcpus": 2, "memory_mb": 1024, "extra_specs": {"hw:cpu_policy": "dedicated"}},
    {"name": "gpu", "id": 6, "vcpus": 1, "memory_mb": 512, "extra_specs": {"pci_passthrough:alias": "gpu:1"}},
    {"name": "licensed", "id": 8, "vcpus": 1, "memory_mb": 256, "extra_specs": {"resources:CUSTOM_LICENCE": "2"}},
    {"name": "fast", "id": 7, "vcpus": 1, "memory_mb": 1024, "extra_specs": {"trait:CUSTOM_FAST": "required"}},
]
CELL = {"id": 0, "cpuset": [0, 1, 2, 3], "pcpuset": [0, 1, 2, 3], "siblings": [[0, 1], [2, 3]], "memory": 4096}
POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")


def uuid_of(number: int) -> str:
    return f"11111111-2222-4333-8444-{number:012x}"


def random_document(rng: random.Random) -> dict[str, Any]:
    """A fleet of up to five hosts of few kinds, with servers on them, zones, racks and groups."""
    numbers = iter(range(1000))
    hosts = [_host(rng, at, numbers) for at in range(rng.choice([1, 2, 3, 4, 5]))]
    names = [host["host"] for host in hosts]
    metadata = [("availability_zone", "az1"), ("availability_zone", "az2"), ("rack", "r1"), ("rack", "r2")]
    aggregates = [
        {"name": f"{key}-{value}", "metadata": {key: value}, "hosts": [name for name in names if rng.random() < 0.5]}
        for key, value in metadata
    ]
    group_of = [rng.choice([*POLICIES, *[None] * 8]) for _ in range(next(numbers))]
    return {
        "hosts": hosts,
        "aggregates": aggregates,
        "flavors": FLAVORS,
        "server_groups": [
            {
                "name": policy,
                "uuid": uuid_of(5000 + at),
                "policy": policy,
                "members": [uuid_of(number) for number, each in enumerate(group_of) if each == policy],
                "rules": {"max_server_per_host": rng.choice([1, 2])} if policy == "anti-affinity" else {},
            }
            for at, policy in enumerate(POLICIES)
        ],
        "options": _options(rng),
    }


def _host(rng: random.Random, at: int, numbers: Any) -> dict[str, Any]:
    flavors = [rng.choice(FLAVORS[: rng.choice([1, 3, 4])]) for _ in range(rng.choice([0, 1, 1, 2, 4]))]
    host: dict[str, Any] = {
        "host": f"h{at}",
        "vcpus_total": rng.choice([4, 8]),
        "total_usable_ram_mb": rng.choice([4096, 8192]),
        "total_usable_disk_gb": rng.choice([50, 200]),
        "cpu_allocation_ratio": rng.choice([1.0, 2.0]),
        "ram_allocation_ratio": rng.choice([1.0, 1.5]),
        "instances": [
            {"uuid": uuid_of(next(numbers)), "flavor_id": each["id"], "resources": held(each)} for each in flavors
        ],
    }
    if rng.random() < 0.3:
        host["numa"] = {"cells": [CELL, CELL | {"id": 1, "cpuset": [4, 5, 6, 7], "pcpuset": [4, 5, 6, 7]}]}
    if rng.random() < 0.3:
        host["pci_pools"] = [{"vendor_id": "10de", "product_id": "1eb8", "count": rng.choice([1, 3])}]
    if rng.random() < 0.5:
        host["resources"] = {"CUSTOM_LICENCE": {"total": rng.choice([4, 7]), "step_size": rng.choice([1, 1, 2, 3])}}
    others = [{"service": {"disabled": True}}, {"service": {"up": False}}, {"traits": ["CUSTOM_FAST"]}]
    return host | rng.choice([*others, *[{}] * 7])


def held(flavor: dict[str, Any]) -> dict[str, int]:
    disk = flavor.get("root_gb", 0) + -(-flavor.get("swap", 0) // 1024)
    amounts = {"VCPU": flavor["vcpus"], "MEMORY_MB": flavor["memory_mb"], "DISK_GB": disk}
    return {name: amount for name, amount in amounts.items() if amount}


def _options(rng: random.Random) -> dict[str, Any]:
    filters = ["ComputeFilter", "AvailabilityZoneFilter", "NUMATopologyFilter", "PciPassthroughFilter"]
    groups = ["ServerGroupAffinityFilter", "ServerGroupAntiAffinityFilter"]
    more = rng.choice(
        [[], ["NumInstancesFilter", "IoOpsFilter"], ["TypeAffinityFilter"], ["RamFilter", "CoreFilter"]]
    )
    return {
        "filter_scheduler": {
            "enabled_filters": filters + groups + more,
            "max_instances_per_host": 5,
            "ram_weight_multiplier": rng.choice([1.0, -1.0]),
        },
        "pci": {"alias": ['{"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"}']},
    }


def random_request(rng: random.Random, fleet: Fleet) -> RequestSpec:
    group = rng.choice([*POLICIES, *[None] * 6])
    return RequestSpec(
        flavor=rng.choice(list(fleet.flavors.values())),
        availability_zone=rng.choice([None, None, "az1"]),
        instance_group=fleet.server_groups[group] if group else None,
    )


def place_until_full(scheduler: Scheduler, spec: RequestSpec) -> dict[str, int]:
    """Host -> how many instances it took, of one request after the other."""
    counts: dict[str, int] = {}
    while True:
        try:
            (selection,) = scheduler.place(spec, alternates=0).selections
        except NoValidHost:
            return counts
        counts[selection.host] = counts.get(selection.host, 0) + 1


def losses(document: dict[str, Any], spec_of: Any) -> dict[str, tuple[int, int]]:
    """Host that is up -> (its servers that find no other host, instances that fit then), each on its own fleet."""
    up = [host["host"] for host in document["hosts"] if host.get("service") != {"up": False}]
    return {name: _loss(document, name, spec_of) for name in up}


def _loss(document: dict[str, Any], name: str, spec_of: Any) -> tuple[int, int]:
    left = copy.deepcopy(document)
    lost = next(host for host in left["hosts"] if host["host"] == name)
    lost["service"] = {"disabled": True}
    servers, lost["instances"] = lost["instances"], []
    fleet = Fleet.load(left)
    scheduler = Scheduler(fleet, engine=FULL_SCAN)
    by_id = {flavor.id: flavor for flavor in fleet.flavors.values()}
    homeless = 0
    servers.sort(
        key=lambda each: (
            -each["resources"]["MEMORY_MB"],
            -each["resources"]["VCPU"],
            -each["resources"].get("DISK_GB", 0),
            each["uuid"],
        )
    )
    for server in servers:
        groups = (group for group in fleet.server_groups.values() if server["uuid"] in group.members)
        spec = RequestSpec(
            by_id[server["flavor_id"]], instance_uuid=server["uuid"], instance_group=next(groups, None)
        )
        try:
            scheduler.place(spec, alternates=0)
        except NoValidHost:
            homeless += 1
    return homeless, sum(place_until_full(scheduler, spec_of(fleet)).values())
