# SPDX-License-Identifier: Apache-2.0
"""The claim loop: choose from the replica, claim in the ledger, choose again where another scheduler was faster.

The replica may be a moment old; the ledger decides. A refused claim costs a refresh and another round. NoValidHost is
only raised from a replica that was refreshed after the request came in, and after the last refusal.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from roost.errors import (
    AlreadyClaimed,
    ClaimRejected,
    DatabaseConflict,
    DatabaseError,
    DatabaseUnreachable,
    NoValidHost,
)
from roost.hosts import HostTable
from roost.hosts.guests import GuestSpace, digest_of_asked, guest_of
from roost.hosts.record import Pair
from roost.ledger.claim import Claim, claim_for
from roost.model import Decision, RequestSpec, Selection
from roost.records.recorder import SeenState
from roost.scheduler.build import Preparation
from roost.scheduler.rounds import (
    NOTHING_CHOSEN,
    ClaimPlan,
    Granter,
    RequestRounds,
    find_kept_rows,
    plan_claims,
    with_kept_hosts,
)
from roost.scheduler.search import Randomness

LONGEST_BACKOFF_SECONDS = 0.02
"""Between two rounds; the pause is drawn at random, so that schedulers that collided do not collide again."""
DATABASE_WAIT_SECONDS = 30.0
"""How long a request waits for a database that went away, outside of claims: about as long as a claim does."""
LONGEST_DATABASE_BACKOFF_SECONDS = 1.0
UNCLAIMED_SECONDS = 60
"""How long a choice without a uuid, which cannot be claimed, counts, unless its host reports before."""

Result = TypeVar("Result")
Observe = Callable[[HostTable, RequestSpec], SeenState | None]
"""Notes the state of a table that a request is about to be placed on. It never raises; None where it has failed."""


class Replica(Protocol):
    """The fleet as a scheduler knows it."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held while the table is read or changed."""

    @property
    def table(self) -> HostTable:
        """Every host; another object after hosts were added or removed."""

    def refresh(self, also: Collection[Pair] = ()) -> object:
        """Bring the table up to date; `also`: nodes to reread, which undoes what was consumed there."""

    def refresh_flags(self) -> None:
        """Bring flags that operators set on services up to date, if they are to be read before each answer."""


class Chooser(Protocol):
    """Finds the best hosts: a pipeline, or the rule of a driver."""

    def place(
        self,
        table: HostTable,
        spec: RequestSpec,
        uuids: Sequence[str | None],
        *,
        randomness: Randomness,
        clock: Callable[[], int],
        alternates: int = 0,
    ) -> Decision:
        """Choose a host for each instance and consume it there; NoValidHost, and no change, if one has none."""

    def warm(self, table: HostTable, spec: RequestSpec) -> None:
        """Update caches that the next request like this one would have to wait for."""


class Placement(NamedTuple):
    """A decision, and the table it was made from."""

    decision: Decision
    table: HostTable
    rounds: int = 1
    """How often hosts were chosen: one more than there were refusals."""
    seen: SeenState | None = None
    """What the decision was made from; None where that is not recorded."""


class _PendingClaim(NamedTuple):
    """Hosts that were chosen, and are to be claimed."""

    decision: Decision
    plan: ClaimPlan
    table: HostTable
    is_stale: bool
    """An instance was on a host already, so the table counts it twice until the node is reread."""


