# SPDX-License-Identifier: Apache-2.0
"""Builds the fleet of a workload; equal seeds give equal fleets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from benchmarks.workload import HostGroup, Workload
from numpy.random import default_rng

from roost import Fleet
from roost.hosts import HostTable
from roost.hosts.encoded import FloatArray, RowArray

_BATCH = 4096


def make_fleet(workload: Workload) -> Fleet:
    """The fleet of a workload, with the usage of its hosts.

    Usage is written into the columns: a fleet document with an entry per host would take a minute and two gigabytes
    at a million hosts. It is written in batches, so that temporary arrays do not show where memory is measured.
    """
    fleet = Fleet.load(fleet_document(workload))
    generator = default_rng(workload.seed)
    for start in range(0, workload.hosts.count, _BATCH):
        numbers = group_numbers(fleet.table, start, start + _BATCH)
        for number, group in enumerate(workload.hosts.groups):
            if group.used_range != (0.0, 0.0):
                rows = start + np.flatnonzero(numbers == number)
                use(fleet.table, rows, group, generator.uniform(*group.used_range, size=(3, len(rows))))
    return fleet


def fleet_document(workload: Workload) -> dict[str, Any]:
    """The fleet document of a workload, without usage. Equal hosts are one entry with a range of names."""
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
    """The group of each host in rows [first, beyond), parsed from the last part of its name."""
    return np.fromiter((int(host.rpartition("-")[2]) for host, _ in table.names[first:beyond]), dtype=np.intp)


def use(table: HostTable, rows: RowArray, group: HostGroup, used: FloatArray) -> None:
    """Write the usage of these rows. `used`: three rows, the used fraction of CPUs, memory and disk per host."""
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
    """Integers in proportion to the shares of the groups; they add up to the total."""
    sums = list(accumulate((group.share for group in groups), initial=0.0))
    return [round(total * upper / sums[-1]) - round(total * lower / sums[-1]) for lower, upper in pairwise(sums)]


def share_evenly(total: int, parts: int) -> list[int]:
    """Integers that differ by at most one; they add up to the total."""
    return [total // parts + (at < total % parts) for at in range(parts)]


def numa_entries(group: HostGroup, pattern: str, count: int) -> Iterator[dict[str, Any]]:
    """Fleet entries of ranges of hosts, one per NUMA state, with increasing pinned CPUs and used huge pages."""
    before, _, after = pattern.partition(f"[000001-{count:06d}]")
    firsts = list(accumulate(share_evenly(count, group.numa_states), initial=1))
    for state, (first, beyond) in enumerate(pairwise(firsts)):
        if beyond > first:
            run = f"{before}[{first:06d}-{beyond - 1:06d}]{after}"
            yield {"host": run, "numa": {"cells": [numa_cell(cell, state) for cell in (0, 1)]}, **group.like}


def numa_cell(cell: int, state: int) -> dict[str, Any]:
    """A NUMA cell with 32 CPUs on 16 cores and 128 GiB in pages of 4 KiB and 2 MiB; usage depends on the state."""
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
