# SPDX-License-Identifier: Apache-2.0
"""Locks and reads the part of the ledger that some operations are about.

Locks are taken in one order, so that transactions wait for each other but never in a circle: groups by id, then nodes
by id. Whoever changes what is used of a node holds its row in `compute_nodes`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Executable, Text, insert, literal_column, or_, select, type_coerce

from roost.claims.claim import AFFINITY, STRICT, StrictGroup
from roost.claims.operations import Operation, wanted_nodes
from roost.claims.unit_of_work import Consumer, Group, Node, UnitOfWork
from roost.errors import DatabaseConflict
from roost.hosts.capacity import ClassCapacity
from roost.hosts.record import is_bare_metal
from roost.model.consumers import Use
from roost.store.bulk import one_of
from roost.store.schema import (
    allocations,
    compute_nodes,
    consumers,
    inventories,
    server_group_hosts,
    server_group_members,
    server_group_slots,
    server_groups,
)
from roost.store.statement_batch import Statement, is_key, key_of, send

_NODE_FIELDS = [
    compute_nodes.c[name]
    for name in (
        *("id", "uuid", "host", "hypervisor_hostname", "hypervisor_type"),
        *("free_ram_mb", "free_disk_gb", "vcpus", "vcpus_used"),
    )
]
_ROOM_FIELDS = [
    inventories.c[name]
    for name in (
        *("node_id", "resource_class", "total", "reserved", "allocation_ratio"),
        *("min_unit", "max_unit", "step_size", "used"),
    )
]


class ConsumerExists(Exception):
    """Somebody who was taken for a newcomer is known."""


def load_unit_of_work(connection: Connection, operations: Sequence[Operation], for_newcomers: bool) -> UnitOfWork:
    """Everything these operations look at, locked.

    `for_newcomers`: whoever they claim for is taken to be new, where that makes a difference. NotNew, where they are
    not: again in another transaction, because this one has locks that come after those of groups.
    """
    if for_newcomers and all(each.is_for_newcomers() for each in operations):
        return _open_for_newcomers(connection, operations)
    return _open_for_all(connection, operations)


def _open_for_newcomers(connection: Connection, operations: Sequence[Operation]) -> UnitOfWork:
    """Nodes are all there is to lock, so that one batch is enough."""
    dialect = connection.dialect.name
    uuids = list({uuid for operation in operations for uuid in operation.looks_at()})
    look = Statement(_known_consumers(dialect, len(uuids) == 1), {"consumers": key_of(uuids)})
    known, nodes, rooms = send(connection, [look, *_node_requests(dialect, wanted_nodes(operations))])
    if known.rows:
        raise ConsumerExists
    return UnitOfWork(_nodes_of(nodes.rows, rooms.rows), ())


def _open_for_all(connection: Connection, operations: Sequence[Operation]) -> UnitOfWork:
    """First who is known and where; then groups, then nodes; then what they hold by now."""
    dialect = connection.dialect.name
    uuids = {uuid for operation in operations for uuid in operation.looks_at()}
    look = _holdings_request(dialect, list(uuids))
    known = _consumers_of(send(connection, [look])[0].rows)
    rules = {claim.group for operation in operations for claim in operation.asks_for() if claim.group}
    groups = _lock_groups(connection, rules, known)
    held = {node_id for consumer in known for node_id in consumer.held}
    nodes: list[Node] = []
    if (wanted := wanted_nodes(operations)) or held:
        locked, rooms, again = send(connection, [*_node_requests(dialect, wanted, held), look])
        nodes = _nodes_of(locked.rows, rooms.rows)
        # What they hold may have changed before their nodes were locked; who came meanwhile is a conflict anyhow.
        known = _consumers_of(again.rows) if known else []
        if not {node_id for consumer in known for node_id in consumer.held} <= {node.id for node in nodes}:
            raise DatabaseConflict("a consumer was moved at the same moment", "try again")
    hosts = {node.host for node in nodes}
    if groups:
        _read_groups(connection, groups, hosts, uuids)
    books = UnitOfWork(nodes, known, groups)
    for group, host, uuid in _find_placed(connection, groups, hosts) if groups else ():
        books.adopt(group, host, uuid)
    return books


# --- consumers ---


@cache
def _known_consumers(dialect: str, is_one: bool) -> Executable:
    return select(consumers.c.uuid).where(is_key(dialect, consumers.c.uuid, "consumers", is_one))


def _holdings_request(dialect: str, uuids: Sequence[str]) -> Statement:
    return Statement(_with_holdings(dialect, len(uuids) == 1), {"consumers": key_of(uuids)})


@cache
def _with_holdings(dialect: str, is_one: bool) -> Executable:
    fields = (
        *(consumers.c[name] for name in ("uuid", "kind", "project_id", "user_id")),
        type_coerce(consumers.c.details, Text),
        *(allocations.c[name] for name in ("node_id", "resource_class", "used")),
    )
    both = consumers.outerjoin(allocations, allocations.c.consumer_uuid == consumers.c.uuid)
    return select(*fields).select_from(both).where(is_key(dialect, consumers.c.uuid, "consumers", is_one))


def _consumers_of(rows: Iterable[Any]) -> list[Consumer]:
    """Those who are there, with what they hold."""
    found: dict[str, Consumer] = {}
    for uuid, kind, project_id, user_id, details, node_id, name, used in rows:
        consumer = found.get(uuid)
        if consumer is None:
            consumer = found[uuid] = Consumer(uuid, kind, project_id, user_id, json.loads(details or "{}") or {})
        if node_id is not None:
            consumer.held.setdefault(node_id, {})[name] = used
    return list(found.values())


# --- nodes ---


def _node_requests(dialect: str, uuids: Collection[str], ids: Collection[int] = ()) -> list[Statement]:
    """Nodes of these uuids or ids, locked; then their rooms, which must be of a moment after the lock."""
    keys: dict[str, list[Any]] = {"uuid": sorted(uuids), "id": sorted(ids)}
    by = tuple((name, len(those) == 1) for name, those in keys.items() if those)
    values = {name: key_of(those) for name, those in keys.items()}
    return [Statement(statement, values) for statement in _node_statements(dialect, by)]


@cache
def _node_statements(dialect: str, by: tuple[tuple[str, bool], ...]) -> tuple[Executable, Executable]:
    """By these columns of theirs, each with whether it is one key or several."""
    wanted = or_(*(is_key(dialect, compute_nodes.c[name], name, is_one) for name, is_one in by))
    lock = select(*_NODE_FIELDS).where(wanted).order_by(compute_nodes.c.id).with_for_update(of=compute_nodes)
    both = inventories.join(compute_nodes, compute_nodes.c.id == inventories.c.node_id)
    return lock, select(*_ROOM_FIELDS).select_from(both).where(wanted)


def _nodes_of(nodes: Iterable[Any], rooms: Iterable[Any]) -> list[Node]:
    """From rows of `_NODE_FIELDS` and of `_ROOM_FIELDS`."""
    found: dict[int, dict[str, ClassCapacity]] = {}
    for node_id, name, total, reserved, ratio, least, most, step, used in rooms:
        room = ClassCapacity(used, (total - reserved) * ratio, total if most is None else most, least, step)
        found.setdefault(node_id, {})[name] = room
    return [
        Node(
            node_id,
            uuid,
            host,
            name,
            is_bare_metal(kind),
            Use(memory_mb or 0, disk_gb or 0, vcpus - vcpus_used),
            found.get(node_id, {}),
        )
        for node_id, uuid, host, name, kind, memory_mb, disk_gb, vcpus, vcpus_used in nodes
    ]


# --- groups ---


def _lock_groups(connection: Connection, rules: Collection[StrictGroup], known: Iterable[Consumer]) -> list[Group]:
    """Those that are claimed for, and those that consumers who are there belong to."""
    uuids = {rule.uuid for rule in rules}
    present = [consumer.uuid for consumer in known]
    ids = _groups_of(connection, present) if present else set()
    if not uuids and not ids:
        return []
    fields = [server_groups.c[name] for name in ("id", "uuid", "policy", "max_server_per_host")]
    wanted = or_(server_groups.c.uuid.in_(uuids), server_groups.c.id.in_(ids))
    query = select(*fields).where(wanted).order_by(server_groups.c.id).with_for_update(of=server_groups)
    rows = connection.execute(query).all()
    missing = [rule for rule in rules if rule.uuid not in {row.uuid for row in rows}]
    if missing:  # the caller's own group, which nobody has told the store about yet
        connection.execute(insert(server_groups), [_group_row(rule) for rule in missing])
        rows = connection.execute(query).all()
    return [Group(row.id, row.uuid, row.policy or "", row.max_server_per_host or 1) for row in rows]


def _group_row(rule: StrictGroup) -> dict[str, Any]:
    most = rule.max_server_per_host
    return {"uuid": rule.uuid, "name": rule.name or rule.uuid, "policy": rule.policy, "max_server_per_host": most}


def _groups_of(connection: Connection, uuids: Sequence[str]) -> set[int]:
    """Ids of the strict groups in which these have a place."""
    statements = _group_statements(connection.dialect.name, len(uuids) == 1)
    answers = send(connection, [Statement(each, {"consumers": key_of(uuids)}) for each in statements])
    return {group_id for answer in answers for (group_id,) in answer.rows}


@cache
def _group_statements(dialect: str, is_one: bool) -> tuple[Executable, Executable]:
    """By members, and by slots."""
    is_strict = or_(*(server_groups.c.policy == literal_column(f"'{policy}'") for policy in STRICT))
    by_member = (
        select(server_group_members.c.group_id)
        .join(server_groups, server_groups.c.id == server_group_members.c.group_id)
        .where(is_key(dialect, server_group_members.c.server_uuid, "consumers", is_one), is_strict)
    )
    holder = server_group_slots.c.consumer_uuid
    by_slot = select(server_group_slots.c.group_id).where(is_key(dialect, holder, "consumers", is_one))
    return by_member, by_slot


def _read_groups(
    connection: Connection, groups: Sequence[Group], hosts: Collection[str], uuids: Collection[str]
) -> None:
    """Slots on these hosts, and of these consumers; who of these is a member; where affinity groups are."""
    by_id = {group.id: group for group in groups}
    slots = server_group_slots.c
    query = select(server_group_slots).where(
        slots.group_id.in_(by_id), or_(slots.host.in_(hosts), slots.consumer_uuid.in_(uuids))
    )
    for row in connection.execute(query):
        group = by_id[row.group_id]
        group.slots = {**group.slots, (row.host, row.slot): row.consumer_uuid}
    members = server_group_members.c
    query = select(server_group_members).where(members.group_id.in_(by_id), members.server_uuid.in_(uuids))
    for row in connection.execute(query):
        by_id[row.group_id].members.add(row.server_uuid)
    together = [group.id for group in groups if group.policy == AFFINITY]
    if together:
        for row in connection.execute(select(server_group_hosts).where(server_group_hosts.c.group_id.in_(together))):
            by_id[row.group_id].host = row.host


def _find_placed(
    connection: Connection, groups: Sequence[Group], hosts: Collection[str]
) -> list[tuple[Group, str, str]]:
    """Members that hold something: of affinity groups all, of others those on these hosts."""
    by_id, members = {group.id: group for group in groups}, server_group_members.c
    query = (
        select(members.group_id, compute_nodes.c.host, members.server_uuid)
        .join(allocations, allocations.c.consumer_uuid == members.server_uuid)
        .join(compute_nodes, compute_nodes.c.id == allocations.c.node_id)
        .where(members.group_id.in_(by_id))
        .distinct()
        .order_by(members.group_id, compute_nodes.c.host, members.server_uuid)
    )
    together = [group.id for group in groups if group.policy == AFFINITY]
    query = query.where(or_(compute_nodes.c.host.in_(hosts), members.group_id.in_(together)))
    return [(by_id[row.group_id], row.host, row.server_uuid) for row in connection.execute(query)]


def read_holdings(connection: Connection, uuids: Collection[str]) -> dict[str, dict[str, dict[str, int]]]:
    """Consumer -> node uuid -> amount per resource class. Locks nothing: what is said may be past already."""
    fields = (allocations.c.consumer_uuid, compute_nodes.c.uuid, allocations.c.resource_class, allocations.c.used)
    both = allocations.join(compute_nodes, compute_nodes.c.id == allocations.c.node_id)
    found: dict[str, dict[str, dict[str, int]]] = {}
    for consumer, node, name, used in connection.execute(
        select(*fields).select_from(both).where(one_of(connection, allocations.c.consumer_uuid, uuids))
    ):
        found.setdefault(consumer, {}).setdefault(node, {})[name] = used
    return found


def read_members(connection: Connection, group_uuid: str) -> list[str]:
    """Uuids of the members of a group; none of one that nobody knows."""
    query = (
        select(server_group_members.c.server_uuid)
        .join(server_groups, server_groups.c.id == server_group_members.c.group_id)
        .where(server_groups.c.uuid == group_uuid)
        .order_by(server_group_members.c.server_uuid)
    )
    return list(connection.scalars(query))
