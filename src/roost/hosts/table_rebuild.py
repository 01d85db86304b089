# SPDX-License-Identifier: Apache-2.0
"""Rebuild a table after hosts were added or removed; the state of all other hosts is preserved."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from roost.errors import BadInput
from roost.hosts.arrays import Array
from roost.hosts.record import HostRecord
from roost.hosts.table import HostTable


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
