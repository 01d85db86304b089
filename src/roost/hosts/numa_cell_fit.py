# SPDX-License-Identifier: Apache-2.0
"""One NUMA cell of an instance on one NUMA cell of a host: whether it fits, and which pages and CPUs it gets."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from roost.hosts.numa_cells import HostCell, PagePool
from roost.hosts.numa_pinning import pin_cpus
from roost.model.cpu_policy import ANY, LARGE, SMALL
from roost.model.numa import InstanceCell


@dataclass(frozen=True)
class OvercommitLimits:
    """How far the shared CPUs and the memory of a NUMA cell may be overcommitted."""

    cpu_ratio: float
    """Guest CPUs per shared host CPU."""
    ram_ratio: float
    """Guest memory per host memory."""


def fit_cell(
    host: HostCell, cell: InstanceCell, overhead: int, limits: OvercommitLimits | None
) -> InstanceCell | None:
    """The instance cell as it would be on the host cell, or None if it does not fit.

    `overhead` is the number of dedicated CPUs that the emulator threads need in addition to the guest's own.
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
    """The page pools that a request for a page size (KiB, or SMALL, LARGE, ANY) may use, in the order of trial."""
    if page_size == SMALL:
        return host.pools[-1:]
    if page_size == LARGE:
        return host.pools[:-1]
    return tuple(pool for pool in host.pools if page_size in (ANY, pool.size_kb))


def choose_page_size(host: HostCell, cell: InstanceCell) -> int | None:
    """The page size (KiB) for an instance cell that asks for one; None if no pool has enough free pages."""
    for pool in pools_for(host, cell.pagesize or ANY):
        if cell.memory_kb <= pool.free_kb and cell.memory_kb % pool.size_kb == 0:
            return pool.size_kb
    return None


def has_memory(host: HostCell, cell: InstanceCell) -> bool:
    """Whether the memory of an instance cell without a page size fits, in whole pages of the smallest size.

    A cell with dedicated CPUs needs it free. For one with shared CPUs the total counts: `within_limits` checks the
    overcommit, but a guest is never overcommitted against itself.
    """
    if not host.pools:
        return cell.memory <= (host.free_memory if cell.is_pinned else host.memory)
    smallest = host.pools[-1]
    available_kb = smallest.free_kb if cell.is_pinned else smallest.total_kb
    return cell.memory_kb <= available_kb and cell.memory_kb % smallest.size_kb == 0


def has_shared_cpus(host: HostCell, cell: InstanceCell) -> bool:
    """Whether the host cell has at least as many shared CPUs as the instance cell asks for."""
    return cell.cpu_policy == "dedicated" or len(cell.cpuset) <= len(host.cpuset)


def has_free_pcpus(host: HostCell, cell: InstanceCell, overhead: int) -> bool:
    """Whether the host cell has enough free dedicated CPUs, regardless of their cores."""
    return len(cell.pcpuset) + overhead <= len(host.free_pcpus)


def within_limits(host: HostCell, cell: InstanceCell, limits: OvercommitLimits | None) -> bool:
    """Whether shared CPUs and memory stay within the overcommit ratios; True for a cell with dedicated CPUs only."""
    if limits is None or cell.cpu_policy == "dedicated":
        return True
    cpus, memory = host.cpu_usage + len(cell.cpuset), host.memory_usage + cell.memory
    return cpus <= len(host.cpuset) * limits.cpu_ratio and memory <= host.memory * limits.ram_ratio
