# SPDX-License-Identifier: Apache-2.0
"""The part of the ledger that a transaction has locked: read once, changed in memory, written back once.

Knows nothing of a database: `load_unit_of_work` (`ledger.py`) makes it, `operations.py` changes it, `write_back.py`
writes the differences to what was read.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from roost.hosts.capacity import ClassCapacity
from roost.hosts.guests import Guest
from roost.ledger.claim import UndoLog
from roost.ledger.groups import Group, Slot, leave_group, set_slot, slots_of
from roost.ledger.nodes import Node, NodeGuests
from roost.model.resources import INSTANCE, Amounts, Use, use_on


@dataclass
class Consumer:
    """What resources are allocated to: an instance, or the migration that keeps the source of a moving one."""

    uuid: str
    kind: str = INSTANCE
    project_id: str | None = None
    user_id: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    allocations: dict[int, dict[str, int]] = field(default_factory=dict)
    """Node id -> resource class -> amount."""
    guests: dict[int, Guest] = field(default_factory=dict)
    """Node id -> pinned CPUs, NUMA memory and PCI devices; a node where it has none of them is left out."""
    claimed_at: datetime.datetime | None = None
    """When its allocations were claimed, also if another consumer had them then; None: in this transaction."""
    created_at: datetime.datetime | None = None
    """When it got its first allocation; a consumer that holds nothing is deleted. None: in this transaction."""

    def use_on(self, node_id: int, amounts: Amounts) -> Use:
        """What it uses of a node as nova counts it: recorded with the claim, else derived from the amounts."""
        return use_on(self.details, node_id, amounts)


class LoadedState(NamedTuple):
    """Nodes, allocations and groups as they were read; all by uuid."""

    nodes: dict[str, tuple[Mapping[str, ClassCapacity], Use]]
    """Capacity and free amounts of each node."""
    allocations: dict[str, Mapping[int, Amounts]]
    """Allocations of each consumer; a consumer that is not in the database is left out."""
    groups: dict[str, tuple[Mapping[Slot, str], str | None, frozenset[str]]]
    """Slots, host and members of each group."""
    guests: dict[str, Mapping[int, Guest]]
    """Guests of each consumer, by node id; a consumer that is not in the database is left out."""
    spaces: dict[str, NodeGuests | None]
    """Pinned CPUs, NUMA memory and PCI devices of each node."""
    details: dict[str, Mapping[str, Any]]
    """Details of each consumer, which say what it uses of its nodes."""


class UnitOfWork:
    """Nodes, consumers and groups by uuid, how they were read, and an undo log of the changes since."""

    def __init__(self, nodes: Iterable[Node], consumers: Iterable[Consumer], groups: Iterable[Group] = ()) -> None:
        self.nodes = {node.uuid: node for node in nodes}
        self.consumers = {consumer.uuid: consumer for consumer in consumers}
        self.groups = {group.uuid: group for group in groups}
        self.nodes_by_id = {node.id: node for node in self.nodes.values()}
        self.loaded = LoadedState(
            {uuid: (node.capacity, node.free) for uuid, node in self.nodes.items()},
            {uuid: dict(consumer.allocations) for uuid, consumer in self.consumers.items()},
            {uuid: (group.slots, group.host, frozenset(group.members)) for uuid, group in self.groups.items()},
            {uuid: dict(consumer.guests) for uuid, consumer in self.consumers.items()},
            {uuid: node.guests for uuid, node in self.nodes.items()},
            {uuid: consumer.details for uuid, consumer in self.consumers.items()},
        )
        self.undo = UndoLog()
        self.used_consumers: frozenset[str] = frozenset()
        """Consumers that a server or a running migration needs, of those that an operation asks about."""
        self.left_servers: set[tuple[str, str]] = set()
        """Uuids of servers, and the hosts that they have left: a server that is still recorded there is on none."""

    def consumer_with_allocations(self, uuid: str) -> Consumer | None:
        """A consumer that has allocations; None if it has none or does not exist."""
        found = self.consumers.get(uuid)
        return found if found is not None and found.allocations else None

    def changed_consumers(self) -> list[Consumer]:
        """Consumers that hold other allocations or guests than when they were read, or use them differently."""
        loaded = self.loaded
        return [
            each
            for uuid, each in self.consumers.items()
            if each.allocations != loaded.allocations.get(uuid, {})
            or each.guests != loaded.guests.get(uuid, {})
            or (each.allocations and each.details != loaded.details.get(uuid))
        ]

    def has_changed_groups(self) -> bool:
        """Whether slots, hosts or members of groups are others than when they were read."""
        return any(
            (group.slots, group.host, frozenset(group.members)) != self.loaded.groups[uuid]
            for uuid, group in self.groups.items()
        )

    def hosts_of(self, consumer: Consumer) -> list[str]:
        """The host of each node that the consumer has an allocation on."""
        return [self.nodes_by_id[node_id].host for node_id in consumer.allocations]

    def allocate(self, consumer: Consumer, node: Node, amounts: Amounts, guest: Guest | None = None) -> None:
        """Allocate amounts of a node, and what a guest needs, to a consumer. The caller has checked that they fit."""
        self._add_to_allocated(node, amounts, 1)
        self._add_to_use(node, consumer.use_on(node.id, amounts), 1)
        before = self.consumers.get(consumer.uuid, consumer)
        consumer.allocations[node.id] = dict(amounts)
        self.consumers[consumer.uuid] = consumer

        def undo() -> None:
            del consumer.allocations[node.id]
            self.consumers[consumer.uuid] = before

        self.undo.append(undo)
        if guest is not None and node.guests is not None and not node.is_bare_metal:
            self._set_node_guests(node, node.guests.with_guest(consumer.uuid, guest))
            consumer.guests[node.id] = guest
            self.undo.append(lambda: consumer.guests.pop(node.id))

    def deallocate(self, consumer: Consumer, node: Node) -> None:
        """Delete the consumer's allocation on a node; its slots in groups stay."""
        amounts = consumer.allocations.pop(node.id)
        self.undo.append(lambda: consumer.allocations.update({node.id: amounts}))
        self._add_to_allocated(node, amounts, -1)
        self._add_to_use(node, consumer.use_on(node.id, amounts), -1)
        guest = consumer.guests.pop(node.id, None)
        if guest is not None and node.guests is not None:
            self.undo.append(lambda: consumer.guests.update({node.id: guest}))
            self._set_node_guests(node, node.guests.without_guest(consumer.uuid))

    def transfer_allocations(self, source: Consumer, target: Consumer) -> None:
        """Give all allocations, guests and slots of one consumer to another; what is used of nodes does not change.

        A target with allocations of its own keeps them. The two must not have allocations on the same node.
        """
        before = dict(vars(target)), (source.allocations, source.guests), self.consumers.get(target.uuid)
        if target.allocations:
            uses = {str(node): list(source.use_on(node, amounts)) for node, amounts in source.allocations.items()}
            target.details = {**target.details, "uses": {**target.details.get("uses", {}), **uses}}
        else:
            target.details = source.details
        for node in (self.nodes_by_id[node_id] for node_id in source.guests):
            if node.guests is not None:
                self._set_node_guests(node, node.guests.with_owner(source.uuid, target.uuid))
        target.claimed_at = _later(target, source)
        target.allocations, source.allocations = {**target.allocations, **source.allocations}, {}
        target.guests, source.guests = {**target.guests, **source.guests}, {}
        self.consumers[target.uuid] = target

        def undo() -> None:
            vars(target).update(before[0])
            source.allocations, source.guests = before[1]
            self.consumers[target.uuid] = before[2] or target

        self.undo.append(undo)
        for group in self.groups.values():
            for slot in slots_of(group, source.uuid):
                set_slot(group, slot, target.uuid, self.undo)

    def leave_groups(self, consumer_uuid: str) -> None:
        """Free the slots of a consumer, and the hosts of affinity groups of which it was the last placed member."""
        for group in self.groups.values():
            leave_group(group, consumer_uuid, self.undo)

    def _set_node_guests(self, node: Node, guests: NodeGuests) -> None:
        before, node.guests = node.guests, guests
        self.undo.append(lambda: setattr(node, "guests", before))

    def _add_to_allocated(self, node: Node, amounts: Amounts, sign: int) -> None:
        before = node.capacity
        self.undo.append(lambda: setattr(node, "capacity", before))
        changed = {
            name: before[name]._replace(allocated=before[name].allocated + sign * amount)
            for name, amount in amounts.items()
            if name in before
        }
        node.capacity = {**before, **changed}

    def _add_to_use(self, node: Node, use: Use, sign: int) -> None:
        before = node.free, node.instances_delta
        self.undo.append(lambda: vars(node).update(free=before[0], instances_delta=before[1]))
        node.free, node.instances_delta = node.free.plus(use, -sign), node.instances_delta + sign


def _later(target: Consumer, source: Consumer) -> datetime.datetime | None:
    """When the younger of two consumers' allocations were claimed; None, for now, is the latest."""
    times = [each.claimed_at for each in (target, source) if each.allocations]
    return None if None in times else max((time for time in times if time), default=None)
