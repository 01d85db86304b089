# SPDX-License-Identifier: Apache-2.0
"""Servers in the database. Every change of a server's state is made by `ServerStore.advance`.

A change names the generation that its writer read; it is refused with ServerChanged if another process was faster.
So a message that is doubled, late or repeated changes nothing, and a process that was stopped for an hour cannot
overwrite what happened meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, case, delete, insert, update

from roost.clock import Clock
from roost.errors import IllegalStep, ServerChanged
from roost.servers.guest_removals import GuestRemovals, insert_removals
from roost.servers.lifecycle import KEEP, LIFE_CYCLE, PREVIOUS
from roost.servers.pruning import prune_deleted, prune_faults, prune_migrations
from roost.servers.reader import SELECT_SERVERS, SERVER_COLUMNS, ServerReader, server_of, unknown_server
from roost.servers.server import Fault, Migration, Server, TaskData
from roost.servers.states import BUILDING, DELETED, SCHEDULING
from roost.store.change_log import SERVERS, Change, record_changes
from roost.store.schema import migrations, server_faults, server_group_members, servers
from roost.store.store_clock import StoreClock
from roost.store.transactions import database_errors, write, writing

_SETTABLE = frozenset(
    {"host", "node", "availability_zone", "power_state", "request_spec", "flavor", "image_id", "launched_at"}
)
_DETAILS = frozenset({"name", "description", "metadata", "hostname", "access_ip_v4", "access_ip_v6", "disk_config"})
"""What clients write on a server."""
_MIGRATION_COLUMNS = (
    *("uuid", "server_uuid", "migration_type", "status", "source_compute", "source_node", "dest_compute"),
    *("dest_node", "old_flavor", "new_flavor"),
)

InTransaction = Callable[[Connection], None]
"""Something else that is written in the transaction of a step."""


class ServerStore(ServerReader):
    """Servers, their faults and their migrations in one database, to read and to change. Thread-safe."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        """`clock`: stamps records where the database has no clock of its own (SQLite)."""
        super().__init__(engine)
        self.times = StoreClock(engine, clock)
        self.removals = GuestRemovals(engine, self.times)
        """Guests that may be left on hosts that their servers have left."""

    def list_unfinished(self, idle_seconds: float = 0.0) -> list[Server]:
        """Servers with a running task that has not made a step for so long, by the database's clock."""
        with database_errors(self._engine), self._engine.connect() as connection:
            before = self.times.read(connection) - timedelta(seconds=idle_seconds)
            wanted = SELECT_SERVERS.where(servers.c.task_state.is_not(None), servers.c.updated_at <= before)
            return [server_of(row) for row in connection.execute(wanted.order_by(servers.c.updated_at))]

    # --- write -------------------------------------------------------------------------------------------

    def create(self, wanted: Sequence[Server]) -> None:
        """Insert new servers, all or none: building, with the task scheduling."""
        with writing(self._engine) as connection:
            stamp = self.times.stamp()
            for server in wanted:
                row = {
                    name: getattr(server, name) for name in SERVER_COLUMNS if name not in ("updated_at", "created_at")
                }
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
        left_on: Collection[str | None] = (),
        **values: Any,
    ) -> Server:
        """Take a step of the life cycle: the server as it is then.

        ServerChanged if its record is not the one that was read, IllegalStep if the step is not legal from its state.
        `task`: the new task data; None keeps them while a task runs, and clears them with its end. `values`: host,
        node and the like, and what clients write on a server. `migration_status`: new status of the migration that
        the task data name. `also`: writes something else in the same transaction. `left_on`: hosts of which a guest
        has to be removed after this step, if there is one; their agents are told until they have done it.
        """
        move = LIFE_CYCLE[step]
        if not move.is_legal(server.vm_state, server.task_state):
            state = f"{server.vm_state}/{server.task_state or 'idle'}"
            raise IllegalStep(f"server {server.uuid}: {step} is not possible while it is {state}")
        if unknown := values.keys() - _SETTABLE - _DETAILS:
            raise ValueError(f"advance cannot set {sorted(unknown)}")
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
            insert_removals(connection, self.times, server.uuid, left_on, changed.generation)
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

    def change_details(self, uuid: str, change: Callable[[Server], Mapping[str, Any]]) -> Server:
        """Write what clients write on a server, whatever is being done to it: the server as it is then.

        `change`: the new values for a server whose row is locked, so that no other change is lost. UnknownName for
        one that is deleted. The generation stays, as no task needs to know.
        """
        locked = SELECT_SERVERS.where(servers.c.uuid == uuid, servers.c.vm_state.is_distinct_from(DELETED))
        with writing(self._engine) as connection:
            row = connection.execute(locked.with_for_update()).first()
            if row is None:
                raise unknown_server(uuid)
            found = server_of(row)
            values = dict(change(found))
            if not values.keys() <= _DETAILS:
                raise ValueError(f"change_details cannot set {sorted(values.keys() - _DETAILS)}")
            # Of a running task it says since when it makes no step: a new name must not hide that it is stalled.
            time = case((servers.c.task_state.is_(None), self.times.stamp()), else_=servers.c.updated_at)
            connection.execute(update(servers).where(servers.c.uuid == uuid).values(**values, updated_at=time))
        return replace(found, **values)

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

    def prune_migrations(self, age_seconds: float) -> int:
        """Remove moves of servers that live, if they ended longer ago than this: how many."""
        return self._prune(prune_migrations, age_seconds)

    def prune_faults(self, age_seconds: float) -> int:
        """Remove faults that are older than this, but not the latest of a server: how many."""
        return self._prune(prune_faults, age_seconds)

    def _prune(self, prune: Callable[[Connection, datetime], int], age_seconds: float) -> int:
        """Remove what is older than this, in a transaction per `MOST_REMOVED`: other writers do not wait long."""
        age, removed = timedelta(seconds=age_seconds), 0
        while count := write(self._engine, lambda c: prune(c, self.times.read(c) - age)):
            removed += count
        return removed

    # --- migrations --------------------------------------------------------------------------------------

    def create_migration(self, migration: Migration) -> InTransaction:
        """The insertion of a migration record, for `also` of the step that begins the move."""
        row = {name: getattr(migration, name) for name in _MIGRATION_COLUMNS}
        row |= dict.fromkeys(("created_at", "updated_at"), self.times.stamp())

        def write(connection: Connection) -> None:
            connection.execute(insert(migrations).values(row))

        return write

    def update_migration(self, uuid: str, **values: Any) -> InTransaction:
        """The update of a migration record, for `also` of a step: status, dest_compute, dest_node."""

        def write(connection: Connection) -> None:
            stamped = {**values, "updated_at": self.times.stamp()}
            connection.execute(update(migrations).where(migrations.c.uuid == uuid).values(stamped))

        return write


def _next_vm_state(wanted: str | None, server: Server) -> str | None:
    if wanted == PREVIOUS:
        return server.task.vm_state or server.vm_state
    return wanted or server.vm_state
