# SPDX-License-Identifier: Apache-2.0
"""Reads of the ledger that take no locks: what they return may be stale already."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Select, Text, and_, literal, select, type_coerce

from roost.hosts.guests import guest_from_text
from roost.ledger.claim import GroupPlaces, HeldNode, MemberHosts
from roost.store.schema.fleet import allocations, compute_nodes, guest_allocations
from roost.store.schema.servers import server_group_hosts, server_group_members, server_group_slots, server_groups
from roost.store.statements import column_in


def read_holdings(connection: Connection, uuids: Collection[str]) -> dict[str, dict[str, HeldNode]]:
    """Consumer uuid -> node uuid -> what it holds there; a consumer without allocations is left out."""
    nodes, held, guests = compute_nodes.c, allocations.c, guest_allocations.c
    place = nodes.uuid, nodes.host, nodes.hypervisor_hostname, type_coerce(guests.guest, Text)
    fields = (held.consumer_uuid, *place, held.resource_class, held.used)
    is_same = and_(guests.consumer_uuid == held.consumer_uuid, guests.node_id == held.node_id)
    joined = allocations.join(compute_nodes, nodes.id == held.node_id).outerjoin(guest_allocations, is_same)
    found: dict[str, dict[str, HeldNode]] = {}
    query = select(*fields).select_from(joined).where(column_in(connection, held.consumer_uuid, uuids))
    for consumer, node_uuid, host, node, guest, name, used in connection.execute(query):
        places = found.setdefault(consumer, {})
        if node_uuid not in places:
            places[node_uuid] = HeldNode(host, node, {}, guest_from_text(guest) if guest else None)
        places[node_uuid].amounts[name] = used
    return found


def read_allocations(connection: Connection, uuids: Collection[str]) -> dict[str, dict[str, dict[str, int]]]:
    """Consumer uuid -> node uuid -> resource class -> amount; a consumer without allocations is left out."""
    found = read_holdings(connection, uuids)
    return {uuid: {node: held.amounts for node, held in nodes.items()} for uuid, nodes in found.items()}


# --- server groups -----------------------------------------------------------------------------------


def read_group_members(connection: Connection, group_uuid: str) -> list[str]:
    """Uuids of the members of a server group, sorted; empty if the database has no such group."""
    query = (
        select(server_group_members.c.server_uuid)
        .join(server_groups, server_groups.c.id == server_group_members.c.group_id)
        .where(server_groups.c.uuid == group_uuid)
        .order_by(server_group_members.c.server_uuid)
    )
    return list(connection.scalars(query))


def read_group_places(connection: Connection, group_uuid: str) -> GroupPlaces:
    """Members of a server group and sources of their moves; empty if the database has no such group."""
    in_group = server_groups.c.uuid == group_uuid
    members = select(server_group_members.c.server_uuid, literal(None).label("host")).join(
        server_groups, and_(server_groups.c.id == server_group_members.c.group_id, in_group)
    )
    found = GroupPlaces([], [])
    for uuid, host in connection.execute(members.union_all(_select_sources(in_group))):
        if host is None:
            found.members.append(uuid)
        else:
            found.sources.append((host, uuid))
    found.members.sort()
    return found


def _select_sources(in_group: Any) -> Select[Any]:
    """Uuid and host of each slot whose owner is no member: a migration's."""
    slots, members = server_group_slots.c, server_group_members.c
    is_owner = and_(members.group_id == slots.group_id, members.server_uuid == slots.consumer_uuid)
    return (
        select(slots.consumer_uuid, slots.host)
        .join(server_groups, and_(server_groups.c.id == slots.group_id, in_group))
        .outerjoin(server_group_members, is_owner)
        .where(members.server_uuid.is_(None))
    )


def read_member_hosts(connection: Connection, group_uuid: str) -> MemberHosts:
    """Policy of a server group, and who has a place on each host. No policy if the database has no such group."""
    in_group = server_groups.c.uuid == group_uuid
    group = connection.execute(
        select(server_groups.c.policy, server_groups.c.max_server_per_host, server_group_hosts.c.host)
        .outerjoin_from(server_groups, server_group_hosts, server_group_hosts.c.group_id == server_groups.c.id)
        .where(in_group)
    ).first()
    if group is None:
        return MemberHosts("", 1, None, {})
    members = server_group_members.c
    placed = (
        select(members.server_uuid, compute_nodes.c.host)
        .join(server_groups, and_(server_groups.c.id == members.group_id, in_group))
        .join(allocations, allocations.c.consumer_uuid == members.server_uuid)
        .join(compute_nodes, compute_nodes.c.id == allocations.c.node_id)
    )
    found = defaultdict[str, set[str]](set)
    for uuid, host in connection.execute(placed.union_all(_select_sources(in_group))):
        found[host].add(uuid)
    return MemberHosts(group.policy or "", group.max_server_per_host or 1, group.host, found)
