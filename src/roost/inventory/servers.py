# SPDX-License-Identifier: Apache-2.0
"""Servers in the database: host, node and state, as far as schedulers and imports read and write them.

The other columns belong to the API. A server without a record, which was deleted or is in another database, is
skipped and logged.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, select, update

from roost.inventory.row_decoder import undecoded, unparsed
from roost.store.change_log import SERVERS, Change, record_changes
from roost.store.reconcile import Reconciler, RowKey
from roost.store.schema import consumers, servers
from roost.store.statements import Row, read_rows
from roost.store.transactions import database_errors, writing

LOG = logging.getLogger(__name__)

IS_LEFT = servers.c.vm_state.is_distinct_from("deleted")
"""The server is not deleted: deleted ones are kept for a while."""

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
        LOG.warning("server %s: its state %s is not saved: %s", uuid, vm_state, problem)
    return is_saved


def save_server_scheduled(engine: Engine, uuid: str, now: datetime) -> bool:
    """Clear host and node of a server for which a host was chosen: it is not built there yet. False: no record."""
    with writing(engine) as connection:
        locked = select(servers.c.host).where(servers.c.uuid == uuid).with_for_update()
        found = connection.execute(locked).first()
        if found is None:
            LOG.info("server %s: that it was scheduled is not recorded: it has no record", uuid)
            return False
        values: dict[str, Any] = {"host": None, "node": None, "updated_at": now}
        connection.execute(update(servers).where(servers.c.uuid == uuid).values(values))
        record_changes(connection, [Change(SERVERS, uuid)] if found.host is not None else [])
    return True
