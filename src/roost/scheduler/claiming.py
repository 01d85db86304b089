# SPDX-License-Identifier: Apache-2.0
"""Places requests on a fleet that others place on too: choose, claim, and choose again where somebody was faster.

The pipeline chooses from the picture that this scheduler has of the fleet, which may be a moment old. The ledger
decides. A refused claim costs a look at what changed and another round. "No valid host" is only ever said of a
picture that was looked at after the request came in, and after the last refusal.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from roost.claims import Ledger
from roost.claims.claim import Claim, claim_for
from roost.errors import AlreadyClaimed, ClaimRejected, DatabaseError, DatabaseUnreachable, NoValidHost
from roost.hosts import HostTable
from roost.model import Decision, RequestSpec, Selection
from roost.model.decision import build_unchecked
from roost.scheduler.choice import Randomness
from roost.scheduler.preparation import Preparation
from roost.scheduler.repeats_and_moves import earlier_answer, move, take_back

MOST_ROUNDS = 100
"""Every refusal means that somebody else got something, so rounds end with the room that is left."""
LONGEST_PAUSE_SECONDS = 0.02
PATIENCE_SECONDS = 30.0
"""How long a request waits for a database that went away, to be looked at: about as long as a claim does."""
LONGEST_NAP_SECONDS = 1.0
UNCLAIMED_SECONDS = 60
"""How long a choice that nobody could claim counts, unless its host reports before; agents do so every minute."""


class Replica(Protocol):
    """What a scheduler knows of the fleet."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held while the table is read or changed."""

    @property
    def table(self) -> HostTable:
        """Every host; another one where hosts came or went."""

    def refresh(self, also: Collection[tuple[str, str]] = ()) -> object:
        """Bring the table up to date; `also`: (host, node) pairs to read anew, which undoes what they took in."""


class Chooser(Protocol):
    """Who knows which host is best: a pipeline, or somebody's own rule."""

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
        """Do now what the next request like this one would have to do first. No answer depends on it."""


class Placement(NamedTuple):
    """A decision, and the hosts it was made from."""

    decision: Decision
    table: HostTable
    rounds: int = 1
    """How often hosts were chosen, until nobody was faster."""


class _PendingClaim(NamedTuple):
    """Hosts that were chosen, and are to be claimed."""

    decision: Decision
    claims: list[Claim]
    table: HostTable
    is_doubtful: bool
    """Somebody was there before, so the table counts them twice until it is read anew."""


