# SPDX-License-Identifier: Apache-2.0
"""Removal of the records of deleted servers.

An agent removes a guest whose server is deleted, and leaves alone a guest whose server is not in the database. So the
record is kept until each host on which the guest may be left has been up for a while since the deletion, or is gone,
and until no removal of a guest is left to acknowledge.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, or_, select

from roost.servers.guest_removals import COMPUTE
from roost.servers.server import TaskData
from roost.servers.states import DELETED
from roost.store.bulk import MOST_KEYS, column_in, in_chunks, read_rows
from roost.store.schema import guest_removals, migrations, servers, services

COMPARISON_TIME = timedelta(minutes=20)
"""How long after a deletion a host has to be up: its agent has compared guests and records by then."""


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


def _read_silent_hosts(connection: Connection, since: datetime) -> dict[str | None, datetime | None]:
    """Host -> its last heartbeat, of those that have sent none since a time; None: it has never sent one."""
    is_silent = or_(services.c.last_seen_up.is_(None), services.c.last_seen_up < since)
    has_agent = (services.c.binary == COMPUTE) & services.c.is_static.is_(False)
    query = select(services.c.host, services.c.last_seen_up).where(has_agent, is_silent)
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
