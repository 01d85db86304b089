# SPDX-License-Identifier: Apache-2.0
"""What `roost cloud check` finds out of one connection at a time, a `ProbeResult` for each row of its table.

API database and cells are surveyed: connection, tables, rights, and rows to compare. The broker is tried, filters and
weighers are loaded. Whether the writes that options switch on would be allowed is looked up; nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, MetaData, Table, select
from sqlalchemy.engine import URL, Engine
from sqlalchemy.exc import DBAPIError

from roost.errors import DatabaseAddressError, DatabaseError, OptionError, RoostError
from roost.messages.open_transport import try_connection
from roost.messages.options import RpcOptions
from roost.nova.backend import CELL_DATABASE
from roost.nova.databases.api import Cell, CellAddresses, read_cells
from roost.nova.databases.engines import open_read_only, parse_nova_url, reading
from roost.nova.databases.table_rights import (
    TableProblem,
    describe_writing,
    find_entry_grants,
    find_missing_grant,
    find_unreadable,
    find_unwritable,
)
from roost.nova.databases.tables import API as API_TABLES
from roost.nova.databases.tables import CELL as CELL_TABLES
from roost.nova.databases.tables import SHADOW as SHADOW_TABLES
from roost.nova.databases.written_tables import compute_nodes, host_mappings, services
from roost.options.settings import Settings
from roost.plugins.context import PluginContext
from roost.plugins.nova_conf import PluginOptions
from roost.plugins.registry import places_of
from roost.scheduler.build import build_pipeline
from roost.scheduler.options import API_DATABASE, ApiDatabaseOptions, CloudOptions, ShadowOptions
from roost.store.engine import redacted_url
from roost.store.options import DatabaseOptions

OK, WARNING, MISSING, FAILED, OFF = "ok", "warning", "missing", "failed", "off"
"""Works; works, but look at it; a right or a thing is not there; does not work; not used, or not tried."""
FIRST_NAMES = 5
"""Names that a row lists; any further ones are only counted."""


class ProbeResult(NamedTuple):
    """What was tried, and how it went. No field has a password or a token."""

    where: str
    """Connection or part of the cloud, such as `cell cell1`."""
    what: str
    result: str
    """OK, WARNING, MISSING, FAILED or OFF."""
    details: str = ""
    remedy: str = ""
    """What to do, in one line; empty if nothing is to be done, or if `statement` does it."""
    statement: str = ""
    """SQL that an administrator of this database runs; empty if none helps."""

    @property
    def is_in_the_way(self) -> bool:
        """Whether a scheduler would lack something it needs."""
        return self.result in (MISSING, FAILED)


def failure(where: str, what: str, error: RoostError) -> ProbeResult:
    """The row for something that does not work."""
    return ProbeResult(where, what, FAILED, error.message, error.hint)


def listed(names: Sequence[str]) -> str:
    """The first names, and the number of the others."""
    more = f" and {len(names) - FIRST_NAMES} more" if len(names) > FIRST_NAMES else ""
    return ", ".join(sorted(names)[:FIRST_NAMES]) + more


BROKER, CONFIGURATION = "broker", "configuration"


def probe_broker(settings: Settings, files: Sequence[Path]) -> ProbeResult:
    """Connect to the broker and log in; no queue is declared or read."""
    address = settings.redacted("DEFAULT", "transport_url")
    try:
        try_connection(settings.fill(RpcOptions), files)
    except OptionError as error:
        return failure(BROKER, "connection", error)
    except RoostError as error:
        return ProbeResult(BROKER, "connection", FAILED, f"{address}: {error.message}", error.hint)
    return ProbeResult(BROKER, "connection", OK, address)


def probe_plugins(settings: Settings, files: Sequence[Path]) -> ProbeResult:
    """Load the filters and weighers that are enabled."""
    try:
        rules = build_pipeline(settings, places_of(files), PluginContext(PluginOptions(settings, files))).rules
    except RoostError as error:
        return failure(CONFIGURATION, "plugins", error)
    return ProbeResult(CONFIGURATION, "plugins", OK, f"{len(rules.filters)} filters, {len(rules.weighers)} weighers")


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


RECORD, DISCOVERY = "service record", "host discovery"


class Write(NamedTuple):
    """A write to a table of nova's."""

    where: str
    what: str
    url: URL
    option: str
    """Where the address comes from."""
    table: Table
    rights: str
    """Those that it takes, such as `SELECT, INSERT`."""


def probe_writes(settings: Settings, cells: Sequence[Cell]) -> Iterator[ProbeResult]:
    """Rows for each optional write: that it is off, or whether the right to it is there in each database."""
    options = settings.fill(CloudOptions)
    interval = options.discover_hosts_in_cells_interval
    yield from _probe_record(settings, options.service_record)
    if interval <= 0:
        yield _off(DISCOVERY, f"[scheduler] discover_hosts_in_cells_interval = {interval}")
    elif settings.fill(ShadowOptions).shadow:
        yield _off(DISCOVERY, "[roost] shadow = True")
    else:
        yield from map(_probe, _discovery_writes(settings, cells))


def _off(what: str, option: str) -> ProbeResult:
    return ProbeResult(CONFIGURATION, what, OFF, f"not written: {option}")


def _probe_record(settings: Settings, is_on: bool) -> Iterator[ProbeResult]:
    if not is_on:
        yield _off(RECORD, "[roost] service_record = False")
        return
    try:
        url = parse_nova_url(settings.fill(DatabaseOptions).connection, CELL_DATABASE)
    except DatabaseAddressError as error:
        yield failure(CONFIGURATION, RECORD, error)
        return
    if settings.fill(ShadowOptions).shadow:
        yield _off(RECORD, "[roost] shadow = True")
    else:
        where = f"database {url.database}"
        yield _probe(Write(where, RECORD, url, CELL_DATABASE, services, "SELECT, INSERT, UPDATE"))


def _discovery_writes(settings: Settings, cells: Sequence[Cell]) -> Iterator[Write]:
    try:
        url = parse_nova_url(settings.fill(ApiDatabaseOptions).connection, API_DATABASE)
    except DatabaseAddressError:  # the survey of the API database has a row for it
        return
    yield Write(API, DISCOVERY, url, API_DATABASE, host_mappings, "SELECT, INSERT")
    for cell in cells:
        if not cell.is_cell0 and not cell.is_disabled:
            where = f"cell {cell.name}"
            yield Write(where, DISCOVERY, cell.url, cell.option, compute_nodes, "SELECT, UPDATE")


def _probe(write: Write) -> ProbeResult:
    table = write.table.name
    try:
        with opened(write.url) as engine, reading(engine, write.option) as connection:
            problem = find_unwritable(connection, write.table, write.rights)
    except DatabaseError as error:
        grant = find_missing_grant(error, write.url, write.rights, table)
        if not grant:
            return failure(write.where, write.what, error)
        return ProbeResult(write.where, write.what, MISSING, f"{table}: no right to {write.rights}", statement=grant)
    if problem is None:
        return ProbeResult(write.where, write.what, OK, f"may {write.rights} {table}")
    result = MISSING if problem.statement else FAILED
    remedy = "" if problem.statement else f"look at {write.option}"
    return ProbeResult(write.where, write.what, result, f"{table}: {problem.problem}", remedy, problem.statement)