class ClaimLoop:
    """One scheduler of several on a fleet. May be shared by threads."""

    def __init__(
        self,
        picture: Replica,
        chooser: Chooser,
        ledger: Ledger,
        *,
        preparation: Preparation | None = None,
        longest_age_seconds: float = 0.5,
        looks_again: bool = True,
        randomness: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        on_refusal: Callable[[], None] = lambda: None,
    ) -> None:
        """`longest_age_seconds`: how old the picture may be that a request is first placed on.

        `looks_again`: whether it looks at the fleet once more before it says that there is no host.
        """
        self.picture, self.chooser, self.ledger, self.preparation = picture, chooser, ledger, preparation
        self.refusals = 0
        """How many claims somebody else was faster for."""
        self._on_refusal = on_refusal
        self.longest_age_seconds, self._looks_again = longest_age_seconds, looks_again
        self._clock, self._sleep = clock, sleep
        self._random = randomness or random.Random()  # noqa: S311 - picks among equals; nothing secret
        self._looked_at = -float("inf")
        self.waiting_since: float | None = None
        """Since when somebody who holds the picture waits for claims of others; None where nobody does."""
        self._settled = threading.Condition()
        """Guards the next three, and tells when they change."""
        self._under_way = 0
        """Choices that are consumed in the picture and not yet claimed or refused."""
        self._doubtful: set[tuple[str, str]] = set()
        """Hosts that took in what was not claimed in the end: to be read anew."""
        self._unclaimed: deque[tuple[float, tuple[str, str]]] = deque()
        """Hosts that took in what has no uuid to claim it for, and until when that counts."""

    def place(self, spec: RequestSpec, uuids: Sequence[str], alternates: int = 0) -> Decision:
        """Hosts for all instances, claimed; NoValidHost, and nothing claimed, where one has none."""
        return self.select(spec, uuids, alternates).decision

    def select(self, spec: RequestSpec, uuids: Sequence[str] | None, alternates: int = 0) -> Placement:
        """The same, with the hosts. Without uuids there is nobody to claim for: hosts are chosen, and others see it.

        An instance that holds a host already, and asks for the same once more, gets the same answer; one that asks
        for something else moves, and holds both until somebody says that it has left.
        """
        if self.preparation:
            spec = self._prepared(spec, self.preparation)
        claim, refused, started = self.ledger.claim, 0, self._clock()
        while True:
            try:
                chosen = self._choose_patiently(spec, uuids, alternates, started)
                return self._claim(chosen, claim)._replace(rounds=refused + 1)
            except NoValidHost as nowhere:
                nowhere.rounds = refused + 1
                raise
            except ClaimRejected:
                self.refusals += 1
                refused += 1
                self._on_refusal()
                if refused == MOST_ROUNDS:
                    raise
            except AlreadyClaimed:
                before = self._placed_before(spec, uuids or ())
                if before is not None:
                    return before
                if claim == self._claim_move:
                    raise
                if not self._gave_back(spec, uuids or ()):
                    claim = self._claim_move
            self._sleep(self._random.uniform(0, LONGEST_PAUSE_SECONDS))
            started = self._clock()  # what is said from now on must come from a later look

    def release(self, uuids: Sequence[str]) -> int:
        """These instances hold nothing any more; how many of them did."""
        return self.ledger.release(uuids)

    def get_ready(self, after: Placement) -> None:
        """Do what the next request would have to do first. For the time when nobody waits for an answer."""
        with self.picture.lock:
            try:
                if self.longest_age_seconds:  # else everybody looks for himself
                    self._look(not_before=self._clock() - self.longest_age_seconds / 2)
            except DatabaseError:
                return  # whoever asks next is told, or waits until it is there again
            for selection in after.decision.selections[:1]:
                if selection.placed is not None:
                    self.chooser.warm(self.picture.table, selection.placed)

    def look(self) -> None:
        """Bring the picture up to date now."""
        with self.picture.lock:
            self._look(not_before=self._clock())

    def _prepared(self, spec: RequestSpec, preparation: Preparation) -> RequestSpec:
        spec = preparation.complete(spec)
        if preparation.asks_for_trust(spec):
            preparation.ask_for_trust(self.picture.table.names)  # takes its time: nobody should wait for it
            with self.picture.lock:
                preparation.note_trust(spec, self.picture.table)
        return spec

    def _choose_patiently(
        self, spec: RequestSpec, uuids: Sequence[str] | None, alternates: int, started: float
    ) -> _PendingClaim:
        """A database that starts again fails no request: who comes meanwhile waits, without keeping others away."""
        give_up = self._clock() + PATIENCE_SECONDS
        while True:
            try:
                return self._choose(spec, uuids, alternates, started)
            except DatabaseUnreachable:
                if self._clock() >= give_up:
                    raise
            self._sleep(self._random.uniform(0, LONGEST_NAP_SECONDS))

    def _choose(
        self, spec: RequestSpec, uuids: Sequence[str] | None, alternates: int, started: float
    ) -> _PendingClaim:
        """Choose and consume in the picture. Before it says that there is no host, it looks again.

        What other threads have consumed and not claimed yet may be refused. So it waits for them first; nobody else
        can choose meanwhile, so what is seen then is what the store has.
        """
        with self.picture.lock:
            needs_latest = spec.instance_group is not None and self._looks_again
            self._look(not_before=started if needs_latest else started - self.longest_age_seconds)
            try:
                return self._run_chooser(spec, uuids, alternates)
            except NoValidHost:
                if not self._looks_again or (self._looked_at >= started and not self._under_way):
                    raise
            self._wait_for_others()
            self._look(not_before=self._clock())
            return self._run_chooser(spec, uuids, alternates)

    def _wait_for_others(self) -> None:
        self.waiting_since = self._clock()
        with self._settled:
            self._settled.wait_for(lambda: not self._under_way)
        self.waiting_since = None

    def _look(self, not_before: float) -> None:
        now = self._clock()
        with self._settled:
            while self._unclaimed and self._unclaimed[0][0] <= now:
                self._doubtful.add(self._unclaimed.popleft()[1])
            doubtful, self._doubtful = self._doubtful, set()
        if doubtful or self._looked_at < not_before or self._looked_at == -float("inf"):
            try:
                self.picture.refresh(also=doubtful)
            except BaseException:
                with self._settled:
                    self._doubtful |= doubtful
                raise
            self._looked_at = now

    def _run_chooser(self, spec: RequestSpec, uuids: Sequence[str] | None, alternates: int) -> _PendingClaim:
        table = self.picture.table
        named: Sequence[str | None] = [spec.instance_uuid] * spec.num_instances if uuids is None else uuids
        is_doubtful = any(table.rows_of_instance(each) for each in named if each)
        decision = self.chooser.place(
            table,
            self._with_current_group(spec, uuids or ()),
            named,
            randomness=self._random,
            clock=time.perf_counter_ns,
            alternates=alternates,
        )
        claims = [_claim_of(selection, table) for selection in decision.selections] if uuids is not None else []
        if spec.is_rebuild:  # it stays where it is, with what it has
            _give_back(table, decision.selections)
            claims = []
        elif uuids is None:
            until = self._clock() + UNCLAIMED_SECONDS
            with self._settled:
                self._unclaimed.extend((until, (each.host, each.node)) for each in decision.selections)
        with self._settled:
            self._under_way += 1
        return _PendingClaim(decision, claims, table, is_doubtful)

    def _with_current_group(self, spec: RequestSpec, uuids: Sequence[str]) -> RequestSpec:
        """The group as it is now: with those who joined elsewhere, the new ones, and where all of them are."""
        group, table = spec.instance_group, self.picture.table
        if group is None:
            return spec
        known = self.ledger.members_of(group.uuid) if group.uuid else ()
        members = tuple(dict.fromkeys((*group.members, *known, *uuids)))
        hosts = tuple(dict.fromkeys((*group.hosts, *table.hosts_of(members))))
        return spec.with_group(group.updated(members, hosts))

    def _claim(self, chosen: _PendingClaim, claim: Callable[[Sequence[Claim]], object]) -> Placement:
        """In the ledger; where that fails, the hosts are read anew before anybody looks at them again."""
        started, is_doubtful = time.perf_counter_ns(), chosen.is_doubtful
        try:
            if chosen.claims:
                claim(chosen.claims)
        except BaseException:
            is_doubtful = True
            raise
        finally:
            with self._settled:
                if is_doubtful:
                    self._doubtful |= {(each.host, each.node) for each in chosen.decision.selections}
                self._under_way -= 1
                self._settled.notify_all()
        return Placement(_with_claim_time(chosen.decision, time.perf_counter_ns() - started), chosen.table)

    def _placed_before(self, spec: RequestSpec, uuids: Sequence[str]) -> Placement | None:
        """The answer to this very request that was given before, and may have got lost; None where it is another."""
        held = self.ledger.holdings(uuids)
        with self.picture.lock:
            self._look(not_before=self._clock())
            table = self.picture.table
            decision = earlier_answer(spec, uuids, table, held)
        return Placement(decision, table) if decision else None

    def _gave_back(self, spec: RequestSpec, uuids: Sequence[str]) -> bool:
        """Whether all they held were hosts where they could not be built: nothing is there to keep."""
        tried = spec.retry.hosts if spec.retry else ()
        with self.picture.lock:
            table = self.picture.table
            nodes = {table.uuids.get(row) for pair in tried if (row := table.find_row(pair)) is not None}
        held = self.ledger.holdings(uuids)
        failed = [uuid for uuid, places in held.items() if places.keys() <= nodes]
        return bool(failed) and bool(self.ledger.release(failed)) and len(failed) == len(held)

    def _claim_move(self, claims: Sequence[Claim]) -> None:
        """Those who hold something move; one who does not, in the same request, just claims. All of them, or none."""
        held = self.ledger.holdings([claim.consumer_uuid for claim in claims])
        done: list[str] = []
        try:
            for claim in claims:
                if claim.consumer_uuid in held:
                    move(self.ledger, claim)
                else:
                    self.ledger.claim([claim])
                done.append(claim.consumer_uuid)
        except BaseException:
            for uuid in done:
                take_back(self.ledger, uuid, has_moved=uuid in held)
            raise


def _with_claim_time(decision: Decision, nanoseconds: int) -> Decision:
    microseconds = nanoseconds / 1000
    times = decision.time_us
    times = {**times, "claim": microseconds, "total": times.get("total", 0.0) + microseconds}
    return build_unchecked(Decision, {**vars(decision), "time_us": times})


def _claim_of(selection: Selection, table: HostTable) -> Claim:
    """Of what the host took in."""
    placed: Any = selection.placed
    return claim_for(placed, table.uuids[selection.row])


def _give_back(table: HostTable, selections: Iterable[Selection]) -> None:
    for selection in selections:
        if selection.placed is not None:
            table.release(selection.row, selection.placed)
