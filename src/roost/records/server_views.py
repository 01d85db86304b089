# SPDX-License-Identifier: Apache-2.0
"""Servers and their migrations, hosts, flavors and images as clients see them, and the reader of servers.

The number of statements never grows with the rows. Only a list by regular expressions that LIKE cannot say needs one
for each ROWS_AT_ONCE that are looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Select, func, select

from roost.errors import UnknownName
from roost.model.descriptions import describe_flavor, time_text
from roost.records.listing import (
    NEWEST_FIRST,
    MigrationFilters,
    PatternFilter,
    ServerFilters,
    migration_conditions,
    server_conditions,
    server_sort_keys,
    unknown_marker,
)
from roost.records.server import DELETED, STATUSES_WITH_FAULT, Fault, Migration, Server, TaskData, status_of
from roost.store.columns import json_number
from roost.store.pages import SortKey, after_marker, in_order
from roost.store.schema.servers import migrations, server_faults, servers
from roost.store.statements import column_in, read_rows
from roost.store.transactions import database_errors

Record = dict[str, Any]
_PLACES = ("source_compute", "source_node", "dest_compute", "dest_node")


def describe_server(server: Server, fault: Fault | None, for_admin: bool) -> Record:
    """A server; host, node, attempts and details of the fault are for admins. `fault`: the latest one."""
    flavor, image = server.flavor_and_image
    return {
        "id": server.uuid,
        "name": server.name,
        "description": server.description,
        "status": status_of(server.vm_state, server.task_state),
        "vm_state": server.vm_state,
        "task_state": server.task_state,
        "power_state": server.power_state,
        "host": server.host if for_admin else None,
        "node": server.node if for_admin else None,
        "availability_zone": server.availability_zone,
        "project_id": server.project_id,
        "user_id": server.user_id,
        "flavor": describe_flavor(flavor) if flavor else None,
        "image": {"id": image.id, "name": image.name} if image else None,
        "metadata": dict(server.metadata),
        "reservation_id": server.reservation_id,
        "created_at": time_text(server.created_at),
        "updated_at": time_text(server.updated_at),
        "launched_at": time_text(server.launched_at),
        "fault": describe_fault(fault, for_admin) if fault and shows_fault(server) else None,
        "attempts": [each._asdict() for each in server.task.attempts] if for_admin else [],
        "migrations": [],
    }


def describe_fully(server: Server, fault: Fault | None, migrations: Sequence[Migration]) -> Record:
    """A server for admins: with its migrations, and its latest fault whatever its status."""
    return describe_server(server, None, True) | {
        "migrations": [describe_migration(each, True) for each in migrations],
        "fault": describe_fault(fault, True) if fault else None,
    }


def shows_fault(server: Server) -> bool:
    """Whether clients are told the latest fault of a server."""
    return status_of(server.vm_state, server.task_state) in STATUSES_WITH_FAULT


def describe_fault(fault: Fault, for_admin: bool) -> Record:
    """A fault; its details are for admins."""
    record: Record = {"code": fault.code, "message": fault.message, "created": time_text(fault.created_at)}
    return record | ({"details": fault.details} if for_admin else {})


def describe_migration(migration: Migration, for_admin: bool) -> Record:
    """A migration; its hosts and nodes are for admins."""
    return {
        "uuid": migration.uuid,
        "server": migration.server_uuid,
        "migration_type": migration.migration_type,
        "status": migration.status,
        **{name: getattr(migration, name) if for_admin else None for name in _PLACES},
        "created_at": time_text(migration.created_at),
        "updated_at": time_text(migration.updated_at),
    }


SERVER_COLUMNS = (
    *("uuid", "name", "vm_state", "task_state", "generation", "host", "node", "availability_zone", "project_id"),
    *("user_id", "power_state", "request_spec", "image_id", "created_at", "updated_at", "launched_at", "deleted_at"),
    *("description", "metadata", "reservation_id", "launch_index", "hostname", "access_ip_v4", "access_ip_v6"),
    "disk_config",
)
_OWNER = ("project_id", "user_id")
ENDED = ("accepted", "cancelled", "completed", "confirmed", "done", "error", "failed", "reverted")
"""Statuses of migrations that are over: neither host needs anything for them."""
MOST_LISTED = 1000
ROWS_AT_ONCE = 5000
"""How many rows a search by regular expressions reads with one statement."""
ALL_SERVERS, ALL_MIGRATIONS = ServerFilters(), MigrationFilters()


class ProjectUse(NamedTuple):
    """What the servers of a project use, whatever they do."""

    servers: int
    vcpus: int
    memory_mb: int


class ServerReader:
    """Servers, their faults and their migrations in one database. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # --- servers -----------------------------------------------------------------------------------------

    def get(self, uuid: str) -> Server:
        """A server by its uuid, deleted ones too; UnknownName where there is none."""
        found = self.find([uuid])
        if not found:
            raise unknown_server(uuid)
        return found[0]

    def find(self, uuids: Collection[str]) -> list[Server]:
        """The servers with these uuids, deleted ones too; those that do not exist are left out."""
        with database_errors(self._engine), self._engine.connect() as connection:
            return [server_of(row) for row in read_rows(connection, SELECT_SERVERS, servers.c.uuid, uuids)]

    def resolve(self, name_or_uuid: str, project_id: str | None = None) -> Server:
        """A server by its uuid or by its name, if that is unique; UnknownName otherwise. Deleted: by uuid."""
        named = select(servers.c.uuid).where(servers.c.name == name_or_uuid, _is_left()).limit(2)
        exact = select(servers.c.uuid).where(servers.c.uuid == name_or_uuid)
        if project_id is not None:
            named, exact = named.where(_is_of(project_id)), exact.where(_is_of(project_id))
        with database_errors(self._engine), self._engine.connect() as connection:
            uuids = connection.scalars(exact).all() or connection.scalars(named).all()
        if len(uuids) > 1:
            raise UnknownName(f"several servers are named {name_or_uuid[:60]!r}", "give the uuid")
        if not uuids:
            raise unknown_server(name_or_uuid)
        return self.get(uuids[0])

    def list_page(
        self,
        wanted: ServerFilters = ALL_SERVERS,
        sort: Sequence[tuple[str, str]] = NEWEST_FIRST,
        marker: str | None = None,
        limit: int | None = MOST_LISTED,
    ) -> list[Server]:
        """The servers that match all filters: in order, from the one after the marker, as many as the limit allows.

        `sort`: pairs of a key of SORT_KEYS and "asc" or "desc"; servers that are equal in all of them follow by uuid.
        `marker`: uuid of the last server of the page before. BadInput where there is none, or no such key.
        """
        keys, patterns = server_sort_keys(sort), PatternFilter(wanted.patterns)
        conditions = [*server_conditions(self._engine.dialect.name, wanted), *patterns.conditions]
        page = SELECT_SERVERS.where(*conditions).order_by(*in_order(keys))
        with database_errors(self._engine), self._engine.connect() as connection:
            if marker is not None:
                known = select(*(key.column for key in keys)).where(servers.c.uuid == marker)
                if wanted.project_id is not None:
                    known = known.where(_is_of(wanted.project_id))
                last = connection.execute(known).first()
                if last is None:
                    raise unknown_marker(marker)
                page = page.where(after_marker(keys, last))
            if patterns.columns:
                uuids = _search(connection, page, keys, patterns, limit)
                rows = {row.uuid: row for row in read_rows(connection, SELECT_SERVERS, servers.c.uuid, uuids)}
                return [server_of(rows[each]) for each in uuids if each in rows]
            return [server_of(row) for row in connection.execute(page.limit(limit))]

    def list_on(self, host: str) -> list[Server]:
        """Servers that are on a host, or moving to or from it; deleted ones are left out."""
        involved = select(migrations.c.server_uuid).where(
            migrations.c.status.not_in(ENDED),
            (migrations.c.source_compute == host) | (migrations.c.dest_compute == host),
        )
        return self._read(SELECT_SERVERS.where(_is_left(), (servers.c.host == host) | servers.c.uuid.in_(involved)))

    def count_use(self, project_id: str) -> ProjectUse:
        """How many servers a project has, and how many vCPUs and MiB of memory are in their flavors."""
        dialect = self._engine.dialect.name
        sizes = (json_number(dialect, servers.c.flavor, name) for name in ("vcpus", "memory_mb"))
        sums = (func.coalesce(func.sum(each), 0) for each in sizes)
        with database_errors(self._engine), self._engine.connect() as connection:
            found = connection.execute(select(func.count(), *sums).where(_is_left(), _is_of(project_id))).one()
        return ProjectUse(*map(int, found))

    def _read(self, wanted: Select[Any]) -> list[Server]:
        with database_errors(self._engine), self._engine.connect() as connection:
            return [server_of(row) for row in connection.execute(wanted)]

    # --- faults ------------------------------------------------------------------------------------------

    def read_faults(self, uuid: str) -> list[Fault]:
        """Faults of a server, the latest first."""
        wanted = select(server_faults).where(server_faults.c.server_uuid == uuid).order_by(server_faults.c.id.desc())
        with database_errors(self._engine), self._engine.connect() as connection:
            return [_fault(row) for row in connection.execute(wanted)]

    def read_latest_faults(self, uuids: Collection[str]) -> dict[str, Fault]:
        """Server uuid -> its latest fault; a server without one is left out."""
        if not uuids:
            return {}
        with database_errors(self._engine), self._engine.connect() as connection:
            of_servers = column_in(connection, server_faults.c.server_uuid, sorted(uuids))
            latest = select(func.max(server_faults.c.id)).where(of_servers).group_by(server_faults.c.server_uuid)
            rows = connection.execute(select(server_faults).where(server_faults.c.id.in_(latest)))
            return {row.server_uuid: _fault(row) for row in rows}

    # --- migrations --------------------------------------------------------------------------------------

    def list_migrations(self, server_uuid: str | None = None, host: str | None = None) -> list[Migration]:
        """Migrations of a server, from or to a host, or all; the latest first."""
        servers_wanted = None if server_uuid is None else [server_uuid]
        return self.list_migration_page(MigrationFilters(server_uuids=servers_wanted, host=host))

    def list_migration_page(
        self, wanted: MigrationFilters = ALL_MIGRATIONS, marker: str | None = None, limit: int | None = MOST_LISTED
    ) -> list[Migration]:
        """The migrations that match all filters, the latest first: from the one after the marker, up to the limit.

        `marker`: uuid of the last migration of the page before; BadInput where there is none.
        """
        page = _SELECT_MIGRATIONS.where(*migration_conditions(wanted))
        with database_errors(self._engine), self._engine.connect() as connection:
            if marker is not None:
                last = connection.scalar(select(migrations.c.id).where(migrations.c.uuid == marker))
                if last is None:
                    raise unknown_marker(marker)
                page = page.where(migrations.c.id < last)
            return [Migration(*row) for row in connection.execute(page.limit(limit))]


