# SPDX-License-Identifier: Apache-2.0
"""Servers in the database. Every change of a server's state is made by `ServerStore.advance`.

A change names the generation that its writer read; it is refused with ServerChanged if another process was faster.
So a message that is doubled, late or repeated changes nothing, and a process that was stopped for an hour cannot
overwrite what happened meanwhile.

Schedulers and imports read and write host, node and state alone; a server without a record, which was deleted or is
in another database, is skipped and logged. `end_move` ends a move in the ledger, by the record of its server: agents
end moves; conductors find ended ones.

Old records are removed: deleted servers, and of servers that live the moves and faults that no longer matter. An
agent removes a guest whose server is deleted, and leaves alone a guest whose server is not in the database. So the
record is kept until each host on which the guest may be left has been up for a while since the deletion, or is gone,
and until no removal of a guest is left to acknowledge.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import structlog
from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Select,
    Table,
    case,
    delete,
    exists,
    insert,
    or_,
    select,
    update,
)

from roost.clock import Clock
from roost.errors import ClaimRejected, IllegalStep, ServerChanged
from roost.ledger.claim import HeldNode
from roost.ledger.ledger import Ledger
from roost.model.resources import move_of
from roost.records.guest_removals import COMPUTE, GuestRemovals, insert_removals
from roost.records.node_rows import undecoded, unparsed
from roost.records.server import BUILDING, DELETED, SCHEDULING, Fault, Migration, Server, TaskData
from roost.records.server_steps import KEEP, LIFE_CYCLE, PREVIOUS
from roost.records.server_views import ENDED, SELECT_SERVERS, SERVER_COLUMNS, ServerReader, server_of, unknown_server
from roost.store.change_log import SERVERS, Change, record_changes
from roost.store.reconcile import Reconciler, RowKey
from roost.store.schema.fleet import consumers, services
from roost.store.schema.servers import guest_removals, migrations, server_faults, server_group_members, servers
from roost.store.statements import MOST_KEYS, Row, column_in, in_chunks, read_rows
from roost.store.store_clock import StoreClock
from roost.store.transactions import database_errors, write, writing

LOG = structlog.get_logger(__name__)

IS_LEFT = servers.c.vm_state.is_distinct_from("deleted")
"""The server is not deleted: deleted ones are kept for a while."""


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


_SERVER_ROWS = Reconciler(servers, ("uuid",), columns=("host", "node", "project_id"))
PLACED_SERVERS = (
    select(
        servers.c.uuid,
        servers.c.host,
        servers.c.node,
        servers.c.project_id,
        undecoded(consumers.c.details),
        undecoded(servers.c.flavor),
        unparsed(servers.c.created_at),
    )
    .join_from(servers, consumers, servers.c.uuid == consumers.c.uuid, isouter=True)
    .where(servers.c.host.is_not(None))
)
"""Servers that are on a host, as `make_instance` takes them."""


# --- where they are ----------------------------------------------------------------------------------


def find_server_places(connection: Connection, uuids: Collection[str]) -> dict[str, tuple[str, str]]:
    """Server uuid -> host and node; a server that is on no host is left out."""
    places = select(servers.c.uuid, servers.c.host, servers.c.node).where(servers.c.host.is_not(None))
    rows = read_rows(connection, places, servers.c.uuid, uuids)
    return {uuid: (host, node or host) for uuid, host, node in rows}


def find_servers_on(connection: Connection, hosts: Collection[str]) -> dict[tuple[str, str], set[str]]:
    """Host and node -> uuids of the servers there, for these hosts."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    wanted = select(servers.c.uuid, servers.c.host, servers.c.node)
    for uuid, host, node in read_rows(connection, wanted, servers.c.host, hosts):
        found[host, node or host].add(uuid)
    return found


def find_hosts_with_servers(connection: Connection, hosts: Collection[str]) -> set[str]:
    """Those of these hosts that have a server which is not deleted."""
    wanted = select(servers.c.host).where(IS_LEFT).distinct()
    return {row.host for row in read_rows(connection, wanted, servers.c.host, hosts)}


def read_servers(connection: Connection, uuids: Collection[str]) -> dict[RowKey, Row]:
    """Uuid, as a tuple of one -> host, node and project of the server; one without a record is left out."""
    return _SERVER_ROWS.read(connection, "uuid", uuids)


