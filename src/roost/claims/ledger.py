# SPDX-License-Identifier: Apache-2.0
"""The ledger: claims resources of nodes for consumers. However many schedulers claim, no node is overbooked.

One transaction, which may serve several operations (`group_commit.py`): lock groups and nodes (`locked_read.py`),
apply operations in memory (`operations.py`, `move_operations.py`), write the differences (`write_back.py`), commit. A
claim for one new instance is a single statement on PostgreSQL (`one_statement.py`).
"""

from __future__ import annotations

import datetime
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Engine

from roost.claims.claim import Claim
from roost.claims.group_commit import GroupCommit
from roost.claims.locked_read import ConsumerExists, load_unit_of_work
from roost.claims.move_operations import FinishMove, StartMove, UndoMove
from roost.claims.one_statement import OneStatementClaim
from roost.claims.operations import ClaimAll, Operation, Release
from roost.claims.unit_of_work import UnitOfWork
from roost.claims.unlocked_read import read_allocations, read_group_members
from roost.claims.write_back import write_unit_of_work
from roost.errors import DatabaseConflict, DatabaseReadOnly, DatabaseUnreachable, RoostError
from roost.model.uuids import canonical_uuid
from roost.store.error_mapping import database_errors
from roost.store.transactions import writing

MOST_CONFLICTS = 12
"""Conflicts with other transactions after which an operation fails."""
MOST_DISCONNECTIONS = 40
"""Lost connections after which an operation fails; with the backoff about 30 s, time for a server to restart."""
FIRST_BACKOFF_SECONDS = 0.005
LONGEST_BACKOFF_SECONDS = 1.0

Outcome = Any
"""Result of an operation, or the exception it failed with."""


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class Ledger:
    """Allocations of all consumers in one database. Thread-safe; each process needs its own instance."""

    def __init__(
        self,
        engine: Engine,
        *,
        now: Callable[[], datetime.datetime] = _utc_now,
        sleep: Callable[[float], None] = time.sleep,
        randomness: random.Random | None = None,
    ) -> None:
        self._engine, self._now, self._sleep = engine, now, sleep
        # During a failover a server is read-only for some seconds; an SQLite file has no failover.
        has_failover = engine.dialect.name != "sqlite"
        self._transient_errors = (DatabaseUnreachable, *([DatabaseReadOnly] if has_failover else []))
        self._random = randomness or random.Random()  # noqa: S311 - jitter of retries; nothing secret
        self._group_commit = GroupCommit[Operation](self._commit_group)
        self._one_statement = OneStatementClaim(engine) if engine.dialect.name == "postgresql" else None

    def claim(self, claims: Sequence[Claim]) -> None:
        """Make all claims in one transaction, or none: ClaimRejected says which nodes refused, and why.

        Idempotent by consumer uuid: a claim that its consumer has already is skipped. AlreadyClaimed if the consumer
        has other allocations.
        """
        self._group_commit.submit(ClaimAll(tuple(claims)))

    def release(self, consumers: Sequence[str]) -> int:
        """Release all allocations of the consumers: how many of them had some."""
        return int(self._group_commit.submit(Release(tuple(_uuids_to_release(consumers)))))

    def start_move(self, migration_uuid: str, claim: Claim) -> None:
        """Claim the target for the instance and give its allocation on the source to the migration; or ClaimRejected.

        Idempotent by migration uuid. UnknownName if the instance has no allocations.
        """
        self._group_commit.submit(StartMove(canonical_uuid(migration_uuid), claim))

    def finish_move(self, migration_uuid: str) -> bool:
        """Release the source of a move; False if it was released before."""
        return bool(self._group_commit.submit(FinishMove(canonical_uuid(migration_uuid))))

    def undo_move(self, migration_uuid: str, instance_uuid: str) -> bool:
        """Release the target and give the source back to the instance; False if no move is under way."""
        return bool(
            self._group_commit.submit(UndoMove(canonical_uuid(migration_uuid), canonical_uuid(instance_uuid)))
        )

    def read_allocations(self, consumers: Sequence[str]) -> dict[str, dict[str, dict[str, int]]]:
        """Consumer uuid -> node uuid -> resource class -> amount; a consumer without allocations is left out."""
        with database_errors(self._engine), self._engine.connect() as connection:
            return read_allocations(connection, {canonical_uuid(each) for each in consumers})

    def read_group_members(self, group_uuid: str) -> list[str]:
        """Uuids of the members of a server group: of claims that named it, and of imports; sorted."""
        with database_errors(self._engine), self._engine.connect() as connection:
            return read_group_members(connection, canonical_uuid(group_uuid))

    def _commit_group(self, operations: Sequence[Operation]) -> Sequence[Outcome]:
        """Commit operations in one transaction; if one of them cannot be written, each in its own."""
        try:
            return self._commit_with_retries(operations)
        except (DatabaseConflict, *self._transient_errors):
            raise
        except Exception:
            if len(operations) == 1:
                raise
        return [self._commit_alone(operation) for operation in operations]

    def _commit_alone(self, operation: Operation) -> Outcome:
        try:
            return self._commit_with_retries([operation])[0]
        except Exception as error:
            return error

    def _commit_with_retries(self, operations: Sequence[Operation]) -> Sequence[Outcome]:
        """Commit operations in one transaction; conflicts and transient errors are retried with backoff and jitter.

        If the reply to a commit was lost, the retry finds the work done: operations are idempotent.
        """
        conflicts = disconnections = 0
        while True:
            try:
                return self._commit_once(operations)
            except DatabaseConflict:
                conflicts += 1
                if conflicts == MOST_CONFLICTS:
                    raise
            except self._transient_errors:
                disconnections += 1
                if disconnections == MOST_DISCONNECTIONS:
                    raise
            self._sleep(self._backoff_seconds(conflicts + disconnections))

    def _backoff_seconds(self, attempt: int) -> float:
        longest = min(FIRST_BACKOFF_SECONDS * 2**attempt, LONGEST_BACKOFF_SECONDS)
        return self._random.uniform(longest / 2, longest)

    def _commit_once(self, operations: Sequence[Operation]) -> list[Outcome]:
        """Commit operations in as few round trips as possible: as one statement, or by the short or the long read."""
        if len(operations) == 1 and self._claim_in_one_statement(operations[0]):
            return [None]
        try:
            return self._run_transaction(operations, expects_new=True)
        except ConsumerExists:
            return self._run_transaction(operations, expects_new=False)

    def _claim_in_one_statement(self, operation: Operation) -> bool:
        """Whether the operation was a single claim, and one statement made it."""
        if self._one_statement is None or not operation.expects_new_consumers():
            return False
        claims = operation.new_claims()
        return len(claims) == 1 and self._one_statement.claim(claims[0], self._now())

    def _run_transaction(self, operations: Sequence[Operation], expects_new: bool) -> list[Outcome]:
        with writing(self._engine) as connection:
            work = load_unit_of_work(connection, operations, expects_new)
            outcomes = [_apply_operation(operation, work) for operation in operations]
            write_unit_of_work(connection, work, self._now())
            return outcomes


def _uuids_to_release(consumers: Sequence[str]) -> dict[str, None]:
    """The uuids in their one spelling, and as given: versions before wrote consumers in any spelling."""
    return dict.fromkeys(spelt for each in consumers for spelt in (canonical_uuid(each), each))


def _apply_operation(operation: Operation, work: UnitOfWork) -> Outcome:
    """The operation's result, or its error: other operations of the transaction go on."""
    try:
        return operation.apply(work)
    except RoostError as error:
        return error