def _search(
    connection: Connection, page: Select[Any], keys: Sequence[SortKey], patterns: PatternFilter, limit: int | None
) -> list[str]:
    """The uuids of a page, in its order: of the rows that match the patterns, as many as the limit allows.

    `keys`: by which the page is sorted, the last one the uuid.
    """
    columns = [*(key.column for key in keys), *patterns.columns]
    page = page.with_only_columns(*(column.label(f"c{at}") for at, column in enumerate(columns)))
    found: list[str] = []
    rows: Sequence[Any] = ()
    while limit is None or len(found) < limit:
        part = page.where(after_marker(keys, rows[-1][: len(keys)])) if rows else page
        rows = connection.execute(part.limit(ROWS_AT_ONCE)).all()
        found += [row[len(keys) - 1] for row in rows if patterns.matches(row[len(keys) :])]
        if len(rows) < ROWS_AT_ONCE:
            break
    return found[:limit]


class ServerRecords(NamedTuple):
    """All servers that are not deleted, with what else is known of them."""

    servers: list[Server]
    """By uuid."""
    faults: dict[str, Fault]
    """Server uuid -> its latest fault."""
    migrations: dict[str, list[Migration]]
    """Server uuid -> its migrations, the latest first."""


def read_server_records(connection: Connection) -> ServerRecords:
    """All servers that are not deleted, as a transaction sees them."""
    found = [server_of(row) for row in connection.execute(SELECT_SERVERS.where(_is_left()).order_by(servers.c.uuid))]
    uuids = {each.uuid for each in found}
    rows = connection.execute(select(server_faults).order_by(server_faults.c.id))
    faults = {row.server_uuid: _fault(row) for row in rows if row.server_uuid in uuids}
    moves: dict[str, list[Migration]] = defaultdict(list)
    for row in connection.execute(_SELECT_MIGRATIONS):
        if row.server_uuid in uuids:
            moves[row.server_uuid].append(Migration(*row))
    return ServerRecords(found, faults, moves)


SELECT_SERVERS = select(*(servers.c[name] for name in SERVER_COLUMNS), servers.c.task_data)
_SELECT_MIGRATIONS = (
    select(*((servers if name in _OWNER else migrations).c[name] for name in Migration.__dataclass_fields__))
    .select_from(migrations.outerjoin(servers, servers.c.uuid == migrations.c.server_uuid))
    .order_by(migrations.c.id.desc())
)


def server_of(row: Any) -> Server:
    """The server of a row that SELECT_SERVERS read."""
    values = {name: getattr(row, name) for name in SERVER_COLUMNS}
    return Server(**values | {"metadata": row.metadata or {}}, task=TaskData.from_json(row.task_data))


def unknown_server(name: str) -> UnknownName:
    """The error for a server that is not there."""
    return UnknownName(f"there is no server {name[:60]!r}", "roost server list shows them")


def _fault(row: Any) -> Fault:
    return Fault(row.message, row.details or "", row.code, row.host, row.created_at)


def _is_left() -> Any:
    return servers.c.vm_state.is_distinct_from(DELETED)


def _is_of(project_id: str) -> Any:
    return servers.c.project_id == project_id
