# SPDX-License-Identifier: Apache-2.0
"""Operations of the ledger that move an instance to another node, or resize it on its own.

While an instance moves, its allocation on the source belongs to the migration and that on the target to the instance:
source and target stay allocated until the move is finished or undone. A doubled operation changes nothing.
"""

from __future__ import annotations

import datetime
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from roost.claims.claim import Claim
from roost.claims.group_slots import place_member, slots_of
from roost.claims.operations import (
    ClaimAll,
    Operation,
    claim_instance,
    do_all_or_none,
    groups_of_member,
    is_exactly,
    places_of_member,
    release_consumer,
)
from roost.claims.unit_of_work import Consumer, UnitOfWork
from roost.errors import AlreadyClaimed, Refusal, UnknownName
from roost.hosts.guests import merge_guests
from roost.model.resources import INSTANCE, MIGRATION, Amounts


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
