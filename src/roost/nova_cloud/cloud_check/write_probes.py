# SPDX-License-Identifier: Apache-2.0
"""Looks up whether the writes to nova's databases that options switch on would be allowed. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import Table
from sqlalchemy.engine import URL

from roost.errors import DatabaseAddressError, DatabaseError
from roost.nova_cloud.cloud_check.configuration_probes import CONFIGURATION
from roost.nova_cloud.cloud_check.database_survey import API, opened
from roost.nova_cloud.cloud_check.probe_result import FAILED, MISSING, OFF, OK, ProbeResult, failure
from roost.nova_cloud.databases.cells import Cell
from roost.nova_cloud.databases.read_only_engine import parse_nova_url, reading
from roost.nova_cloud.databases.table_rights import find_missing_grant, find_unwritable
from roost.nova_cloud.databases.written_tables import compute_nodes, host_mappings, services
from roost.nova_cloud.service_record import CELL_DATABASE
from roost.options.settings import Settings
from roost.scheduler.cloud_options import API_DATABASE, ApiDatabaseOptions, CloudOptions, ShadowOptions
from roost.store.engine import DatabaseOptions

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
