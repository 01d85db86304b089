# SPDX-License-Identifier: Apache-2.0
"""Which instances run on which row of the table, and on which rows an instance runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from roost.hosts.encoded import Encoded
from roost.hosts.record import Instance


class InstanceIndex:
    """Instances by row and rows by instance, kept equal to each other."""

    def __init__(self) -> None:
        self.by_row: dict[int, dict[str, Instance]] = {}
        """Row -> uuid -> instance."""
        self._rows: dict[str, tuple[int, ...]] = {}
        """Uuid -> rows: one, or two while the instance moves."""
        self._extra_holds: dict[tuple[int, str], int] = {}
        """(Row, uuid) -> how many times more than once it holds resources there."""
        self._flavor_ids: Encoded | None = None

    def rows_of(self, uuid: str) -> tuple[int, ...]:
        """The rows where an instance runs; empty for an unknown one."""
        return self._rows.get(uuid, ())

    def count_on(self, row: int, uuids: frozenset[str]) -> int:
        """How many of these instances run on one row. Costs as much as there are instances on it."""
        return sum([uuid in uuids for uuid in self.by_row.get(row, ())])

    def hold(self, row: int, instance: Instance) -> None:
        """Add an instance that takes resources; one that is resized on its host, or rebuilt, may hold them twice."""
        held = self.by_row.get(row)
        if held is not None and instance.uuid in held:
            self._extra_holds[row, instance.uuid] = self._extra_holds.get((row, instance.uuid), 0) + 1
        else:
            self.put(row, instance)

    def release(self, row: int, uuid: str) -> None:
        """Undo one `hold`; the last one removes the instance from the row."""
        again = self._extra_holds.pop((row, uuid), 0) if self._extra_holds else 0
        if not again:
            self._remove(row, uuid)
        elif again > 1:
            self._extra_holds[row, uuid] = again - 1

    def replace(self, row: int, came: Iterable[Instance], gone: Iterable[str]) -> bool:
        """Put the instances `came` on a row and remove `gone`; True if that changed anything."""
        held = self.by_row.get(row, {})
        left = [uuid for uuid in gone if uuid in held]
        for uuid in left:
            self._remove(row, uuid)
            self._extra_holds.pop((row, uuid), None)
        new = [each for each in came if held.get(each.uuid) != each]
        for instance in new:
            self.put(row, instance)
        return bool(left or new)

    def put(self, row: int, instance: Instance) -> None:
        """Note that an instance runs on a row."""
        uuid = instance.uuid
        self.by_row.setdefault(row, {})[uuid] = instance
        self._update_flavors(row)
        rows = self._rows.get(uuid)
        if rows is None:
            self._rows[uuid] = (row,)
        elif row not in rows:
            self._rows[uuid] = (*rows, row)

    def _remove(self, row: int, uuid: str) -> None:
        if self.by_row.get(row, {}).pop(uuid, None):
            self._update_flavors(row)
        rows = self._rows.pop(uuid, ())
        if rows != (row,) and (rest := tuple(each for each in rows if each != row)):
            self._rows[uuid] = rest

    def flavor_ids(self, row_count: int) -> Encoded:
        """The set of flavor ids on each row, as a column; maintained once a filter has asked for it."""
        if self._flavor_ids is None:
            self._flavor_ids = Encoded(map(self._flavors_on, range(row_count)))
        return self._flavor_ids

    def _flavors_on(self, row: int) -> frozenset[Any]:
        return frozenset([each.flavor_id for each in self.by_row.get(row, {}).values()])

    def _update_flavors(self, row: int) -> None:
        if self._flavor_ids is not None:
            self._flavor_ids.set(row, self._flavors_on(row))

    def renumber(self, new_row: Mapping[int, int]) -> None:
        """Give every row its new number."""
        self.by_row = {new_row[old]: held for old, held in self.by_row.items()}
        self._rows = {uuid: tuple(new_row[old] for old in rows) for uuid, rows in self._rows.items()}

    def copy_to(self, twin: InstanceIndex) -> None:
        """Make the index of another table, with the same rows, equal to this one and independent of it."""
        twin.by_row = {row: dict(held) for row, held in self.by_row.items()}
        twin._rows = dict(self._rows)
        twin._extra_holds = dict(self._extra_holds)

    def move_to(self, twin: InstanceIndex, row_of: Mapping[int, int]) -> None:
        """Copy the rows that `row_of` maps to their numbers in another table."""
        for row, held in self.by_row.items():
            if row in row_of and held:
                twin.replace(row_of[row], held.values(), ())
        holds = self._extra_holds.items()
        twin._extra_holds |= {(row_of[row], uuid): count for (row, uuid), count in holds if row in row_of}
