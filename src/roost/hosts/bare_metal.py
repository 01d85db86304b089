# SPDX-License-Identifier: Apache-2.0
"""Bare-metal nodes are taken whole: all their inventory goes to one instance, and comes back when it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roost.hosts.table import HostTable

TAKEN_COLUMNS = ("free_ram_mb", "free_disk_mb", "vcpus_used")
"""Columns of nova's host attributes that change when a node is taken, besides the allocated resource classes."""


class WholeNodes:
    """Takes and frees whole nodes of a table, and remembers what their columns said before."""

    def __init__(self, table: HostTable) -> None:
        self._table = table
        self._before: dict[int, list[dict[str, float]]] = {}
        """Row -> column values before each time it was taken, oldest first."""

    def take(self, row: int) -> None:
        """Give the node to one instance: nothing of it is free afterwards."""
        numbers = self._table.numbers
        earlier = {name: numbers[name].item(row) for name in self.columns()}
        self._before.setdefault(row, []).append(earlier)
        numbers["free_ram_mb"][row] = numbers["free_disk_mb"][row] = 0
        numbers["vcpus_used"][row] = numbers["vcpus_total"][row]
        for name in self._table.resource_classes():
            numbers[f"allocated:{name}"][row] = int(numbers[f"limit:{name}"][row])

    def free(self, row: int) -> None:
        """Undo `take`; a node that was taken before this table existed is free entirely afterwards."""
        numbers, earlier = self._table.numbers, self._before.get(row)
        numbers["free_ram_mb"][row] = numbers["total_usable_ram_mb"][row]
        numbers["free_disk_mb"][row] = 1024 * numbers["total_usable_disk_gb"][row]
        numbers["vcpus_used"][row] = 0
        for name in self._table.resource_classes():
            numbers[f"allocated:{name}"][row] = 0
        for name, value in earlier.pop().items() if earlier else ():
            numbers[name][row] = value

    def forget(self, row: int) -> None:
        """A report replaced the columns of this row: what they said before it was taken is obsolete."""
        self._before.pop(row, None)

    def columns(self) -> list[str]:
        """The columns in which a node changes when it is taken or freed."""
        return [*TAKEN_COLUMNS, *(f"allocated:{name}" for name in self._table.resource_classes())]

    def copy_to(self, twin: WholeNodes, row_of: Mapping[int, int] | None = None) -> None:
        """Copy what is remembered to another table; `row_of` maps rows to their numbers there, None: unchanged."""
        kept = self._before.items()
        twin._before |= {
            row if row_of is None else row_of[row]: list(earlier)
            for row, earlier in kept
            if row_of is None or row in row_of
        }
