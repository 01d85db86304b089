# SPDX-License-Identifier: Apache-2.0
"""Strict server groups: slots of anti-affinity groups, and the host that an affinity group is bound to.

Changes in memory, under the lock of the group's row. `write_back.py` writes them; constraints of the database are a
second guard.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from roost.claims.claim import AFFINITY, ANTI_AFFINITY
from roost.claims.undo_log import UndoLog

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
