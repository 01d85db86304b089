# SPDX-License-Identifier: Apache-2.0
"""The ledger: claims resources of nodes for consumers. However many schedulers claim, no node is overbooked.

A transaction: lock and read what its operations need (`load_unit_of_work`), apply them in memory (`operations.py`),
write the differences (`write_back.py`), commit. Locks are always taken in the same order, so that transactions wait
for each other but cannot deadlock: groups by id (`groups.py`), then nodes by id (`nodes.py`).

A claim for one new instance is a single statement on PostgreSQL (`OneStatementClaim`). Group commit: jobs that wait
at the same time share a transaction, because a disk does some hundred commits a second.
"""

from __future__ import annotations

import datetime
import json
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, reduce
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine, Executable, Text, func, select, type_coerce

from roost.clock import SystemClock
from roost.errors import DatabaseConflict, DatabaseError, DatabaseReadOnly, DatabaseUnreachable, RoostError
from roost.hosts import HostTable
from roost.hosts.guests import Guest
from roost.ledger.audits import find_used_consumers
from roost.ledger.claim import Claim, GroupPlaces, HeldNode, MemberHosts
from roost.ledger.groups import (
    find_placed_members,
    group_search_statements,
    lock_groups,
    read_group_state,
    record_placed_member,
    select_strict_members,
)
from roost.ledger.nodes import (
    Node,
    NodeGuests,
    guests_from_rows,
    node_guests_from_rows,
    node_lock_statements,
    nodes_from_rows,
    select_guests,
    select_spaces,
)
from roost.ledger.operations import (
    ClaimAll,
    ClaimAndMove,
    FinishMove,
    Move,
    Operation,
    Release,
    ReleaseOn,
    RetargetMove,
    StartMove,
    UndoMove,
    claimed_node_uuids,
    guest_node_uuids,
)
from roost.ledger.unit_of_work import Consumer, UnitOfWork
from roost.ledger.unlocked_read import (
    read_allocations,
    read_group_members,
    read_group_places,
    read_holdings,
    read_member_hosts,
)
from roost.ledger.write_back import OneStatementClaim, write_unit_of_work
from roost.model import RequestSpec
from roost.model.uuids import canonical_uuid
from roost.store.schema.fleet import allocations, consumers
from roost.store.statements import Statement, is_key, key_parameter, send_batch
from roost.store.store_clock import StoreClock
from roost.store.transactions import database_errors, writing

LONG_AGO = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class ConsumerExists(Exception):
    """A consumer that was expected to be new, and in no strict group, is in the database."""


def load_unit_of_work(connection: Connection, operations: Sequence[Operation], expects_new: bool) -> UnitOfWork:
    """Everything that the operations read or change, locked until the transaction ends.

    `expects_new`: take the short way of one batch where all operations expect new consumers. ConsumerExists if one is
    in the database: the caller starts another transaction, because groups must be locked before nodes.
    """
    if expects_new and all(each.expects_new_consumers() for each in operations):
        return _load_for_new_consumers(connection, operations)
    return _load_for_any_consumers(connection, operations)


def _load_for_new_consumers(connection: Connection, operations: Sequence[Operation]) -> UnitOfWork:
    """One batch: only nodes have to be locked."""
    dialect = connection.dialect.name
    uuids = list({uuid for operation in operations for uuid in operation.consumer_uuids()})
    find_known = Statement(_select_known(dialect, len(uuids) == 1), {"consumers": key_parameter(uuids)})
    lock_nodes = node_lock_statements(dialect, claimed_node_uuids(operations))
    with_guests = guest_node_uuids(operations)
    read_spaces = [select_spaces(dialect, "uuid", with_guests)] if with_guests else []
    known, node_rows, inventory_rows, *spaces = send_batch(connection, [find_known, *lock_nodes, *read_spaces])
    if known.rows:
        raise ConsumerExists
    nodes = nodes_from_rows(node_rows.rows, inventory_rows.rows)
    for rows in spaces:
        _put_guests(nodes, node_guests_from_rows(rows.rows))
    return UnitOfWork(nodes, ())


