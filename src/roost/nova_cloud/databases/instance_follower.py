# SPDX-License-Identifier: Apache-2.0
"""Follows the table `instances` of a cell: on which hosts instances came, changed or went since the last read.

Rows are found by `updated_at`, which has an index; nova writes it when it sets vm_state to deleted, just before the
row is marked as deleted. Deleted rows stay in the table until an operator archives them, perhaps millions, so nothing
here reads them all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, or_, select

from roost.hosts.instances import IMAGE_PREFIX
from roost.nova_cloud.databases.cell_changes import CellChanges, PlacedInstance
from roost.nova_cloud.databases.instance_decoder import DELETED_STATE, SELECT_INSTANCES, decode_instance, is_placed
from roost.nova_cloud.databases.tables import instance_system_metadata, instances
from roost.nova_cloud.databases.watermark import SINCE, Watermark
from roost.records.node_rows import JsonCache
from roost.store.statements import MOST_KEYS, in_chunks

_IS_PLACED = and_(
    instances.c.deleted == 0,
    instances.c.host.is_not(None),
    or_(instances.c.vm_state != DELETED_STATE, instances.c.vm_state.is_(None)),
)
_PLACED_INSTANCES = SELECT_INSTANCES.where(_IS_PLACED)
_WRITTEN_INSTANCES = SELECT_INSTANCES.where(instances.c.updated_at >= SINCE)
_COMPARED = (instances.c.id, instances.c.updated_at, instances.c.host, instances.c.instance_type_id)
_METADATA = select(
    instance_system_metadata.c.instance_uuid, instance_system_metadata.c.key, instance_system_metadata.c.value
).where(instance_system_metadata.c.deleted == 0, instance_system_metadata.c.key.startswith(IMAGE_PREFIX))

Metadata = Mapping[str, Mapping[str, str]]
"""Instance uuid -> key -> value of its system metadata, as far as it is from the image."""


class FetchedInstances(NamedTuple):
    """Rows of instances, and the ids of known ones that a comparison of all rows did not find."""

    rows: Sequence[Any]
    gone: Collection[int] = ()
    metadata: Metadata = {}


class _Known(NamedTuple):
    content: int
    """Hash of the row."""
    compared: tuple[Any, ...]
    """The columns that are compared with all rows."""
    host: str


class InstanceFollower:
    """Known instances by host and row id."""

    def __init__(self, reads_image_properties: bool = False) -> None:
        """`reads_image_properties`: read them too, with one more statement and some ten rows per instance."""
        self._reads_image_properties = reads_image_properties
        self._known: dict[int, _Known] = {}
        self._by_host: dict[str, dict[int, PlacedInstance]] = defaultdict(dict)
        self._watermark = Watermark()

    def fetch(self, connection: Connection, is_full: bool) -> FetchedInstances:
        """The rows that were written since the last read, of any state: one statement if there are none.

        `is_full`: besides, the rows that differ from what is known, found by comparing a few columns of all live
        rows; at the first read these are all.
        """
        if is_full and not self._known:
            rows = connection.execute(_PLACED_INSTANCES).all()
            return FetchedInstances(rows, (), self._fetch_metadata(connection, rows))
        there = self._compared_rows(connection) if is_full else {}
        rows = connection.execute(_WRITTEN_INSTANCES, {SINCE.key: self._watermark.since}).all()
        different = [number for number, row in there.items() if self._compared(number) != row]
        for some in in_chunks(different, MOST_KEYS):
            rows = [*rows, *connection.execute(SELECT_INSTANCES.where(instances.c.id.in_(some)))]
        gone = self._known.keys() - there.keys() if is_full else ()
        return FetchedInstances(rows, gone, self._fetch_metadata(connection, rows))

    def _compared_rows(self, connection: Connection) -> dict[int, tuple[Any, ...]]:
        return {row[0]: tuple(row) for row in connection.execute(select(*_COMPARED).where(_IS_PLACED))}

    def _compared(self, number: int) -> tuple[Any, ...] | None:
        known = self._known.get(number)
        return None if known is None else known.compared

    def _fetch_metadata(self, connection: Connection, rows: Sequence[Any]) -> Metadata:
        if not self._reads_image_properties:
            return {}
        found: dict[str, dict[str, str]] = defaultdict(dict)
        for some in in_chunks((row.uuid for row in rows if is_placed(row)), MOST_KEYS):
            wanted = _METADATA.where(instance_system_metadata.c.instance_uuid.in_(some))
            for uuid, key, value in connection.execute(wanted):
                if value is not None:
                    found[uuid][key] = value
        return found

    def apply(self, fetched: FetchedInstances, read_at: datetime, changes: CellChanges) -> None:
        """Take note of fetched rows, and put all instances of hosts where any changed into `changes`."""
        texts = JsonCache()
        touched: set[str] = set()
        for number in fetched.gone:
            touched |= self._forget(number)
        for row in fetched.rows:
            if not is_placed(row):
                touched |= self._forget(row.id)
                continue
            content, before = hash(tuple(row)), self._known.get(row.id)
            if before is None or before.content != content:
                touched |= self._forget(row.id) | {row.host}
                compared = row.id, row.updated_at, row.host, row.instance_type_id
                self._known[row.id] = _Known(content, compared, row.host)
                metadata = fetched.metadata.get(row.uuid, {})
                self._by_host[row.host][row.id] = decode_instance(row, metadata, texts, changes.problems)
        self._watermark.advance(read_at, (row.updated_at for row in fetched.rows))
        changes.instances.update(self._instances_of(touched))

    def _instances_of(self, hosts: Iterable[str]) -> dict[str, tuple[PlacedInstance, ...]]:
        found = {host: self._by_host.get(host, {}) for host in hosts}
        return {host: tuple(each[number] for number in sorted(each)) for host, each in found.items()}

    def _forget(self, number: int) -> set[str]:
        """Drop a known instance: its host, or nothing if it was not known."""
        known = self._known.pop(number, None)
        if known is None:
            return set()
        del self._by_host[known.host][number]
        if not self._by_host[known.host]:
            del self._by_host[known.host]
        return {known.host}
