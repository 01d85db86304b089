# SPDX-License-Identifier: Apache-2.0
"""Operations of the ledger - claim, release, move, resize - each all or nothing, and idempotent.

An operation works on a `UnitOfWork` in memory, so several of them can share a transaction. While an instance moves,
its allocation on the source belongs to the migration and that on the target to the instance: source and target stay
allocated until the move is finished or undone. A doubled operation changes nothing.
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from roost.errors import AlreadyClaimed, BadInput, ClaimRejected, Refusal, UnknownName
from roost.hosts.guests import are_alike, merge_guests
from roost.ledger.claim import Claim
from roost.ledger.groups import Group, MemberPlaces, leave_hosts, place_member, slots_of
from roost.ledger.nodes import Node
from roost.ledger.unit_of_work import Consumer, UnitOfWork
from roost.model.resources import INSTANCE, MIGRATION, Amounts, move_of

DELETED_NODE = "the node was deleted, or belongs to another database"


class Operation(ABC):
    """A change of the ledger, done in one transaction, alone or with other operations."""

    @abstractmethod
    def consumer_uuids(self) -> tuple[str, ...]:
        """The consumers whose allocations the operation reads or changes."""

    def new_claims(self) -> tuple[Claim, ...]:
        """The claims that the operation makes; empty for one that only releases."""
        return ()

    def spared_if_used(self) -> tuple[str, ...]:
        """Consumers that the operation leaves alone if a server or a running migration needs them; usually none."""
        return ()

    def expects_new_consumers(self) -> bool:
        """Whether its consumers are usually unknown to the database, and in no group: less has to be locked then."""
        return False

    @abstractmethod
    def apply(self, work: UnitOfWork) -> Any:
        """Change the unit of work and return the operation's result, or raise and leave it as it was."""


def claimed_node_uuids(operations: Sequence[Operation]) -> set[str]:
    """Uuids of the nodes that the operations make claims on."""
    return {claim.node_uuid for operation in operations for claim in operation.new_claims()}


def guest_node_uuids(operations: Sequence[Operation]) -> set[str]:
    """Uuids of the nodes on which the operations claim CPUs, pages or PCI devices for guests."""
    return {claim.node_uuid for operation in operations for claim in operation.new_claims() if claim.guest}


# --- claim -------------------------------------------------------------------------------------------


Step = Callable[[UnitOfWork], list[Refusal]]
"""A part of an operation: the refusals, or none if it was done. After refusals the caller rolls back."""


def do_all_or_none(work: UnitOfWork, steps: Sequence[Step]) -> None:
    """Do all steps, in order; ClaimRejected, with every node that refused, and no change if one is refused."""
    savepoint = work.undo.savepoint()
    refused: list[tuple[Step, Refusal]] = []
    try:
        for step in steps:
            refused += [(step, refusal) for refusal in step(work)]
    except BaseException:
        work.undo.rollback_to(savepoint)
        raise
    if refused:
        work.undo.rollback_to(savepoint)
        raise ClaimRejected([_refusal_of_one(work, *each, is_alone=len(steps) == 1) for each in refused])


def _refusal_of_one(work: UnitOfWork, step: Step, refusal: Refusal, is_alone: bool) -> Refusal:
    """The refusal; for the sake of a group only if the step is refused without the others, too."""
    if not refusal.group_uuid or is_alone:
        return refusal
    savepoint = work.undo.savepoint()
    again = step(work)
    work.undo.rollback_to(savepoint)
    return refusal if any(each.group_uuid for each in again) else refusal._replace(group_uuid="")


@dataclass(frozen=True)
class ClaimAll(Operation):
    """Claims for all instances of a request, or for none."""

    claims: tuple[Claim, ...]

    def new_claims(self) -> tuple[Claim, ...]:
        """The claims of the request."""
        return self.claims

    def consumer_uuids(self) -> tuple[str, ...]:
        """The instances of the request."""
        return tuple(claim.consumer_uuid for claim in self.claims)

    def expects_new_consumers(self) -> bool:
        """True if no claim has a group: instances are known only where the reply to an earlier attempt was lost."""
        return bool(self.claims) and all(claim.group is None for claim in self.claims)

    def apply(self, work: UnitOfWork) -> None:
        """Make all claims, in order; ClaimRejected, with every node that refused, if one of them is refused."""
        do_all_or_none(work, self.steps())

    def steps(self) -> list[Step]:
        """A step for each claim."""
        return [partial(claim_instance, claim=claim) for claim in self.claims]