def _load_for_any_consumers(connection: Connection, operations: Sequence[Operation]) -> UnitOfWork:
    """Three steps: find consumers, their nodes and groups; lock groups; lock nodes and read allocations again."""
    dialect = connection.dialect.name
    uuids = list({uuid for operation in operations for uuid in operation.consumer_uuids()})
    read_consumers = _read_consumers(dialect, uuids)
    found, *group_ids = send_batch(connection, [read_consumers, *group_search_statements(dialect, uuids)])
    known = _consumers_from_rows(found.rows)
    rules = {claim.group for operation in operations for claim in operation.new_claims() if claim.group}
    groups = lock_groups(connection, rules, {number for result in group_ids for (number,) in result.rows})
    nodes: list[Node] = []
    if (claimed := claimed_node_uuids(operations)) or _allocated_node_ids(known):
        lock_nodes = node_lock_statements(dialect, claimed, _allocated_node_ids(known))
        read_guests = select_guests(dialect, "consumer_uuid", list(uuids))
        node_rows, inventory_rows, again, held = send_batch(connection, [*lock_nodes, read_consumers, read_guests])
        nodes = nodes_from_rows(node_rows.rows, inventory_rows.rows)
        # Allocations may have changed before the nodes were locked. A consumer that was inserted since then is a
        # conflict in any case: its key is unique.
        before, known = {each.uuid for each in known}, _consumers_from_rows(again.rows) if known else []
        if not {each.uuid for each in known} <= before:
            raise DatabaseConflict("a consumer was made at the same moment", "try again")  # its groups are not locked
        if not _allocated_node_ids(known) <= {node.id for node in nodes}:
            raise DatabaseConflict("a consumer was moved at the same moment", "try again")
        _load_guests(connection, nodes, known, guests_from_rows(held.rows), guest_node_uuids(operations))
    hosts = {node.host for node in nodes}
    if groups:
        read_group_state(connection, groups, hosts, uuids)
    work = UnitOfWork(nodes, known, groups)
    if spared := {uuid for operation in operations for uuid in operation.spared_if_used()}:
        work.used_consumers = frozenset(find_used_consumers(connection, spared))
    for group, host, uuid in find_placed_members(connection, groups, hosts) if groups else ():
        record_placed_member(group, host, uuid)
    return work


# --- guests ------------------------------------------------------------------------------------------


def _load_guests(
    connection: Connection,
    nodes: Sequence[Node],
    known: Sequence[Consumer],
    held: Mapping[tuple[str, int], Guest],
    claimed: Collection[str],
) -> None:
    """Fill in guests of known consumers, and of each node that one of them is on or that is `claimed` with one."""
    for consumer in known:
        consumer.guests.update({node_id: guest for (uuid, node_id), guest in held.items() if uuid == consumer.uuid})
    ids = {node_id for _, node_id in held} | {node.id for node in nodes if node.uuid in claimed}
    if not ids:
        return
    dialect = connection.dialect.name
    statements = [select_spaces(dialect, "id", ids), select_guests(dialect, "node_id", sorted(ids))]
    spaces, booked = send_batch(connection, statements)
    _put_guests(nodes, node_guests_from_rows(spaces.rows, guests_from_rows(booked.rows)))


def _put_guests(nodes: Iterable[Node], guests: Mapping[int, NodeGuests]) -> None:
    for node in nodes:
        node.guests = guests.get(node.id)


# --- consumers ---------------------------------------------------------------------------------------


@cache
def _select_known(dialect: str, is_one: bool) -> Executable:
    known = select(consumers.c.uuid).where(is_key(dialect, consumers.c.uuid, "consumers", is_one))
    return known.union_all(select_strict_members(dialect, is_one))


def _read_consumers(dialect: str, uuids: Sequence[str]) -> Statement:
    """The statement that reads consumers with their allocations, for `_consumers_from_rows`."""
    return Statement(_select_with_allocations(dialect, len(uuids) == 1), {"consumers": key_parameter(uuids)})


@cache
def _select_with_allocations(dialect: str, is_one: bool) -> Executable:
    fields = (
        *(consumers.c[name] for name in ("uuid", "kind", "project_id", "user_id")),
        type_coerce(consumers.c.details, Text),
        func.coalesce(consumers.c.updated_at, consumers.c.created_at),
        consumers.c.created_at,
        *(allocations.c[name] for name in ("node_id", "resource_class", "used")),
    )
    joined = consumers.outerjoin(allocations, allocations.c.consumer_uuid == consumers.c.uuid)
    return select(*fields).select_from(joined).where(is_key(dialect, consumers.c.uuid, "consumers", is_one))


