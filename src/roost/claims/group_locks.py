# SPDX-License-Identifier: Apache-2.0
"""Locks strict server groups, and reads their slots, hosts and members."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Column, Connection, Executable, Select, insert, literal_column, or_, select

from roost.claims.claim import AFFINITY, STRICT_POLICIES, StrictGroup
from roost.claims.group_slots import Group, Slot
from roost.store.schema import (
    allocations,
    compute_nodes,
    server_group_hosts,
    server_group_members,
    server_group_slots,
    server_groups,
)
from roost.store.statements import Statement, is_key, key_parameter
from roost.store.transactions import select_for_update


def lock_groups(connection: Connection, rules: Collection[StrictGroup], ids: Collection[int]) -> list[Group]:
    """Lock groups in the order of their ids: those that claims name, and those of known members.

    `rules`: the groups of the claims; one that the database does not have is inserted. `ids`: of further groups, from
    `group_search_statements`. Slots, hosts and members are not read yet: see `read_group_state`.
    """
    uuids = {rule.uuid for rule in rules}
    if not uuids and not ids:
        return []
    fields = [server_groups.c[name] for name in ("id", "uuid", "policy", "max_server_per_host")]
    keys: tuple[tuple[Column[Any], Collection[Any]], ...] = (server_groups.c.uuid, uuids), (server_groups.c.id, ids)
    wanted = [column.in_(sorted(those)) for column, those in keys if those]
    query = select_for_update(connection.dialect.name, fields, server_groups, wanted)
    rows = connection.execute(query).all()
    known = {row.uuid for row in rows}
    # By uuid: requests that share a commit may describe one group differently, as with and without its name.
    missing = {rule.uuid: _new_group_values(rule) for rule in sorted(rules) if rule.uuid not in known}
    if missing:  # described by the request alone, such as a group of nova's
        connection.execute(insert(server_groups), list(missing.values()))
        rows = connection.execute(query).all()
    return [Group(row.id, row.uuid, row.policy or "", row.max_server_per_host or 1) for row in rows]


def _new_group_values(rule: StrictGroup) -> dict[str, Any]:
    limit = rule.max_server_per_host
    return {"uuid": rule.uuid, "name": rule.name or rule.uuid, "policy": rule.policy, "max_server_per_host": limit}


def group_search_statements(dialect: str, uuids: Sequence[str]) -> list[Statement]:
    """Statements that find the ids of strict groups in which the consumers are members or have slots."""
    values = {"consumers": key_parameter(uuids)}
    return [Statement(each, values) for each in _select_group_ids(dialect, len(uuids) == 1)]


def select_strict_members(dialect: str, is_one: bool) -> Select[Any]:
    """SELECT of the uuids of `consumers`, a parameter as of `is_key`, that are members of strict groups."""
    return (
        select(server_group_members.c.server_uuid)
        .join(server_groups, server_groups.c.id == server_group_members.c.group_id)
        .where(is_key(dialect, server_group_members.c.server_uuid, "consumers", is_one), _IS_STRICT)
    )


_IS_STRICT = or_(*(server_groups.c.policy == literal_column(f"'{policy}'") for policy in STRICT_POLICIES))


@cache
def _select_group_ids(dialect: str, is_one: bool) -> tuple[Executable, Executable]:
    """Two statements: groups by their members, and groups by the consumers that have slots."""
    by_member = select_strict_members(dialect, is_one).with_only_columns(server_group_members.c.group_id)
    slot_owner = server_group_slots.c.consumer_uuid
    by_slot = select(server_group_slots.c.group_id).where(is_key(dialect, slot_owner, "consumers", is_one))
    return by_member, by_slot


def read_group_state(
    connection: Connection, groups: Sequence[Group], hosts: Collection[str], uuids: Collection[str]
) -> None:
    """Fill in the groups: slots, affinity hosts, and members among `uuids`.

    Slots of anti-affinity groups: those on `hosts` or of consumers `uuids`; there may be many others.
    """
    by_id, affinity_ids = {group.id: group for group in groups}, _affinity_ids(groups)
    slots = server_group_slots.c
    is_needed = or_(slots.host.in_(hosts), slots.consumer_uuid.in_(uuids), slots.group_id.in_(affinity_ids))
    found: dict[int, dict[Slot, str]] = defaultdict(dict)
    for row in connection.execute(select(server_group_slots).where(slots.group_id.in_(by_id), is_needed)):
        found[row.group_id][row.host, row.slot] = row.consumer_uuid
    for group_id, taken in found.items():
        by_id[group_id].slots = taken
    members = server_group_members.c
    query = select(server_group_members).where(members.group_id.in_(by_id), members.server_uuid.in_(uuids))
    for row in connection.execute(query):
        by_id[row.group_id].members.add(row.server_uuid)
    if affinity_ids:
        bound = server_group_hosts.c.group_id.in_(affinity_ids)
        for row in connection.execute(select(server_group_hosts).where(bound)):
            by_id[row.group_id].host = row.host


def find_placed_members(
    connection: Connection, groups: Sequence[Group], hosts: Collection[str]
) -> list[tuple[Group, str, str]]:
    """Group, host and uuid of each member that has allocations: all of affinity groups, else those on these hosts."""
    by_id, members = {group.id: group for group in groups}, server_group_members.c
    query = (
        select(members.group_id, compute_nodes.c.host, members.server_uuid)
        .join(allocations, allocations.c.consumer_uuid == members.server_uuid)
        .join(compute_nodes, compute_nodes.c.id == allocations.c.node_id)
        .where(members.group_id.in_(by_id))
        .distinct()
        .order_by(members.group_id, compute_nodes.c.host, members.server_uuid)
    )
    query = query.where(or_(compute_nodes.c.host.in_(hosts), members.group_id.in_(_affinity_ids(groups))))
    return [(by_id[row.group_id], row.host, row.server_uuid) for row in connection.execute(query)]


def _affinity_ids(groups: Sequence[Group]) -> list[int]:
    return [group.id for group in groups if group.policy == AFFINITY]
