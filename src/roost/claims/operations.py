# SPDX-License-Identifier: Apache-2.0
"""Operations of the ledger: claim and release. Each is all or nothing, and idempotent.

An operation works on a `UnitOfWork` in memory, so several of them can share a transaction. Moves are in
`move_operations.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from roost.claims.claim import Claim
from roost.claims.group_slots import join_group
from roost.claims.node_capacity import Node
from roost.claims.unit_of_work import Consumer, UnitOfWork
from roost.errors import AlreadyClaimed, ClaimRejected, Refusal
from roost.model.consumers import INSTANCE


class Operation(ABC):
    """A change of the ledger, done in one transaction, alone or with other operations."""

    @abstractmethod
    def consumer_uuids(self) -> tuple[str, ...]:
        """The consumers whose allocations the operation reads or changes."""

    def new_claims(self) -> tuple[Claim, ...]:
        """The claims that the operation makes; empty for one that only releases."""
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
        savepoint, refusals = work.undo.savepoint(), []
        try:
            for claim in self.claims:
                refusals += claim_instance(work, claim)
            if refusals:
                raise ClaimRejected(refusals)
        except BaseException:
            work.undo.rollback_to(savepoint)
            raise


def claim_instance(work: UnitOfWork, claim: Claim) -> list[Refusal]:
    """Make one claim: empty if it is made, or was made before; else one refusal, by capacity or by group."""
    node = work.node(claim.node_uuid)
    if is_idempotent_repeat(work, claim, node):
        return []
    reason = node.check_capacity(claim.amounts) or node.check_guest(claim.guest, claim.guest_limits)
    if not reason and claim.group is not None:
        reason = join_group(work.groups[claim.group.uuid], claim.consumer_uuid, node.host, work.undo)
    if reason:
        return [Refusal(node.host, node.name, reason)]
    work.allocate(_new_consumer(claim, node), node, node.granted_amounts(claim.amounts), claim.guest)
    return []


def is_idempotent_repeat(work: UnitOfWork, claim: Claim, node: Node) -> bool:
    """Whether the consumer has exactly this claim already; AlreadyClaimed if it has other allocations."""
    consumer = work.consumer_with_allocations(claim.consumer_uuid)
    if consumer is None:
        return False
    if consumer.allocations != {node.id: node.granted_amounts(claim.amounts)}:
        raise AlreadyClaimed(consumer.uuid, work.hosts_of(consumer))
    return True


def _new_consumer(claim: Claim, node: Node) -> Consumer:
    use = node.free if node.is_bare_metal else claim.use
    details = {**claim.details, "use": list(use)}
    return Consumer(claim.consumer_uuid, INSTANCE, claim.project_id, claim.user_id, details)


# --- release -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Release(Operation):
    """The release of all allocations and slots of some consumers."""

    uuids: tuple[str, ...]

    def consumer_uuids(self) -> tuple[str, ...]:
        """The consumers to release."""
        return self.uuids

    def apply(self, work: UnitOfWork) -> int:
        """Release the consumers: how many of them had allocations."""
        found = [consumer for uuid in self.uuids if (consumer := work.consumer_with_allocations(uuid))]
        for consumer in found:
            release_consumer(work, consumer)
        return len(found)


def release_consumer(work: UnitOfWork, consumer: Consumer) -> None:
    """Delete all allocations of a consumer and free its slots in groups."""
    for node_id in list(consumer.allocations):
        work.deallocate(consumer, work.nodes_by_id[node_id])
    work.leave_groups(consumer.uuid)
