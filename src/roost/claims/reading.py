# SPDX-License-Identifier: Apache-2.0
"""Locks and reads the part of the ledger that some operations are about.

Locks are taken in one order, so that transactions wait for each other but never in a circle: groups by id, then nodes
by id. Whoever changes what is used of a node holds its row in `compute_nodes`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, insert, or_, select

from roost.claims.books import Books, Consumer, Group, Node
from roost.claims.claim import AFFINITY, STRICT, StrictGroup, Use
from roost.claims.operations import Operation, wanted_nodes
from roost.errors import DatabaseConflict
from roost.hosts.capacity import Room
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

_NODE_FIELDS = (
    *("id", "uuid", "host", "hypervisor_hostname", "hypervisor_type"),
    *("free_ram_mb", "free_disk_gb", "vcpus", "vcpus_used"),
)


def open_books(connection: Connection, operations: Sequence[Operation]) -> Books:
    """Everything these operations look at, locked."""
    uuids = {uuid for operation in operations for uuid in operation.looks_at()}
    known = _read_consumers(connection, uuids)
    rules = {claim.group for operation in operations for claim in operation.asks_for() if claim.group}
    groups = _lock_groups(connection, rules, known)
    held = {node_id for consumer in known for node_id in consumer.held}
    nodes = _lock_nodes(connection, wanted_nodes(operations), held)
    if known:  # what they hold may have changed before their nodes were locked
        known = _read_consumers(connection, uuids)
        if not {node_id for consumer in known for node_id in consumer.held} <= {node.id for node in nodes}:
            raise DatabaseConflict("a consumer was moved at the same moment", "try again")
    hosts = {node.host for node in nodes}
    if groups:
        _read_groups(connection, groups, hosts, uuids)
    books = Books(nodes, known, groups)
    for group, host, uuid in _find_placed(connection, groups, hosts) if groups else ():
        books.adopt(group, host, uuid)
    return books


def _read_consumers(connection: Connection, uuids: Collection[str]) -> list[Consumer]:
    """Those who are there, with what they hold."""
    fields = (
        *(consumers.c[name] for name in ("uuid", "kind", "project_id", "user_id", "details")),
        *(allocations.c[name] for name in ("node_id", "resource_class", "used")),
    )
    both = consumers.outerjoin(allocations, allocations.c.consumer_uuid == consumers.c.uuid)
    found: dict[str, Consumer] = {}
    for uuid, kind, project_id, user_id, details, node_id, name, used in connection.execute(
        select(*fields).select_from(both).where(one_of(connection, consumers.c.uuid, uuids))
    ):
        consumer = found.get(uuid)
        if consumer is None:
            consumer = found[uuid] = Consumer(uuid, kind, project_id, user_id, details or {})
        if node_id is not None:
            consumer.held.setdefault(node_id, {})[name] = used
    return list(found.values())


def _lock_nodes(connection: Connection, uuids: Collection[str], ids: Collection[int]) -> list[Node]:
    fields = [compute_nodes.c[name] for name in _NODE_FIELDS]
    wanted = one_of(connection, compute_nodes.c.uuid, uuids)
    if ids:
        wanted = or_(wanted, one_of(connection, compute_nodes.c.id, ids))
    rows = connection.execute(
        select(*fields).where(wanted).order_by(compute_nodes.c.id).with_for_update(of=compute_nodes)
    ).all()
    rooms = _read_rooms(connection, [row.id for row in rows])
    return [
        Node(
            row.id,
            row.uuid,
            row.host,
            row.hypervisor_hostname,
            (row.hypervisor_type or "").lower() == "ironic",
            Use(row.free_ram_mb or 0, row.free_disk_gb or 0, row.vcpus - row.vcpus_used),
            rooms.get(row.id, {}),
        )
        for row in rows
    ]


def _read_rooms(connection: Connection, ids: Sequence[int]) -> dict[int, dict[str, Room]]:
    """After the locks: what was read before might be of an earlier moment."""
    found: dict[int, dict[str, Room]] = {}
    for row in connection.execute(select(inventories).where(one_of(connection, inventories.c.node_id, ids))):
        limit = (row.total - row.reserved) * row.allocation_ratio
        most = row.total if row.max_unit is None else row.max_unit
        room = Room(row.used, limit, most, row.min_unit, row.step_size)
        found.setdefault(row.node_id, {})[row.resource_class] = room
    return found


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


def _groups_of(connection: Connection, uuids: Collection[str]) -> set[int]:
    """Ids of the strict groups in which these have a place."""
    by_member = (
        select(server_group_members.c.group_id)
        .join(server_groups, server_groups.c.id == server_group_members.c.group_id)
        .where(server_group_members.c.server_uuid.in_(uuids), server_groups.c.policy.in_(STRICT))
    )
    by_slot = select(server_group_slots.c.group_id).where(server_group_slots.c.consumer_uuid.in_(uuids))
    return set(connection.scalars(by_member)) | set(connection.scalars(by_slot))


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