def claim_instance(work: UnitOfWork, claim: Claim, migration_uuid: str | None = None) -> list[Refusal]:
    """Make one claim: empty if it is made, or was made before; else one refusal, by capacity or by group.

    `migration_uuid`: the migration of an instance that moves; in a group the two count as one member.
    """
    node = work.nodes.get(claim.node_uuid)
    if node is None:
        return [Refusal(claim.node_uuid, claim.node_uuid, DELETED_NODE, is_deleted=True)]
    if is_idempotent_repeat(work, claim, node):
        return []
    reason = node.check_capacity(claim.amounts) or node.check_guest(claim.guest, claim.guest_limits)
    if reason:
        return [Refusal(node.host, node.name, reason)]
    granted = node.granted_amounts(claim.amounts)
    if not granted and (claim.guest or claim.group):  # without an allocation no release would find them again
        problem = f"instance {claim.consumer_uuid}: it asks for no amount of any resource class"
        raise BadInput(problem, "devices, pinned CPUs and places in groups are claimed together with resources")
    savepoint = work.undo.savepoint()
    work.allocate(_new_consumer(claim, node), node, granted, claim.guest)
    named = claim.group.uuid if claim.group else None
    for group in groups_of_member(work, claim.consumer_uuid, named):
        reason = place_member(group, places_of_member(work, claim.consumer_uuid, migration_uuid), work.undo)
        if reason:
            work.undo.rollback_to(savepoint)
            return [Refusal(node.host, node.name, reason, group.uuid)]
    return []


def is_idempotent_repeat(work: UnitOfWork, claim: Claim, node: Node) -> bool:
    """Whether the consumer has exactly this claim already; AlreadyClaimed if it has other allocations."""
    consumer = work.consumer_with_allocations(claim.consumer_uuid)
    if consumer is None:
        return False
    if not is_exactly(consumer, claim, node):
        raise AlreadyClaimed(consumer.uuid, work.hosts_of(consumer))
    return True


def is_exactly(consumer: Consumer, claim: Claim, node: Node) -> bool:
    """Whether the consumer holds what is claimed and nothing else, whichever CPUs and devices its guest got."""
    is_same_guest = node.is_bare_metal or are_alike(consumer.guests.get(node.id), claim.guest)
    return consumer.allocations == {node.id: node.granted_amounts(claim.amounts)} and is_same_guest


def groups_of_member(work: UnitOfWork, consumer_uuid: str, named: str | None = None) -> list[Group]:
    """The strict groups that a consumer is a member of, or joins because its claim names them."""
    return [group for group in work.groups.values() if group.uuid == named or consumer_uuid in group.members]


def places_of_member(work: UnitOfWork, consumer_uuid: str, migration_uuid: str | None) -> MemberPlaces:
    """The hosts on which an instance and its migration have allocations now."""
    owners: dict[str, str] = {}
    for uuid in filter(None, (migration_uuid, consumer_uuid)):
        consumer = work.consumer_with_allocations(uuid)
        owners |= dict.fromkeys(work.hosts_of(consumer), uuid) if consumer else {}
    return MemberPlaces(consumer_uuid, migration_uuid, owners)


def _new_consumer(claim: Claim, node: Node) -> Consumer:
    use = node.free if node.is_bare_metal else claim.use
    details = {**claim.details, "use": list(use)}
    return Consumer(claim.consumer_uuid, INSTANCE, claim.project_id, claim.user_id, details)


# --- release -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Release(Operation):
    """The release of all allocations and slots of some consumers."""

    uuids: tuple[str, ...]
    created_before: datetime.datetime | None = None
    """Only consumers that held something at that time, and ever since."""
    spares_used: bool = False
    """Only consumers that neither a server nor a running migration needs."""

    def consumer_uuids(self) -> tuple[str, ...]:
        """The consumers to release, and the migrations that instances among them may have."""
        return *self.uuids, *map(move_of, self.uuids)

    def spared_if_used(self) -> tuple[str, ...]:
        """The consumers to release, for a repair of the audit; else none."""
        return self.uuids if self.spares_used else ()

    def apply(self, work: UnitOfWork) -> int:
        """Release the consumers: how many of them had allocations."""
        found = [consumer for uuid in self.uuids if (consumer := work.consumer_with_allocations(uuid))]
        due = [consumer for consumer in found if self._is_due(consumer, work)]
        for consumer in due:
            release_consumer(work, consumer, move_of(consumer.uuid))
        return len(due)

    def _is_due(self, consumer: Consumer, work: UnitOfWork) -> bool:
        if self.spares_used and consumer.uuid in work.used_consumers:
            return False
        if self.created_before is None:
            return True
        return consumer.created_at is not None and consumer.created_at < self.created_before


