# SPDX-License-Identifier: Apache-2.0
"""The fleet of a workload. Same seed, same fleet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from benchmarks.workload import HostGroup, Workload
from numpy.random import default_rng

from roost import Fleet
from roost.hosts import HostTable
from roost.hosts.arrays import FloatArray, RowArray

_AT_A_TIME = 4096


def make_fleet(workload: Workload) -> Fleet:
    """The hosts with what is used of them.

    Usage is written into the columns: an entry per host, each with its own numbers, would take a minute and two
    gigabytes at a million hosts. Some hosts at a time, so that nothing of it shows where memory is measured.
    """
    fleet = Fleet.load(fleet_document(workload))
    chance = default_rng(workload.seed)
    for start in range(0, workload.hosts.count, _AT_A_TIME):
        numbers = group_numbers(fleet.table, start, start + _AT_A_TIME)
        for number, group in enumerate(workload.hosts.groups):
            if group.used_range != (0.0, 0.0):
                rows = start + np.flatnonzero(numbers == number)
                use(fleet.table, rows, group, chance.uniform(*group.used_range, size=(3, len(rows))))
    return fleet


def fleet_document(workload: Workload) -> dict[str, Any]:
    """The hosts as `Fleet.load` takes them, unused. Equal ones are one entry with a range of names."""
    shape = workload.hosts
    members: dict[str, list[str]] = {zone: [] for zone in shape.zones}
    hosts: list[dict[str, Any]] = []
    for number, (group, total) in enumerate(zip(shape.groups, split(shape.count, shape.groups), strict=True)):
        for zone, count in zip(shape.zones or ("",), share_evenly(total, len(shape.zones) or 1), strict=True):
            if not count:
                continue
            pattern = f"node-[000001-{count:06d}]-{zone or 'any'}-{number}"
            hosts += numa_entries(group, pattern, count) if group.numa_states else [{"host": pattern, **group.like}]
            if zone:
                members[zone].append(pattern)
    aggregates = [
        {"name": zone, "metadata": {"availability_zone": zone}, "hosts": patterns}
        for zone, patterns in members.items()
    ]
    return {"hosts": hosts, "aggregates": aggregates}


def group_numbers(table: HostTable, first: int, beyond: int) -> RowArray:
    """The group of each of these hosts: the last part of its name."""
    return np.fromiter((int(host.rpartition("-")[2]) for host, _ in table.names[first:beyond]), dtype=np.intp)


def use(table: HostTable, rows: RowArray, group: HostGroup, used: FloatArray) -> None:
    """Give out these parts of the hosts of a group. `used`: CPUs, memory and disk, each a part per host."""
    numbers, (cpu, ram, disk) = table.numbers, used
    vcpus, ram_mb, disk_gb = (numbers[name][rows] for name in _TOTALS)
    vcpus_used = np.rint(vcpus * numbers["cpu_allocation_ratio"][rows] * cpu)
    free_ram_mb = np.rint(ram_mb * (1 - numbers["ram_allocation_ratio"][rows] * ram))
    free_disk_mb = np.rint(1024 * disk_gb * (1 - numbers["disk_allocation_ratio"][rows] * disk))
    ram_mb_taken = ram_mb - group.like.get("reserved_ram_mb", 0) - free_ram_mb
    disk_gb_taken = disk_gb - group.like.get("reserved_disk_gb", 0) - free_disk_mb // 1024
    columns = {
        "vcpus_used": vcpus_used,
        "free_ram_mb": free_ram_mb,
        "free_disk_mb": free_disk_mb,
        "disk_mb_used": 1024 * disk_gb - free_disk_mb,
        "allocated:VCPU": vcpus_used,
        "allocated:MEMORY_MB": np.maximum(0, ram_mb_taken),
        "allocated:DISK_GB": np.maximum(0, disk_gb_taken),
    }
    for name, values in columns.items():
        table.writable_column(name)[rows] = values


_TOTALS = ("vcpus_total", "total_usable_ram_mb", "total_usable_disk_gb")


def split(total: int, groups: Sequence[HostGroup]) -> list[int]:
    """The total in whole parts that are in proportion to the shares, and add up."""
    sums = list(accumulate((group.share for group in groups), initial=0.0))
    return [round(total * upper / sums[-1]) - round(total * lower / sums[-1]) for lower, upper in pairwise(sums)]


def share_evenly(total: int, parts: int) -> list[int]:
    """The total in whole parts that differ by one at most."""
    return [total // parts + (at < total % parts) for at in range(parts)]


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
