# SPDX-License-Identifier: Apache-2.0
"""NUMA cells and PCI devices of one host: whether a guest fits, and consuming and releasing what it gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from roost.hosts import numa, pci, pci_fit
from roost.hosts.numa_cell_fit import OvercommitLimits
from roost.hosts.numa_cells import HostTopology
from roost.hosts.numa_usage import NumaUsageError
from roost.hosts.pci import Pool
from roost.hosts.pci_fit import PciUnavailable
from roost.model.numa import InstanceTopology
from roost.model.request import RequestSpec

if TYPE_CHECKING:
    from roost.hosts.table import HostTable

Mappings = Mapping[str, Sequence[str]]
"""Request group -> resource providers, of one allocation candidate."""


def fit_guest(
    host: HostTopology,
    pools: Sequence[Pool],
    spec: RequestSpec,
    limits: OvercommitLimits | None,
    packs: bool,
    mappings: Mappings | None = None,
) -> InstanceTopology | None:
    """The guest's NUMA cells placed on the host's, with PCI devices as near as asked; None if it does not fit.

    A request without a NUMA topology has nothing to place: None.
    """
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


def consume_guest(table: HostTable, row: int, spec: RequestSpec, limits: OvercommitLimits | None) -> RequestSpec:
    """Consume the guest's NUMA cells and PCI devices on a row; the request with what it got is returned.

    A guest that does not fit is no error here: the claim on the compute host itself detects it. `is_fully_consumed`
    of the result is False if its NUMA usage or its devices could not be recorded.
    """
    host: HostTopology | None = table.encoded["numa"].at(row)
    pools: tuple[Pool, ...] = table.encoded["pci_pools"].at(row)
    fitted, mappings = spec.numa_topology, spec.candidate.mappings if spec.candidate else None
    if host and fitted:
        fitted = fit_guest(host, pools, spec, limits, table.packs_numa_cells, mappings)
        try:
            table.encoded["numa"].set(row, numa.record_usage(host, fitted) if fitted else host)
        except NumaUsageError:
            return spec.placed_with(None, (), is_fully_consumed=False)
    if not spec.pci_requests:
        return spec.placed_with(fitted, (), is_fully_consumed=True)
    cells = [cell.id for cell in fitted.cells] if fitted else None
    sockets = {cell.id: cell.socket for cell in host.cells} if host else None
    try:
        left, taken = pci_fit.consume_devices(
            pools, spec.pci_requests, cells=cells, sockets=sockets, mappings=mappings
        )
    except PciUnavailable:
        return spec.placed_with(fitted, (), is_fully_consumed=False)
    table.encoded["pci_pools"].set(row, left)
    return spec.placed_with(fitted, taken, is_fully_consumed=True)


def release_guest(table: HostTable, row: int, spec: RequestSpec) -> None:
    """Release the NUMA cells and PCI devices of a request that `consume_guest` returned."""
    host: HostTopology | None = table.encoded["numa"].at(row)
    if host and spec.numa_topology:
        table.encoded["numa"].set(row, numa.release_usage(host, spec.numa_topology))
    if spec.pci_devices:
        pools = table.encoded["pci_pools"].at(row)
        table.encoded["pci_pools"].set(row, pci.release_devices(pools, spec.pci_devices))
