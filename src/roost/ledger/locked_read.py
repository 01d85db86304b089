# SPDX-License-Identifier: Apache-2.0
"""Locks and reads the part of the ledger that some operations need, as a `UnitOfWork`.

Locks are always taken in the same order, so that transactions wait for each other but cannot deadlock: groups by id
(`groups.py`), then nodes by id (`nodes.py`).
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Executable, Text, func, select, type_coerce

from roost.errors import DatabaseConflict
from roost.hosts.guests import Guest
from roost.ledger.audits import find_used_consumers
from roost.ledger.groups import (
    find_placed_members,
    group_search_statements,
    lock_groups,
    read_group_state,
    record_placed_member,
    select_strict_members,
)
from roost.ledger.nodes import (
    Node,
    NodeGuests,
    guests_from_rows,
    node_guests_from_rows,
    node_lock_statements,
    nodes_from_rows,
    select_guests,
    select_spaces,
)
from roost.ledger.operations import Operation, claimed_node_uuids, guest_node_uuids
from roost.ledger.unit_of_work import Consumer, UnitOfWork
from roost.store.schema import allocations, consumers
from roost.store.statements import Statement, is_key, key_parameter, send_batch

LONG_AGO = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class ConsumerExists(Exception):
    """A consumer that was expected to be new, and in no strict group, is in the database."""


def load_unit_of_work(connection: Connection, operations: Sequence[Operation], expects_new: bool) -> UnitOfWork:
    """Everything that the operations read or change, locked until the transaction ends.

    `expects_new`: take the short way of one batch where all operations expect new consumers. ConsumerExists if one is
    in the database: the caller starts another transaction, because groups must be locked before nodes.
    """
    if expects_new and all(each.expects_new_consumers() for each in operations):
        return _load_for_new_consumers(connection, operations)
    return _load_for_any_consumers(connection, operations)


def _load_for_new_consumers(connection: Connection, operations: Sequence[Operation]) -> UnitOfWork:
    """One batch: only nodes have to be locked."""
    dialect = connection.dialect.name
    uuids = list({uuid for operation in operations for uuid in operation.consumer_uuids()})
    find_known = Statement(_select_known(dialect, len(uuids) == 1), {"consumers": key_parameter(uuids)})
    lock_nodes = node_lock_statements(dialect, claimed_node_uuids(operations))
    with_guests = guest_node_uuids(operations)
    read_spaces = [select_spaces(dialect, "uuid", with_guests)] if with_guests else []
    known, node_rows, inventory_rows, *spaces = send_batch(connection, [find_known, *lock_nodes, *read_spaces])
    if known.rows:
        raise ConsumerExists
    nodes = nodes_from_rows(node_rows.rows, inventory_rows.rows)
    for rows in spaces:
        _put_guests(nodes, node_guests_from_rows(rows.rows))
    return UnitOfWork(nodes, ())


def _load_for_any_consumers(connection: Connection, operations: Sequence[Operation]) -> UnitOfWork:
    """Three steps: find consumers, their nodes and groups; lock groups; lock nodes and read allocations again."""
    dialect = connection.dialect.name
    uuids = list({uuid for operation in operations for uuid in operation.consumer_uuids()})
    read_consumers = _read_consumers(dialect, uuids)
    found, *group_ids = send_batch(connection, [read_consumers, *group_search_statements(dialect, uuids)])
    known = _consumers_from_rows(found.rows)
    rules = {claim.group for operation in operations for claim in operation.new_claims() if claim.group}
    groups = lock_groups(connection, rules, {number for result in group_ids for (number,) in result.rows})
    nodes: list[Node] = []
    if (claimed := claimed_node_uuids(operations)) or _allocated_node_ids(known):
        lock_nodes = node_lock_statements(dialect, claimed, _allocated_node_ids(known))
        read_guests = select_guests(dialect, "consumer_uuid", list(uuids))
        node_rows, inventory_rows, again, held = send_batch(connection, [*lock_nodes, read_consumers, read_guests])
        nodes = nodes_from_rows(node_rows.rows, inventory_rows.rows)
        # Allocations may have changed before the nodes were locked. A consumer that was inserted since then is a
        # conflict in any case: its key is unique.
        before, known = {each.uuid for each in known}, _consumers_from_rows(again.rows) if known else []
        if not {each.uuid for each in known} <= before:
            raise DatabaseConflict("a consumer was made at the same moment", "try again")  # its groups are not locked
        if not _allocated_node_ids(known) <= {node.id for node in nodes}:
            raise DatabaseConflict("a consumer was moved at the same moment", "try again")
        _load_guests(connection, nodes, known, guests_from_rows(held.rows), guest_node_uuids(operations))
    hosts = {node.host for node in nodes}
    if groups:
        read_group_state(connection, groups, hosts, uuids)
    work = UnitOfWork(nodes, known, groups)
    if spared := {uuid for operation in operations for uuid in operation.spared_if_used()}:
        work.used_consumers = frozenset(find_used_consumers(connection, spared))
    for group, host, uuid in find_placed_members(connection, groups, hosts) if groups else ():
        record_placed_member(group, host, uuid)
    return work


# --- guests ------------------------------------------------------------------------------------------


def _load_guests(
    connection: Connection,
    nodes: Sequence[Node],
    known: Sequence[Consumer],
    held: Mapping[tuple[str, int], Guest],
    claimed: Collection[str],
) -> None:
    """Fill in guests of known consumers, and of each node that one of them is on or that is `claimed` with one."""
    for consumer in known:
        consumer.guests.update({node_id: guest for (uuid, node_id), guest in held.items() if uuid == consumer.uuid})
    ids = {node_id for _, node_id in held} | {node.id for node in nodes if node.uuid in claimed}
    if not ids:
        return
    dialect = connection.dialect.name
    statements = [select_spaces(dialect, "id", ids), select_guests(dialect, "node_id", sorted(ids))]
    spaces, booked = send_batch(connection, statements)
    _put_guests(nodes, node_guests_from_rows(spaces.rows, guests_from_rows(booked.rows)))


def _put_guests(nodes: Iterable[Node], guests: Mapping[int, NodeGuests]) -> None:
    for node in nodes:
        node.guests = guests.get(node.id)


# --- consumers ---------------------------------------------------------------------------------------


@cache
def _select_known(dialect: str, is_one: bool) -> Executable:
    known = select(consumers.c.uuid).where(is_key(dialect, consumers.c.uuid, "consumers", is_one))
    return known.union_all(select_strict_members(dialect, is_one))


def _read_consumers(dialect: str, uuids: Sequence[str]) -> Statement:
    """The statement that reads consumers with their allocations, for `_consumers_from_rows`."""
    return Statement(_select_with_allocations(dialect, len(uuids) == 1), {"consumers": key_parameter(uuids)})


@cache
def _select_with_allocations(dialect: str, is_one: bool) -> Executable:
    fields = (
        *(consumers.c[name] for name in ("uuid", "kind", "project_id", "user_id")),
        type_coerce(consumers.c.details, Text),
        func.coalesce(consumers.c.updated_at, consumers.c.created_at),
        consumers.c.created_at,
        *(allocations.c[name] for name in ("node_id", "resource_class", "used")),
    )
    joined = consumers.outerjoin(allocations, allocations.c.consumer_uuid == consumers.c.uuid)
    return select(*fields).select_from(joined).where(is_key(dialect, consumers.c.uuid, "consumers", is_one))


def _consumers_from_rows(rows: Iterable[Any]) -> list[Consumer]:
    found: dict[str, Consumer] = {}
    for uuid, kind, project_id, user_id, details, time, created, node_id, name, used in rows:
        consumer = found.get(uuid)
        if consumer is None:
            consumer = Consumer(uuid, kind, project_id, user_id, json.loads(details or "{}") or {})
            consumer.claimed_at, consumer.created_at = _aware(time), _aware(created)
            found[uuid] = consumer
        if node_id is not None:
            consumer.allocations.setdefault(node_id, {})[name] = used
    return list(found.values())


def _aware(time: datetime.datetime | None) -> datetime.datetime:
    """A time of the database, which the driver may return without its zone; one that is not known is long ago."""
    return LONG_AGO if time is None else time.replace(tzinfo=datetime.UTC)


def _allocated_node_ids(found: Iterable[Consumer]) -> set[int]:
    return {node_id for consumer in found for node_id in consumer.allocations}