def save_servers(
    connection: Connection, stored: Mapping[RowKey, Row], wanted: Mapping[RowKey, Row], now: datetime
) -> set[str]:
    """Make host, node and project of servers equal to the wanted ones: uuids of stored servers that changed."""
    in_scope = {key: stored[key] for key in wanted if key in stored}
    return {uuid for (uuid,) in _SERVER_ROWS.apply(connection, in_scope, wanted, _describe_server, now).changed}


def _describe_server(row: Row) -> str:
    return f"instance {row['uuid']:.60}"


# --- for schedulers ----------------------------------------------------------------------------------


def find_known_servers(engine: Engine, uuids: Collection[str]) -> set[str]:
    """Those of the given uuids that have a record in `servers`."""
    with database_errors(engine), engine.connect() as connection:
        return {row.uuid for row in read_rows(connection, select(servers.c.uuid), servers.c.uuid, uuids)}


def save_server_state(
    engine: Engine,
    uuid: str,
    vm_state: str | None,
    task_state: str | None,
    now: datetime,
    *,
    only_from_task: str | None = None,
) -> bool:
    """Save the state of a server; False, logged as a warning, if it has no record.

    `only_from_task`: save only if this is the current task_state (optimistic concurrency), else False.
    """
    wanted = servers.c.uuid == uuid
    if only_from_task is not None:
        wanted &= servers.c.task_state == only_from_task
    values = {"vm_state": vm_state, "task_state": task_state, "updated_at": now}
    with writing(engine) as connection:
        is_saved = bool(connection.execute(update(servers).where(wanted).values(values)).rowcount)
    if not is_saved:
        problem = "it has no record" if only_from_task is None else f"it has no record, or is not {only_from_task}"
        LOG.warning("state of a server not saved", server=uuid, vm_state=vm_state, reason=str(problem))
    return is_saved


def save_server_scheduled(engine: Engine, uuid: str, now: datetime) -> bool:
    """Clear host and node of a server for which a host was chosen: it is not built there yet. False: no record."""
    with writing(engine) as connection:
        locked = select(servers.c.host).where(servers.c.uuid == uuid).with_for_update()
        found = connection.execute(locked).first()
        if found is None:
            LOG.info("scheduling of a server not recorded: it has no record", server=uuid)
            return False
        values: dict[str, Any] = {"host": None, "node": None, "updated_at": now}
        connection.execute(update(servers).where(servers.c.uuid == uuid).values(values))
        record_changes(connection, [Change(SERVERS, uuid)] if found.host is not None else [])
    return True


def end_move(ledger: Ledger, server: Server) -> None:
    """Finish or undo the move of an idle server in the ledger: it keeps what it holds on the host where it is.

    Nothing happens if no move is under way, or if neither end of it is on that host.
    Repeated after a crash, it ends as it would have.
    """
    move = move_of(server.uuid)
    holdings = ledger.read_holdings([server.uuid, move])
    sources = [held for held in holdings.get(move, {}).values() if held.host == server.host]
    targets = [held for held in holdings.get(server.uuid, {}).values() if held.host == server.host]
    if move not in holdings:
        return
    if not (sources or targets):
        reason = f"nothing is held on {server.host}, where the server is"
        LOG.warning("move not ended in the ledger", server=server.uuid, reason=reason)
        return
    is_on_target = bool(targets)
    if targets and sources:  # a resize on one host: the size tells which of the two is left
        is_on_target = not any(_has_size_of(held, server) for held in sources) or _has_size_of(targets[0], server)
    try:
        left = list(holdings[move])  # only this move: the next may begin meanwhile
        ledger.finish_move(move, left) if is_on_target else ledger.undo_move(move, server.uuid, None, left)
    except ClaimRejected as error:  # it would split an affinity group
        LOG.warning("move not ended in the ledger", server=server.uuid, reason=str(error))


def _has_size_of(held: HeldNode, server: Server) -> bool:
    """Whether just the amounts are held that the server needs by its present flavor."""
    wanted = {name: amount for name, amount in server.spec.amounts.items() if amount}
    return wanted == {name: amount for name, amount in held.amounts.items() if amount}


COMPARISON_TIME = timedelta(minutes=20)
"""How long after a deletion a host has to be up: its agent has compared guests and records by then."""
MOST_REMOVED = 2000
"""Moves or faults that one transaction removes."""


