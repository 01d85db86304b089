# SPDX-License-Identifier: Apache-2.0
"""Follows the table `compute_nodes` of a cell: which rows are new, changed or gone since the last read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, or_

from roost.errors import FieldError
from roost.nova_cloud.databases.cell_changes import CellChanges
from roost.nova_cloud.databases.node_decoder import SELECT_NODES, decode_node
from roost.nova_cloud.databases.tables import compute_nodes
from roost.nova_cloud.databases.watermark import SINCE, Watermark
from roost.records.node_rows import JsonCache

_ALL_NODES = SELECT_NODES.where(compute_nodes.c.deleted == 0)
_WRITTEN_NODES = SELECT_NODES.where(
    or_(*(compute_nodes.c[name] >= SINCE for name in ("updated_at", "created_at", "deleted_at")))
)


class NodeFollower:
    """Known rows by id, as hashes of their content: a row is decoded only if it changed."""

    def __init__(self, cell_uuid: str) -> None:
        self._cell_uuid = cell_uuid
        self._hashes: dict[int, int] = {}
        self._reported: set[int] = set()
        """Ids of the rows that were understood."""
        self._watermark = Watermark()

    def fetch(self, connection: Connection, is_full: bool) -> Sequence[Any]:
        """All live rows, or those that were written since the last read, deleted ones included: one statement."""
        if is_full:
            return connection.execute(_ALL_NODES).all()
        return connection.execute(_WRITTEN_NODES, {SINCE.key: self._watermark.since}).all()

    def apply(self, rows: Sequence[Any], is_full: bool, read_at: datetime, changes: CellChanges) -> None:
        """Take note of rows from `fetch`, and put what they change into `changes`."""
        texts = JsonCache()
        for row in rows:
            if row.deleted:
                self._forget(row.id, changes)
            elif self._hashes.get(row.id) != (found := hash(tuple(row))):
                self._hashes[row.id] = found
                self._decode(row, texts, changes)
        if is_full:
            for number in self._hashes.keys() - {row.id for row in rows}:
                self._forget(number, changes)
        times = (moment for row in rows for moment in (row.updated_at, row.created_at, row.deleted_at))
        self._watermark.advance(read_at, times)

    def _decode(self, row: Any, texts: JsonCache, changes: CellChanges) -> None:
        try:
            changes.nodes.append(decode_node(row, self._cell_uuid, texts))
            self._reported.add(row.id)
        except FieldError as error:
            changes.problems.append(f"compute node {row.id} of host {row.host} is left out: {error}")
            self._drop(row.id, changes)

    def _forget(self, number: int, changes: CellChanges) -> None:
        self._hashes.pop(number, None)
        self._drop(number, changes)

    def _drop(self, number: int, changes: CellChanges) -> None:
        if number in self._reported:
            self._reported.remove(number)
            changes.removed_nodes.add(number)
