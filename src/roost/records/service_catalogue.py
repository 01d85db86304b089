# SPDX-License-Identifier: Apache-2.0
"""Services as clients of the API see and delete them; flags and heartbeats are in `services.py`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, delete, select

from roost.errors import Conflict, UnknownName
from roost.model.uuids import canonical_uuid
from roost.records.aggregates import read_zones_of_hosts, remove_host_from_aggregates
from roost.records.node_rows import unlisted_uuid
from roost.records.node_writer import delete_node_rows, find_node_ids, lock_nodes
from roost.records.outages import read_heartbeat_rule
from roost.records.servers import find_hosts_with_servers
from roost.records.services import AGENT, lock_agents
from roost.store.change_log import SERVICES, Change, record_changes
from roost.store.columns import LARGEST_BIGINT
from roost.store.schema.fleet import services
from roost.store.store_clock import PresentTime
from roost.store.transactions import database_errors, write


class LivenessAndZones(NamedTuple):
    """What decides whether services are up, and in which zones they are."""

    service_down_time: float
    """Seconds after the last heartbeat."""
    default_zone: str = "nova"
    """Zone of hosts whose aggregates name none."""
    internal_zone: str = "internal"
    """Zone of services other than agents."""


class ServiceRecord(NamedTuple):
    """A service in the database, with everything that clients are shown of it."""

    id: int
    uuid: str
    host: str
    binary: str
    zone: str
    disabled: bool
    disabled_reason: str | None
    forced_down: bool
    is_up: bool
    """By its heartbeats, and not forced down."""
    updated_at: datetime | None
    """The last heartbeat, or the last change of a service that has none."""


_COLUMNS = services.c
_SELECT = select(services).order_by(_COLUMNS.id)


# --- read --------------------------------------------------------------------------------------------


def list_services(
    engine: Engine,
    now: PresentTime,
    options: LivenessAndZones,
    *,
    host: str | None = None,
    binary: str | None = None,
) -> list[ServiceRecord]:
    """Services by id: all, or those of a host, of a binary, or both."""
    named = [_COLUMNS[key] == value for key, value in (("host", host), ("binary", binary)) if value is not None]
    with database_errors(engine), engine.connect() as connection:
        rows = connection.execute(_SELECT.where(*named)).all()
        return _records(connection, rows, now, options)


def get_service(engine: Engine, service: str | int, now: PresentTime, options: LivenessAndZones) -> ServiceRecord:
    """The service with this uuid, or with this id if it is a number; UnknownName if there is none."""
    with database_errors(engine), engine.connect() as connection:
        return _records(connection, [_find(connection, service)], now, options)[0]


def _find(connection: Connection, service: str | int) -> Any:
    if isinstance(service, str):
        is_it = _COLUMNS.uuid == canonical_uuid(service)
    else:
        is_it = _COLUMNS.id == (service if 0 < service <= LARGEST_BIGINT else 0)
    row = connection.execute(_SELECT.where(is_it)).first()
    if row is None:
        raise UnknownName(f"Service {service} could not be found.")
    return row


def _records(
    connection: Connection, rows: Sequence[Any], now: PresentTime, options: LivenessAndZones
) -> list[ServiceRecord]:
    """Records of rows of `services`, in three statements."""
    rule = read_heartbeat_rule(connection, now, options.service_down_time)
    zones = read_zones_of_hosts(connection, [rows[0].host] if len(rows) == 1 else None)
    default = [options.default_zone]
    return [
        ServiceRecord(
            row.id,
            row.uuid,
            row.host,
            row.binary,
            zones.get(row.host, default)[0] if row.binary == AGENT else options.internal_zone,
            row.disabled,
            row.disabled_reason,
            row.forced_down,
            rule.is_row_up(row) and not row.forced_down,
            row.last_seen_up or row.updated_at or row.created_at,
        )
        for row in rows
    ]


# --- write -------------------------------------------------------------------------------------------


def delete_service(engine: Engine, service: str | int) -> None:
    """Delete a service by its uuid or id; that of an agent with its nodes, and its host's places in aggregates.

    Conflict if the host of an agent has servers, or its nodes have allocations.
    """

    def delete_one(connection: Connection) -> None:
        row = _find(connection, service)
        changes = _delete_host(connection, row.host) if row.binary == AGENT else []
        connection.execute(delete(services).where(_COLUMNS.id == row.id))
        record_changes(connection, changes)

    write(engine, delete_one)


def _delete_host(connection: Connection, host: str) -> list[Change]:
    """Delete the nodes of a host and its places in aggregates: the entries of the change log."""
    stored = lock_nodes(connection, find_node_ids(connection, [host]))
    lock_agents(connection, [host])
    unlisted = {row["id"]: unlisted_uuid(row["uuid"]) for row in stored.nodes.values()}
    held = {
        uuid for node_id, each in stored.allocations_by_node.items() for uuid in each if uuid != unlisted[node_id]
    }
    if held or find_hosts_with_servers(connection, [host]):
        problem = "Unable to delete compute service that is hosting instances."
        raise Conflict(f"{problem} Migrate or delete the instances first.")
    changes = [delete_node_rows(connection, node_id, [uuid]) for node_id, uuid in unlisted.items()]
    return [*changes, Change(SERVICES, host), *remove_host_from_aggregates(connection, host)]
