# SPDX-License-Identifier: Apache-2.0
"""From a workload to what the scheduler is given: a fleet, its options, requests. Same seed, same input."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from benchmarks.workload import HostGroup, Requests, Workload

from roost import Flavor, Image, RequestSpec
from roost.errors import BadInput
from roost.hosts import HostRecord
from roost.model.image_properties import take_properties

DATA = Path(__file__).parent / "data"


def fleet_document(workload: Workload) -> dict[str, Any]:
    """The fleet as `Fleet.load` takes it. Equal hosts are one entry with a range of names."""
    shape, randomness = workload.hosts, random.Random(workload.seed)
    members: dict[str, list[str]] = {zone: [] for zone in shape.zones}
    hosts: list[dict[str, Any]] = []
    for number, (group, total) in enumerate(zip(shape.groups, split(shape.count, shape.groups), strict=True)):
        for zone, count in zip(shape.zones or ("",), share_evenly(total, len(shape.zones) or 1), strict=True):
            if not count:
                continue
            pattern = f"node-[000001-{count:06d}]-{zone or 'any'}-{number}"
            hosts += host_entries(group, pattern, count, randomness)
            if zone:
                members[zone].append(pattern)
    aggregates = [
        {"name": zone, "metadata": {"availability_zone": zone}, "hosts": patterns}
        for zone, patterns in members.items()
    ]
    return {"hosts": hosts, "aggregates": aggregates}


def split(total: int, groups: Sequence[HostGroup]) -> list[int]:
    """The total in whole parts that are in proportion to the shares, and add up."""
    sums = list(accumulate((group.share for group in groups), initial=0.0))
    return [round(total * upper / sums[-1]) - round(total * lower / sums[-1]) for lower, upper in pairwise(sums)]


def share_evenly(total: int, parts: int) -> list[int]:
    """The total in whole parts that differ by one at most."""
    return [total // parts + (at < total % parts) for at in range(parts)]


def host_entries(group: HostGroup, pattern: str, count: int, randomness: random.Random) -> Iterator[dict[str, Any]]:
    """The hosts that the pattern stands for: in one entry, or each in its own where usage is drawn."""
    least, most = group.used_range
    if group.numa_states:
        yield from numa_entries(group, pattern, count)
        return
    if least == most:
        yield {"host": pattern, **usage(group, (least, least, least)), **group.like}
        return
    before, _, after = pattern.partition(f"[000001-{count:06d}]")
    for number in range(1, count + 1):
        drawn = tuple(randomness.uniform(least, most) for _ in range(3))
        yield {"host": f"{before}{number:06d}{after}", **usage(group, drawn), **group.like}


def numa_entries(group: HostGroup, pattern: str, count: int) -> Iterator[dict[str, Any]]:
    """Runs of hosts, one per state: ever more CPUs pinned and huge pages used."""
    before, _, after = pattern.partition(f"[000001-{count:06d}]")
    firsts = list(accumulate(share_evenly(count, group.numa_states), initial=1))
    for state, (first, beyond) in enumerate(pairwise(firsts)):
        if beyond > first:
            run = f"{before}[{first:06d}-{beyond - 1:06d}]{after}"
            yield {"host": run, "numa": {"cells": [numa_cell(cell, state) for cell in (0, 1)]}, **group.like}


def numa_cell(cell: int, state: int) -> dict[str, Any]:
    """32 CPUs on 16 cores, 128 GiB in pages of 4 KiB and 2 MiB; what is used differs from state to state."""
    cpus = list(range(32 * cell, 32 * cell + 32))
    return {
        "id": cell,
        "cpuset": cpus,
        "pcpuset": cpus,
        "memory": 131072,
        "memory_usage": 1024 * (state % 16),
        "pinned_cpus": cpus[: (state * (cell + 1)) % 30],
        "siblings": [cpus[at : at + 2] for at in range(0, 32, 2)],
        "mempages": [
            {"size_kb": 4, "total": 8 << 20, "used": 0},
            {"size_kb": 2048, "total": 32768, "used": (state * 600) % 32768},
        ],
        "socket": cell,
    }


def usage(group: HostGroup, used: tuple[float, ...]) -> dict[str, int]:
    """What is given out, in a fleet file's terms. `used`: parts of CPUs, memory, disk."""
    cpu, ram, disk = used
    like = HostRecord("any", **{name: value for name, value in group.like.items() if name in _SIZES})
    return {
        "vcpus_used": round(like.vcpus_total * like.cpu_allocation_ratio * cpu),
        "free_ram_mb": round(like.total_usable_ram_mb * (1 - like.ram_allocation_ratio * ram)),
        "free_disk_mb": round(1024 * like.total_usable_disk_gb * (1 - like.disk_allocation_ratio * disk)),
    }


_SIZES = (
    "vcpus_total",
    "total_usable_ram_mb",
    "total_usable_disk_gb",
    "cpu_allocation_ratio",
    "ram_allocation_ratio",
    "disk_allocation_ratio",
)


def scheduler_options(workload: Workload) -> dict[str, dict[str, Any]]:
    """The rules, under nova's option names."""
    rules = {"enabled_filters": list(workload.filters), "weight_classes": list(workload.weighers)}
    more = {group: dict(names) for group, names in workload.options.items()}
    return more | {"filter_scheduler": more.get("filter_scheduler", {}) | rules}


def make_requests(requests: Requests, seed: int) -> list[RequestSpec]:
    """The requests in their order."""
    flavors, weights = zip(*read_sizes(requests), strict=True)
    drawn = random.Random(seed).choices(flavors, weights, k=requests.count)
    image = None if requests.image is None else Image(id="image", properties=take_properties(requests.image))
    return [
        RequestSpec(
            flavor=flavor,
            image=image,
            num_instances=requests.instances,
            project_id=requests.project,
            availability_zone=requests.zone,
        )
        for flavor in drawn
    ]


def read_sizes(requests: Requests) -> list[tuple[Flavor, int]]:
    """Each size, with the number of machines that had it."""
    path = DATA / requests.sizes
    if not path.is_file():
        raise BadInput(f"requests.sizes: there is no file {requests.sizes} in {DATA.name}/")
    with path.open(encoding="utf-8", newline="") as lines:
        return [
            (
                Flavor(
                    int(row["vcpus"]),
                    int(row["memory_mb"]),
                    root_gb=requests.root_gb,
                    extra_specs=requests.extra_specs,
                ),
                int(row["vms"]),
            )
            for row in csv.DictReader(lines)
        ]
