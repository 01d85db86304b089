# SPDX-License-Identifier: Apache-2.0
"""NUMA cells and PCI devices of one host: would a guest fit, and what changes when it moves in or out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from roost.hosts import numa, pci, pci_fit
from roost.hosts.numa import HostTopology, NumaUsageError, OvercommitLimits
from roost.hosts.pci import Pool
from roost.hosts.pci_fit import PciUnavailable
from roost.model.numa import InstanceTopology
from roost.model.request import RequestSpec

if TYPE_CHECKING:
    from roost.hosts.table import HostTable

Mappings = Mapping[str, Sequence[str]]


def fit_guest(
    host: HostTopology,
    pools: Sequence[Pool],
    spec: RequestSpec,
    limits: OvercommitLimits | None,
    packs: bool,
    mappings: Mappings | None = None,
) -> InstanceTopology | None:
    """The guest's cells on the host's, with PCI devices near enough for it; None where it does not fit."""
    if spec.numa_topology is None:
        return None
    sockets = {cell.id: cell.socket for cell in host.cells}

    def devices_fit(cells: Sequence[int]) -> bool:
        return pci_fit.supports(pools, spec.pci_requests, cells=cells, sockets=sockets, mappings=mappings)

    return numa.fit(
        host,
        spec.numa_topology,
        limits,
        packs=packs,
        free_devices_per_cell=pci.free_devices_per_cell(pools),
        asks_devices=bool(spec.pci_requests),
        devices_fit=devices_fit if spec.pci_requests else None,
        network=spec.network_metadata,
    )


def take_in(table: HostTable, row: int, spec: RequestSpec, limits: OvercommitLimits | None) -> RequestSpec:
    """Give the guest its cells and devices. What cannot be given is left to the host's own claim to find out."""
    host: HostTopology | None = table.encoded["numa"].at(row)
    pools: tuple[Pool, ...] = table.encoded["pci_pools"].at(row)
    fitted = spec.numa_topology
    if host and fitted:
        fitted = fit_guest(host, pools, spec, limits, table.packs_numa_cells)
        try:
            table.encoded["numa"].set(row, numa.record_usage(host, fitted) if fitted else host)
        except NumaUsageError:
            return spec.placed_with(None, (), is_fully_consumed=False)
    if not spec.pci_requests:
        return spec.placed_with(fitted, (), is_fully_consumed=True)
    cells = [cell.id for cell in fitted.cells] if fitted else None
    sockets = {cell.id: cell.socket for cell in host.cells} if host else None
    try:
        left, taken = pci_fit.consume_devices(pools, spec.pci_requests, cells=cells, sockets=sockets)
    except PciUnavailable:
        return spec.placed_with(fitted, (), is_fully_consumed=False)
    table.encoded["pci_pools"].set(row, left)
    return spec.placed_with(fitted, taken, is_fully_consumed=True)


def let_go(table: HostTable, row: int, spec: RequestSpec) -> None:
    """Take back what `take_in` gave."""
    host: HostTopology | None = table.encoded["numa"].at(row)
    if host and spec.numa_topology:
        table.encoded["numa"].set(row, numa.free_usage(host, spec.numa_topology))
    if spec.pci_devices:
        pools = table.encoded["pci_pools"].at(row)
        table.encoded["pci_pools"].set(row, pci.release_devices(pools, spec.pci_devices))
