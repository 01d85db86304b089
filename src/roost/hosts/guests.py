# SPDX-License-Identifier: Apache-2.0
"""What a guest holds of a host beside resource classes: pinned CPUs, memory of NUMA cells, PCI devices.

`fit_guest`, `consume_guest` and `release_guest` work on a row of the table. The ledger books a `Guest` with the
claim; `GuestSpace` is what a node has for guests.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from roost.hosts import numa, pci
from roost.hosts.numa import NumaUsageError, add_usage, record_usage, release_usage
from roost.hosts.numa_cells import (
    HostCell,
    HostTopology,
    OvercommitLimits,
    choose_page_size,
    has_memory,
    host_topology_from_json,
    within_limits,
)
from roost.hosts.pci import (
    PciUnavailable,
    Pool,
    Pools,
    count_by_properties,
    pools_from_json,
    release_devices,
    remove_devices,
)
from roost.model.json_records import to_json
from roost.model.numa import InstanceCell, InstanceTopology
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
        return pci.supports(pools, spec.pci_requests, cells=cells, sockets=sockets, mappings=mappings)

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
        left, taken = pci.consume_devices(pools, spec.pci_requests, cells=cells, sockets=sockets, mappings=mappings)
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


_ENCODE = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_DIGEST_LENGTH = 32


Shape = tuple[tuple[Any, ...], int]
"""Size and policies of each NUMA cell, and the number of PCI devices."""


@dataclass(frozen=True)
class Guest:
    """What one instance holds of a node: NUMA cells as fitted to the host, and PCI devices as pools with counts."""

    cells: tuple[InstanceCell, ...] = ()
    devices: Pools = ()
    instance_uuid: str = ""
    """The instance, also where a migration holds this for it during a move."""
    asked: str = ""
    """Digest of what the request asked for, also where it got less; empty in bookings of older versions."""

    @property
    def shape(self) -> Shape:
        """What it was placed for, whichever CPUs and devices it got."""
        return _shape(self.cells, sum(pool.count for pool in self.devices))

    def to_text(self) -> str:
        """The JSON text of the column `guest`; empty fields are left out."""
        cells = [_without_empty(to_json(cell)) | {"id": cell.id} for cell in self.cells]
        devices = [pool.to_dict() for pool in self.devices]
        asked = {"asked": self.asked} if self.asked else {}
        return _ENCODE({"instance": self.instance_uuid, "cells": cells, "devices": devices, **asked})


def answers(guest: Guest | None, spec: RequestSpec, numa: HostTopology | None) -> bool:
    """Whether a guest was placed for just this request, on a host with these NUMA cells."""
    if guest is not None and guest.asked:
        return guest.asked == digest_of_asked(spec)
    cells = spec.numa_topology.cells if spec.numa_topology and numa else ()
    return _shape_of(guest) == _shape(cells, sum(request.count for request in spec.pci_requests or ()))


def are_alike(first: Guest | None, second: Guest | None) -> bool:
    """Whether two guests were placed for the same request, whichever CPUs and devices they got."""
    if first is not None and second is not None and first.asked and second.asked:
        return first.asked == second.asked
    return _shape_of(first) == _shape_of(second)


def digest_of_asked(spec: RequestSpec) -> str:
    """A text that is equal for requests for the same NUMA topology and PCI devices; empty if it asks for none."""
    topology = spec.numa_topology
    if not topology and not spec.pci_requests:
        return ""
    cells = [
        [
            *map(sorted, (cell.cpuset, cell.pcpuset)),
            cell.memory,
            cell.pagesize,
            cell.cpu_policy,
            cell.cpu_thread_policy,
        ]
        for cell in (topology.cells if topology else ())
    ]
    devices = [
        [request.count, request.numa_policy, sorted(sorted(each.items()) for each in request.spec)]
        for request in spec.pci_requests or ()
    ]
    asked = [cells, topology.emulator_threads_policy if topology else None, sorted(map(_ENCODE, devices))]
    return hashlib.sha256(_ENCODE(asked).encode()).hexdigest()[:_DIGEST_LENGTH]


def _shape_of(guest: Guest | None) -> Shape:
    """The shape of a guest; that of None is the one of a request for resource classes only."""
    return _shape((), 0) if guest is None else guest.shape


def _shape(cells: Iterable[InstanceCell], devices: int) -> Shape:
    sizes = ((cell.cpuset, cell.pcpuset, cell.memory, cell.cpu_policy, cell.cpu_thread_policy) for cell in cells)
    return tuple(sizes), devices


def _without_empty(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value}


def guest_of(placed: RequestSpec, numa: HostTopology | None, asked: str = "") -> Guest | None:
    """What a request holds that was placed on a host with these NUMA cells; None if that is resource classes only.

    `asked`: of `digest_of_asked`. One that asked for more than the host could give holds nothing, and is a guest.
    """
    cells = placed.numa_topology.cells if placed.numa_topology and numa else ()
    is_guest = cells or placed.pci_devices or asked
    return Guest(cells, placed.pci_devices, str(placed.instance_uuid), asked) if is_guest else None


def merge_guests(first: Guest | None, second: Guest | None) -> Guest | None:
    """What two guests of one instance hold of a node, as one; None if neither holds anything."""
    if first is None or second is None:
        return first or second
    return Guest(first.cells + second.cells, first.devices + second.devices, first.instance_uuid)


def common_part(first: Guest, second: Guest) -> Guest:
    """Memory and devices of a node that two guests of one instance both hold, and the pinned CPUs of either.

    A CPU is pinned once, so no other guest has those.
    """
    others, left = list(second.cells), list(second.devices)
    cells = [replace(cell, cpuset=frozenset(), memory=0) for cell in first.cells + second.cells if cell.is_pinned]
    devices = []
    for cell in first.cells:
        if other := next((each for each in others if (each.id, each.pagesize) == (cell.id, cell.pagesize)), None):
            others.remove(other)
            cpus = min(cell.cpuset, other.cpuset, key=len)
            memory = min(cell.memory, other.memory)
            cells.append(InstanceCell(cell.id, cpus, frozenset(), memory, pagesize=cell.pagesize))
    for pool in first.devices:
        if same := next((each for each in left if each.properties == pool.properties), None):
            left.remove(same)
            devices.append(pool.with_count(min(pool.count, same.count)))
    return Guest(tuple(cells), tuple(devices), first.instance_uuid)


def guest_from_text(text: str) -> Guest:
    """The guest of a text that `Guest.to_text` returned."""
    record = json.loads(text)
    devices = pools_from_json(record["devices"])
    return Guest(tuple(map(_cell, record["cells"])), devices, record["instance"], record.get("asked", ""))


def _cell(record: Mapping[str, Any]) -> InstanceCell:
    return InstanceCell(
        id=record["id"],
        cpuset=frozenset(record.get("cpuset", ())),
        pcpuset=frozenset(record.get("pcpuset", ())),
        memory=record.get("memory", 0),
        pagesize=record.get("pagesize"),
        cpu_policy=record.get("cpu_policy"),
        cpu_thread_policy=record.get("cpu_thread_policy"),
        cpu_pinning=tuple((guest, host) for guest, host in record.get("cpu_pinning", ())),
        cpuset_reserved=frozenset(record.get("cpuset_reserved", ())),
    )


class GuestSpace(NamedTuple):
    """NUMA cells of a node with their usage, and its free PCI devices. Immutable: changes return another one."""

    numa: HostTopology | None = None
    pools: Pools = ()

    def shortage(self, guest: Guest, limits: OvercommitLimits | None) -> str:
        """Why the guest does not fit as it is, on these very CPUs and devices; an empty text if it does."""
        return self._cell_shortage(guest.cells, limits) or self._device_shortage(guest.devices)

    def _cell_shortage(self, cells: tuple[InstanceCell, ...], limits: OvercommitLimits | None) -> str:
        by_id = {cell.id: cell for cell in self.numa.cells} if self.numa else {}
        for cell in cells:
            host = by_id.get(cell.id)
            if host is None:
                return f"the host has no NUMA cell {cell.id}"
            if not (has_memory(host, cell) if cell.pagesize is None else choose_page_size(host, cell)):
                return f"NUMA cell {cell.id} has no {cell.memory} MiB free" + (
                    f" in pages of {cell.pagesize} KiB" if cell.pagesize else ""
                )
            if not within_limits(host, cell, limits):
                return f"NUMA cell {cell.id} is at its overcommit limit"
        try:
            if self.numa:
                record_usage(self.numa, InstanceTopology(cells))
        except NumaUsageError as error:
            return error.message
        return ""

    def _device_shortage(self, devices: Pools) -> str:
        free = count_by_properties(self.pools)
        for pool in devices:
            if (left := free.get(pool.properties, 0)) < pool.count:
                names = f"{pool.get('vendor_id')}:{pool.get('product_id')}"
                return f"{left} PCI devices {names} are free there; {pool.count} are needed"
            free[pool.properties] -= pool.count
        return ""

    def with_guest(self, guest: Guest) -> GuestSpace:
        """With the usage of a guest added, even where it does not fit: CPUs may be pinned, no pool falls below 0."""
        numa = add_usage(self.numa, guest.cells) if self.numa and guest.cells else self.numa
        return GuestSpace(numa, remove_devices(self.pools, guest.devices) if guest.devices else self.pools)

    def with_guests(self, guests: Iterable[Guest]) -> GuestSpace:
        """With the usage of all guests added. The order of the guests does not matter."""
        space = self
        for guest in guests:
            space = space.with_guest(guest)
        return space

    def without_guest(self, guest: Guest) -> GuestSpace:
        """With the usage of a guest removed; no usage falls below 0. A pool that was used up is there again."""
        numa = release_usage(self.numa, InstanceTopology(guest.cells)) if self.numa and guest.cells else self.numa
        return GuestSpace(numa, release_devices(self.pools, guest.devices) if guest.devices else self.pools)


# --- JSON texts of a node's columns ------------------------------------------------------------------


class SpaceTexts(NamedTuple):
    """A `GuestSpace` as the texts of the columns `numa_topology` and `pci_stats`; None is NULL."""

    numa: str | None
    pools: str | None

    def decode(self) -> GuestSpace:
        """The space that these texts describe."""
        numa = None if self.numa is None else host_topology_from_json(json.loads(self.numa))
        return GuestSpace(numa, pools_from_json(None if self.pools is None else json.loads(self.pools)))


def space_texts(space: GuestSpace) -> SpaceTexts:
    """The texts of the columns that describe a space."""
    numa = None if space.numa is None else _ENCODE(topology_json(space.numa))
    return SpaceTexts(numa, _ENCODE([pool.to_dict() for pool in space.pools]))


def topology_json(topology: HostTopology | None) -> Any:
    """NUMA cells as a fleet file has them; empty fields are left out."""
    return None if topology is None else {"cells": [_host_cell_json(cell) for cell in topology.cells]}


def _host_cell_json(cell: HostCell) -> dict[str, Any]:
    """Field by field: `to_json` takes six times as long, and every claim of a guest encodes a topology."""
    values: dict[str, Any] = {
        "cpuset": sorted(cell.cpuset),
        "pcpuset": sorted(cell.pcpuset),
        "cpu_usage": cell.cpu_usage,
        "memory_usage": cell.memory_usage,
        "pinned_cpus": sorted(cell.pinned_cpus),
        "siblings": [sorted(core) for core in cell.siblings],
        "mempages": [vars(pool) for pool in cell.mempages],
        "physnets": sorted(cell.physnets),
        "tunneled": cell.tunneled,
    }
    socket = {} if cell.socket is None else {"socket": cell.socket}
    return {"id": cell.id, "memory": cell.memory, **_without_empty(values), **socket}
