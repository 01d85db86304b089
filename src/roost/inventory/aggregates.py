# SPDX-License-Identifier: Apache-2.0
"""Aggregates in the database, with their metadata and hosts; matched by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy import Connection, delete, select

from roost.errors import MOST_COMPARED, BadInput, nearest
from roost.hosts.table import Run
from roost.inventory.catalogue import check_owners, read_ids
from roost.inventory.import_summary import SavedSection, summarise
from roost.inventory.row_encoder import derived_uuid
from roost.model import Aggregate
from roost.sources.fleet_file import by_host
from roost.store.change_log import AGGREGATES, Change
from roost.store.reconcile import Reconciler, ReconcileResult, RowKey
from roost.store.schema import aggregate_hosts, aggregate_metadata, aggregates
from roost.store.statements import Row, read_rows

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