def release_consumer(work: UnitOfWork, consumer: Consumer, migration_uuid: str | None = None) -> None:
    """Delete all allocations of a consumer and free its slots in groups.

    `migration_uuid`: the migration of an instance; a slot on a host where it holds something is the migration's then.
    """
    for node_id in list(consumer.allocations):
        work.deallocate(consumer, work.nodes_by_id[node_id])
    if migration_uuid is not None and work.consumer_with_allocations(migration_uuid):
        places = places_of_member(work, consumer.uuid, migration_uuid)
        for group in groups_of_member(work, consumer.uuid):
            place_member(group, places, work.undo)  # it has a slot there already, so none is refused
    work.leave_groups(consumer.uuid)


@dataclass(frozen=True)
class ReleaseOn(Operation):
    """The release of what an instance and its migrations hold on some nodes, because the instance is not there.

    The target of a move under way stays: what an instance holds while a migration of it holds something. So does what
    was claimed after `made_before`, the time of the message that says so: it knows nothing of that claim.
    """

    uuids: tuple[str, ...]
    """The instance, and then its migrations."""
    node_uuids: frozenset[str]
    made_before: datetime.datetime | None = None
    left_host: str = ""
    """The host of these nodes, where the message says that the instance has left it: its server is on no host then,
    unless something of what it holds there stays. Empty: its server stays as it is."""

    def consumer_uuids(self) -> tuple[str, ...]:
        """The instance and its migrations."""
        return self.uuids

    def apply(self, work: UnitOfWork) -> int:
        """Release the allocations: of how many consumers."""
        found = [consumer for uuid in self.uuids if (consumer := work.consumer_with_allocations(uuid))]
        is_moving = any(consumer.kind == MIGRATION for consumer in found)
        released = 0
        for consumer in found:
            is_target = is_moving and consumer.kind != MIGRATION
            if not is_target and not self._is_younger(consumer):
                released += self._release(work, consumer)
        if self.left_host and not self._is_still_there(work, found):
            work.left_servers.add((self.uuids[0], self.left_host))
        return released

    def _is_still_there(self, work: UnitOfWork, holders: Sequence[Consumer]) -> bool:
        """Whether something is held on the host that the instance has left, or an import listed it there since."""
        instance = work.consumers.get(self.uuids[0])
        if instance is not None and instance not in holders and self._is_younger(instance):
            return True
        return any(self.left_host in work.hosts_of(consumer) for consumer in holders)

    def _is_younger(self, consumer: Consumer) -> bool:
        """Whether the consumer's allocations were claimed after the message was made."""
        if self.made_before is None:
            return False
        return consumer.claimed_at is None or consumer.claimed_at > self.made_before

    def _release(self, work: UnitOfWork, consumer: Consumer) -> bool:
        held = [work.nodes_by_id[node_id] for node_id in consumer.allocations]
        left = [node for node in held if node.uuid in self.node_uuids]
        if len(left) == len(held):
            release_consumer(work, consumer)
            return True
        for node in left:
            work.deallocate(consumer, node)
        hosts = work.hosts_of(consumer)
        for group in work.groups.values() if left else ():
            leave_hosts(group, consumer.uuid, hosts, work.undo)
        return bool(left)


class Holding(NamedTuple):
    """What an instance and its migration hold: node uuid -> amount per resource class."""

    instance: Mapping[str, Amounts]
    migration: Mapping[str, Amounts]


