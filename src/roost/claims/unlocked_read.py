# SPDX-License-Identifier: Apache-2.0
"""Reads of the ledger that take no locks: what they return may be stale already."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, select

from roost.store.bulk import column_in
from roost.store.schema import allocations, compute_nodes, server_group_members, server_groups


def read_allocations(connection: Connection, uuids: Collection[str]) -> dict[str, dict[str, dict[str, int]]]:
    """Consumer uuid -> node uuid -> resource class -> amount; a consumer without allocations is left out."""
    fields = (allocations.c.consumer_uuid, compute_nodes.c.uuid, allocations.c.resource_class, allocations.c.used)
    joined = allocations.join(compute_nodes, compute_nodes.c.id == allocations.c.node_id)
    found: dict[str, dict[str, dict[str, int]]] = {}
    for consumer, node, name, used in connection.execute(
        select(*fields).select_from(joined).where(column_in(connection, allocations.c.consumer_uuid, uuids))
    ):
        found.setdefault(consumer, {}).setdefault(node, {})[name] = used
    return found


def read_group_members(connection: Connection, group_uuid: str) -> list[str]:
    """Uuids of the members of a server group, sorted; empty if the database has no such group."""
    query = (
        select(server_group_members.c.server_uuid)
        .join(server_groups, server_groups.c.id == server_group_members.c.group_id)
        .where(server_groups.c.uuid == group_uuid)
        .order_by(server_group_members.c.server_uuid)
    )
    return list(connection.scalars(query))
