# SPDX-License-Identifier: Apache-2.0
"""Operations of the ledger that move an instance to another node, or resize it on its own.

While an instance moves, its allocation on the source belongs to the migration and that on the target to the instance:
source and target stay allocated until the move is finished or undone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from roost.claims.claim import Claim
from roost.claims.group_slots import join_group
from roost.claims.operations import (
    Operation,
    Release,
    claim_instance,
    is_idempotent_repeat,
    release_consumer,
)
from roost.claims.unit_of_work import Consumer, UnitOfWork
from roost.errors import ClaimRejected, UnknownName
from roost.model.consumers import INSTANCE, MIGRATION


@dataclass(frozen=True)
class StartMove(Operation):
    """The start of a move: a claim on the target, while the migration keeps the allocation on the source."""

    migration_uuid: str
    claim: Claim

    def consumer_uuids(self) -> tuple[str, ...]:
        """The instance and its migration."""
        return self.claim.consumer_uuid, self.migration_uuid

    def new_claims(self) -> tuple[Claim, ...]:
        """The claim on the target."""
        return (self.claim,)

    def apply(self, work: UnitOfWork) -> None:
        """Start the move, or ClaimRejected. UnknownName if the instance has no allocation to move."""
        instance = work.consumer_with_allocations(self.claim.consumer_uuid)
        target = work.node(self.claim.node_uuid)
        if instance is None:
            raise UnknownName(f"instance {self.claim.consumer_uuid} holds nothing", "claim a host for it first")
        is_under_way = work.consumer_with_allocations(self.migration_uuid) is not None
        if is_under_way and is_idempotent_repeat(work, self.claim, target):
            return
        savepoint = work.undo.savepoint()
        try:
            if target.host in work.hosts_of(instance):
                self._transfer_within_host(work, instance)
            else:
                work.transfer_allocations(instance, self._source_keeper(instance))
            refusals = claim_instance(work, self.claim)
            if refusals:
                raise ClaimRejected(refusals)
        except BaseException:
            work.undo.rollback_to(savepoint)
            raise

    def _transfer_within_host(self, work: UnitOfWork, instance: Consumer) -> None:
        """Transfer the allocations to the migration, and leave slots with the instance: it stays on its host."""
        slots = {group.uuid: dict(group.slots) for group in work.groups.values()}
        work.transfer_allocations(instance, self._source_keeper(instance))
        for group in work.groups.values():
            group.slots = slots[group.uuid]

    def _source_keeper(self, instance: Consumer) -> Consumer:
        """The consumer of the migration, still without allocations."""
        return replace(instance, uuid=self.migration_uuid, kind=MIGRATION, allocations={})


@dataclass(frozen=True)
class FinishMove(Operation):
    """The end of a move that succeeded: the source is released."""

    migration_uuid: str

    def consumer_uuids(self) -> tuple[str, ...]:
        """The migration, which has the allocation on the source."""
        return (self.migration_uuid,)

    def apply(self, work: UnitOfWork) -> bool:
        """Release the source: whether the move was under way."""
        return bool(Release((self.migration_uuid,)).apply(work))


@dataclass(frozen=True)
class UndoMove(Operation):
    """The end of a move that failed or was reverted: the target is released, the instance has the source again."""

    migration_uuid: str
    instance_uuid: str

    def consumer_uuids(self) -> tuple[str, ...]:
        """The migration and its instance."""
        return self.migration_uuid, self.instance_uuid

    def apply(self, work: UnitOfWork) -> bool:
        """Undo the move: whether it was under way."""
        migration = work.consumer_with_allocations(self.migration_uuid)
        if migration is None:
            return False
        instance = work.consumers.get(self.instance_uuid)
        instance = instance or replace(migration, uuid=self.instance_uuid, allocations={})
        if instance.allocations:
            release_consumer(work, instance)
        instance.kind, instance.details = INSTANCE, migration.details
        work.transfer_allocations(migration, instance)
        self._rejoin_groups(work, instance)
        return True

    def _rejoin_groups(self, work: UnitOfWork, instance: Consumer) -> None:
        hosts = work.hosts_of(instance)
        for group in work.groups.values():
            if instance.uuid in group.members and hosts:
                join_group(group, instance.uuid, hosts[0], work.undo)
