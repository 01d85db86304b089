# SPDX-License-Identifier: Apache-2.0
"""Whether the NUMA topology of an instance fits on that of a host, and where: start reading at `fit`.

Cells and JSON are in `numa_cells.py`, one pair of cells in `numa_pairs.py`, the choice of CPUs in
`numa_pinning.py`, what a guest takes in `numa_usage.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from roost.hosts.numa_cell_fit import OvercommitLimits, fit_cell
from roost.hosts.numa_cells import HostCell, HostTopology, PagePool, has_threads, host_topology_from_json
from roost.hosts.numa_reasons import first_obstacle
from roost.hosts.numa_usage import NumaUsageError, free_usage, record_usage
from roost.model.numa import InstanceCell, InstanceTopology
from roost.model.request_parts import NetworkMetadata

__all__ = [
    "HostCell",
    "HostTopology",
    "NumaUsageError",
    "OvercommitLimits",
    "PagePool",
    "fit",
    "free_usage",
    "has_threads",
    "host_topology_from_json",
    "record_usage",
    "why_not",
]


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
    """The instance as it would be on the host - cell ids, page sizes, pinning - or None where it does not fit.

    Each instance cell gets a host cell of its own. Host cells are tried emptiest first, or fullest first when
    it `packs`; with known free PCI devices (by cell id) those matter most: cells with many come first for an
    instance that `asks_devices`, last for others. `devices_fit` is asked about the ids of the chosen host
    cells, in the order of the instance's; its answer must not depend on that order.
    """
    if len(host.cells) < len(instance.cells):
        return None
    places = list(host.cells)
    if len(places) > len(instance.cells):
        _order(places, instance.is_pinned, packs, free_devices_per_cell, asks_devices)

    def is_accepted(cells: tuple[InstanceCell, ...]) -> bool:
        ids = tuple(cell.id for cell in cells)
        return _networks_agree(host, ids, network) and (devices_fit is None or devices_fit(ids))

    cells = _search(places, instance, limits, is_accepted)
    return None if cells is None else InstanceTopology(cells, instance.emulator_threads_policy)


def _order(
    places: list[HostCell],
    is_pinned: bool,
    packs: bool,
    free_devices_per_cell: Mapping[int, int] | None,
    asks_devices: bool,
) -> None:
    """Sort the host cells into the order of trial; the last sort matters most, ties keep their order."""
    places.sort(key=lambda cell: cell.free_memory, reverse=not packs)
    if is_pinned:
        places.sort(key=lambda cell: len(cell.free_pcpus), reverse=not packs)
    else:
        places.sort(key=lambda cell: cell.cpu_usage, reverse=packs)
    if free_devices_per_cell is not None:
        places.sort(key=lambda cell: free_devices_per_cell.get(cell.id, 0), reverse=asks_devices)


def _search(
    places: list[HostCell],
    instance: InstanceTopology,
    limits: OvercommitLimits | None,
    is_accepted: Callable[[tuple[InstanceCell, ...]], bool],
) -> tuple[InstanceCell, ...] | None:
    """The first of all ways to give the instance cells a place each, in lexicographic order of the places.

    What can become of the remaining cells depends only on which places are taken, so a set of places that led
    nowhere once (`hopeless`, as bits) is never tried again.
    """
    hopeless: set[int] = set()
    pairs: dict[tuple[int, int], InstanceCell | None] = {}

    def at_place(position: int, place: int) -> InstanceCell | None:
        # Remembered by position: fitted cells carry the host's ids, so an id says nothing about which cell it is.
        key = (position, place)
        if key not in pairs:
            overhead = instance.overhead_of(position)
            pairs[key] = fit_cell(places[place], instance.cells[position], overhead, limits)
        return pairs[key]

    def extend(chosen: tuple[InstanceCell, ...], taken: int) -> tuple[InstanceCell, ...] | None:
        if len(chosen) == len(instance.cells):
            return chosen if is_accepted(chosen) else None
        for place in range(len(places)):
            after = taken | 1 << place
            if after == taken or after in hopeless or (cell := at_place(len(chosen), place)) is None:
                continue
            if (found := extend((*chosen, cell), after)) is not None:
                return found
            hopeless.add(after)
        return None

    return extend((), 0)


def _networks_agree(host: HostTopology, ids: tuple[int, ...], network: NetworkMetadata | None) -> bool:
    """A network that some cell of the host is near to must be near to a chosen one."""
    if network is None:
        return True
    chosen = [cell for cell in host.cells if cell.id in ids]
    declared = frozenset().union(*(cell.physnets for cell in host.cells))
    missing = network.physnets.difference(*(cell.physnets for cell in chosen))
    if missing & declared:
        return False
    return not network.tunneled or any(c.tunneled for c in chosen) or not any(c.tunneled for c in host.cells)


def why_not(host: HostTopology, instance: InstanceTopology, limits: OvercommitLimits | None) -> str:
    """Why `fit` found nothing, in one sentence for people."""
    if obstacle := first_obstacle(host, instance, limits):
        return obstacle
    if fit(host, instance, limits) is None:
        return f"the {len(instance.cells)} NUMA cells asked fit one by one, but not on different cells of the host"
    return "the NUMA cells fit, but not near the devices or networks asked for"