def _consumers_from_rows(rows: Iterable[Any]) -> list[Consumer]:
    found: dict[str, Consumer] = {}
    for uuid, kind, project_id, user_id, details, claimed, created, node_id, name, used in rows:
        consumer = found.get(uuid)
        if consumer is None:
            consumer = Consumer(uuid, kind, project_id, user_id, json.loads(details or "{}") or {})
            consumer.claimed_at, consumer.created_at = _aware(claimed), _aware(created)
            found[uuid] = consumer
        if node_id is not None:
            consumer.allocations.setdefault(node_id, {})[name] = used
    return list(found.values())


def _aware(time: datetime.datetime | None) -> datetime.datetime:
    """A time of the database, which the driver may return without its zone; one that is not known is long ago."""
    return LONG_AGO if time is None else time.replace(tzinfo=datetime.UTC)


def _allocated_node_ids(found: Iterable[Consumer]) -> set[int]:
    return {node_id for consumer in found for node_id in consumer.allocations}


MOST_CONFLICTS = 40
"""Conflicts with other transactions after which an operation fails; with the backoff about 30 s."""
MOST_DISCONNECTIONS = 40
"""Lost connections after which an operation fails; with the backoff about 30 s, time for a server to restart."""
FIRST_BACKOFF_SECONDS = 0.005
LONGEST_BACKOFF_SECONDS = 1.0

Outcome = Any
"""Result of an operation, or the exception it failed with."""


