# SPDX-License-Identifier: Apache-2.0
"""Usage of a host's NUMA cells: adding that of a guest when it is placed, and removing it when it leaves.

`record_usage` refuses what is in use already; `add_usage` is for a guest that is there in any case.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from roost.errors import RoostError
from roost.hosts.numa_cells import HostCell, HostTopology, PagePool
from roost.model.numa import InstanceCell, InstanceTopology


class NumaUsageError(RoostError):
    """A guest would use NUMA cells or CPUs that the host does not have or another guest uses: the state is stale."""

    code = "roost.numa_usage"
    hint = "fit the guest again on the host as it is now"


def record_usage(host: HostTopology, fitted: InstanceTopology) -> HostTopology:
    """The host's topology with the usage of a guest added; `fitted` is what `fit` returned for it."""
    return _change_cells(host, fitted.cells, _with_new_guest)


def add_usage(host: HostTopology, cells: Sequence[InstanceCell]) -> HostTopology:
    """The host's topology with the usage of a guest added, even beyond what is free. Unknown cells are ignored."""
    return _change_cells(host, _known_cells(host, cells), _with_guest)


def release_usage(host: HostTopology, fitted: InstanceTopology) -> HostTopology:
    """The host's topology without the usage of a guest. Unknown cells are ignored; no usage falls below 0."""
    return _change_cells(host, _known_cells(host, fitted.cells), _without_guest)


def _known_cells(host: HostTopology, cells: Sequence[InstanceCell]) -> list[InstanceCell]:
    known = {cell.id for cell in host.cells}
    return [cell for cell in cells if cell.id in known]


def _change_cells(
    host: HostTopology, cells: Sequence[InstanceCell], change: Callable[[HostCell, InstanceCell], HostCell]
) -> HostTopology:
    by_id = {cell.id: cell for cell in host.cells}
    for cell in cells:
        if cell.id not in by_id:
            raise NumaUsageError(f"the host has no NUMA cell {cell.id}")
        by_id[cell.id] = change(by_id[cell.id], cell)
    return HostTopology(tuple(by_id.values()))


def _with_new_guest(host: HostCell, cell: InstanceCell) -> HostCell:
    """The host cell with the guest's usage; NumaUsageError if a CPU is not dedicated, or pinned already."""
    own, pinned = _cpus_of(host, cell)
    if unknown := own - host.pcpuset:
        raise NumaUsageError(f"CPU {min(unknown)} is no dedicated CPU of NUMA cell {host.id}")
    if twice := pinned & host.pinned_cpus:
        raise NumaUsageError(f"CPU {min(twice)} of NUMA cell {host.id} is pinned already")
    return _with_guest(host, cell)


def _with_guest(host: HostCell, cell: InstanceCell) -> HostCell:
    _, pinned = _cpus_of(host, cell)
    return dataclasses.replace(
        host,
        cpu_usage=host.cpu_usage + len(cell.cpuset),
        memory_usage=host.memory_usage + cell.memory,
        pinned_cpus=host.pinned_cpus | pinned,
        mempages=_with_pages(host, cell, 1),
    )


def _without_guest(host: HostCell, cell: InstanceCell) -> HostCell:
    _, pinned = _cpus_of(host, cell)
    return dataclasses.replace(
        host,
        cpu_usage=max(0, host.cpu_usage - len(cell.cpuset)),
        memory_usage=max(0, host.memory_usage - cell.memory),
        pinned_cpus=host.pinned_cpus - pinned,
        mempages=_with_pages(host, cell, -1),
    )


def _cpus_of(host: HostCell, cell: InstanceCell) -> tuple[frozenset[int], frozenset[int]]:
    """Host CPUs that the guest runs on, and all that become unavailable to other guests (more with `isolate`)."""
    if not cell.is_pinned:
        return frozenset(), frozenset()
    own = cell.cpuset_reserved.union(host_cpu for _, host_cpu in cell.cpu_pinning)
    if cell.cpu_thread_policy != "isolate":
        return own, own
    cores = (core for core in host.siblings if core & own)
    return own, own.union(*cores) & (host.pcpuset | own)


def _with_pages(host: HostCell, cell: InstanceCell, sign: int) -> tuple[PagePool, ...]:
    """The page pools with the guest's pages added (`sign` 1) or removed (-1)."""
    if not host.pools:
        return ()
    size_kb = host.pools[-1].size_kb if cell.pagesize is None else cell.pagesize
    pages = sign * (cell.memory_kb // size_kb)
    return tuple(_with_used(pool, pages) if pool.size_kb == size_kb else pool for pool in host.mempages)


def _with_used(pool: PagePool, pages: int) -> PagePool:
    return dataclasses.replace(pool, used=max(0, pool.used + pages))
