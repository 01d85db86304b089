# SPDX-License-Identifier: Apache-2.0
"""Reads nodes, services and instances of one cell: all of them, then what changed.

Each read fetches its rows first and takes note of them afterwards, so a read that fails leaves the reader as it was:
the next one, whenever the database is back, finds all that happened meanwhile.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from sqlalchemy.engine import Engine

from roost.clock import Clock
from roost.nova.databases.api import Cell
from roost.nova.databases.cells import CellChanges
from roost.nova.databases.engines import reading
from roost.nova.databases.followers import InstanceFollower, NodeFollower, ServiceFollower

RECONCILE_SECONDS = 60.0


class _Followers(NamedTuple):
    nodes: NodeFollower
    services: ServiceFollower
    instances: InstanceFollower


class CellReader:
    """Reader of one cell's database. Its methods may be called from any thread; they run one after the other."""

    def __init__(
        self,
        cell: Cell,
        engine: Engine,
        clock: Clock,
        *,
        reconcile_seconds: float = RECONCILE_SECONDS,
        reads_image_properties: bool = False,
    ) -> None:
        """`engine`: one of `open_read_only(cell.url)`. `reconcile_seconds`: how often all rows are compared."""
        self.cell = cell
        self._engine, self._clock = engine, clock
        self._reconcile_seconds = reconcile_seconds
        self._reads_image_properties = reads_image_properties
        self._followers: _Followers | None = None
        self._reconciled_at = 0.0
        self._lock = threading.Lock()

    def read_all(self) -> CellChanges:
        """Everything, in three statements. A DatabaseError leaves the reader as it was."""
        with self._lock:
            return self._read_all()

    def read_changes(self, *, heartbeats: bool = True) -> CellChanges:
        """What changed since the last read, in three statements; everything, if it is the first read.

        Every `reconcile_seconds` all rows are compared with what is known. `heartbeats`: False leaves them out, so
        that a read before an answer need not fetch a third of all services. A DatabaseError leaves the reader as it
        was.
        """
        with self._lock:
            if self._followers is None:
                return self._read_all()
            is_due = self._clock.monotonic() - self._reconciled_at >= self._reconcile_seconds
            return self._read(self._followers, is_full=is_due, heartbeats=heartbeats)

    def read_flags(self) -> CellChanges:
        """Which services were disabled, enabled, forced down, added or deleted since the last read, in one statement.

        Everything, if it is the first read. A DatabaseError leaves the reader as it was.
        """
        with self._lock:
            if self._followers is None:
                return self._read_all()
            services, changes = self._followers.services, CellChanges()
            read_at = self._clock.now()
            with reading(self._engine, self.cell.option) as connection:
                rows = services.fetch(connection, is_full=False, heartbeats=False)
            services.apply(rows, False, False, read_at, changes)
            return changes

    def _read_all(self) -> CellChanges:
        instances = InstanceFollower(self._reads_image_properties)
        fresh = _Followers(NodeFollower(self.cell.uuid), ServiceFollower(), instances)
        changes = self._read(fresh, is_full=True, heartbeats=True)
        changes.is_full = True
        self._followers = fresh
        return changes

    def _read(self, followers: _Followers, *, is_full: bool, heartbeats: bool) -> CellChanges:
        read_at, started = self._clock.now(), self._clock.monotonic()
        with reading(self._engine, self.cell.option) as connection:
            nodes = followers.nodes.fetch(connection, is_full)
            services = followers.services.fetch(connection, is_full, heartbeats)
            instances = followers.instances.fetch(connection, is_full)
        changes = CellChanges()
        followers.nodes.apply(nodes, is_full, read_at, changes)
        followers.services.apply(services, is_full, heartbeats, read_at, changes)
        followers.instances.apply(instances, read_at, changes)
        if is_full:
            self._reconciled_at = started
        return changes
