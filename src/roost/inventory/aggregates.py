# SPDX-License-Identifier: Apache-2.0
"""Aggregates in the tables, found by name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from sqlalchemy import Connection, select

from roost.errors import BadInput, nearest
from roost.hosts.table import Run
from roost.inventory.bulk import Row
from roost.inventory.catalogue import SaveResult, check_owners, rows_by, save_named, save_parts, summed_up
from roost.inventory.row_encoder import derived_uuid
from roost.model import Aggregate
from roost.store.bulk import rows_where
from roost.store.change_log import AGGREGATES, Change
from roost.store.schema import aggregate_hosts, aggregate_metadata, aggregates, compute_nodes

_MOST_COMPARED = 2000


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


def check_hosts(connection: Connection, wanted: Sequence[Aggregate], there: Collection[str] = ()) -> None:
    """An aggregate may have hosts that are in the store, or in `there`."""
    missing = {host for each in wanted for host in each.hosts if host not in there}
    stored = set(rows_where(connection, select(compute_nodes.c.host).distinct(), compute_nodes.c.host, missing))
    missing -= {host for (host,) in stored}
    for aggregate in wanted:
        for host in aggregate.hosts:
            if host in missing:
                known = connection.scalars(select(compute_nodes.c.host).distinct().limit(_MOST_COMPARED))
                alike = nearest(host, islice((*there, *known), _MOST_COMPARED))
                raise BadInput(f"aggregate {aggregate.name}: there is no host {host!r}", alike)


def save_aggregates(
    connection: Connection, wanted: Sequence[Aggregate], now: datetime, there: Collection[str] | None = None
) -> SaveResult:
    """By name. `there`: the hosts that the source speaks of, None for all; others stay where they are."""
    by_name = {aggregate.name: aggregate for aggregate in wanted}
    known = rows_by(connection, aggregates, "name", by_name)
    rows = {name: _row(aggregate, known.get(name)) for name, aggregate in by_name.items()}
    check_owners(connection, aggregates, "uuid", "name", rows, "aggregate")
    changed = save_named(connection, aggregates, "name", rows, known, now)
    ids = {name: row["id"] for name, row in rows_by(connection, aggregates, "name", by_name).items()}
    metadata = {ids[name]: dict(aggregate.metadata) for name, aggregate in by_name.items()}
    hosts = {ids[name]: dict.fromkeys(aggregate.hosts) for name, aggregate in by_name.items()}
    touched = save_parts(connection, aggregate_metadata, "aggregate_id", "key", "value", metadata)
    touched |= save_parts(connection, aggregate_hosts, "aggregate_id", "host", None, hosts, goes=there)
    return summed_up(ids, known, changed, touched)


def _row(aggregate: Aggregate, stored: Mapping[str, str] | None) -> Row:
    own = stored["uuid"] if stored else derived_uuid("aggregate", aggregate.name)
    return {"name": aggregate.name, "uuid": aggregate.uuid or own}


def changes_of(saved: SaveResult) -> list[Change]:
    """What to tell the readers."""
    touched = saved.new | saved.changed
    return [Change(AGGREGATES, str(number)) for name, number in saved.keys.items() if name in touched]
