# SPDX-License-Identifier: Apache-2.0
"""Removal of old records: deleted servers, and of servers that live the moves and faults that no longer matter.

An agent removes a guest whose server is deleted, and leaves alone a guest whose server is not in the database. So the
record is kept until each host on which the guest may be left has been up for a while since the deletion, or is gone,
and until no removal of a guest is left to acknowledge.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, delete, exists, or_, select

from roost.servers.guest_removals import COMPUTE
from roost.servers.reader import ENDED
from roost.servers.server import TaskData
from roost.servers.states import DELETED
from roost.store.schema import guest_removals, migrations, server_faults, servers, services
from roost.store.statements import MOST_KEYS, column_in, in_chunks, read_rows

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
