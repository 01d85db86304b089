# SPDX-License-Identifier: Apache-2.0
"""The part of the ledger that a transaction has locked: read once, changed here, written once.

Nothing here knows of a database. Every step can be taken back, so that what is asked for together is done as a whole
or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from roost.claims.claim import AFFINITY, ANTI_AFFINITY
from roost.errors import UnknownName
from roost.hosts.capacity import ClassCapacity, missing_class_reason, shortage_reason
from roost.model.consumers import INSTANCE, Use, use_of

Amounts = Mapping[str, int]


@dataclass
class Node:
    """A compute node: what it gives out, and what of it is taken."""

    id: int
    uuid: str
    host: str
    name: str
    is_bare_metal: bool
    free: Use
    """As nova counts it."""
    rooms: Mapping[str, ClassCapacity]
    instances: int = 0
    """How many came, less how many went."""

    def lacks(self, amounts: Amounts) -> str:
        """Why it cannot give these amounts; empty where it can."""
        if self.is_bare_metal:
            return "the node is taken" if any(room.allocated for room in self.rooms.values()) else ""
        for name, asked in amounts.items():
            room = self.rooms.get(name)
            why = missing_class_reason(name, asked) if room is None else shortage_reason(room, name, asked)
            if why:
                return why
        return ""

    def portion(self, amounts: Amounts) -> dict[str, int]:
        """What is really given: a bare-metal node goes as a whole."""
        if not self.is_bare_metal:
            return dict(amounts)
        return {name: int(room.limit) for name, room in self.rooms.items() if room.limit >= 1}


@dataclass
class Consumer:
    """Who holds something: an instance, or the migration that keeps the source of one."""

    uuid: str
    kind: str = INSTANCE
    project_id: str | None = None
    user_id: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    held: dict[int, dict[str, int]] = field(default_factory=dict)
    """Node id -> amounts."""

    @property
    def use(self) -> Use:
        """What it takes as nova counts it; where nobody noted that, what the usual three classes say."""
        return use_of(self.details, next(iter(self.held.values()), {}))


@dataclass
class Group:
    """A strict server group, as far as this transaction needs to know it."""

    id: int
    uuid: str
    policy: str
    max_server_per_host: int
    slots: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """Anti-affinity: (host, slot) -> who has it."""
    host: str | None = None
    """Affinity: where the group is."""
    holders: set[str] = field(default_factory=set)
    """Affinity: members who hold something."""
    members: set[str] = field(default_factory=set)
    """Those of the consumers at hand who are members."""


class Before(NamedTuple):
    """How everything was when it was read, by uuid."""

    nodes: dict[str, tuple[Mapping[str, ClassCapacity], Use]]
    held: dict[str, Mapping[int, Amounts]]
    groups: dict[str, tuple[Mapping[tuple[str, int], str], str | None, frozenset[str]]]


class UnitOfWork:
    """Nodes by uuid, consumers by uuid, groups by uuid; and how all of them were when they were read."""

    def __init__(self, nodes: Iterable[Node], consumers: Iterable[Consumer], groups: Iterable[Group] = ()) -> None:
        self.nodes = {node.uuid: node for node in nodes}
        self.consumers = {consumer.uuid: consumer for consumer in consumers}
        self.groups = {group.uuid: group for group in groups}
        self.nodes_by_id = {node.id: node for node in self.nodes.values()}
        self.before = Before(
            {uuid: (node.rooms, node.free) for uuid, node in self.nodes.items()},
            {uuid: dict(consumer.held) for uuid, consumer in self.consumers.items()},
            {uuid: (group.slots, group.host, frozenset(group.members)) for uuid, group in self.groups.items()},
        )
        self._undo: list[Callable[[], object]] = []

    def mark(self) -> int:
        """A point to go back to."""
        return len(self._undo)

    def go_back(self, mark: int) -> None:
        """Take back everything since."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def node(self, uuid: str) -> Node:
        """One that was read; UnknownName where the store has none."""
        node = self.nodes.get(uuid)
        if node is None:
            raise UnknownName(f"there is no node {uuid}", "it was deleted, or belongs to another database")
        return node

    def consumer(self, uuid: str) -> Consumer | None:
        """Somebody who holds something; None for all others."""
        found = self.consumers.get(uuid)
        return found if found is not None and found.held else None

    def give(self, consumer: Consumer, node: Node, amounts: Amounts) -> None:
        """The consumer holds these amounts of the node from now on; they fit."""
        self._post(node, amounts, 1)
        self._count(node, consumer.use, 1)
        consumer.held[node.id] = dict(amounts)
        self.consumers[consumer.uuid] = consumer
        self._undo.append(lambda: consumer.held.pop(node.id))

    def take_back(self, consumer: Consumer, node: Node) -> None:
        """The consumer holds nothing of the node any more."""
        use, amounts = consumer.use, consumer.held.pop(node.id)
        self._undo.append(lambda: consumer.held.update({node.id: amounts}))
        self._post(node, amounts, -1)
        self._count(node, use, -1)

    def hand_over(self, giver: Consumer, taker: Consumer) -> None:
        """All that one holds is the other's from now on; nodes do not notice."""
        giver.held, taker.held = {}, giver.held
        self.consumers[taker.uuid] = taker

        def undo() -> None:
            giver.held, taker.held = taker.held, {}

        self._undo.append(undo)
        for group in self.groups.values():
            for place in [place for place, uuid in group.slots.items() if uuid == giver.uuid]:
                self._set_slot(group, place, taker.uuid)

    def _post(self, node: Node, amounts: Amounts, sign: int) -> None:
        before = node.rooms
        self._undo.append(lambda: setattr(node, "rooms", before))
        posted = {
            name: node.rooms[name]._replace(allocated=node.rooms[name].allocated + sign * amount)
            for name, amount in amounts.items()
            if name in node.rooms
        }
        node.rooms = {**node.rooms, **posted}

    def _count(self, node: Node, use: Use, sign: int) -> None:
        before = node.free, node.instances
        self._undo.append(lambda: vars(node).update(free=before[0], instances=before[1]))
        node.free, node.instances = node.free.plus(use, -sign), node.instances + sign

    # --- groups ---

    def bind(self, group: Group, consumer: str, host: str) -> str:
        """A member goes to this host: why it may not, or nothing."""
        why = self._bind_apart(group, consumer, host) if group.policy == ANTI_AFFINITY else ""
        why = self._bind_together(group, consumer, host) if group.policy == AFFINITY else why
        if not why and consumer not in group.members:
            group.members.add(consumer)
            self._undo.append(lambda: group.members.discard(consumer))
        return why

    def _bind_apart(self, group: Group, consumer: str, host: str) -> str:
        places = [(host, slot) for slot in range(group.max_server_per_host)]
        if any(group.slots.get(place) == consumer for place in places):
            return ""
        for place in places:
            if place not in group.slots:
                self._set_slot(group, place, consumer)
                return ""
        there = sum(where == host for where, _ in group.slots)
        return f"{there} members of the anti-affinity group {group.uuid} are there; {len(places)} may be"

    def _bind_together(self, group: Group, consumer: str, host: str) -> str:
        if group.host not in (None, host) and group.holders - {consumer}:
            return f"the affinity group {group.uuid} is on host {group.host}"
        self._set_host(group, host)
        if consumer not in group.holders:
            group.holders.add(consumer)
            self._undo.append(lambda: group.holders.discard(consumer))
        return ""

    def adopt(self, group: Group, host: str, consumer: str) -> None:
        """A member is on this host, whoever put it there: one that came with an import has no place yet.

        It gets one with the next thing that is written. What is there is there, so this cannot be refused.
        """
        if group.policy == AFFINITY:
            group.holders.add(consumer)
            group.host = group.host or host
        elif (host, consumer) not in {(where, who) for (where, _), who in group.slots.items()}:
            slot = next(number for number in count() if (host, number) not in group.slots)
            group.slots = {**group.slots, (host, slot): consumer}

    def unbind(self, consumer: str) -> None:
        """The consumer is off all hosts, for every group."""
        for group in self.groups.values():
            for place in [place for place, uuid in group.slots.items() if uuid == consumer]:
                self._set_slot(group, place, None)
            if consumer in group.holders:
                group.holders.discard(consumer)
                self._undo.append(lambda group=group: group.holders.add(consumer))  # type: ignore[misc]
                if not group.holders:
                    self._set_host(group, None)

    def _set_slot(self, group: Group, place: tuple[str, int], consumer: str | None) -> None:
        before = group.slots
        self._undo.append(lambda: setattr(group, "slots", before))
        rest = {where: uuid for where, uuid in before.items() if where != place}
        group.slots = rest if consumer is None else {**rest, place: consumer}

    def _set_host(self, group: Group, host: str | None) -> None:
        before, group.host = group.host, host
        self._undo.append(lambda: setattr(group, "host", before))
