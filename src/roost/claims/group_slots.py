# SPDX-License-Identifier: Apache-2.0
"""Strict server groups: slots of anti-affinity groups, and the host that an affinity group is bound to.

Changes in memory, under the lock of the group's row. `write_back.py` writes them; constraints of the database are a
second guard.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count

from roost.claims.claim import AFFINITY, ANTI_AFFINITY
from roost.claims.undo_log import UndoLog

Slot = tuple[str, int]
"""Host, and number of the slot there: from 0 to max_server_per_host - 1."""


@dataclass
class Group:
    """A strict server group whose row is locked: the part of it that a transaction needs."""

    id: int
    uuid: str
    policy: str
    max_server_per_host: int
    slots: Mapping[Slot, str] = field(default_factory=dict)
    """Anti-affinity: slot -> uuid of the consumer that has it."""
    host: str | None = None
    """Affinity: the host that the group is bound to; None for a group without placed members."""
    placed_members: set[str] = field(default_factory=set)
    """Affinity: uuids of members that have allocations."""
    members: set[str] = field(default_factory=set)
    """Uuids of members, among the consumers of the transaction."""


def join_group(group: Group, consumer_uuid: str, host: str, undo: UndoLog) -> str:
    """Place a member on a host: why the group's policy forbids it; an empty text if the member is placed."""
    reason = ""
    if group.policy == ANTI_AFFINITY:
        reason = take_slot(group, consumer_uuid, host, undo)
    elif group.policy == AFFINITY:
        reason = bind_to_host(group, consumer_uuid, host, undo)
    if not reason and consumer_uuid not in group.members:
        group.members.add(consumer_uuid)
        undo.append(lambda: group.members.discard(consumer_uuid))
    return reason


def take_slot(group: Group, consumer_uuid: str, host: str, undo: UndoLog) -> str:
    """Take a free slot of an anti-affinity group on a host: an empty text, or that no slot is free.

    A consumer that has a slot there keeps it.
    """
    slots = [(host, number) for number in range(group.max_server_per_host)]
    if any(group.slots.get(slot) == consumer_uuid for slot in slots):
        return ""
    for slot in slots:
        if slot not in group.slots:
            set_slot(group, slot, consumer_uuid, undo)
            return ""
    taken = sum(slot_host == host for slot_host, _ in group.slots)
    return f"{taken} members of the anti-affinity group {group.uuid} are there; {len(slots)} may be"


def bind_to_host(group: Group, consumer_uuid: str, host: str, undo: UndoLog) -> str:
    """Bind an affinity group to a host: an empty text, or that other members are on another host.

    A group whose only placed member is this consumer moves with it.
    """
    if group.host not in (None, host) and group.placed_members - {consumer_uuid}:
        return f"the affinity group {group.uuid} is on host {group.host}"
    _set_host(group, host, undo)
    if consumer_uuid not in group.placed_members:
        group.placed_members.add(consumer_uuid)
        undo.append(lambda: group.placed_members.discard(consumer_uuid))
    return ""


def record_placed_member(group: Group, host: str, consumer_uuid: str) -> None:
    """Note that a member is on a host already; one that came with an import has neither slot nor binding yet.

    It gets them with the next write of the group, even beyond max_server_per_host. Part of loading: cannot be undone.
    """
    if group.policy == AFFINITY:
        group.placed_members.add(consumer_uuid)
        group.host = group.host or host
    elif (host, consumer_uuid) not in {(slot_host, owner) for (slot_host, _), owner in group.slots.items()}:
        number = next(number for number in count() if (host, number) not in group.slots)
        group.slots = {**group.slots, (host, number): consumer_uuid}


def leave_group(group: Group, consumer_uuid: str, undo: UndoLog) -> None:
    """Free the slots of a consumer on all hosts; an affinity group without placed members loses its host."""
    for slot in slots_of(group, consumer_uuid):
        set_slot(group, slot, None, undo)
    if consumer_uuid in group.placed_members:
        group.placed_members.discard(consumer_uuid)
        undo.append(lambda: group.placed_members.add(consumer_uuid))
        if not group.placed_members:
            _set_host(group, None, undo)


def slots_of(group: Group, consumer_uuid: str) -> list[Slot]:
    """The slots that a consumer has."""
    return [slot for slot, owner in group.slots.items() if owner == consumer_uuid]


def set_slot(group: Group, slot: Slot, consumer_uuid: str | None, undo: UndoLog) -> None:
    """Give a slot to a consumer; None frees it."""
    before = group.slots
    undo.append(lambda: setattr(group, "slots", before))
    others = {each: owner for each, owner in before.items() if each != slot}
    group.slots = others if consumer_uuid is None else {**others, slot: consumer_uuid}


def _set_host(group: Group, host: str | None, undo: UndoLog) -> None:
    before, group.host = group.host, host
    undo.append(lambda: setattr(group, "host", before))
