# SPDX-License-Identifier: Apache-2.0
"""Reads nova's API database: cells, host mappings and aggregates as a whole, server groups one by one.

Rows of the API database vanish when they are deleted, so changes cannot be read by a watermark. A few thousand rows
are read quickly; one statement says whether that is needed: number, largest id and newest `updated_at` of each table.
It misses a second update of a row within the second of the first (so nothing counts as unchanged until that is some
seconds ago), and an update by a service whose clock is behind (so everything is read again once a minute).
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select
from sqlalchemy.engine import Engine

from roost.clock import Clock
from roost.errors import BadInput, FieldError
from roost.model import Aggregate, ServerGroup
from roost.nova_cloud.databases.cells import Cell, CellAddresses, read_cells
from roost.nova_cloud.databases.read_only_engine import reading
from roost.nova_cloud.databases.server_groups import select_all_groups, select_groups
from roost.nova_cloud.databases.tables import (
    aggregate_hosts,
    aggregate_metadata,
    aggregates,
    cell_mappings,
    host_mappings,
    instance_mappings,
    request_specs,
)
from roost.nova_cloud.databases.watermark import OVERLAP
from roost.scheduler.cloud_options import API_DATABASE
from roost.store.statements import MOST_KEYS, in_chunks

RECONCILE_SECONDS = 60.0
_TABLES = (cell_mappings, host_mappings, aggregates, aggregate_hosts, aggregate_metadata)
_SUMMARY = select(
    *(
        select(aggregate).select_from(table).scalar_subquery()
        for table in _TABLES
        for aggregate in (
            func.count(),
            func.max(table.c.id),
            func.max(table.c.updated_at),
            func.max(table.c.created_at),
        )
    )
)


class ApiState(NamedTuple):
    """What the API database says about the cloud."""

    cells: tuple[Cell, ...]
    """Cells whose address is understood, cell0 and disabled ones included."""
    host_cells: dict[str, int]
    """Host -> number of its cell. A host that is not in here must not be chosen."""
    aggregates: tuple[Aggregate, ...]
    """Ordered by id, each with its hosts by name."""
    problems: tuple[str, ...] = ()
    """One line for each row that is left out because it is not understood."""


class ApiReader:
    """Reader of nova's API database. Its methods may be called from any thread; reads of the state take turns."""

    def __init__(
        self,
        engine: Engine,
        addresses: CellAddresses,
        clock: Clock,
        *,
        reconcile_seconds: float = RECONCILE_SECONDS,
    ) -> None:
        """`engine`: one of `open_read_only`. `reconcile_seconds`: how often everything is read in any case."""
        self._engine, self._addresses, self._clock = engine, addresses, clock
        self._reconcile_seconds = reconcile_seconds
        self._state: ApiState | None = None
        self._summary: tuple[Any, ...] = ()
        self._read_at, self._started = clock.now(), 0.0
        self._lock = threading.Lock()

    def read_all(self) -> ApiState:
        """Everything, in six statements; a DatabaseError if that fails."""
        with self._lock, reading(self._engine, API_DATABASE) as connection:
            return self._read_all(connection, None)

    def read_changes(self) -> ApiState | None:
        """Everything if anything changed since the last read, else None: mostly one statement."""
        with self._lock, reading(self._engine, API_DATABASE) as connection:
            summary = tuple(connection.execute(_SUMMARY).one())
            is_due = self._clock.monotonic() - self._started >= self._reconcile_seconds
            before = self._state
            if before is not None and summary == self._summary and self._is_settled() and not is_due:
                return None
            now = self._read_all(connection, summary)
            return None if now == before else now

    def _is_settled(self) -> bool:
        """Whether the newest row was old enough at the last read that its second was over."""
        times = [each.replace(tzinfo=UTC) for each in self._summary if isinstance(each, datetime)]
        return all(each + OVERLAP < self._read_at for each in times)

    def _read_all(self, connection: Connection, summary: tuple[Any, ...] | None) -> ApiState:
        read_at, started = self._clock.now(), self._clock.monotonic()
        if summary is None:  # before the rows: what is written in between is then read twice, not never
            summary = tuple(connection.execute(_SUMMARY).one())
        cells = read_cells(connection, self._addresses)
        mappings = connection.execute(select(host_mappings.c.host, host_mappings.c.cell_id))
        host_cells = {row.host: row.cell_id for row in mappings}
        found, problems = _read_aggregates(connection)
        self._state = ApiState(cells.cells, host_cells, found, (*cells.problems, *problems))
        self._summary, self._read_at, self._started = summary, read_at, started
        return self._state

    def read_groups(self, uuids: Collection[str]) -> dict[str, ServerGroup]:
        """Server group uuid -> group with policy, rules and members, for those that exist: two statements."""
        with reading(self._engine, API_DATABASE) as connection:
            return select_groups(connection, uuids)

    def read_all_groups(self) -> list[ServerGroup]:
        """All server groups with policy, rules and members."""
        with reading(self._engine, API_DATABASE) as connection:
            return select_all_groups(connection)

    @property
    def cell0_id(self) -> int | None:
        """Number of the cell for instances that never had a host; None where it is not known."""
        cells = self._state.cells if self._state else ()
        return next((cell.id for cell in cells if cell.is_cell0), None)

    def read_instance_cells(self, uuids: Collection[str]) -> dict[str, int | None]:
        """Instance uuid -> number of its cell, None while it is in none; instances that do not exist are missing."""
        columns = instance_mappings.c
        chosen = select(columns.instance_uuid, columns.cell_id)
        with reading(self._engine, API_DATABASE) as connection:
            return {
                uuid: cell
                for some in in_chunks(uuids, MOST_KEYS)
                for uuid, cell in connection.execute(chosen.where(columns.instance_uuid.in_(some)))
            }

    def read_request_spec(self, instance_uuid: str) -> Any:
        """The RequestSpec object that nova has stored for an instance, as JSON data; BadInput if there is none."""
        columns = request_specs.c
        with reading(self._engine, API_DATABASE) as connection:
            found = connection.scalar(select(columns.spec).where(columns.instance_uuid == instance_uuid))
        try:
            return json.loads(found or "")
        except ValueError:
            raise BadInput(f"nova's API database has no request of the instance {instance_uuid}") from None


def _read_aggregates(connection: Connection) -> tuple[tuple[Aggregate, ...], list[str]]:
    metadata: dict[int, dict[str, str]] = defaultdict(dict)
    columns = aggregate_metadata.c
    for number, key, value in connection.execute(select(columns.aggregate_id, columns.key, columns.value)):
        metadata[number][key] = value
    hosts: dict[int, list[str]] = defaultdict(list)
    for number, host in connection.execute(select(aggregate_hosts.c.aggregate_id, aggregate_hosts.c.host)):
        hosts[number].append(host)
    found, problems = [], []
    names = select(aggregates.c.id, aggregates.c.uuid, aggregates.c.name).order_by(aggregates.c.id)
    for number, uuid, name in connection.execute(names):
        try:
            found.append(Aggregate(name, metadata[number], tuple(sorted(hosts[number])), number, uuid))
        except FieldError as error:
            problems.append(f"aggregate {number} is left out: {error}")
    return tuple(found), problems
