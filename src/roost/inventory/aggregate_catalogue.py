# SPDX-License-Identifier: Apache-2.0
"""Aggregates as clients of the API see and change them; the import of fleet files is in `aggregates.py`.

A host is in one availability zone at most, however many writers there are: each locks the services of agents whose
zone it changes, and then the aggregate, in the order of an import.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, delete, insert, select, update

from roost.errors import BadInput, Conflict, DatabaseConflict, UnknownName
from roost.inventory.aggregates import METADATA_ROWS, describe_metadata, read_aggregates
from roost.inventory.servers import find_hosts_with_servers
from roost.inventory.services import lock_agents
from roost.inventory.zones import ZONE_KEY, read_zones_of_hosts
from roost.model import Aggregate
from roost.store.change_log import AGGREGATES, Change, record_changes
from roost.store.columns import LARGEST_BIGINT, check_rows
from roost.store.reconcile import KeyedRows
from roost.store.schema import aggregate_hosts, aggregates
from roost.store.statements import read_rows
from roost.store.store_clock import PresentTime, stamp_of
from roost.store.transactions import database_errors, write

Refuse = Callable[[str], BadInput]
"""Makes the error for a reason."""


class AggregateRecord(NamedTuple):
    """An aggregate in the database, with everything that clients are shown of it."""

    id: int
    uuid: str
    name: str
    hosts: tuple[str, ...]
    metadata: Mapping[str, str]
    """With the availability zone, if it defines one."""
    created_at: datetime | None
    updated_at: datetime | None

    @property
    def availability_zone(self) -> str | None:
        """The availability zone that the aggregate defines; None if it defines none."""
        return self.metadata.get(ZONE_KEY)


# --- write -------------------------------------------------------------------------------------------


def create_aggregate(engine: Engine, name: str, availability_zone: str | None, now: PresentTime) -> AggregateRecord:
    """Insert an aggregate without hosts. Conflict if another one has its name."""
    _check_name(name)

    def insert_one(connection: Connection) -> AggregateRecord:
        _refuse_taken(connection, name)
        values = {"uuid": str(uuid.uuid4()), "name": name, "created_at": stamp_of(now)}
        row_id: Any = connection.execute(insert(aggregates).values(values)).inserted_primary_key
        aggregate_id: int = row_id[0]
        if availability_zone is not None:
            _save_metadata(connection, aggregate_id, {ZONE_KEY: availability_zone})
        return _finish(connection, aggregate_id)

    return write(engine, insert_one)


def update_aggregate(
    engine: Engine,
    aggregate_id: int,
    now: PresentTime,
    default_zone: str,
    *,
    name: str | None = None,
    metadata: Mapping[str, str | None] | None = None,
) -> AggregateRecord:
    """Rename an aggregate, set metadata of it and leave the other; a value of None deletes. The zone is metadata too.

    Conflict if another one has the name; BadInput for a zone that would put a host into two, or move servers from one
    to another. `default_zone`: of hosts whose aggregates name none.
    """
    if name is not None:
        _check_name(name)
    given = metadata or {}

    def refuse(reason: str) -> BadInput:
        return BadInput(f"Cannot update aggregate {aggregate_id}. Reason: {reason}.")

    def save(connection: Connection) -> AggregateRecord:
        hosts = _lock_with_hosts(connection, aggregate_id, is_zone_changed=ZONE_KEY in given)
        if name is not None:
            _refuse_taken(connection, name, but=aggregate_id)
            connection.execute(update(aggregates).where(aggregates.c.id == aggregate_id).values(name=name))
        with _guarding_zones(connection, hosts, default_zone, refuse):
            _save_metadata(connection, aggregate_id, given)
        return _finish(connection, aggregate_id, now)

    return write(engine, save)


def delete_aggregate(engine: Engine, aggregate_id: int) -> None:
    """Delete an aggregate. BadInput if it has hosts."""

    def delete_one(connection: Connection) -> None:
        _lock(connection, aggregate_id)
        if _hosts_of(connection, aggregate_id):
            raise BadInput(f"Cannot delete aggregate {aggregate_id}. Reason: Host aggregate is not empty.")
        connection.execute(delete(aggregates).where(aggregates.c.id == aggregate_id))
        record_changes(connection, [Change(AGGREGATES, str(aggregate_id))])

    write(engine, delete_one)


def add_host_to_aggregate(
    engine: Engine, aggregate_id: int, host: str, now: PresentTime, default_zone: str
) -> AggregateRecord:
    """Add a host. UnknownName for a host without an agent's service; Conflict if it is in the aggregate already, or
    would be in two zones, or has servers and would change its zone.
    """

    def refuse(reason: str) -> BadInput:
        return Conflict(f"Cannot add host to aggregate {aggregate_id}. Reason: {reason}.")

    def add(connection: Connection) -> AggregateRecord:
        is_known = bool(lock_agents(connection, [host]))
        _lock(connection, aggregate_id)
        if not is_known:
            raise UnknownName(f"Compute host {host} could not be found.")
        if host in _hosts_of(connection, aggregate_id):
            raise Conflict(f"Aggregate {aggregate_id} already has host {host}.")
        with _guarding_zones(connection, [host], default_zone, refuse):
            connection.execute(insert(aggregate_hosts).values(aggregate_id=aggregate_id, host=host))
        return _finish(connection, aggregate_id, now)

    return write(engine, add)


def remove_host_from_aggregate(
    engine: Engine, aggregate_id: int, host: str, now: PresentTime, default_zone: str
) -> AggregateRecord:
    """Remove a host. UnknownName if it is not there; Conflict if it has servers and would change its zone."""

    def refuse(reason: str) -> BadInput:
        return Conflict(f"Cannot remove host from aggregate {aggregate_id}. Reason: {reason}.")

    def remove(connection: Connection) -> AggregateRecord:
        lock_agents(connection, [host])
        _lock(connection, aggregate_id)
        is_it = (aggregate_hosts.c.aggregate_id == aggregate_id) & (aggregate_hosts.c.host == host)
        with _guarding_zones(connection, [host], default_zone, refuse):
            if not connection.execute(delete(aggregate_hosts).where(is_it)).rowcount:
                raise UnknownName(f"Aggregate {aggregate_id} has no host {host}.")
        return _finish(connection, aggregate_id, now)

    return write(engine, remove)


def _check_name(name: str) -> None:
    Aggregate(name)
    check_rows(aggregates, ("name",), [(name,)], lambda _: "aggregate")


def _refuse_taken(connection: Connection, name: str, but: int | None = None) -> None:
    owner = connection.scalar(select(aggregates.c.id).where(aggregates.c.name == name))
    if owner is not None and owner != but:
        raise Conflict(f"Aggregate {name} already exists.")


def _save_metadata(connection: Connection, aggregate_id: int, metadata: Mapping[str, str | None]) -> None:
    texts = Aggregate("-", {key: value for key, value in metadata.items() if value is not None}).metadata
    if texts.get(ZONE_KEY) == "":
        raise BadInput("availability_zone: is empty", "name a zone, or leave it out")
    wanted: KeyedRows = {(aggregate_id, key): {"value": value} for key, value in texts.items()}
    stored = METADATA_ROWS.read(connection, "aggregate_id", [aggregate_id])
    named = {key: row for key, row in stored.items() if key[1] in metadata}
    METADATA_ROWS.apply(connection, named, wanted, describe_metadata)


def _finish(connection: Connection, aggregate_id: int, now: PresentTime | None = None) -> AggregateRecord:
    """Stamp the aggregate if a time is given, and record that it changed: what it is now."""
    if now is not None:
        changed = update(aggregates).where(aggregates.c.id == aggregate_id)
        connection.execute(changed.values(updated_at=stamp_of(now)))
    (found,) = _read(connection, [aggregate_id])
    record_changes(connection, [Change(AGGREGATES, str(aggregate_id))])
    return found


# --- locks -------------------------------------------------------------------------------------------


def _lock(connection: Connection, aggregate_id: int) -> None:
    """Lock an aggregate until the transaction ends; UnknownName if there is none."""
    wanted = select(aggregates.c.id).where(aggregates.c.id == aggregate_id).with_for_update()
    if not _is_row_number(aggregate_id) or connection.scalar(wanted) is None:
        raise _unknown(aggregate_id)


def _lock_with_hosts(connection: Connection, aggregate_id: int, *, is_zone_changed: bool) -> list[str]:
    """Lock an aggregate, and before it the services of its hosts if their zone changes: these hosts."""
    hosts = _hosts_of(connection, aggregate_id) if is_zone_changed and _is_row_number(aggregate_id) else []
    lock_agents(connection, hosts)
    _lock(connection, aggregate_id)
    if is_zone_changed and _hosts_of(connection, aggregate_id) != hosts:
        raise DatabaseConflict(f"aggregate {aggregate_id} has other hosts meanwhile", "try again")
    return hosts


def _hosts_of(connection: Connection, aggregate_id: int) -> list[str]:
    wanted = select(aggregate_hosts.c.host).where(aggregate_hosts.c.aggregate_id == aggregate_id)
    return sorted(connection.scalars(wanted))


def _is_row_number(number: int) -> bool:
    return 0 < number <= LARGEST_BIGINT


def _unknown(aggregate_id: int) -> UnknownName:
    return UnknownName(f"Aggregate {aggregate_id} could not be found.")


@contextmanager
def _guarding_zones(
    connection: Connection, hosts: Collection[str], default_zone: str, refuse: Refuse
) -> Iterator[None]:
    """Compare the zones of hosts before and after the block, which changes them; the error rolls it back."""
    before = read_zones_of_hosts(connection, hosts)
    yield
    after = read_zones_of_hosts(connection, hosts)
    if several := sorted({zone for zones in after.values() if len(set(zones)) > 1 for zone in zones}):
        raise refuse(f"One or more hosts already in availability zone(s) {several}")
    default = [default_zone]
    moved = [host for host in hosts if set(before.get(host, default)) != set(after.get(host, default))]
    if find_hosts_with_servers(connection, moved):
        raise refuse("One or more hosts contain instances in this zone")


# --- read --------------------------------------------------------------------------------------------


def get_aggregate(engine: Engine, aggregate_id: int) -> AggregateRecord:
    """The aggregate with this id; UnknownName if there is none."""
    with database_errors(engine), engine.connect() as connection:
        found = _read(connection, [aggregate_id]) if _is_row_number(aggregate_id) else []
    if not found:
        raise _unknown(aggregate_id)
    return found[0]


def list_aggregates(engine: Engine) -> list[AggregateRecord]:
    """All aggregates, by id."""
    with database_errors(engine), engine.connect() as connection:
        return _read(connection)


def _read(connection: Connection, ids: Collection[int] | None = None) -> list[AggregateRecord]:
    """Aggregates with the given ids, or all of them, by id, in four statements."""
    wanted = select(aggregates.c.id, aggregates.c.created_at, aggregates.c.updated_at)
    times: dict[Any, Any] = {row.id: row[1:] for row in read_rows(connection, wanted, aggregates.c.id, ids)}
    return [
        AggregateRecord(each.id, each.uuid or "", each.name, each.hosts, each.metadata, *times[each.id])
        for each in read_aggregates(connection, ids)
        if each.id in times
    ]
