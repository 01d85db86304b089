# SPDX-License-Identifier: Apache-2.0
"""Whether the NUMA topology of an instance fits on that of a host, and where; and the usage that a guest adds there.

`fit` is the place to start reading; `numa_cells.py` has one instance cell on one host cell. A placed guest is added
by `record_usage`, which refuses what is in use already; `add_usage` is for a guest that is there in any case.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from roost.errors import RoostError
from roost.hosts.numa_cells import (
    HostCell,
    HostTopology,
    OvercommitLimits,
    PagePool,
    first_obstacle,
    fit_cell,
)
from roost.model.numa import InstanceCell, InstanceTopology
from roost.model.request import NetworkMetadata


def fit(
    host: HostTopology,
    instance: InstanceTopology,
    limits: OvercommitLimits | None,
    *,
    packs: bool = False,
    free_devices_per_cell: Mapping[int, int] | None = None,
    asks_devices: bool = False,
    devices_fit: Callable[[tuple[int, ...]], bool] | None = None,
    network: NetworkMetadata | None = None,
) -> InstanceTopology | None:
    """The instance as it would be on the host - cell ids, page sizes, pinning - or None if it does not fit.

    Each instance cell gets a host cell of its own. Host cells are tried emptiest first, or fullest first if `packs`.
    `free_devices_per_cell` (cell id -> free PCI devices) takes precedence over that: cells with many devices are
    tried first for an instance that `asks_devices`, last for one that does not. `devices_fit` is called with the ids
    of the chosen host cells, in the order of the instance's cells; its answer must not depend on that order.
    """
    if len(host.cells) < len(instance.cells):
        return None
    host_cells = list(host.cells)
    if len(host_cells) > len(instance.cells):
        _sort_host_cells(host_cells, instance.is_pinned, packs, free_devices_per_cell, asks_devices)

    def is_accepted(cells: tuple[InstanceCell, ...]) -> bool:
        ids = tuple(cell.id for cell in cells)
        return _networks_agree(host, ids, network) and (devices_fit is None or devices_fit(ids))

    cells = _search(host_cells, instance, limits, is_accepted)
    return None if cells is None else InstanceTopology(cells, instance.emulator_threads_policy)


def _sort_host_cells(
    host_cells: list[HostCell],
    is_pinned: bool,
    packs: bool,
    free_devices_per_cell: Mapping[int, int] | None,
    asks_devices: bool,
) -> None:
    """Sort the host cells, in place, into the order of trial: stable sorts, the least significant key first."""
    host_cells.sort(key=lambda cell: cell.free_memory, reverse=not packs)
    if is_pinned:
        host_cells.sort(key=lambda cell: len(cell.free_pcpus), reverse=not packs)
    else:
        host_cells.sort(key=lambda cell: cell.cpu_usage, reverse=packs)
    if free_devices_per_cell is not None:
        host_cells.sort(key=lambda cell: free_devices_per_cell.get(cell.id, 0), reverse=asks_devices)


def _search(
    host_cells: list[HostCell],
    instance: InstanceTopology,
    limits: OvercommitLimits | None,
    is_accepted: Callable[[tuple[InstanceCell, ...]], bool],
) -> tuple[InstanceCell, ...] | None:
    """The first accepted assignment of instance cells to different host cells; None if there is none.

    Depth-first, in lexicographic order of the host cells. Whether the remaining instance cells fit depends only on
    the set of host cells in use, so a set that failed (`hopeless`, as a bit mask) is never tried again.
    """
    hopeless: set[int] = set()
    fitted: dict[tuple[int, int], InstanceCell | None] = {}

    def fit_pair(position: int, place: int) -> InstanceCell | None:
        # Memoised by position, not by id: a fitted cell carries the id of the host cell.
        key = (position, place)
        if key not in fitted:
            overhead = instance.overhead_of(position)
            fitted[key] = fit_cell(host_cells[place], instance.cells[position], overhead, limits)
        return fitted[key]

    def extend(chosen: tuple[InstanceCell, ...], taken: int) -> tuple[InstanceCell, ...] | None:
        if len(chosen) == len(instance.cells):
            return chosen if is_accepted(chosen) else None
        for place in range(len(host_cells)):
            after = taken | 1 << place
            if after == taken or after in hopeless or (cell := fit_pair(len(chosen), place)) is None:
                continue
            if (found := extend((*chosen, cell), after)) is not None:
                return found
            hopeless.add(after)
        return None

    return extend((), 0)


def _networks_agree(host: HostTopology, ids: tuple[int, ...], network: NetworkMetadata | None) -> bool:
    """Whether the chosen host cells are near the networks asked for, as far as any cell of the host is near them."""
    if network is None:
        return True
    chosen = [cell for cell in host.cells if cell.id in ids]
    declared = frozenset().union(*(cell.physnets for cell in host.cells))
    missing = network.physnets.difference(*(cell.physnets for cell in chosen))
    if missing & declared:
        return False
    return not network.tunneled or any(c.tunneled for c in chosen) or not any(c.tunneled for c in host.cells)


def topology_reason(host: HostTopology, instance: InstanceTopology, limits: OvercommitLimits | None) -> str:
    """One sentence, with the numbers, on why `fit` returned None."""
    if obstacle := first_obstacle(host, instance, limits):
        return obstacle
    if fit(host, instance, limits) is None:
        return f"the {len(instance.cells)} NUMA cells asked fit one by one, but not on different cells of the host"
    return "the NUMA cells fit, but not near the devices or networks asked for"


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
