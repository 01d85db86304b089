# SPDX-License-Identifier: Apache-2.0
"""What can be done in the ledger, each as a whole or not at all, and each twice with the result of once.

While an instance moves, the migration holds what the instance has on the source, and the instance holds the target:
both are taken until the move is finished or undone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from roost.claims.claim import Claim
from roost.claims.unit_of_work import Consumer, Node, UnitOfWork
from roost.errors import AlreadyClaimed, ClaimRejected, Refusal, UnknownName
from roost.model.consumers import INSTANCE, MIGRATION


class Operation(ABC):
    """Something to be done in one transaction, alone or with others."""

    @abstractmethod
    def looks_at(self) -> tuple[str, ...]:
        """The consumers whose holdings matter."""

    def asks_for(self) -> tuple[Claim, ...]:
        """What it claims."""
        return ()

    def is_for_newcomers(self) -> bool:
        """Whether those it looks at hold nothing, as a rule, and belong to no group."""
        return False

    @abstractmethod
    def apply(self, books: UnitOfWork) -> Any:
        """Do it, or raise with nothing done."""


@dataclass(frozen=True)
class ClaimAll(Operation):
    """All instances of a request, or none."""

    claims: tuple[Claim, ...]

    def asks_for(self) -> tuple[Claim, ...]:
        """All of them."""
        return self.claims

    def looks_at(self) -> tuple[str, ...]:
        """Of each claim one."""
        return tuple(claim.consumer_uuid for claim in self.claims)

    def is_for_newcomers(self) -> bool:
        """They are known only where the answer to the same claim was lost."""
        return bool(self.claims) and all(claim.group is None for claim in self.claims)

    def apply(self, books: UnitOfWork) -> None:
        """Each claim sees what those before it took. A refusal names every node that refused."""
        mark, refusals = books.mark(), []
        try:
            for claim in self.claims:
                refusals += claim_one(books, claim)
            if refusals:
                raise ClaimRejected(refusals)
        except BaseException:
            books.go_back(mark)
            raise


def claim_one(books: UnitOfWork, claim: Claim) -> list[Refusal]:
    """One instance; nothing to do where it has just that already."""
    node = books.node(claim.node_uuid)
    known = books.consumer(claim.consumer_uuid)
    if known is not None:
        if known.held == {node.id: node.portion(claim.amounts)}:
            return []
        raise AlreadyClaimed(known.uuid, [books.nodes_by_id[each].host for each in known.held])
    why = node.lacks(claim.amounts)
    if not why and claim.group is not None:
        why = books.bind(books.groups[claim.group.uuid], claim.consumer_uuid, node.host)
    if why:
        return [Refusal(node.host, node.name, why)]
    books.give(_consumer_of(claim, node), node, node.portion(claim.amounts))
    return []


def _consumer_of(claim: Claim, node: Node) -> Consumer:
    use = node.free if node.is_bare_metal else claim.use
    details = {**claim.details, "use": list(use)}
    return Consumer(claim.consumer_uuid, INSTANCE, claim.project_id, claim.user_id, details)


@dataclass(frozen=True)
class Release(Operation):
    """Consumers let go of all they hold."""

    consumers: tuple[str, ...]

    def looks_at(self) -> tuple[str, ...]:
        """These."""
        return self.consumers

    def apply(self, books: UnitOfWork) -> int:
        """How many of them held something."""
        holding = [consumer for uuid in self.consumers if (consumer := books.consumer(uuid))]
        for consumer in holding:
            let_go(books, consumer)
        return len(holding)


def let_go(books: UnitOfWork, consumer: Consumer) -> None:
    """Of everything, and of its places in groups."""
    for node_id in list(consumer.held):
        books.take_back(consumer, books.nodes_by_id[node_id])
    books.unbind(consumer.uuid)


@dataclass(frozen=True)
class StartMove(Operation):
    """An instance claims its target; the migration keeps what it has now."""

    migration_uuid: str
    claim: Claim

    def looks_at(self) -> tuple[str, ...]:
        """Both."""
        return self.claim.consumer_uuid, self.migration_uuid

    def asks_for(self) -> tuple[Claim, ...]:
        """The target."""
        return (self.claim,)

    def apply(self, books: UnitOfWork) -> None:
        """Where the host stays the same, so does the place in a group."""
        instance, target = books.consumer(self.claim.consumer_uuid), books.node(self.claim.node_uuid)
        if instance is None:
            raise UnknownName(f"instance {self.claim.consumer_uuid} holds nothing", "claim a host for it first")
        if books.consumer(self.migration_uuid) is not None:
            self._check_is_under_way(books, instance, target)
            return
        mark, hosts = books.mark(), {books.nodes_by_id[each].host for each in instance.held}
        try:
            if target.host in hosts:
                self._move_within(books, instance)
            else:
                books.hand_over(instance, self._keeper(instance))
            refusals = claim_one(books, self.claim)
            if refusals:
                raise ClaimRejected(refusals)
        except BaseException:
            books.go_back(mark)
            raise

    def _move_within(self, books: UnitOfWork, instance: Consumer) -> None:
        """The migration takes over what is held, the instance keeps its slots."""
        slots = {group.uuid: dict(group.slots) for group in books.groups.values()}
        books.hand_over(instance, self._keeper(instance))
        for group in books.groups.values():
            group.slots = slots[group.uuid]

    def _keeper(self, instance: Consumer) -> Consumer:
        return replace(instance, uuid=self.migration_uuid, kind=MIGRATION, held={})

    def _check_is_under_way(self, books: UnitOfWork, instance: Consumer, target: Node) -> None:
        if instance.held != {target.id: target.portion(self.claim.amounts)}:
            raise AlreadyClaimed(instance.uuid, [books.nodes_by_id[each].host for each in instance.held])


@dataclass(frozen=True)
class FinishMove(Operation):
    """The source is free."""

    migration_uuid: str

    def looks_at(self) -> tuple[str, ...]:
        """Who keeps it."""
        return (self.migration_uuid,)

    def apply(self, books: UnitOfWork) -> bool:
        """Whether the move was still under way."""
        return bool(Release((self.migration_uuid,)).apply(books))


@dataclass(frozen=True)
class UndoMove(Operation):
    """The instance has the source again; the target is free."""

    migration_uuid: str
    instance_uuid: str

    def looks_at(self) -> tuple[str, ...]:
        """Both."""
        return self.migration_uuid, self.instance_uuid

    def apply(self, books: UnitOfWork) -> bool:
        """Whether the move was still under way."""
        migration = books.consumer(self.migration_uuid)
        if migration is None:
            return False
        instance = books.consumers.get(self.instance_uuid) or replace(migration, uuid=self.instance_uuid, held={})
        if instance.held:
            let_go(books, instance)
        instance.kind, instance.details = INSTANCE, migration.details
        books.hand_over(migration, instance)
        self._return_to_groups(books, instance)
        return True

    def _return_to_groups(self, books: UnitOfWork, instance: Consumer) -> None:
        hosts = [books.nodes_by_id[each].host for each in instance.held]
        for group in books.groups.values():
            if instance.uuid in group.members and hosts:
                books.bind(group, instance.uuid, hosts[0])


def wanted_nodes(operations: Sequence[Operation]) -> set[str]:
    """Uuids of the nodes that these claim."""
    return {claim.node_uuid for operation in operations for claim in operation.asks_for()}
