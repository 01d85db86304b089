# SPDX-License-Identifier: Apache-2.0
"""Surveys nova's API database and the databases of its cells: connection, tables, rights, and rows to compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Connection, MetaData, select
from sqlalchemy.engine import URL, Engine
from sqlalchemy.exc import DBAPIError

from roost.errors import DatabaseError
from roost.nova_cloud.cloud_check.probe_result import FAILED, MISSING, OFF, OK, ProbeResult, failure
from roost.nova_cloud.databases.cells import Cell, CellAddresses, read_cells
from roost.nova_cloud.databases.read_only_engine import open_read_only, reading
from roost.nova_cloud.databases.table_rights import TableProblem, describe_writing, find_entry_grants, find_unreadable
from roost.nova_cloud.databases.tables import API as API_TABLES
from roost.nova_cloud.databases.tables import CELL as CELL_TABLES
from roost.nova_cloud.databases.tables import SHADOW as SHADOW_TABLES
from roost.scheduler.cloud_options import API_DATABASE
from roost.store.engine import redacted_url

API = "API database"
CONNECTION = "connection"
STATEMENT_SECONDS = 10
"""How long a statement may take, and the answer to a login."""
COMPUTE, SCHEDULER = "nova-compute", "nova-scheduler"


@dataclass
class ApiSurvey:
    """What was found in the API database."""

    results: list[ProbeResult] = field(default_factory=list)
    cells: tuple[Cell, ...] | None = None
    """None if the cell mappings cannot be read."""
    host_cells: dict[str, int] | None = None
    """Host -> number of its cell; None if the host mappings cannot be read."""


class ServiceRow(NamedTuple):
    """A service that is not deleted."""

    host: str
    binary: str
    version: int
    seen_at: datetime | None
    """Its last heartbeat."""


@dataclass
class CellSurvey:
    """What was found in the database of a cell."""

    cell: Cell
    results: list[ProbeResult] = field(default_factory=list)
    nodes: dict[str, str] | None = None
    """Uuid of each compute node -> its host; None if they cannot be read."""
    services: list[ServiceRow] | None = None
    """Computes and schedulers; None if they cannot be read."""


def survey_api_database(url: URL, addresses: CellAddresses, is_shadow: bool = False) -> ApiSurvey:
    """Try the API database, and read the cells and host mappings as far as there is a right to.

    `is_shadow`: with the tables that only shadow mode reads.
    """
    found = ApiSurvey()

    def read_rows(connection: Connection, unreadable: set[str]) -> None:
        if "cell_mappings" not in unreadable:
            cells = read_cells(connection, addresses)
            found.cells = cells.cells
            found.results += [_unusable_mapping(problem) for problem in cells.problems]
        if "host_mappings" not in unreadable:
            columns = API_TABLES.tables["host_mappings"].c
            rows = connection.execute(select(columns.host, columns.cell_id))
            found.host_cells = {row.host: row.cell_id for row in rows}

    tables = _merge(API_TABLES, SHADOW_TABLES) if is_shadow else API_TABLES
    _survey(API, url, API_DATABASE, tables, found.results, read_rows)
    return found


def _merge(*parts: MetaData) -> MetaData:
    merged = MetaData()
    for table in (table for part in parts for table in part.sorted_tables):
        table.to_metadata(merged)
    return merged


def _unusable_mapping(problem: str) -> ProbeResult:
    return ProbeResult("cells", "cell mapping", FAILED, problem, "correct it with nova-manage cell_v2 update_cell")


def survey_cell(cell: Cell, option: str) -> CellSurvey:
    """Try the database of a cell, and read its nodes and services. `option`: where user and password come from."""
    found = CellSurvey(cell)
    where = f"cell {cell.name}"
    if cell.is_cell0 or cell.is_disabled:
        why = "not read: it has no hosts" if cell.is_cell0 else "not read: the cell is disabled"
        found.results.append(ProbeResult(where, CONNECTION, OFF, why))
        _read_services_quietly(found)
        return found

    def read_rows(connection: Connection, unreadable: set[str]) -> None:
        if "compute_nodes" not in unreadable:
            columns = CELL_TABLES.tables["compute_nodes"].c
            rows = connection.execute(select(columns.uuid, columns.host).where(columns.deleted == 0))
            found.nodes = {row.uuid: row.host for row in rows}
        if "services" not in unreadable:
            found.services = _read_services(connection)

    _survey(where, cell.url, option, CELL_TABLES, found.results, read_rows)
    return found


def _read_services_quietly(found: CellSurvey) -> None:
    """Services of a cell that a scheduler does not read: nova-scheduler may have its record there."""
    try:
        with opened(found.cell.url) as engine, reading(engine, "") as connection:
            found.services = _read_services(connection)
    except DatabaseError:
        found.services = None


def _read_services(connection: Connection) -> list[ServiceRow]:
    columns = CELL_TABLES.tables["services"].c
    wanted = select(columns.host, columns.binary, columns.version, columns.last_seen_up).where(
        columns.deleted == 0, columns.binary.in_((COMPUTE, SCHEDULER))
    )
    return [
        ServiceRow(host, binary, version or 0, seen.replace(tzinfo=UTC) if seen else None)
        for host, binary, version, seen in connection.execute(wanted)
    ]


def _survey(
    where: str,
    url: URL,
    option: str,
    tables: MetaData,
    results: list[ProbeResult],
    read_rows: Callable[[Connection, set[str]], None],
) -> None:
    """Connect, try all tables, look at the rights, and read rows of the tables that can be read."""
    address = redacted_url(url)
    try:
        with opened(url) as engine, reading(engine, option) as connection:
            results.append(ProbeResult(where, CONNECTION, OK, address))
            unreadable = find_unreadable(connection, tables)
            results += _table_results(where, tables, unreadable)
            results.append(_rights_result(where, connection, tables))
            read_rows(connection, {each.name for each in unreadable})
    except DatabaseError as error:
        if results:  # it broke after the first answer
            results.append(failure(where, "reading", error))
        else:
            results += _entry_failures(where, url, tables, error)


@contextmanager
def opened(url: URL) -> Iterator[Engine]:
    """An engine that cannot write, disposed of at the end of the context."""
    engine = open_read_only(url, read_seconds=STATEMENT_SECONDS)
    try:
        yield engine
    finally:
        engine.dispose()


def _table_results(where: str, tables: MetaData, unreadable: list[TableProblem]) -> Iterator[ProbeResult]:
    for each in unreadable:
        remedy = "" if each.statement else "is it a database of nova's, and one of a release that Roost knows?"
        result = MISSING if each.statement else FAILED
        yield ProbeResult(where, "table", result, f"{each.name}: {each.problem}", remedy, each.statement)
    count = len(tables.tables) - len(unreadable)
    if count:
        yield ProbeResult(where, "tables", OK, f"{count} of {len(tables.tables)} can be read")


def _rights_result(where: str, connection: Connection, tables: MetaData) -> ProbeResult:
    try:
        writing = describe_writing(connection, tables)
    except DBAPIError:
        return ProbeResult(where, "rights", OFF, "the server does not tell them")
    details = f"can write too ({writing}); SELECT is enough" if writing else "reads only"
    return ProbeResult(where, "rights", OK, details)


def _entry_failures(where: str, url: URL, tables: MetaData, error: DatabaseError) -> Iterator[ProbeResult]:
    """Rows for a database that cannot be entered: the rights that are missing, or what went wrong."""
    try:
        missing = find_entry_grants(error, url, tables)
    except DatabaseError:
        missing = []
    if not missing:
        yield failure(where, CONNECTION, error)
    for each in missing:
        what, details = ("table", f"{each.name}: {each.problem}") if each.name else (CONNECTION, each.problem)
        yield ProbeResult(where, what, MISSING, details, statement=each.statement)
