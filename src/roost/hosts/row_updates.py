# SPDX-License-Identifier: Apache-2.0
"""Updates of parts of a row: usage, instances, service, aggregates. `HostTable.update` replaces a whole row.

Each function notes exactly the columns that changed in the table's change log, and nothing if none did.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from roost.hosts.arrays import FloatArray, RowArray
from roost.hosts.guests import GuestSpace
from roost.hosts.instance import Instance
from roost.hosts.record_columns import SECONDS_UNTIL_DOWN

if TYPE_CHECKING:
    from roost.hosts.table import HostTable
    from roost.model.aggregate import Aggregate, Service
    from roost.model.request import RequestSpec


@dataclass(frozen=True, slots=True)
class Usage:
    """The current usage of a host, by nova's names and by resource class, and changes of its instances."""

    free_ram_mb: int
    free_disk_mb: int
    disk_mb_used: int
    vcpus_used: int
    num_instances: int
    num_io_ops: int
    allocated: Mapping[str, int]
    """Resource class -> allocated amount; a class that is not listed has 0."""
    added: Collection[Instance] = ()
    """Instances that run on the host; the table may know some of them already."""
    removed: Collection[str] = field(default=())
    """Uuids of instances that do not run on the host any more."""
    space: GuestSpace | None = None
    """Its NUMA cells and free PCI devices; None if they have not changed."""


_USAGE_NUMBERS = ("free_ram_mb", "free_disk_mb", "disk_mb_used", "vcpus_used", "num_instances", "num_io_ops")


def set_usage(table: HostTable, row: int, usage: Usage) -> bool:
    """Set the usage of a row; True if anything changed. Resource classes without a column are ignored."""
    values = {name: getattr(usage, name) for name in _USAGE_NUMBERS}
    values |= {f"allocated:{name}": usage.allocated.get(name, 0) for name in table.resource_classes()}
    touched = table.set_numbers(row, values)
    if table.instance_index.replace(row, usage.added, usage.removed):
        touched.add("instances")
    if usage.space is not None:
        found = {"numa": usage.space.numa, "pci_pools": usage.space.pools}
        touched |= {name for name, value in found.items() if table.encoded[name].set(row, value)}
    table.whole_nodes.drop_saved(row)
    return _note(table, row, touched)


def add_usage_to_rows(table: HostTable, rows: RowArray, spec: RequestSpec, counts: FloatArray) -> None:
    """Add the usage of so many instances of a request to each of these rows; the instances themselves stay unknown.

    For a copy of a table, to see what it has left: no row is of bare metal, and no NUMA cell or device is taken.
    """
    for name, amount in table.amounts_consumed(spec).items():
        table.writable_column(name)[rows] += counts * amount
    touched = table.columns_consumed(spec)
    for row in rows.tolist():
        table.changes.note(row, touched)


def set_instances(table: HostTable, row: int, added: Collection[Instance], removed: Collection[str]) -> bool:
    """Add instances to a row and remove uuids from it, without changing its usage; True if anything changed."""
    return _note(table, row, {"instances"} if table.instance_index.replace(row, added, removed) else set())


def set_service(table: HostTable, row: int, service: Service) -> bool:
    """Set the service record of a row, and from it `is_up` and `is_disabled`; True if anything changed."""
    values = {"is_up": service.is_up(SECONDS_UNTIL_DOWN), "is_disabled": service.disabled}
    touched = table.set_numbers(row, values)
    if table.encoded["service"].set(row, service):
        touched.add("service")
    return _note(table, row, touched)


def set_aggregates(table: HostTable, row: int, aggregates: tuple[Aggregate, ...]) -> bool:
    """Set the aggregates of a row; True if they changed. The caller maintains `known_aggregates` of the table."""
    return _note(table, row, {"aggregates"} if table.encoded["aggregates"].set(row, aggregates) else set())


def _note(table: HostTable, row: int, touched: set[str]) -> bool:
    if touched:
        table.changes.note(row, frozenset(touched))
    return bool(touched)
