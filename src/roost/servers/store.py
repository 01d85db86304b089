# SPDX-License-Identifier: Apache-2.0
"""Servers in the database. Every change of a server's state is made by `ServerStore.advance`.

A change names the generation that its writer read; it is refused with ServerChanged if another process was faster.
So a message that is doubled, late or repeated changes nothing, and a process that was stopped for an hour cannot
overwrite what happened meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Select, delete, insert, select, update

from roost.clock import Clock
from roost.errors import IllegalStep, ServerChanged, UnknownName
from roost.servers.lifecycle import KEEP, LIFE_CYCLE, PREVIOUS
from roost.servers.pruning import prune_deleted
from roost.servers.server import Fault, Migration, Server, TaskData
from roost.servers.states import BUILDING, DELETED, SCHEDULING
from roost.store.bulk import read_rows
from roost.store.change_log import SERVERS, Change, record_changes
from roost.store.error_mapping import database_errors
from roost.store.schema import migrations, server_faults, server_group_members, servers
from roost.store.store_clock import StoreClock
from roost.store.transactions import writing

_COLUMNS = (
    *("uuid", "name", "vm_state", "task_state", "generation", "host", "node", "availability_zone", "project_id"),
    *("user_id", "power_state", "request_spec", "image_id", "created_at", "updated_at", "launched_at", "deleted_at"),
    *("description", "metadata", "reservation_id"),
)
_SETTABLE = frozenset(
    {"host", "node", "availability_zone", "power_state", "request_spec", "flavor", "image_id", "launched_at"}
)
_MIGRATION_COLUMNS = tuple(Migration.__dataclass_fields__)
ENDED = ("accepted", "cancelled", "completed", "confirmed", "done", "error", "failed", "reverted")
"""Statuses of migrations that are over: neither host needs anything for them."""
MOST_LISTED = 1000

InTransaction = Callable[[Connection], None]
"""Something else that is written in the transaction of a step."""


class ServerStore:
    """Servers, their faults and their migrations in one database. Thread-safe."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        """`clock`: stamps records where the database has no clock of its own (SQLite)."""
        self._engine = engine
        self.times = StoreClock(engine, clock)

    # --- read --------------------------------------------------------------------------------------------

    def get(self, uuid: str) -> Server:
        """A server by its uuid, deleted ones too; UnknownName where there is none."""
        found = self.find([uuid])
        if not found:
            raise _unknown(uuid)
        return found[0]

    def find(self, uuids: Collection[str]) -> list[Server]:
        """The servers with these uuids, deleted ones too; those that do not exist are left out."""
        with database_errors(self._engine), self._engine.connect() as connection:
            return [_server(row) for row in read_rows(connection, _SELECT, servers.c.uuid, uuids)]

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
            raise _unknown(name_or_uuid)
        return self.get(uuids[0])

    def list_servers(
        self,
        *,
        host: str | None = None,
        project_id: str | None = None,
        vm_state: str | None = None,
        name: str | None = None,
        after: str | None = None,
        limit: int | None = MOST_LISTED,
    ) -> list[Server]:
        """Servers that are not deleted, by uuid; `after`: those after this uuid, for paging."""
        wanted = _SELECT.where(_is_left()).order_by(servers.c.uuid)
        conditions = {"host": host, "project_id": project_id, "vm_state": vm_state, "name": name}
        wanted = wanted.where(*(servers.c[key] == value for key, value in conditions.items() if value is not None))
        if after is not None:
            wanted = wanted.where(servers.c.uuid > after)
        return self._read(wanted.limit(limit))

    def list_on(self, host: str) -> list[Server]:
        """Servers that are on a host, or moving to or from it; deleted ones are left out."""
        involved = select(migrations.c.server_uuid).where(
            migrations.c.status.not_in(ENDED),
            (migrations.c.source_compute == host) | (migrations.c.dest_compute == host),
        )
        return self._read(_SELECT.where(_is_left(), (servers.c.host == host) | servers.c.uuid.in_(involved)))

    def list_unfinished(self, idle_seconds: float = 0.0) -> list[Server]:
        """Servers with a running task that has not made a step for so long, by the database's clock."""
        with database_errors(self._engine), self._engine.connect() as connection:
            before = self.times.read(connection) - timedelta(seconds=idle_seconds)
            wanted = _SELECT.where(servers.c.task_state.is_not(None), servers.c.updated_at <= before)
            return [_server(row) for row in connection.execute(wanted.order_by(servers.c.updated_at))]

    def read_faults(self, uuid: str) -> list[Fault]:
        """Faults of a server, the latest first."""
        wanted = select(server_faults).where(server_faults.c.server_uuid == uuid).order_by(server_faults.c.id.desc())
        with database_errors(self._engine), self._engine.connect() as connection:
            return [_fault(row) for row in connection.execute(wanted)]

    def read_latest_faults(self, uuids: Collection[str]) -> dict[str, Fault]:
        """Server uuid -> its latest fault; a server without one is left out."""
        wanted = select(server_faults).order_by(server_faults.c.id)
        with database_errors(self._engine), self._engine.connect() as connection:
            rows = read_rows(connection, wanted, server_faults.c.server_uuid, uuids)
            return {row.server_uuid: _fault(row) for row in rows}

    def _read(self, wanted: Select[Any]) -> list[Server]:
        with database_errors(self._engine), self._engine.connect() as connection:
            return [_server(row) for row in connection.execute(wanted)]

    # --- write -------------------------------------------------------------------------------------------

    def create(self, wanted: Sequence[Server]) -> None:
        """Insert new servers, all or none: building, with the task scheduling."""
        with writing(self._engine) as connection:
            stamp = self.times.stamp()
            for server in wanted:
                row = {name: getattr(server, name) for name in _COLUMNS if name not in ("updated_at", "created_at")}
                row |= {"vm_state": BUILDING, "task_state": SCHEDULING, "generation": 1}
                row |= {"task_data": server.task.to_json(), "created_at": stamp, "updated_at": stamp}
                if server.request_spec is not None:
                    row["flavor"] = server.spec.flavor.to_details()
                connection.execute(insert(servers).values(row))

    def advance(
        self,
        server: Server,
        step: str,
        *,
        task: TaskData | None = None,
        fault: Fault | None = None,
        migration_status: str | None = None,
        also: InTransaction | None = None,
        **values: Any,
    ) -> Server:
        """Take a step of the life cycle: the server as it is then.

        ServerChanged if its record is not the one that was read, IllegalStep if the step is not legal from its state.
        `task`: the new task data; None keeps them while a task runs, and clears them with its end. `values`: host,
        node and the like. `migration_status`: new status of the migration that the task data name. `also`: writes
        something else in the same transaction.
        """
        move = LIFE_CYCLE[step]
        if not move.is_legal(server.vm_state, server.task_state):
            state = f"{server.vm_state}/{server.task_state or 'idle'}"
            raise IllegalStep(f"server {server.uuid}: {step} is not possible while it is {state}")
        if not values.keys() <= _SETTABLE:
            raise ValueError(f"advance cannot set {sorted(values.keys() - _SETTABLE)}")
        changed = replace(
            server,
            **{name: value for name, value in values.items() if name != "flavor"},
            vm_state=_next_vm_state(move.vm_state, server),
            task_state=server.task_state if move.task_state == KEEP else move.task_state,
            generation=server.generation + 1,
            task=task if task is not None else server.task,
        )
        if changed.task_state is None and task is None:
            last_host = server.host if changed.vm_state == DELETED else None
            changed = replace(changed, task=TaskData(last_host=last_host))
        with writing(self._engine) as connection:
            self._write(connection, server, changed, values)
            self._write_beside(connection, server, fault, migration_status)
            if also is not None:
                also(connection)
        return changed

    def _write(self, connection: Connection, before: Server, after: Server, values: Mapping[str, Any]) -> None:
        stamp = self.times.stamp()
        row: dict[str, Any] = {
            "vm_state": after.vm_state,
            "task_state": after.task_state,
            "generation": after.generation,
            "task_data": after.task.to_json() or None,
            "updated_at": stamp,
            **values,
        }
        if after.vm_state == DELETED:
            row |= {"host": None, "node": None, "deleted_at": stamp}
        same = (servers.c.uuid == before.uuid) & (servers.c.generation == before.generation)
        if not connection.execute(update(servers).where(same).values(row)).rowcount:
            raise ServerChanged(f"server {before.uuid} has changed since generation {before.generation}")
        if (row.get("host", before.host), row.get("node", before.node)) != (before.host, before.node):
            record_changes(connection, [Change(SERVERS, before.uuid)])
        if after.vm_state == DELETED:
            connection.execute(delete(server_group_members).where(server_group_members.c.server_uuid == before.uuid))

    def _write_beside(
        self, connection: Connection, before: Server, fault: Fault | None, migration_status: str | None
    ) -> None:
        if fault is not None:
            row = {"code": fault.code, "message": fault.message, "details": fault.details, "host": fault.host}
            row |= {"server_uuid": before.uuid, "created_at": self.times.stamp()}
            connection.execute(insert(server_faults).values(row))
        if migration_status is not None and before.task.migration_uuid:
            values = {"status": migration_status, "updated_at": self.times.stamp()}
            own = migrations.c.uuid == before.task.migration_uuid
            connection.execute(update(migrations).where(own).values(values))

    def note_power_state(self, server: Server, power_state: str) -> None:
        """Record what the hypervisor says, unless the server has changed since it was read."""
        same = (servers.c.uuid == server.uuid) & (servers.c.generation == server.generation)
        with writing(self._engine) as connection:
            connection.execute(update(servers).where(same).values(power_state=power_state))

    def add_fault(self, uuid: str, fault: Fault) -> None:
        """Record a fault of a server whose state does not change with it."""
        with writing(self._engine) as connection:
            row = {"code": fault.code, "message": fault.message, "details": fault.details, "host": fault.host}
            connection.execute(
                insert(server_faults).values(row | {"server_uuid": uuid, "created_at": self.times.stamp()})
            )

    def prune_deleted(self, age_seconds: float) -> int:
        """Remove servers that were deleted longer ago than this, with their faults and migrations: how many.

        Those are left of which a host that was down since may have a guest.
        """
        with writing(self._engine) as connection:
            return prune_deleted(connection, self.times.read(connection) - timedelta(seconds=age_seconds))

    # --- migrations --------------------------------------------------------------------------------------

    def create_migration(self, migration: Migration) -> InTransaction:
        """The insertion of a migration record, for `also` of the step that begins the move."""
        names = [name for name in _MIGRATION_COLUMNS if not name.endswith("_at")]
        row = {name: getattr(migration, name) for name in names} | {
            name: self.times.stamp() for name in ("created_at", "updated_at")
        }

        def write(connection: Connection) -> None:
            connection.execute(insert(migrations).values(row))

        return write

    def update_migration(self, uuid: str, **values: Any) -> InTransaction:
        """The update of a migration record, for `also` of a step: status, dest_compute, dest_node."""

        def write(connection: Connection) -> None:
            stamped = {**values, "updated_at": self.times.stamp()}
            connection.execute(update(migrations).where(migrations.c.uuid == uuid).values(stamped))

        return write

    def list_migrations(self, server_uuid: str | None = None, host: str | None = None) -> list[Migration]:
        """Migrations of a server, or from or to a host, or all; the latest first."""
        wanted = _SELECT_MIGRATIONS
        if server_uuid is not None:
            wanted = wanted.where(migrations.c.server_uuid == server_uuid)
        if host is not None:
            wanted = wanted.where((migrations.c.source_compute == host) | (migrations.c.dest_compute == host))
        with database_errors(self._engine), self._engine.connect() as connection:
            return [Migration(*row) for row in connection.execute(wanted.limit(MOST_LISTED))]


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
    found = [_server(row) for row in connection.execute(_SELECT.where(_is_left()).order_by(servers.c.uuid))]
    uuids = {each.uuid for each in found}
    rows = connection.execute(select(server_faults).order_by(server_faults.c.id))
    faults = {row.server_uuid: _fault(row) for row in rows if row.server_uuid in uuids}
    moves: dict[str, list[Migration]] = defaultdict(list)
    for row in connection.execute(_SELECT_MIGRATIONS):
        if row.server_uuid in uuids:
            moves[row.server_uuid].append(Migration(*row))
    return ServerRecords(found, faults, moves)


_SELECT = select(*(servers.c[name] for name in _COLUMNS), servers.c.task_data)
_SELECT_MIGRATIONS = select(*(migrations.c[name] for name in _MIGRATION_COLUMNS)).order_by(migrations.c.id.desc())


def _server(row: Any) -> Server:
    values = {name: getattr(row, name) for name in _COLUMNS}
    return Server(**values | {"metadata": row.metadata or {}}, task=TaskData.from_json(row.task_data))


def _unknown(name: str) -> UnknownName:
    return UnknownName(f"there is no server {name[:60]!r}", "roost server list shows them")


def _fault(row: Any) -> Fault:
    return Fault(row.message, row.details or "", row.code, row.host, row.created_at)


def _next_vm_state(wanted: str | None, server: Server) -> str | None:
    if wanted == PREVIOUS:
        return server.task.vm_state or server.vm_state
    return wanted or server.vm_state


def _is_left() -> Any:
    return servers.c.vm_state.is_distinct_from(DELETED)


def _is_of(project_id: str) -> Any:
    return servers.c.project_id == project_id