def prune_deleted(connection: Connection, deleted_before: datetime) -> int:
    """Remove servers that were deleted before this time, with their faults and migrations: how many."""
    is_old = (servers.c.vm_state == DELETED) & (servers.c.deleted_at < deleted_before)
    rows = connection.execute(select(servers.c.uuid, servers.c.deleted_at, servers.c.task_data).where(is_old)).all()
    deleted_at = {row.uuid: row.deleted_at for row in rows}
    silent = _read_silent_hosts(connection, deleted_before + COMPARISON_TIME) if rows else {}
    last = ((row.uuid, TaskData.from_json(row.task_data).last_host) for row in rows)
    places = (*last, *_read_moves(connection, deleted_at)) if silent else ()
    kept = {uuid for uuid, host in places if host in silent and not _has_compared(silent[host], deleted_at[uuid])}
    left = select(guest_removals.c.server_uuid).distinct()
    kept |= {row.server_uuid for row in read_rows(connection, left, guest_removals.c.server_uuid, deleted_at)}
    for chunk in in_chunks(sorted(deleted_at.keys() - kept), MOST_KEYS):
        connection.execute(delete(migrations).where(column_in(connection, migrations.c.server_uuid, chunk)))
        connection.execute(delete(servers).where(column_in(connection, servers.c.uuid, chunk)))
    return len(deleted_at) - len(kept)


def prune_migrations(connection: Connection, ended_before: datetime) -> int:
    """Remove moves that ended before this time, MOST_REMOVED at most: how many.

    Those of deleted servers stay, which go with their server, and those of hosts that have been down since.
    """
    own, silent = migrations.c, _is_silent(ended_before + COMPARISON_TIME)
    has_silent_host = exists().where(services.c.host.in_((own.source_compute, own.dest_compute)), *silent)
    has_deleted_server = exists().where(servers.c.uuid == own.server_uuid, servers.c.vm_state == DELETED)
    old = select(own.id).where(own.status.in_(ENDED), own.updated_at < ended_before)
    return _delete(connection, migrations, old.where(~has_silent_host, ~has_deleted_server))


def prune_faults(connection: Connection, made_before: datetime) -> int:
    """Remove faults from before this time, MOST_REMOVED at most: how many. The latest fault of each server stays."""
    own, later = server_faults.c, server_faults.alias("later")
    is_not_the_latest = exists().where(later.c.server_uuid == own.server_uuid, later.c.id > own.id)
    return _delete(connection, server_faults, select(own.id).where(own.created_at < made_before, is_not_the_latest))


def _delete(connection: Connection, table: Table, wanted: Select[Any]) -> int:
    """Delete the rows of a table whose ids are selected, MOST_REMOVED at most: how many."""
    ids = sorted(connection.scalars(wanted.limit(MOST_REMOVED)))
    for chunk in in_chunks(ids, MOST_KEYS):
        connection.execute(delete(table).where(column_in(connection, table.c.id, chunk)))
    return len(ids)


def _is_silent(since: datetime) -> tuple[ColumnElement[bool], ...]:
    """The conditions on a service: an agent that has sent no heartbeat since a time."""
    is_silent = or_(services.c.last_seen_up.is_(None), services.c.last_seen_up < since)
    return services.c.binary == COMPUTE, services.c.is_static.is_(False), is_silent


def _read_silent_hosts(connection: Connection, since: datetime) -> dict[str | None, datetime | None]:
    """Host -> its last heartbeat, of those that have sent none since a time; None: it has never sent one."""
    query = select(services.c.host, services.c.last_seen_up).where(*_is_silent(since))
    return {row.host: row.last_seen_up for row in connection.execute(query)}


def _read_moves(connection: Connection, uuids: Collection[str]) -> Iterator[tuple[str, str | None]]:
    """Server and host, for both hosts of all moves of the servers."""
    query = select(migrations.c.server_uuid, migrations.c.source_compute, migrations.c.dest_compute)
    for uuid, source, target in read_rows(connection, query, migrations.c.server_uuid, uuids):
        yield uuid, source
        yield uuid, target


def _has_compared(last_seen: datetime | None, deleted_at: datetime) -> bool:
    """Whether the agent of a host has been there after a server was deleted, so that it has removed the guest."""
    return last_seen is not None and last_seen >= deleted_at + COMPARISON_TIME
