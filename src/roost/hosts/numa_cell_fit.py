# SPDX-License-Identifier: Apache-2.0
"""One NUMA cell of an instance on one NUMA cell of a host: is there room, and which pages and CPUs would it get?"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from roost.hosts.numa_cells import HostCell, PagePool
from roost.hosts.numa_pinning import pin_cpus
from roost.model.numa import ANY, LARGE, SMALL, InstanceCell


@dataclass(frozen=True)
class OvercommitLimits:
    """How far the shared CPUs and the memory of a cell may be overcommitted."""

    cpu_ratio: float
    ram_ratio: float


def fit_cell(
    host: HostCell, cell: InstanceCell, overhead: int, limits: OvercommitLimits | None
) -> InstanceCell | None:
    """The instance cell as it would be on the host cell, or None where it does not fit.

    `overhead` is the number of dedicated CPUs that the emulator threads need beside the guest's own.
    """
    page_size = choose_page_size(host, cell) if cell.pagesize is not None else None
    if page_size is None and (cell.pagesize is not None or not has_memory(host, cell)):
        return None
    if not has_shared_cpus(host, cell):
        return None
    pinning: tuple[tuple[int, int], ...] = ()
    reserved: frozenset[int] = frozenset()
    if cell.is_pinned:
        if not has_free_pcpus(host, cell, overhead):
            return None
        pins = pin_cpus(host, len(cell.pcpuset), cell.cpu_thread_policy, overhead)
        if pins is None:
            return None
        pinning, reserved = tuple(zip(sorted(cell.pcpuset), pins.cpus, strict=True)), pins.reserved
    if not within_limits(host, cell, limits):
        return None
    return dataclasses.replace(cell, id=host.id, pagesize=page_size, cpu_pinning=pinning, cpuset_reserved=reserved)


def pools_for(host: HostCell, page_size: int) -> tuple[PagePool, ...]:
    """The page pools that a request for this page size may take from, in the order of trial."""
    if page_size == SMALL:
        return host.pools[-1:]
    if page_size == LARGE:
        return host.pools[:-1]
    return tuple(pool for pool in host.pools if page_size in (ANY, pool.size_kb))


def choose_page_size(host: HostCell, cell: InstanceCell) -> int | None:
    """The page size (KiB) that a cell with a page size gets; None where no pool has enough free pages."""
    for pool in pools_for(host, cell.pagesize or ANY):
        if cell.memory_kb <= pool.free_kb and cell.memory_kb % pool.size_kb == 0:
            return pool.size_kb
    return None


def has_memory(host: HostCell, cell: InstanceCell) -> bool:
    """Whether a cell without a page size finds its memory, in whole pages.

    With dedicated CPUs in what is free. With shared ones in what there is: `within_limits` judges how much of
    it may be promised twice, but a guest never competes with itself.
    """
    if not host.pools:
        return cell.memory <= (host.free_memory if cell.is_pinned else host.memory)
    smallest = host.pools[-1]
    room_kb = smallest.free_kb if cell.is_pinned else smallest.total_kb
    return cell.memory_kb <= room_kb and cell.memory_kb % smallest.size_kb == 0


def has_shared_cpus(host: HostCell, cell: InstanceCell) -> bool:
    """Whether the cell's shared CPUs, if any, are no more than the host cell has."""
    return cell.cpu_policy == "dedicated" or len(cell.cpuset) <= len(host.cpuset)


def has_free_pcpus(host: HostCell, cell: InstanceCell, overhead: int) -> bool:
    """Whether there are enough free dedicated CPUs, on whatever cores."""
    return len(cell.pcpuset) + overhead <= len(host.free_pcpus)


def within_limits(host: HostCell, cell: InstanceCell, limits: OvercommitLimits | None) -> bool:
    """Whether shared CPUs and memory stay within the overcommit ratios; a purely dedicated cell has none."""
    if limits is None or cell.cpu_policy == "dedicated":
        return True
    cpus, memory = host.cpu_usage + len(cell.cpuset), host.memory_usage + cell.memory
    return cpus <= len(host.cpuset) * limits.cpu_ratio and memory <= host.memory * limits.ram_ratio
