# SPDX-License-Identifier: Apache-2.0
"""Strict server groups: slots of anti-affinity groups, and the host that an affinity group is bound to.

`lock_groups` locks them, and reads slots, hosts and members. Changes are made in memory, under the lock of the
group's row. `write_back.py` writes them; constraints of the database are a second guard.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any

from sqlalchemy import Column, Connection, Executable, Select, insert, literal_column, or_, select

from roost.ledger.claim import AFFINITY, ANTI_AFFINITY, STRICT_POLICIES, StrictGroup, UndoLog
from roost.store.schema.fleet import allocations, compute_nodes
from roost.store.schema.servers import server_group_hosts, server_group_members, server_group_slots, server_groups
from roost.store.statements import Statement, is_key, key_parameter
from roost.store.transactions import select_for_update

Slot = tuple[str, int]
"""Host, and number of the slot there, from 0."""


@dataclass
class Group:
    """A strict server group whose row is locked: the part of it that a transaction needs."""

    id: int
    uuid: str
    policy: str
    max_server_per_host: int
    slots: Mapping[Slot, str] = field(default_factory=dict)
    """Slot -> uuid of the consumer that has it. Affinity: only on hosts other than the one the group is bound to, for
    the migration of a member that moves."""
    host: str | None = None
    """Affinity: the host that the group is bound to; None for a group without placed members."""
    placed_members: set[str] = field(default_factory=set)
    """Affinity: uuids of members that have allocations."""
    members: set[str] = field(default_factory=set)
    """Uuids of members, among the consumers of the transaction."""


@dataclass(frozen=True)
class MemberPlaces:
    """The hosts of a member of a group, and of its migration if it moves: they count as one member per host."""

    member: str
    migration: str | None
    owners: Mapping[str, str]
    """Host -> the member, or the migration if only that has allocations there."""

    @property
    def consumers(self) -> Collection[str | None]:
        """The member and its migration."""
        return self.member, self.migration

    @property
    def homes(self) -> list[str]:
        """The hosts on which the member itself has allocations."""
        return [host for host, owner in self.owners.items() if owner == self.member]


def place_member(group: Group, places: MemberPlaces, undo: UndoLog) -> str:
    """Make these the places of a member: why the group's policy forbids it; an empty text if it does not.

    Places that the member and its migration had elsewhere are freed. After a reason the caller rolls back.
    """
    for slot, owner in list(group.slots.items()):
        if owner in places.consumers and slot[0] not in places.owners:
            set_slot(group, slot, None, undo)
    reason = ""
    if group.policy == ANTI_AFFINITY:
        reasons = [take_slot(group, places, host, undo) for host in places.owners]
        reason = next(filter(None, reasons), "")
    elif group.policy == AFFINITY:
        reason = bind_to_host(group, places, undo)
    if not reason and places.member not in group.members:
        group.members.add(places.member)
        undo.append(lambda: group.members.discard(places.member))
    return reason


def take_slot(group: Group, places: MemberPlaces, host: str, undo: UndoLog) -> str:
    """Take the lowest free slot of an anti-affinity group on a host: an empty text, or that all are taken.

    A slot that the member or its migration has there is kept, for the one of them that is the owner now; if both have
    one, because the member was imported onto the source of its move, the other is freed.
    """
    taken = {number: owner for (slot_host, number), owner in group.slots.items() if slot_host == host}
    own = sorted(number for number, owner in taken.items() if owner in places.consumers)
    if not own and len(taken) >= group.max_server_per_host:
        limit = group.max_server_per_host
        return f"{len(taken)} members of the anti-affinity group {group.uuid} are there; {limit} may be"
    for surplus in own[1:]:
        set_slot(group, (host, surplus), None, undo)
    number = own[0] if own else _lowest_free(taken)
    if taken.get(number) != places.owners[host]:
        set_slot(group, (host, number), places.owners[host], undo)
    return ""


def bind_to_host(group: Group, places: MemberPlaces, undo: UndoLog) -> str:
    """Bind an affinity group to the host of a member: an empty text, or why the member cannot be there.

    A group whose only placed member is this one moves with it; until the move has ended, no other member may join.
    """
    moving = sorted(host for (host, _), owner in group.slots.items() if owner not in places.consumers)
    if moving and places.member not in group.placed_members:
        target = f" to {group.host}" if group.host else ""
        return f"the affinity group {group.uuid} is moving from {', '.join(moving)}{target}"
    if group.placed_members - {places.member}:
        if group.host is not None and set(places.homes) - {group.host}:
            return f"the affinity group {group.uuid} is on host {group.host}"
    elif group.host not in places.homes:
        _set_host(group, next(iter(places.homes), None), undo)
    if places.homes and places.member not in group.placed_members:
        group.placed_members.add(places.member)
        undo.append(lambda: group.placed_members.discard(places.member))
    _note_other_places(group, places, undo)
    return ""


def _note_other_places(group: Group, places: MemberPlaces, undo: UndoLog) -> None:
    """Slots of an affinity group on the hosts, besides its own, that a member or its migration holds."""
    for slot, owner in list(group.slots.items()):
        if owner in places.consumers:
            set_slot(group, slot, None, undo)
    for host, owner in places.owners.items():
        if host != group.host:
            taken = {number for slot_host, number in group.slots if slot_host == host}
            set_slot(group, (host, _lowest_free(taken)), owner, undo)


def record_placed_member(group: Group, host: str, consumer_uuid: str) -> None:
    """Note that a member is on a host already; one that came with an import has neither slot nor binding yet.

    It gets them with the next write of the group, even beyond max_server_per_host. Part of loading: cannot be undone.
    """
    if group.policy == AFFINITY:
        group.placed_members.add(consumer_uuid)
        group.host = group.host or host
    elif (host, consumer_uuid) not in {(slot_host, owner) for (slot_host, _), owner in group.slots.items()}:
        taken = {number for slot_host, number in group.slots if slot_host == host}
        group.slots = {**group.slots, (host, _lowest_free(taken)): consumer_uuid}


def leave_group(group: Group, consumer_uuid: str, undo: UndoLog) -> None:
    """Free the slots of a consumer on all hosts; an affinity group without placed members loses its host."""
    for slot in slots_of(group, consumer_uuid):
        set_slot(group, slot, None, undo)
    if consumer_uuid in group.placed_members:
        group.placed_members.discard(consumer_uuid)
        undo.append(lambda: group.placed_members.add(consumer_uuid))
        if not group.placed_members:
            _set_host(group, None, undo)


def leave_hosts(group: Group, consumer_uuid: str, hosts: Sequence[str], undo: UndoLog) -> None:
    """Free the slots of a consumer on all hosts but these, on which it still has allocations.

    An affinity group whose only placed member it is gets bound to the first of them.
    """
    for slot in slots_of(group, consumer_uuid):
        if slot[0] not in hosts:
            set_slot(group, slot, None, undo)
    if group.placed_members == {consumer_uuid} and group.host not in hosts:
        _set_host(group, hosts[0], undo)
        for slot in slots_of(group, consumer_uuid):
            if slot[0] == hosts[0]:
                set_slot(group, slot, None, undo)


def slots_of(group: Group, consumer_uuid: str) -> list[Slot]:
    """The slots that a consumer has."""
    return [slot for slot, owner in group.slots.items() if owner == consumer_uuid]


def set_slot(group: Group, slot: Slot, consumer_uuid: str | None, undo: UndoLog) -> None:
    """Give a slot to a consumer; None frees it."""
    before = group.slots
    undo.append(lambda: setattr(group, "slots", before))
    others = {each: owner for each, owner in before.items() if each != slot}
    group.slots = others if consumer_uuid is None else {**others, slot: consumer_uuid}


def _lowest_free(taken: Collection[int]) -> int:
    return next(number for number in count() if number not in taken)


def _set_host(group: Group, host: str | None, undo: UndoLog) -> None:
    before, group.host = group.host, host
    undo.append(lambda: setattr(group, "host", before))


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
