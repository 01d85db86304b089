# SPDX-License-Identifier: Apache-2.0
"""A table with other hosts: some left, some came, and what is known of the others stays known."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from roost.errors import BadInput
from roost.hosts.arrays import Array
from roost.hosts.record import HostRecord
from roost.hosts.table import HostTable


def reshaped(table: HostTable, gone: Collection[int], new: Sequence[HostRecord]) -> HostTable:
    """A new table without the rows `gone` and with the hosts `new`; the old one stays as it is.

    Rows have other numbers in it, and nothing that was kept for the old one fits. What `consume` took of hosts that
    stay remains taken.
    """
    more, left_out = HostTable.of(new), set(gone)
    kept = [row for row in range(len(table.names)) if row not in left_out]
    names = [table.names[row] for row in kept] + more.names
    order = sorted(range(len(names)), key=names.__getitem__)
    twin = HostTable()
    twin.names = [names[at] for at in order]
    _check_names(twin)
    place = {at: row for row, at in enumerate(order)}
    row_of = {row: place[at] for at, row in enumerate(kept)}
    row_of_new = {row: place[row + len(kept)] for row in range(len(more.names))}
    _join_columns(twin, table, more, np.array(kept, dtype=np.intp), np.array(order, dtype=np.intp))
    for each, rows in ((table, row_of), (more, row_of_new)):
        _move_own(twin, each, rows)
    twin.packs_numa_cells = table.packs_numa_cells
    twin.known_aggregates = table.known_aggregates
    return twin


def _check_names(table: HostTable) -> None:
    names = iter(table.names)
    before = next(names, None)
    for pair in names:
        if pair == before:
            raise BadInput(f"host {pair[0]}, node {pair[1]} is there twice", "give each pair once")
        before = pair


def _join_columns(twin: HostTable, table: HostTable, more: HostTable, kept: Array, order: Array) -> None:
    for name in (*table.numbers, *(name for name in more.numbers if name not in table.numbers)):
        ours, theirs = _column_of(table, name, more), _column_of(more, name, table)
        if len(ours) and ours.strides == (0,) and bool((theirs == ours[0]).all()):
            twin.numbers[name] = np.broadcast_to(ours[0], len(order))  # all share it still: takes no memory
        else:
            twin.numbers[name] = np.concatenate((ours[kept], theirs))[order]
    for name, column in table.encoded.items():
        twin.encoded[name] = column.reshaped(kept, more.encoded[name], order)
    twin.portioned = table.portioned | more.portioned


def _column_of(table: HostTable, name: str, other: HostTable) -> Array:
    """A numeric column; of a resource class that only the other table has, as of hosts that have none."""
    if name in table.numbers:
        return table.numbers[name]
    units = 1 if name.startswith(("min_unit:", "step_size:")) else 0
    return np.full(len(table.names), units, dtype=other.numbers[name].dtype)


def _move_own(twin: HostTable, table: HostTable, row_of: Mapping[int, int]) -> None:
    """What single rows have: uuid, instances, what they held before."""
    twin.uuids |= {row_of[row]: uuid for row, uuid in table.uuids.items() if row in row_of}
    table.instance_index.move_to(twin.instance_index, row_of)
    table.whole_nodes.copy_to(twin.whole_nodes, row_of)
