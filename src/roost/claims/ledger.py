# SPDX-License-Identifier: Apache-2.0
"""Takes resources of nodes for consumers, or says who was faster. Many may do so at once: no node is booked twice.

An operation is one transaction, or part of one that several share: lock the nodes in order (`reading.py`), do the
sums (`operations.py`, `books.py`), write the differences (`writing.py`), commit.
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
from roost.claims.locked_read import ConsumerExists, load_unit_of_work, read_holdings, read_members
from roost.claims.one_statement import OneStatementClaim
from roost.claims.operations import ClaimAll, FinishMove, Operation, Release, StartMove, UndoMove
from roost.claims.unit_of_work import UnitOfWork
from roost.claims.write_back import write_unit_of_work
from roost.errors import DatabaseConflict, DatabaseReadOnly, DatabaseUnreachable, RoostError
from roost.store.error_mapping import database_errors
from roost.store.transactions import writing

MOST_CONFLICTS = 12
MOST_DISCONNECTIONS = 40
"""With the pauses between them, time for a server to start again: about half a minute."""
FIRST_PAUSE_SECONDS = 0.005
LONGEST_PAUSE_SECONDS = 1.0

Outcome = Any


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class Ledger:
    """Who holds what. May be shared by threads; each process has its own."""

    def __init__(
        self,
        engine: Engine,
        *,
        now: Callable[[], datetime.datetime] = _utc_now,
        sleep: Callable[[float], None] = time.sleep,
        randomness: random.Random | None = None,
    ) -> None:
        self._engine, self._now, self._sleep = engine, now, sleep
        is_file = engine.dialect.name == "sqlite"  # which nobody else takes the place of
        self._may_heal = (DatabaseUnreachable,) if is_file else (DatabaseUnreachable, DatabaseReadOnly)
        self._random = randomness or random.Random()  # noqa: S311 - spreads retries; nothing secret
        self._together = GroupCommit[Operation](self._do_all)
        self._at_once = OneStatementClaim(engine) if engine.dialect.name == "postgresql" else None

    def claim(self, claims: Sequence[Claim]) -> None:
        """All of these, in one transaction, or none: ClaimRejected says who refused and why.

        What its consumer holds already, just so, is fulfilled; where it holds something else that is AlreadyClaimed.
        """
        self._together.do(ClaimAll(tuple(claims)))

    def release(self, consumers: Sequence[str]) -> int:
        """These hold nothing any more; how many of them did."""
        return int(self._together.do(Release(tuple(consumers))))

    def start_move(self, migration_uuid: str, claim: Claim) -> None:
        """The instance holds its target, the migration what the instance held before; or ClaimRejected."""
        self._together.do(StartMove(migration_uuid, claim))

    def finish_move(self, migration_uuid: str) -> bool:
        """The source is free; False where it was before."""
        return bool(self._together.do(FinishMove(migration_uuid)))

    def undo_move(self, migration_uuid: str, instance_uuid: str) -> bool:
        """The instance holds the source again and the target is free; False where nothing moved."""
        return bool(self._together.do(UndoMove(migration_uuid, instance_uuid)))

    def holdings(self, consumers: Sequence[str]) -> dict[str, dict[str, dict[str, int]]]:
        """Consumer -> node uuid -> what it holds there, per resource class; who holds nothing is left out."""
        with database_errors(self._engine), self._engine.connect() as connection:
            return read_holdings(connection, consumers)

    def members_of(self, group_uuid: str) -> list[str]:
        """Uuids of those who were claimed for as members of a server group, and of those whom others put there."""
        with database_errors(self._engine), self._engine.connect() as connection:
            return read_members(connection, group_uuid)

    def _do_all(self, operations: Sequence[Operation]) -> Sequence[Outcome]:
        """In one transaction. Where one of them cannot be written at all, each for itself: it harms no other."""
        try:
            return self._do_patiently(operations)
        except (DatabaseConflict, *self._may_heal):
            raise
        except Exception:
            if len(operations) == 1:
                raise
        return [self._do_alone(operation) for operation in operations]

    def _do_alone(self, operation: Operation) -> Outcome:
        try:
            return self._do_patiently([operation])[0]
        except Exception as error:
            return error

    def _do_patiently(self, operations: Sequence[Operation]) -> Sequence[Outcome]:
        """One transaction for all. A conflict is expected; a lost connection may heal, and so may a server that takes
        nothing because another is about to take its place: all are tried again.

        After a commit whose answer was lost, the second try finds everything done.
        """
        conflicts = disconnections = 0
        while True:
            try:
                return self._transact(operations)
            except DatabaseConflict:
                conflicts += 1
                if conflicts == MOST_CONFLICTS:
                    raise
            except self._may_heal:
                disconnections += 1
                if disconnections == MOST_DISCONNECTIONS:
                    raise
            self._sleep(self._pause_after(conflicts + disconnections))

    def _pause_after(self, attempt: int) -> float:
        longest = min(FIRST_PAUSE_SECONDS * 2**attempt, LONGEST_PAUSE_SECONDS)
        return self._random.uniform(longest / 2, longest)

    def _transact(self, operations: Sequence[Operation]) -> list[Outcome]:
        """The shortest way that will do."""
        if len(operations) == 1 and self._is_claimed_at_once(operations[0]):
            return [None]
        try:
            return self._try_transaction(operations, for_newcomers=True)
        except ConsumerExists:
            return self._try_transaction(operations, for_newcomers=False)

    def _is_claimed_at_once(self, operation: Operation) -> bool:
        if self._at_once is None or not operation.is_for_newcomers():
            return False
        claims = operation.asks_for()
        return len(claims) == 1 and self._at_once.claim(claims[0], self._now())

    def _try_transaction(self, operations: Sequence[Operation], for_newcomers: bool) -> list[Outcome]:
        with writing(self._engine) as connection:
            books = load_unit_of_work(connection, operations, for_newcomers)
            outcomes = [_outcome_of(operation, books) for operation in operations]
            write_unit_of_work(connection, books, self._now())
            return outcomes


def _outcome_of(operation: Operation, books: UnitOfWork) -> Outcome:
    """What it gives; what it complains about is for whoever asked for it, and for nobody else."""
    try:
        return operation.apply(books)
    except RoostError as error:
        return error