class Ledger:
    """Allocations of all consumers in one database. Thread-safe; each process needs its own instance."""

    def __init__(
        self,
        engine: Engine,
        *,
        times: StoreClock | None = None,
        now: Callable[[], datetime.datetime] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        randomness: random.Random | None = None,
    ) -> None:
        """`times`: stamps claims, as it does all that several machines compare. `now`: stamps them in its place."""
        self._engine, self._now, self._sleep = engine, now, sleep
        self._times = times or StoreClock(engine, SystemClock())
        # During a failover a server is read-only for some seconds; an SQLite file has no failover.
        has_failover = engine.dialect.name != "sqlite"
        self._transient_errors = (DatabaseUnreachable, *([DatabaseReadOnly] if has_failover else []))
        self._random = randomness or random.Random()  # noqa: S311 - jitter of retries; nothing secret
        self._group_commit = GroupCommit[Operation](self._commit_group)
        self._one_statement = OneStatementClaim(engine) if engine.dialect.name == "postgresql" else None
        self._in_doubt: list[list[Outcome]] = []
        """Outcomes of attempts at the current transaction that failed at the commit, which may have been done. The
        group commit lets one thread at a time commit."""

    has_candidates = False
    """Replicas show all room there is."""

    def find_candidates(self, spec: RequestSpec, table: HostTable, is_last_look: bool) -> None:
        """None: replicas tell what can be allocated for a request."""

    def reread(self, node_uuids: Collection[str]) -> None:
        """Nothing: each refresh of a replica reads what changed."""

    def expect(self, claims: Sequence[Claim]) -> None:
        """Nothing: the claims show in replicas when they are made."""

    def claim(self, claims: Sequence[Claim]) -> None:
        """Make all claims in one transaction, or none: ClaimRejected says which nodes refused, and why.

        Idempotent by consumer uuid: a claim that its consumer has already is skipped. AlreadyClaimed if the consumer
        has other allocations.
        """
        self._group_commit.submit(ClaimAll(tuple(claims)))

    def note_answered(self, consumers: Sequence[str]) -> None:
        """Nothing: a request that was not answered is repeated, or found by the audit."""

    def release(
        self,
        consumers: Sequence[str],
        created_before: datetime.datetime | None = None,
        *,
        spares_used: bool = False,
    ) -> int:
        """Release all allocations of the consumers: how many of them had some.

        `created_before`: only of those that held something at that time, and ever since. `spares_used`: not of those
        that a server or a running migration needs when their nodes are locked.
        """
        uuids = tuple(_uuids_to_release(consumers))
        return int(self._group_commit.submit(Release(uuids, created_before, spares_used)))

    def release_on(
        self,
        consumers: Sequence[str],
        node_uuids: Collection[str],
        made_before: datetime.datetime | None = None,
        left_host: str = "",
    ) -> int:
        """Release what an instance and its migrations, `consumers`, hold on these nodes: how many of them held some.

        The target of a move under way is not released, nor what was claimed after `made_before`. `left_host`: the
        host of the nodes; if nothing stays held there, the server of the instance is recorded to be on no host.
        """
        uuids = tuple(map(canonical_uuid, consumers))
        return int(self._group_commit.submit(ReleaseOn(uuids, frozenset(node_uuids), made_before, left_host)))

    def claim_and_move(self, claims: Sequence[Claim], moves: Sequence[Move]) -> None:
        """Make all claims and moves in one transaction, or none: ClaimRejected says which nodes refused, and why.

        AlreadyClaimed if an instance or its migration holds something else than was seen when a move was decided on.
        """
        self._group_commit.submit(ClaimAndMove(ClaimAll(tuple(claims)), tuple(moves)))

    def start_move(self, migration_uuid: str, claim: Claim) -> bool:
        """Claim the target for the instance and give its allocation on the source to the migration.

        False if that was done before. ClaimRejected if the target refuses, AlreadyClaimed if a move to another target
        is under way, UnknownName if the instance has no allocations.
        """
        return bool(self._group_commit.submit(StartMove(canonical_uuid(migration_uuid), claim)))

    def retarget_move(self, migration_uuid: str, claim: Claim) -> bool:
        """Release the target of a move under way and claim another one; the migration keeps the source.

        False if that was done before. ClaimRejected if the new target refuses, UnknownName if no move is under way.
        """
        return bool(self._group_commit.submit(RetargetMove(canonical_uuid(migration_uuid), claim)))

    def finish_move(self, migration_uuid: str, sources: Collection[str] | None = None) -> bool:
        """Release the source of a move; False if it was released before.

        `sources`: node uuids; only a move from one of them is finished: the next may have begun since it was read.
        """
        return bool(self._group_commit.submit(FinishMove(canonical_uuid(migration_uuid), _as_set(sources))))

    def undo_move(
        self,
        migration_uuid: str,
        instance_uuid: str,
        targets: Collection[str] | None = None,
        sources: Collection[str] | None = None,
        ended_before: datetime.datetime | None = None,
    ) -> bool:
        """Release the target and give the source back to the instance; False if no move is under way.

        `targets`, `sources`: node uuids; only a move to and from one of them is undone. `ended_before`: only one that
        was made before that time and that no record of a running migration needs. ClaimRejected if that would split
        an affinity group: members that joined without the ledger are on the target.
        """
        ends = _as_set(targets), _as_set(sources)
        move = UndoMove(canonical_uuid(migration_uuid), canonical_uuid(instance_uuid), *ends, ended_before)
        return bool(self._group_commit.submit(move))

    def read_allocations(self, consumers: Sequence[str]) -> dict[str, dict[str, dict[str, int]]]:
        """Consumer uuid -> node uuid -> resource class -> amount; a consumer without allocations is left out."""
        with database_errors(self._engine), self._engine.connect() as connection:
            return read_allocations(connection, {canonical_uuid(each) for each in consumers})

    def read_group_members(self, group_uuid: str) -> list[str]:
        """Uuids of the members of a server group: of claims that named it, and of imports; sorted."""
        with database_errors(self._engine), self._engine.connect() as connection:
            return read_group_members(connection, canonical_uuid(group_uuid))

    def read_holdings(self, consumers: Sequence[str]) -> dict[str, dict[str, HeldNode]]:
        """Consumer uuid -> node uuid -> host, node and amounts; a consumer without allocations is left out."""
        with database_errors(self._engine), self._engine.connect() as connection:
            return read_holdings(connection, [canonical_uuid(each) for each in consumers])

    def has_allocations(self, consumer: str) -> bool:
        """Whether a consumer holds anything now."""
        return bool(self.read_holdings([consumer]))

    def read_group_places(self, group_uuid: str) -> GroupPlaces:
        """Members of a server group, and the hosts from which migrations of members move away."""
        with database_errors(self._engine), self._engine.connect() as connection:
            return read_group_places(connection, canonical_uuid(group_uuid))

    def read_member_hosts(self, group_uuid: str) -> MemberHosts:
        """Policy of a server group, and the members and migrations that have a place on each host."""
        with database_errors(self._engine), self._engine.connect() as connection:
            return read_member_hosts(connection, canonical_uuid(group_uuid))

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

        If the reply to a commit was lost, the retry finds the work done: operations are idempotent. What they then
        return is what that commit did.
        """
        conflicts = disconnections = 0
        self._in_doubt.clear()
        while True:
            try:
                return reduce(_merge_outcomes, self._in_doubt, self._commit_once(operations))
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
        return len(claims) == 1 and self._one_statement.claim(claims[0], self._now() if self._now else None)

    def _run_transaction(self, operations: Sequence[Operation], expects_new: bool) -> list[Outcome]:
        written: list[list[Outcome]] = []
        try:
            with writing(self._engine) as connection:
                work = load_unit_of_work(connection, operations, expects_new)
                outcomes = [_apply_operation(operation, work) for operation in operations]
                write_unit_of_work(connection, work, self._read_time(connection))
                written.append(outcomes)
            return outcomes
        except DatabaseError:
            self._in_doubt += written
            raise

    def _read_time(self, connection: Connection) -> datetime.datetime | None:
        """The time of claims that are written now; None: PostgreSQL knows it."""
        return self._now() if self._now else self._times.read_or_none(connection)


def _merge_outcomes(outcomes: list[Outcome], in_doubt: list[Outcome]) -> list[Outcome]:
    """Outcomes of a retry, where an earlier attempt may have been committed: whichever did more of each operation.

    Errors of the retry stay: what the earlier attempt did was not committed then.
    """
    return [
        max(now, before) if isinstance(now, int) and isinstance(before, int) else now
        for now, before in zip(outcomes, in_doubt, strict=True)
    ]


def _as_set(node_uuids: Collection[str] | None) -> frozenset[str] | None:
    return None if node_uuids is None else frozenset(node_uuids)


def _uuids_to_release(consumers: Sequence[str]) -> dict[str, None]:
    """The uuids in their one spelling, and as given: versions before wrote consumers in any spelling."""
    return dict.fromkeys(spelt for each in consumers for spelt in (canonical_uuid(each), each))


def _apply_operation(operation: Operation, work: UnitOfWork) -> Outcome:
    """The operation's result, or its error: other operations of the transaction go on."""
    try:
        return operation.apply(work)
    except RoostError as error:
        return error


