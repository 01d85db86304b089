# SPDX-License-Identifier: Apache-2.0
"""Updates of parts of a row - usage, instances, service, aggregates - and of the set of hosts.

`HostTable.update` replaces a whole row. The functions that update a part note exactly the columns that changed in the
table's change log, and nothing if none did. `rebuild_table` adds and removes hosts; the state of all others stays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from roost.errors import BadInput
from roost.hosts.encoded import Array, FloatArray, RowArray
from roost.hosts.guests import GuestSpace
from roost.hosts.instances import Instance
from roost.hosts.record import SECONDS_UNTIL_DOWN, HostRecord
from roost.hosts.table import HostTable

if TYPE_CHECKING:
    from roost.model.group import Aggregate, Service
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


def rebuild_table(table: HostTable, removed: Collection[int], added: Sequence[HostRecord]) -> HostTable:
    """A new table without the rows `removed` and with the hosts `added`; the given table is not changed.

    Row numbers differ between the tables, so caches of the old one are invalid. What `consume` took from the
    remaining hosts stays consumed.
    """
    more, left_out = HostTable.of(added), set(removed)
    kept = [row for row in range(len(table.names)) if row not in left_out]
    names = [table.names[row] for row in kept] + more.names
    order = sorted(range(len(names)), key=names.__getitem__)
    twin = HostTable()
    twin.names = [names[at] for at in order]
    _reject_duplicates(twin)
    place = {at: row for row, at in enumerate(order)}
    row_of = {row: place[at] for at, row in enumerate(kept)}
    row_of_new = {row: place[row + len(kept)] for row in range(len(more.names))}
    _join_columns(twin, table, more, np.array(kept, dtype=np.intp), np.array(order, dtype=np.intp))
    for each, rows in ((table, row_of), (more, row_of_new)):
        _copy_row_state(twin, each, rows)
    twin.packs_numa_cells = table.packs_numa_cells
    twin.known_aggregates = table.known_aggregates
    twin.flavors, twin.wall_clock = table.flavors, table.wall_clock
    return twin


def _reject_duplicates(table: HostTable) -> None:
    """BadInput if a (host, node) pair occurs twice among the sorted names."""
    names = iter(table.names)
    before = next(names, None)
    for pair in names:
        if pair == before:
            raise BadInput(f"host {pair[0]}, node {pair[1]} is there twice", "give each pair once")
        before = pair


def _join_columns(twin: HostTable, table: HostTable, more: HostTable, kept: Array, order: Array) -> None:
    """Fill the columns of `twin`: the rows `kept` of `table`, then those of `more`, rearranged by `order`."""
    for name in (*table.numbers, *(name for name in more.numbers if name not in table.numbers)):
        old, new = _column_of(table, name, more), _column_of(more, name, table)
        if len(old) and old.strides == (0,) and bool((new == old[0]).all()):
            twin.numbers[name] = np.broadcast_to(old[0], len(order))  # still one number for all: takes no memory
        else:
            twin.numbers[name] = np.concatenate((old[kept], new))[order]
    for name, column in table.encoded.items():
        twin.encoded[name] = column.concatenated(kept, more.encoded[name], order)
    twin.granular_classes = table.granular_classes | more.granular_classes


def _column_of(table: HostTable, name: str, other: HostTable) -> Array:
    """A numeric column of `table`; if only `other` has it, the values of hosts without that resource class."""
    if name in table.numbers:
        return table.numbers[name]
    units = 1 if name.startswith(("min_unit:", "step_size:")) else 0
    return np.full(len(table.names), units, dtype=other.numbers[name].dtype)


def _copy_row_state(twin: HostTable, table: HostTable, row_of: Mapping[int, int]) -> None:
    """Copy the state outside the columns: uuids, instances, saved values of bare-metal nodes."""
    twin.uuids |= {row_of[row]: uuid for row, uuid in table.uuids.items() if row in row_of}
    table.instance_index.copy_rows_to(twin.instance_index, row_of)
    table.whole_nodes.copy_to(twin.whole_nodes, row_of)
