# SPDX-License-Identifier: Apache-2.0
"""Bare-metal nodes are consumed whole: one instance gets the entire inventory of a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roost.hosts.table import HostTable

NODE_USAGE_COLUMNS = ("free_ram_mb", "free_disk_mb", "vcpus_used")
"""nova's host attributes that change when a node is consumed; the allocated resource classes change as well."""


class WholeNodes:
    """Consumes and releases whole rows of a table, and restores the usage columns as they were before."""

    def __init__(self, table: HostTable) -> None:
        self._table = table
        self._before: dict[int, list[dict[str, float]]] = {}
        """Row -> stack of column values, one entry per `consume` that is not released yet."""

    def consume(self, row: int) -> None:
        """Give the node to one instance: all of its memory, disk, CPUs and inventory is used afterwards."""
        numbers = self._table.numbers
        earlier = {name: numbers[name].item(row) for name in self.columns()}
        self._before.setdefault(row, []).append(earlier)
        numbers["free_ram_mb"][row] = numbers["free_disk_mb"][row] = 0
        numbers["vcpus_used"][row] = numbers["vcpus_total"][row]
        for name in self._table.resource_classes():
            numbers[f"allocated:{name}"][row] = int(numbers[f"limit:{name}"][row])

    def release(self, row: int) -> None:
        """Undo one `consume`; a node that was in use before this table existed becomes entirely free."""
        numbers, earlier = self._table.numbers, self._before.get(row)
        numbers["free_ram_mb"][row] = numbers["total_usable_ram_mb"][row]
        numbers["free_disk_mb"][row] = 1024 * numbers["total_usable_disk_gb"][row]
        numbers["vcpus_used"][row] = 0
        for name in self._table.resource_classes():
            numbers[f"allocated:{name}"][row] = 0
        for name, value in earlier.pop().items() if earlier else ():
            numbers[name][row] = value

    def drop_saved(self, row: int) -> None:
        """Drop the saved column values of a row: a report has replaced them."""
        self._before.pop(row, None)

    def columns(self) -> list[str]:
        """The columns that `consume` and `release` write."""
        return [*NODE_USAGE_COLUMNS, *(f"allocated:{name}" for name in self._table.resource_classes())]

    def copy_to(self, twin: WholeNodes, row_of: Mapping[int, int] | None = None) -> None:
        """Copy the saved column values to another table.

        `row_of` maps rows of this table to rows of the other one and leaves out the rest; None: all, unchanged.
        """
        saved = self._before.items()
        twin._before |= {
            row if row_of is None else row_of[row]: list(earlier)
            for row, earlier in saved
            if row_of is None or row in row_of
        }