class ClaimLoop:
    """Places requests for one of several schedulers on a fleet. May be shared by threads."""

    def __init__(
        self,
        replica: Replica,
        chooser: Chooser,
        granter: Granter,
        *,
        preparation: Preparation | None = None,
        longest_age_seconds: float = 0.5,
        refreshes_before_refusal: bool = True,
        randomness: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        on_refusal: Callable[[], None] = lambda: None,
        observe: Observe | None = None,
    ) -> None:
        """`longest_age_seconds`: how old the replica may be that a request is first placed on.

        `refreshes_before_refusal`: whether it refreshes once more before it raises NoValidHost.
        `on_refusal`: called for each claim that the ledger refused; it never raises. `observe`: called before each
        choice, for the record of decisions.
        """
        self.replica, self.chooser, self.granter, self.preparation = replica, chooser, granter, preparation
        self.longest_age_seconds, self._refreshes_before_refusal = longest_age_seconds, refreshes_before_refusal
        self._clock, self._sleep, self._on_refusal = clock, sleep, on_refusal
        self._observe = observe
        self._random = randomness or random.Random()  # noqa: S311 - picks among equals; nothing secret
        self.refusals = 0
        """How many claims the ledger refused."""
        self._refreshed_at = self._flags_refreshed_at = -float("inf")
        self.waiting_since: float | None = None
        """Since when a thread that holds the replica waits for claims in flight; None while none does."""
        self._flights = threading.Condition()
        """Guards the next three, and notifies when they change."""
        self._in_flight = 0
        """Choices that are consumed in the replica, and neither claimed nor refused yet."""
        self._stale: set[Pair] = set()
        """Nodes that consumed what was not claimed in the end: to be reread."""
        self._unclaimed: deque[tuple[float, Pair]] = deque()
        """Nodes that consumed what has no uuid to claim it for, each with when to reread it."""

    def select(
        self, spec: RequestSpec, uuids: Sequence[str] | None, alternates: int = 0, is_dry_run: bool = False
    ) -> Placement:
        """Hosts for all instances, claimed; NoValidHost, and nothing claimed, where one has none.

        Without uuids there is no consumer to claim for: hosts are chosen, and later requests see it. An instance that
        holds a host already, and asks for it once more, gets the same answer; one that asks for something else
        moves, and holds both until it is known to have left the first. `is_dry_run`: choices are not claimed, but
        given back on the table, which is then as it was before.
        """
        if self.preparation:
            spec = self._prepare(spec, self.preparation)
        request = RequestRounds(self.granter, spec, uuids, alternates, self.replica.table, is_dry_run)
        while True:
            request.started = self._clock()
            try:
                pending = self._with_database(partial(self._choose, request))
                return self._claim(pending)._replace(rounds=request.refusals + 1, seen=request.seen)
            except NoValidHost as error:
                self._with_database(partial(request.note_no_host, error))
            except ClaimRejected as error:
                self.refusals += 1
                self._on_refusal()
                self._with_database(partial(request.note_refusal, error, self.replica.table))
            except AlreadyClaimed as error:
                request.note_change(error)
            self._sleep(self._random.uniform(0, LONGEST_BACKOFF_SECONDS))

    def warm(self, after: Placement) -> None:
        """Do what the next request would have to wait for: refresh the replica, update the chooser's caches."""
        with self.replica.lock:
            try:
                if self.longest_age_seconds:  # otherwise every request refreshes
                    self._refresh(not_before=self._clock() - self.longest_age_seconds / 2)
            except DatabaseError:
                return  # the next request waits for it, or raises
            for selection in after.decision.selections[:1]:
                if selection.placed is not None:
                    self.chooser.warm(self.replica.table, selection.placed)

    def refresh(self) -> None:
        """Bring the replica up to date now."""
        with self.replica.lock:
            self._refresh(not_before=self._clock())

    def _prepare(self, spec: RequestSpec, preparation: Preparation) -> RequestSpec:
        spec = preparation.complete(spec)
        if preparation.asks_for_trust(spec):
            preparation.ask_for_trust(self.replica.table.names)  # slow: other requests must not wait for it
            with self.replica.lock:
                preparation.note_trust(spec, self.replica.table)
        return spec

    def claim_on(self, spec: RequestSpec, uuid: str, host: str, node_uuid: str) -> Claim:
        """The claim of an instance on a named node, with CPUs and devices that are free there; filters are skipped.

        The replica stays as it is; the next refresh rereads the node, with this claim or with one that was faster.
        """
        spec = (self._prepare(spec, self.preparation) if self.preparation else spec).for_instance(uuid)
        with self.replica.lock:
            table = self.replica.table
            row = next((each for each in table.rows_of_host(host) if table.uuids.get(each) == node_uuid), None)
            if row is None:
                return claim_for(spec, node_uuid)  # deleted: the ledger says so
            selection = Selection(*table.names[row], row=row, placed=table.consume(row, spec))
            claim = claim_of(selection, table, digest_of_asked(spec))
            _give_back(table, [selection])
        with self._flights:
            self._stale.add((selection.host, selection.node))
        return claim

    # --- choose ---

    def _with_database(self, read: Callable[[], Result]) -> Result:
        """What it returns; while the database is away or in conflict, wait, without holding the replica meanwhile."""
        give_up = self._clock() + DATABASE_WAIT_SECONDS
        while True:
            try:
                return read()
            except (DatabaseUnreachable, DatabaseConflict):
                if self._clock() >= give_up:
                    raise
            self._sleep(self._random.uniform(0, LONGEST_DATABASE_BACKOFF_SECONDS))

    def _choose(self, request: RequestRounds) -> _PendingClaim:
        """Choose from the replica and consume there. NoValidHost is only raised after a last look."""
        started = request.started
        request.read_held()
        request.read_candidates(self.replica.table)
        with self.replica.lock:
            has_group = request.spec.instance_group is not None and self._refreshes_before_refusal
            needs_latest = has_group or bool(request.held)
            self._refresh(not_before=started if needs_latest else started - self.longest_age_seconds)
            self._refresh_flags(not_before=started)
            try:
                return self._run_chooser(request)
            except NoValidHost as error:
                is_latest = self._refreshed_at >= started and not self._in_flight
                if (is_latest and not request.can_look_closer(error)) or not self._refreshes_before_refusal:
                    raise
                refusal = error
        return self._look_closer(request, refusal)

    def _look_closer(self, request: RequestRounds, refusal: NoValidHost) -> _PendingClaim:
        """Choose once more, from the latest state; `refusal` is raised where the granter offers no host at all.

        What other threads have consumed and not claimed yet may be refused. So it waits for their claims first; no
        thread can choose meanwhile, so the replica then is what the store has.
        """
        if request.can_look_closer(refusal):
            request.read_candidates(self.replica.table, is_last_look=True)
            if request.offers_nothing:
                raise refusal  # which says what the hosts lack
        with self.replica.lock:
            self._wait_for_flights()
            self._refresh(not_before=self._clock())
            return self._run_chooser(request)

    def _wait_for_flights(self) -> None:
        self.waiting_since = self._clock()
        with self._flights:
            self._flights.wait_for(lambda: not self._in_flight)
        self.waiting_since = None

    def _refresh(self, not_before: float) -> None:
        """Refresh the replica, if that was last done before this moment, or nodes in it are stale."""
        now = self._clock()
        with self._flights:
            while self._unclaimed and self._unclaimed[0][0] <= now:
                self._stale.add(self._unclaimed.popleft()[1])
            stale, self._stale = self._stale, set()
        if stale or self._refreshed_at < not_before or self._refreshed_at == -float("inf"):
            try:
                self.replica.refresh(also=stale)
            except BaseException:
                with self._flights:
                    self._stale |= stale
                raise
            self._refreshed_at = now

    def _refresh_flags(self, not_before: float) -> None:
        """Refresh flags of services, if no refresh since this moment did, not even that of another thread."""
        if self._refreshes_before_refusal and max(self._refreshed_at, self._flags_refreshed_at) < not_before:
            now = self._clock()
            self.replica.refresh_flags()
            self._flags_refreshed_at = now

    def _run_chooser(self, request: RequestRounds) -> _PendingClaim:
        """Choose a host for each instance that holds none which answers the request; consume it in the replica."""
        table, uuids = self.replica.table, request.uuids or ()
        kept = find_kept_rows(request.spec, uuids, table, request.held) if request.held else {}
        missing = [each for each in uuids if each not in kept] if kept else request.names()
        is_stale = any(table.rows_of_instance(each) for each in missing if each)
        if kept and not missing:
            self._note_state(request, request.spec)
            decision = NOTHING_CHOSEN
        else:
            decision = self._place(request, missing)
        plan = self._plan_claims(request, decision.selections, table)
        if kept:
            decision = with_kept_hosts(decision, uuids, kept, table)
        with self._flights:
            self._in_flight += 1
        return _PendingClaim(decision, plan, table, is_stale)

    def _plan_claims(self, request: RequestRounds, selections: Sequence[Selection], table: HostTable) -> ClaimPlan:
        """How the chosen hosts are claimed; not at all in a dry run, for a rebuild, and without uuids."""
        spec = request.spec
        if request.is_dry_run or spec.is_rebuild:  # a rebuilt instance stays where it is, with what it has
            _give_back(table, selections)
            return ClaimPlan([], [])
        if request.uuids is None:
            until = self._clock() + UNCLAIMED_SECONDS
            with self._flights:
                self._unclaimed.extend((until, (each.host, each.node)) for each in selections)
            return ClaimPlan([], [])
        asked = digest_of_asked(spec)
        claims = [claim_of(selection, table, asked) for selection in selections]
        self.granter.expect(claims)
        if not request.held:
            return ClaimPlan(claims, [])
        return plan_claims(claims, request.held, spec.ignore_hosts, spec.retry.hosts if spec.retry else ())

    def _place(self, request: RequestRounds, uuids: Sequence[str | None]) -> Decision:
        """Run the chooser, on hosts that strict groups do not close."""
        table = self.replica.table
        spec, closed = request.with_current_group(table, uuids)
        asked = closed.applied_to(spec)
        self._note_state(request, asked)
        try:
            return self.chooser.place(
                table,
                asked,
                uuids,
                randomness=self._random,
                clock=time.perf_counter_ns,
                alternates=request.alternates,
            )
        except NoValidHost as error:
            raise closed.explained(error, spec, table) from None

    def _note_state(self, request: RequestRounds, asked: RequestSpec) -> None:
        """Note what the next choice is made from, for the record of decisions."""
        if self._observe is not None and not request.is_dry_run:
            request.seen = self._observe(self.replica.table, asked)

    # --- claim ---

    def _claim(self, pending: _PendingClaim) -> Placement:
        """Claim in the ledger; where that fails, the nodes are reread before the next choice."""
        started, is_stale = time.perf_counter_ns(), pending.is_stale
        claims, moves = pending.plan
        try:
            if moves:
                self.granter.claim_and_move(claims, moves)
            elif claims:
                self.granter.claim(claims)
        except BaseException:
            is_stale = True
            raise
        finally:
            with self._flights:
                if is_stale:
                    self._stale |= {(each.host, each.node) for each in pending.decision.selections}
                self._in_flight -= 1
                self._flights.notify_all()
        microseconds = (time.perf_counter_ns() - started) / 1000
        return Placement(pending.decision.with_stage("claim", microseconds), pending.table)


def claim_of(selection: Selection, table: HostTable, asked: str) -> Claim:
    """What the chosen host consumed, as a claim on its node; `asked`: of `digest_of_asked`."""
    placed: Any = selection.placed
    row, numa = selection.row, table.encoded["numa"].at(selection.row)
    guest = guest_of(placed, numa, asked)
    if guest is None:
        return claim_for(placed, table.uuids[row])
    before = GuestSpace(numa, table.encoded["pci_pools"].at(row)).without_guest(guest)
    return claim_for(placed, table.uuids[row], guest, selection.limits.get("numa_topology"), before)


def _give_back(table: HostTable, selections: Iterable[Selection]) -> None:
    for selection in selections:
        if selection.placed is not None:
            table.release(selection.row, selection.placed)