@dataclass(frozen=True)
class Move(Operation):
    """Another target for an instance; its migration keeps what the instance may still run on."""

    migration_uuid: str
    claim: Claim
    seen: Holding | None = None
    """What the two held when the move was decided on: AlreadyClaimed if they hold something else by now."""

    def consumer_uuids(self) -> tuple[str, ...]:
        """The instance and its migration."""
        return self.claim.consumer_uuid, self.migration_uuid

    def new_claims(self) -> tuple[Claim, ...]:
        """The claim on the target."""
        return (self.claim,)

    def apply(self, work: UnitOfWork) -> bool:
        """Do it: False if it was done before. ClaimRejected if the target refuses."""
        if self.is_done(work):
            return False
        do_all_or_none(work, [self.step])
        return True

    def step(self, work: UnitOfWork) -> list[Refusal]:
        """Do it, unless it was done before: the refusals of the target, after which the caller rolls back."""
        if self.is_done(work):
            return []
        if self.seen is not None and self.seen != self._held(work):
            raise AlreadyClaimed(self.claim.consumer_uuid, self._hosts(work))
        instance = work.consumer_with_allocations(self.claim.consumer_uuid)
        if instance is None:
            raise UnknownName(f"instance {self.claim.consumer_uuid} holds nothing", "claim a host for it first")
        self._leave(work, instance, work.consumer_with_allocations(self.migration_uuid))
        return claim_instance(work, self.claim, self.migration_uuid)

    def is_done(self, work: UnitOfWork) -> bool:
        """Whether the instance has exactly this claim, and its migration the rest."""
        instance = work.consumer_with_allocations(self.claim.consumer_uuid)
        node = work.nodes.get(self.claim.node_uuid)
        if instance is None or node is None:
            return False
        has_migration = work.consumer_with_allocations(self.migration_uuid) is not None
        return is_exactly(instance, self.claim, node) and has_migration == self._needs_migration()

    @abstractmethod
    def _needs_migration(self) -> bool:
        """Whether the migration holds something after the operation."""

    @abstractmethod
    def _leave(self, work: UnitOfWork, instance: Consumer, migration: Consumer | None) -> None:
        """Release what is not needed any more, and give the migration what the instance may still run on."""

    def _held(self, work: UnitOfWork) -> Holding:
        return Holding(*(_allocations_of(work, uuid) for uuid in self.consumer_uuids()))

    def _hosts(self, work: UnitOfWork) -> list[str]:
        found = (work.consumer_with_allocations(uuid) for uuid in self.consumer_uuids())
        return [host for consumer in found if consumer for host in work.hosts_of(consumer)]


class StartMove(Move):
    """The start of a move: the migration takes over what the instance holds.

    What the migration holds already stays: where the instance runs is not known then, only that it is one of these.
    AlreadyClaimed if that was not seen before.
    """

    def _needs_migration(self) -> bool:
        return True

    def _leave(self, work: UnitOfWork, instance: Consumer, migration: Consumer | None) -> None:
        if migration is None:
            migration = replace(instance, uuid=self.migration_uuid, kind=MIGRATION, allocations={}, guests={})
        elif self.seen is None:
            raise AlreadyClaimed(instance.uuid, work.hosts_of(instance))
        _merge_common_nodes(work, instance, migration)
        work.transfer_allocations(instance, migration)


class RestartMove(StartMove):
    """The end of a move and the start of the next: the instance has left the source, and runs on the target."""

    def _leave(self, work: UnitOfWork, instance: Consumer, migration: Consumer | None) -> None:
        if migration is not None:
            release_consumer(work, migration)
        super()._leave(work, instance, None)


class RetargetMove(Move):
    """Another target for a move under way, because the first will not do: it is released, the source stays.

    Also, where that was seen, for an instance without a move: its build failed, and what it holds is released.
    """

    def _needs_migration(self) -> bool:
        return self.seen is None or bool(self.seen.migration)

    def _leave(self, work: UnitOfWork, instance: Consumer, migration: Consumer | None) -> None:
        if migration is None and self.seen is None:
            raise UnknownName(f"no move of instance {instance.uuid} is under way", "start one")
        release_consumer(work, instance)


def _merge_common_nodes(work: UnitOfWork, instance: Consumer, migration: Consumer) -> None:
    """Keep the larger of two sizes, and both guests, on common nodes: the instance runs there in one of the sizes."""
    for node_id in instance.allocations.keys() & migration.allocations.keys():
        node = work.nodes_by_id[node_id]
        new, old = instance.allocations[node_id], migration.allocations[node_id]
        larger = {name: max(new.get(name, 0), old.get(name, 0)) for name in {**old, **new}}
        guest = merge_guests(instance.guests.get(node_id), migration.guests.get(node_id))
        if guest is None and larger == old:
            work.deallocate(instance, node)
            continue
        work.deallocate(migration, node)
        if guest is not None or larger != new:
            work.deallocate(instance, node)
            work.allocate(instance, node, larger, guest)


def _allocations_of(work: UnitOfWork, uuid: str) -> dict[str, Amounts]:
    """Node uuid -> amount per resource class."""
    consumer = work.consumer_with_allocations(uuid)
    allocated = consumer.allocations if consumer else {}
    return {work.nodes_by_id[node_id].uuid: amounts for node_id, amounts in allocated.items()}


