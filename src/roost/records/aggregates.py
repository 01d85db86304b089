# SPDX-License-Identifier: Apache-2.0
"""Aggregates in the database, with metadata and hosts, and the availability zones that their metadata name.

An import of a fleet file matches aggregates by name; clients of the API create, change and list them. A host is in
one availability zone at most, however many writers there are: each locks the services of agents whose zone it
changes, and then the aggregate, in the order of an import.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, delete, exists, insert, select, update

from roost.errors import MOST_COMPARED, BadInput, Conflict, DatabaseConflict, UnknownName, nearest
from roost.hosts.table import Run
from roost.model import Aggregate
from roost.records.catalogue import check_owners, read_ids
from roost.records.import_summary import SavedSection, summarise
from roost.records.node_rows import derived_uuid
from roost.records.servers import find_hosts_with_servers
from roost.records.services import AGENT, lock_agents
from roost.sources.fleet_file import by_host
from roost.store.change_log import AGGREGATES, Change, record_changes
from roost.store.columns import LARGEST_BIGINT, check_rows
from roost.store.reconcile import KeyedRows, Reconciler, ReconcileResult, RowKey
from roost.store.schema.fleet import aggregate_hosts, aggregate_metadata, aggregates, services
from roost.store.statements import Row, read_rows
from roost.store.store_clock import PresentTime, stamp_of
from roost.store.transactions import database_errors, write

_AGGREGATE_ROWS = Reconciler(aggregates, ("name",))
METADATA_ROWS = Reconciler(aggregate_metadata, ("aggregate_id", "key"))
_HOST_ROWS = Reconciler(aggregate_hosts, ("aggregate_id", "host"))

HostAggregates = Mapping[str, tuple[Aggregate, ...]]
"""Host -> the aggregates it is in."""


# --- from a fleet file -------------------------------------------------------------------------------


def gather_aggregates(known: Iterable[Aggregate], runs: Iterable[Run]) -> list[Aggregate]:
    """The aggregates of a fleet, ordered by id, each with all its hosts.

    `runs`: the hosts of the file, whose records name their aggregates. `known`: the aggregates of the file; their
    lists of hosts count only for hosts that the file does not describe.
    """
    members: dict[str, dict[str, None]] = {}
    of_file: set[str] = set()
    for record, pairs in runs:
        hosts = dict.fromkeys(host for host, _ in pairs)
        of_file.update(hosts)
        for aggregate in record.aggregates:
            members.setdefault(aggregate.name, {}).update(hosts)
    found: dict[str, Aggregate] = {}
    for aggregate in known:
        _check_same_aggregate(found.setdefault(aggregate.name, aggregate), aggregate)
        not_of_file = (host for host in aggregate.hosts if host not in of_file)
        members.setdefault(aggregate.name, {}).update(dict.fromkeys(not_of_file))
    ordered = sorted(found.values(), key=lambda each: each.id if isinstance(each.id, int) else float("inf"))
    return [replace(each, hosts=tuple(sorted(members[each.name]))) for each in ordered]


def _check_same_aggregate(first: Aggregate, other: Aggregate) -> None:
    if (first.metadata, first.uuid) != (other.metadata, other.uuid):
        raise BadInput(f"aggregate {first.name} is there twice, and not the same", "give each its own name")


def check_aggregate_hosts(wanted: Iterable[Aggregate], of_file: Collection[str], stored: Collection[str]) -> None:
    """BadInput for an aggregate with a host that is neither in the file nor in the database."""
    for aggregate in wanted:
        for host in aggregate.hosts:
            if host not in of_file and host not in stored:
                alike = nearest(host, islice((*of_file, *stored), MOST_COMPARED))
                raise BadInput(f"aggregate {aggregate.name}: there is no host {host!r}", alike)


# --- write -------------------------------------------------------------------------------------------


def save_aggregates(
    connection: Connection, wanted: Sequence[Aggregate], now: datetime, of_file: Collection[str]
) -> SavedSection:
    """Make metadata and hosts of aggregates equal to the wanted ones: what changed.

    `of_file`: the hosts that the file describes; only these are removed from aggregates.
    """
    by_name = {aggregate.name: aggregate for aggregate in wanted}
    stored = _AGGREGATE_ROWS.read(connection, "name", by_name)
    rows: dict[RowKey, Row] = {}
    for name, aggregate in by_name.items():
        before = stored.get((name,))
        rows[name,] = {"uuid": aggregate.uuid or (before["uuid"] if before else derived_uuid("aggregate", name))}
    check_owners(connection, aggregates.c.uuid, aggregates.c.name, rows, "aggregate")
    saved = _AGGREGATE_ROWS.apply(connection, stored, rows, lambda row: f"aggregate {row['name']}", now)
    ids = read_ids(connection, aggregates.c.name, stored, saved)
    values = {
        (ids[name], key): {"value": value} for name, each in by_name.items() for key, value in each.metadata.items()
    }
    metadata = METADATA_ROWS.replace(connection, "aggregate_id", ids.values(), values, describe_metadata)
    hosts = _save_hosts(connection, {ids[name]: each.hosts for name, each in by_name.items()}, of_file)
    return summarise(ids, saved, metadata, hosts)


def describe_metadata(row: Row) -> str:
    """A row of `aggregate_metadata` as text for errors."""
    return f"aggregate metadata: {row['key']!r:.60}"


def _save_hosts(
    connection: Connection, wanted: Mapping[int, Sequence[str]], of_file: Collection[str]
) -> ReconcileResult:
    rows: dict[RowKey, Row] = {(row_id, host): {} for row_id, hosts in wanted.items() for host in hosts}
    members = _HOST_ROWS.read(connection, "aggregate_id", wanted)
    stored = {key: row for key, row in members.items() if key in rows or key[1] in of_file}
    return _HOST_ROWS.apply(connection, stored, rows, lambda row: f"aggregate hosts: {row['host']!r:.60}")


def aggregate_changes(saved: SavedSection) -> list[Change]:
    """The entries of the change log for aggregates that are new or changed."""
    touched = saved.new | saved.changed
    return [Change(AGGREGATES, str(row_id)) for name, row_id in saved.ids.items() if name in touched]


def remove_host_from_aggregates(connection: Connection, host: str) -> list[Change]:
    """Remove a host from all its aggregates: the entries of the change log."""
    is_member = aggregate_hosts.c.host == host
    ids = connection.scalars(select(aggregate_hosts.c.aggregate_id).where(is_member)).all()
    connection.execute(delete(aggregate_hosts).where(is_member))
    return [Change(AGGREGATES, str(row_id)) for row_id in ids]


# --- read --------------------------------------------------------------------------------------------


def read_aggregates(connection: Connection, ids: Collection[int] | None = None) -> list[Aggregate]:
    """Aggregates with the given row ids, or all of them, ordered by row id, which is their id."""
    hosts: dict[int, list[str]] = defaultdict(list)
    metadata: dict[int, dict[str, str]] = defaultdict(dict)
    for aggregate_id, host in read_rows(connection, _SELECT_HOSTS, aggregate_hosts.c.aggregate_id, ids):
        hosts[aggregate_id].append(host)
    for aggregate_id, key, value in read_rows(
        connection, select(aggregate_metadata), aggregate_metadata.c.aggregate_id, ids
    ):
        metadata[aggregate_id][key] = value
    wanted = select(aggregates.c.id, aggregates.c.uuid, aggregates.c.name).order_by(aggregates.c.id)
    return [
        Aggregate(name, metadata.get(row_id, {}), tuple(hosts.get(row_id, ())), row_id, uuid)
        for row_id, uuid, name in read_rows(connection, wanted, aggregates.c.id, ids)
    ]


_SELECT_HOSTS = select(aggregate_hosts.c.aggregate_id, aggregate_hosts.c.host).order_by(aggregate_hosts.c.host)


def aggregates_of_hosts(found: Sequence[Aggregate]) -> dict[str, tuple[Aggregate, ...]]:
    """Host -> the aggregates it is in. Hosts with the same aggregates share one tuple."""
    return {host: shared for host, (_, shared) in by_host(found).items()}


def read_aggregate_entries(connection: Connection, hosts: Collection[str]) -> list[dict[str, Any]]:
    """All aggregates as entries of a fleet file; of their hosts only those among `hosts`."""
    return [_aggregate_entry(each, hosts) for each in read_aggregates(connection)]


def _aggregate_entry(aggregate: Aggregate, hosts: Collection[str]) -> dict[str, Any]:
    """An aggregate as an entry of a fleet file, without its row id: another database assigns its own."""
    entry: dict[str, Any] = {"name": aggregate.name}
    if aggregate.uuid != derived_uuid("aggregate", aggregate.name):
        entry["uuid"] = aggregate.uuid
    metadata = {"metadata": dict(sorted(aggregate.metadata.items()))} if aggregate.metadata else {}
    members = sorted(host for host in aggregate.hosts if host in hosts)
    return entry | metadata | ({"hosts": members} if members else {})


ZONE_KEY = "availability_zone"
"""Key of the metadata with which an aggregate names a zone."""
_IN_SERVICE = (services.c.binary == AGENT) & ~services.c.disabled
_IS_ZONE = (aggregate_metadata.c.aggregate_id == aggregate_hosts.c.aggregate_id) & (
    aggregate_metadata.c.key == ZONE_KEY
)
_ZONES_OF_HOSTS = (
    select(aggregate_hosts.c.host, aggregate_hosts.c.aggregate_id, aggregate_metadata.c.value)
    .select_from(aggregate_hosts)
    .join(aggregate_metadata, _IS_ZONE)
)


def read_zones_of_hosts(connection: Connection, hosts: Collection[str] | None = None) -> dict[str, list[str]]:
    """Host -> the zones that its aggregates name, by id of the aggregate, of these hosts or of all.

    The first one counts; a host without one is left out, and is in the default zone.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for row in sorted(read_rows(connection, _ZONES_OF_HOSTS, aggregate_hosts.c.host, hosts)):
        found[row.host].append(row.value)
    return dict(found)


def read_zones(engine: Engine, default_zone: str) -> set[str]:
    """Zones with at least one enabled host; `default_zone` is that of hosts whose aggregates name none."""
    named = (
        select(aggregate_metadata.c.value)
        .join(aggregate_hosts, _IS_ZONE)
        .join(services, services.c.host == aggregate_hosts.c.host)
        .where(_IN_SERVICE)
        .distinct()
    )
    is_in_zone = exists().where(aggregate_hosts.c.host == services.c.host).where(_IS_ZONE)
    others = select(services.c.id).where(_IN_SERVICE, ~is_in_zone).limit(1)
    with database_errors(engine), engine.connect() as connection:
        zones = set(connection.scalars(named))
        return zones | ({default_zone} if connection.scalar(others) is not None else set())


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
