# SPDX-License-Identifier: Apache-2.0
"""Which instances run on which row of the table, and on which rows an instance runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from roost.hosts.encoded import Encoded
from roost.hosts.instance import NO_PROPERTIES, Instance, completed
from roost.model.request import RequestSpec


class InstanceIndex:
    """Instances by row and rows by instance uuid, kept consistent with each other."""

    def __init__(self) -> None:
        self.by_row: dict[int, dict[str, Instance]] = {}
        """Row -> instance uuid -> instance."""
        self._rows: dict[str, tuple[int, ...]] = {}
        """Instance uuid -> rows: one, or two during a move."""
        self._extra_references: dict[tuple[int, str], int] = {}
        """(Row, instance uuid) -> references beyond the first, for instances that consumed resources repeatedly."""
        self._flavor_ids: Encoded | None = None
        """The column that `flavor_ids` returns; None until its first access."""

    def rows_of(self, uuid: str) -> tuple[int, ...]:
        """The rows on which an instance runs; empty if the uuid is unknown."""
        return self._rows.get(uuid, ())

    def count_on(self, row: int, uuids: frozenset[str]) -> int:
        """How many of the given instances run on a row. Cost is linear in the instances on the row."""
        return sum([uuid in uuids for uuid in self.by_row.get(row, ())])

    def acquire(self, row: int, instance: Instance) -> None:
        """Add a reference to an instance on a row: one that is resized on its host, or rebuilt, has several."""
        present = self.by_row.get(row)
        if present is not None and instance.uuid in present:
            self._extra_references[row, instance.uuid] = self._extra_references.get((row, instance.uuid), 0) + 1
        else:
            self.put(row, instance)

    def release(self, row: int, uuid: str) -> None:
        """Undo one `acquire`; releasing the last reference removes the instance from the row."""
        extra = self._extra_references.pop((row, uuid), 0) if self._extra_references else 0
        if not extra:
            self._remove(row, uuid)
        elif extra > 1:
            self._extra_references[row, uuid] = extra - 1

    def replace(self, row: int, added: Iterable[Instance], removed: Iterable[str]) -> bool:
        """Put the instances `added` on a row and remove the uuids `removed`; True if anything changed. Idempotent."""
        present = self.by_row.get(row, {})
        leaving = [uuid for uuid in removed if uuid in present]
        for uuid in leaving:
            self._remove(row, uuid)
            self._extra_references.pop((row, uuid), None)
        is_changed = bool(leaving)
        for each in added:
            before = present.get(each.uuid)
            if before != each:
                known = before or self.find(each.uuid)
                instance = completed(each, known) if known else each
                if before != instance:
                    self.put(row, instance)
                    is_changed = True
        return is_changed

    def find(self, uuid: str) -> Instance | None:
        """An instance, as it is recorded on the first of its rows; None if the uuid is unknown."""
        rows = self._rows.get(uuid)
        return self.by_row[rows[0]].get(uuid) if rows else None

    def complete_from(self, older: InstanceIndex) -> None:
        """Add what an older index knows of instances whose flavor this one does not know."""
        for instances in self.by_row.values():
            for uuid, instance in instances.items():
                if instance.flavor is None and (before := older.find(uuid)) is not None:
                    instances[uuid] = completed(instance, before)

    def put(self, row: int, instance: Instance) -> None:
        """Record that an instance runs on a row, or replace what is recorded of it there."""
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
        """The set of flavor ids on each row, as a column; built on first access and maintained from then on."""
        if self._flavor_ids is None:
            self._flavor_ids = Encoded(map(self._flavors_on, range(row_count)))
        return self._flavor_ids

    def _flavors_on(self, row: int) -> frozenset[Any]:
        return frozenset([each.flavor_id for each in self.by_row.get(row, {}).values()])

    def _update_flavors(self, row: int) -> None:
        if self._flavor_ids is not None:
            self._flavor_ids.set(row, self._flavors_on(row))

    def renumber(self, new_row: Mapping[int, int]) -> None:
        """Change all row numbers: `new_row` maps old to new."""
        self.by_row = {new_row[old]: instances for old, instances in self.by_row.items()}
        self._rows = {uuid: tuple(new_row[old] for old in rows) for uuid, rows in self._rows.items()}

    def copy_to(self, twin: InstanceIndex) -> None:
        """Make the index of another table with equal rows an independent copy of this one."""
        twin.by_row = {row: dict(instances) for row, instances in self.by_row.items()}
        twin._rows = dict(self._rows)
        twin._extra_references = dict(self._extra_references)

    def copy_rows_to(self, twin: InstanceIndex, row_of: Mapping[int, int]) -> None:
        """Copy rows to the index of another table: `row_of` maps rows here to rows there, others are left out."""
        for row, instances in self.by_row.items():
            if row in row_of and instances:
                twin.replace(row_of[row], instances.values(), ())
        extra = self._extra_references.items()
        twin._extra_references |= {(row_of[row], uuid): count for (row, uuid), count in extra if row in row_of}


def placed_instance(spec: RequestSpec, placed_at: datetime | None) -> Instance:
    """The instance to index for a placed request; `note_image` adds its image properties later."""
    return Instance(
        str(spec.instance_uuid),
        spec.project_id,
        spec.flavor.id,
        NO_PROPERTIES,
        spec.amounts,
        spec.image.id if spec.image else None,
        spec.flavor,
        NO_PROPERTIES,
        None,
        placed_at,
    )