def _is_elsewhere(work: UnitOfWork, uuid: str, node_uuids: frozenset[str] | None) -> bool:
    """Whether a consumer holds nothing of any of these nodes; False if none are named."""
    return node_uuids is not None and node_uuids.isdisjoint(_allocations_of(work, uuid))


def _find_migration(work: UnitOfWork, uuid: str) -> Consumer | None:
    """The migration that holds something; None also for the uuid of an instance, which runs on what it holds."""
    found = work.consumer_with_allocations(uuid)
    return found if found is not None and found.kind == MIGRATION else None


@dataclass(frozen=True)
class ClaimAndMove(Operation):
    """Claims for the new instances of a request and moves of the others: all of them, or none."""

    claims: ClaimAll
    moves: tuple[Move, ...]

    def consumer_uuids(self) -> tuple[str, ...]:
        """All instances of the request, and the migrations of those that move."""
        return *self.claims.consumer_uuids(), *(uuid for move in self.moves for uuid in move.consumer_uuids())

    def new_claims(self) -> tuple[Claim, ...]:
        """The claims of the new instances, and those on targets."""
        return *self.claims.claims, *(move.claim for move in self.moves)

    def apply(self, work: UnitOfWork) -> None:
        """Do all; ClaimRejected, with every node that refused, and no change if one of them is refused."""
        do_all_or_none(work, [*(move.step for move in self.moves), *self.claims.steps()])


@dataclass(frozen=True)
class FinishMove(Operation):
    """The end of a move that succeeded: the source is released."""

    migration_uuid: str
    sources: frozenset[str] | None = None
    """Node uuids: only a move from one of these is finished; None: any."""

    def consumer_uuids(self) -> tuple[str, ...]:
        """The migration, which has the allocation on the source."""
        return (self.migration_uuid,)

    def apply(self, work: UnitOfWork) -> bool:
        """Release the source: whether the move was under way."""
        migration = _find_migration(work, self.migration_uuid)
        if migration is None or _is_elsewhere(work, self.migration_uuid, self.sources):
            return False
        release_consumer(work, migration)
        return True


@dataclass(frozen=True)
class UndoMove(Operation):
    """The end of a move that failed or was reverted: the target is released, the instance has the source again."""

    migration_uuid: str
    instance_uuid: str
    targets: frozenset[str] | None = None
    """Node uuids: only a move to one of these is undone; None: any."""
    sources: frozenset[str] | None = None
    """Node uuids: only a move from one of these is undone; None: any."""
    ended_before: datetime.datetime | None = None
    """Only a move that was made before this time, and that no record of a running migration needs; None: any."""

    def spared_if_used(self) -> tuple[str, ...]:
        """The migration, for a repair of the audit; else none."""
        return () if self.ended_before is None else (self.migration_uuid,)

    def consumer_uuids(self) -> tuple[str, ...]:
        """The migration and its instance."""
        return self.migration_uuid, self.instance_uuid

    def apply(self, work: UnitOfWork) -> bool:
        """Undo the move: whether it was under way. ClaimRejected if that would split an affinity group."""
        migration = _find_migration(work, self.migration_uuid)
        is_other = _is_elsewhere(work, self.instance_uuid, self.targets)
        if migration is None or is_other or _is_elsewhere(work, self.migration_uuid, self.sources):
            return False
        if self.ended_before is not None and not self._has_ended(work, migration, self.ended_before):
            return False
        do_all_or_none(work, [self._step])
        return True

    def _has_ended(self, work: UnitOfWork, migration: Consumer, time: datetime.datetime) -> bool:
        is_older = migration.created_at is not None and migration.created_at < time
        return is_older and migration.uuid not in work.used_consumers

    def _step(self, work: UnitOfWork) -> list[Refusal]:
        migration = work.consumers[self.migration_uuid]
        instance = work.consumers.get(self.instance_uuid)
        groups = groups_of_member(work, self.instance_uuid)
        groups += [each for each in work.groups.values() if each not in groups and slots_of(each, migration.uuid)]
        for node_id in list(instance.allocations) if instance else ():
            work.deallocate(instance, work.nodes_by_id[node_id])  # type: ignore[arg-type]
        restored = replace(migration, uuid=self.instance_uuid, kind=INSTANCE, allocations={}, guests={})
        work.transfer_allocations(migration, restored)
        places = places_of_member(work, self.instance_uuid, self.migration_uuid)
        for group in groups:
            if reason := place_member(group, places, work.undo):
                host = places.homes[0]
                return [Refusal(host, host, reason, group.uuid)]
        return []
