# SPDX-License-Identifier: Apache-2.0
"""Aggregates in the tables, with their metadata and hosts; found by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy import Connection, delete, select

from roost.errors import BadInput, nearest
from roost.fleet.aggregate_entries import by_host
from roost.hosts.table import Run
from roost.inventory.catalogue import check_owners, read_ids
from roost.inventory.import_summary import SavedSection, summarise
from roost.inventory.row_encoder import derived_uuid
from roost.model import Aggregate
from roost.store.bulk import Row, rows_where
from roost.store.change_log import AGGREGATES, Change
from roost.store.reconcile import Key, Reconciler, ReconcileResult
from roost.store.schema import aggregate_hosts, aggregate_metadata, aggregates

_AGGREGATES = Reconciler(aggregates, ("name",))
_METADATA = Reconciler(aggregate_metadata, ("aggregate_id", "key"))
_HOSTS = Reconciler(aggregate_hosts, ("aggregate_id", "host"))
_MOST_COMPARED = 2000

HostAggregates = Mapping[str, tuple[Aggregate, ...]]
"""Host -> the aggregates it is in."""


# --- those of a fleet file ---------------------------------------------------------------------------


def gather_aggregates(known: Iterable[Aggregate], runs: Iterable[Run]) -> list[Aggregate]:
    """The aggregates of a fleet in the order of their ids, each with all hosts that are in it.

    A host may be in one because the aggregate says so, or because the host does. Hosts of the file are in those that
    the file has them in; of others the aggregate itself speaks.
    """
    members: dict[str, dict[str, None]] = {}
    there: set[str] = set()
    for record, pairs in runs:
        hosts = dict.fromkeys(host for host, _ in pairs)
        there.update(hosts)
        for aggregate in record.aggregates:
            members.setdefault(aggregate.name, {}).update(hosts)
    found: dict[str, Aggregate] = {}
    for aggregate in known:
        _check_same(found.setdefault(aggregate.name, aggregate), aggregate)
        elsewhere = (host for host in aggregate.hosts if host not in there)
        members.setdefault(aggregate.name, {}).update(dict.fromkeys(elsewhere))
    ordered = sorted(found.values(), key=lambda each: each.id if isinstance(each.id, int) else float("inf"))
    return [replace(each, hosts=tuple(sorted(members[each.name]))) for each in ordered]


def _check_same(first: Aggregate, other: Aggregate) -> None:
    if (first.metadata, first.uuid) != (other.metadata, other.uuid):
        raise BadInput(f"aggregate {first.name} is there twice, and not the same", "give each its own name")


def check_hosts(wanted: Iterable[Aggregate], of_file: Collection[str], stored: Collection[str]) -> None:
    """BadInput for an aggregate with a host that is neither in the file nor in the store."""
    for aggregate in wanted:
        for host in aggregate.hosts:
            if host not in of_file and host not in stored:
                alike = nearest(host, islice((*of_file, *stored), _MOST_COMPARED))
                raise BadInput(f"aggregate {aggregate.name}: there is no host {host!r}", alike)


# --- written -----------------------------------------------------------------------------------------


def save_aggregates(
    connection: Connection, wanted: Sequence[Aggregate], now: datetime, of_file: Collection[str]
) -> SavedSection:
    """Make metadata and hosts of aggregates what a file says. `of_file`: its hosts; others stay where they are."""
    by_name = {aggregate.name: aggregate for aggregate in wanted}
    stored = _AGGREGATES.read(connection, "name", by_name)
    rows: dict[Key, Row] = {}
    for name, aggregate in by_name.items():
        before = stored.get((name,))
        rows[name,] = {"uuid": aggregate.uuid or (before["uuid"] if before else derived_uuid("aggregate", name))}
    check_owners(connection, aggregates.c.uuid, aggregates.c.name, rows, "aggregate")
    saved = _AGGREGATES.apply(connection, stored, rows, lambda row: f"aggregate {row['name']}", now)
    ids = read_ids(connection, aggregates.c.name, stored, saved)
    values = {
        (ids[name], key): {"value": value} for name, each in by_name.items() for key, value in each.metadata.items()
    }
    metadata = _METADATA.replace(connection, "aggregate_id", ids.values(), values, _place_of_key)
    hosts = _save_hosts(connection, {ids[name]: each.hosts for name, each in by_name.items()}, of_file)
    return summarise(ids, saved, metadata, hosts)


def _place_of_key(row: Row) -> str:
    return f"aggregate metadata: {row['key']!r:.60}"


def _save_hosts(
    connection: Connection, wanted: Mapping[int, Sequence[str]], of_file: Collection[str]
) -> ReconcileResult:
    rows: dict[Key, Row] = {(number, host): {} for number, hosts in wanted.items() for host in hosts}
    there = _HOSTS.read(connection, "aggregate_id", wanted)
    stored = {key: row for key, row in there.items() if key in rows or key[1] in of_file}
    return _HOSTS.apply(connection, stored, rows, lambda row: f"aggregate hosts: {row['host']!r:.60}")


def aggregate_changes(saved: SavedSection) -> list[Change]:
    """The changes of aggregates that are new or changed."""
    touched = saved.new | saved.changed
    return [Change(AGGREGATES, str(number)) for name, number in saved.ids.items() if name in touched]


def drop_host(connection: Connection, host: str) -> list[Change]:
    """Take a host out of all its aggregates: what changed."""
    is_member = aggregate_hosts.c.host == host
    numbers = connection.scalars(select(aggregate_hosts.c.aggregate_id).where(is_member)).all()
    connection.execute(delete(aggregate_hosts).where(is_member))
    return [Change(AGGREGATES, str(number)) for number in numbers]


# --- read --------------------------------------------------------------------------------------------


def read_aggregates(connection: Connection, ids: Collection[int] | None = None) -> list[Aggregate]:
    """Aggregates in the order of their numbers, which are their ids: those of `ids`, or all."""
    hosts: dict[int, list[str]] = defaultdict(list)
    metadata: dict[int, dict[str, str]] = defaultdict(dict)
    for aggregate_id, host in rows_where(connection, _BY_HOST, aggregate_hosts.c.aggregate_id, ids):
        hosts[aggregate_id].append(host)
    for aggregate_id, key, value in rows_where(
        connection, select(aggregate_metadata), aggregate_metadata.c.aggregate_id, ids
    ):
        metadata[aggregate_id][key] = value
    wanted = select(aggregates.c.id, aggregates.c.uuid, aggregates.c.name).order_by(aggregates.c.id)
    return [
        Aggregate(name, metadata.get(number, {}), tuple(hosts.get(number, ())), number, uuid)
        for number, uuid, name in rows_where(connection, wanted, aggregates.c.id, ids)
    ]


_BY_HOST = select(aggregate_hosts.c.aggregate_id, aggregate_hosts.c.host).order_by(aggregate_hosts.c.host)


def aggregates_of_hosts(found: Sequence[Aggregate]) -> dict[str, tuple[Aggregate, ...]]:
    """Host -> the aggregates it is in. A set of aggregates that many hosts share is one object."""
    return {host: together for host, (_, together) in by_host(found).items()}


def read_aggregate_entries(connection: Connection, hosts: Collection[str]) -> list[dict[str, Any]]:
    """The aggregates as a fleet file has them, with those of their hosts that are among `hosts`."""
    return [_entry(each, hosts) for each in read_aggregates(connection)]


def _entry(aggregate: Aggregate, hosts: Collection[str]) -> dict[str, Any]:
    """Without the number of its row, which another store would not have."""
    entry: dict[str, Any] = {"name": aggregate.name}
    if aggregate.uuid != derived_uuid("aggregate", aggregate.name):
        entry["uuid"] = aggregate.uuid
    metadata = {"metadata": dict(sorted(aggregate.metadata.items()))} if aggregate.metadata else {}
    members = sorted(host for host in aggregate.hosts if host in hosts)
    return entry | metadata | ({"hosts": members} if members else {})
