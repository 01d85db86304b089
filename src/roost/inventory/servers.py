# SPDX-License-Identifier: Apache-2.0
"""Servers in the tables, as far as a scheduler and an import know them: where they are, and in which state.

The API that made a server keeps the rest of its record. A server without a record, because it was deleted or because
another database has it, is passed over with a line in the log.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, select, update

from roost.inventory.row_decoder import as_text
from roost.store.bulk import Row, rows_where
from roost.store.change_log import SERVERS, Change, note_changes
from roost.store.error_mapping import database_errors
from roost.store.reconcile import Key, Reconciler
from roost.store.schema import consumers, servers
from roost.store.transactions import writing

LOG = logging.getLogger(__name__)

_SERVERS = Reconciler(servers, ("uuid",), columns=("host", "node", "project_id"))
PLACED_SERVERS = (
    select(
        servers.c.uuid,
        servers.c.host,
        servers.c.node,
        servers.c.project_id,
        as_text(consumers.c.details),
        as_text(servers.c.flavor),
    )
    .join_from(servers, consumers, servers.c.uuid == consumers.c.uuid, isouter=True)
    .where(servers.c.host.is_not(None))
)
"""Servers that are on a host, as `make_instance` takes them."""


# --- where they are ----------------------------------------------------------------------------------


def find_server_places(connection: Connection, uuids: Collection[str]) -> dict[str, tuple[str, str]]:
    """Server uuid -> the host and node it is on; a server that is on none is left out."""
    places = select(servers.c.uuid, servers.c.host, servers.c.node).where(servers.c.host.is_not(None))
    rows = rows_where(connection, places, servers.c.uuid, uuids)
    return {uuid: (host, node or host) for uuid, host, node in rows}


def find_servers_on(connection: Connection, hosts: Collection[str]) -> dict[tuple[str, str], set[str]]:
    """Host and node -> the uuids of servers there, for these hosts."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    wanted = select(servers.c.uuid, servers.c.host, servers.c.node)
    for uuid, host, node in rows_where(connection, wanted, servers.c.host, hosts):
        found[host, node or host].add(uuid)
    return found


def read_servers(connection: Connection, uuids: Collection[str]) -> dict[Key, Row]:
    """Uuid, as a tuple -> host, node and project of the server; one that has no record is left out."""
    return _SERVERS.read(connection, "uuid", uuids)


def save_servers(
    connection: Connection, stored: Mapping[Key, Row], wanted: Mapping[Key, Row], now: datetime
) -> set[str]:
    """Make host, node and project of servers what a source says: the uuids of those that were there and changed."""
    there = {key: stored[key] for key in wanted if key in stored}
    return {uuid for (uuid,) in _SERVERS.apply(connection, there, wanted, _place, now).changed}


def _place(row: Row) -> str:
    return f"instance {row['uuid']:.60}"


# --- what a scheduler writes -------------------------------------------------------------------------


def find_known_servers(engine: Engine, uuids: Collection[str]) -> set[str]:
    """The uuids of those of these servers that have a record."""
    with database_errors(engine), engine.connect() as connection:
        return {row.uuid for row in rows_where(connection, select(servers.c.uuid), servers.c.uuid, uuids)}


def save_server_state(
    engine: Engine,
    uuid: str,
    vm_state: str | None,
    task_state: str | None,
    now: datetime,
    *,
    only_from_task: str | None = None,
) -> bool:
    """The server is in this state now; False where it has no record.

    `only_from_task`: False as well, and no change, where its task is another one by now.
    """
    wanted = servers.c.uuid == uuid
    if only_from_task is not None:
        wanted &= servers.c.task_state == only_from_task
    values = {"vm_state": vm_state, "task_state": task_state, "updated_at": now}
    with writing(engine) as connection:
        is_saved = bool(connection.execute(update(servers).where(wanted).values(values)).rowcount)
    if not is_saved:
        problem = "it has no record" if only_from_task is None else f"it has no record, or is not {only_from_task}"
        LOG.warning("server %s: its state %s is not saved: %s", uuid, vm_state, problem)
    return is_saved


def save_server_scheduled(engine: Engine, uuid: str, now: datetime) -> bool:
    """A host was chosen and the server is not there yet, so it is on none; False where it has no record."""
    with writing(engine) as connection:
        place = select(servers.c.host).where(servers.c.uuid == uuid).with_for_update()
        found = connection.execute(place).first()
        if found is None:
            LOG.info("server %s: nobody noted that it was scheduled: it has no record", uuid)
            return False
        values: dict[str, Any] = {"host": None, "node": None, "updated_at": now}
        connection.execute(update(servers).where(servers.c.uuid == uuid).values(values))
        note_changes(connection, [Change(SERVERS, uuid)] if found.host is not None else [])
    return True