MOST_JOBS_PER_COMMIT = 64

Job = TypeVar("Job")


class _PendingJob(Generic[Job]):
    """A job, and its result or error once it is done."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None

    def complete(self, outcome: Any) -> None:
        """Record the outcome: an exception is the job's error, anything else its result."""
        if isinstance(outcome, BaseException):
            self.error = outcome
        else:
            self.result = outcome
        self.is_done = True


class GroupCommit(Generic[Job]):
    """Commits the jobs of several threads together: one waiting thread commits for all. Has no thread of its own."""

    def __init__(self, commit_jobs: Callable[[Sequence[Job]], Sequence[Any]]) -> None:
        """`commit_jobs` returns a result or an exception for each job; an exception it raises goes to all of them."""
        self._commit_jobs = commit_jobs
        self._waiting: list[_PendingJob[Job]] = []
        self._queue_lock, self._commit_lock = threading.Lock(), threading.Lock()

    def submit(self, job: Job) -> Any:
        """Wait until the job is committed: its result, or its error raised."""
        pending = _PendingJob(job)
        with self._queue_lock:
            self._waiting.append(pending)
        while not pending.is_done:
            with self._commit_lock:
                if not pending.is_done:
                    self._commit_next_batch()
        if pending.error is not None:
            raise pending.error
        return pending.result

    def _commit_next_batch(self) -> None:
        with self._queue_lock:
            batch = self._waiting[:MOST_JOBS_PER_COMMIT]
            del self._waiting[:MOST_JOBS_PER_COMMIT]
        try:
            outcomes: Sequence[Any] = self._commit_jobs([pending.job for pending in batch])
        except BaseException as error:
            for pending in batch:
                pending.complete(error)
            if not isinstance(error, Exception):
                raise
            return
        for pending, outcome in zip(batch, outcomes, strict=True):
            pending.complete(outcome)
