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
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from roost.claims import Ledger
from roost.claims.claim import Claim, claim_for
from roost.errors import ClaimRejected, NoValidHost
from roost.hosts import HostTable
from roost.model import Decision, RequestSpec, Selection
from roost.scheduler.pipeline import Pipeline

MOST_ROUNDS = 100
"""Every refusal means that somebody else got something, so rounds end with the room that is left."""
LONGEST_PAUSE_SECONDS = 0.02


class Picture(Protocol):
    """What a scheduler knows of the fleet."""

    lock: AbstractContextManager[Any]
    """Held while the table is read or changed."""

    @property
    def table(self) -> HostTable:
        """Every host; another one where hosts came or went."""

    def refresh(self, also: Collection[tuple[str, str]] = ()) -> object:
        """Bring the table up to date; `also`: (host, node) pairs to read anew, which undoes what they took in."""


class _Chosen(NamedTuple):
    """Hosts that were chosen, and are to be claimed."""

    decision: Decision
    claims: list[Claim]


class ClaimingScheduler:
    """One scheduler of several on a fleet. May be shared by threads."""

    def __init__(
        self,
        picture: Picture,
        pipeline: Pipeline,
        ledger: Ledger,
        *,
        longest_age_seconds: float = 0.5,
        randomness: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`longest_age_seconds`: how old the picture may be that a request is first placed on."""
        self.picture, self.pipeline, self.ledger = picture, pipeline, ledger
        self.refusals = 0
        """How many claims somebody else was faster for."""
        self._longest_age, self._clock, self._sleep = longest_age_seconds, clock, sleep
        self._random = randomness or random.Random()  # noqa: S311 - picks among equals; nothing secret
        self._looked_at = -float("inf")
        self._settled = threading.Condition()
        """Guards the next two, and tells when they change."""
        self._under_way = 0
        """Choices that are consumed in the picture and not yet claimed or refused."""
        self._doubtful: set[tuple[str, str]] = set()
        """Hosts that took in what was not claimed in the end: to be read anew."""

    def place(self, spec: RequestSpec, uuids: Sequence[str], alternates: int = 0) -> Decision:
        """Hosts for all instances, claimed; NoValidHost, and nothing claimed, where one has none."""
        started, refused = self._clock(), 0
        while True:
            chosen = self._choose(spec, uuids, alternates, started)
            try:
                self._claim(chosen)
                return chosen.decision
            except ClaimRejected:
                self.refusals += 1
                refused += 1
                if refused == MOST_ROUNDS:
                    raise
            self._sleep(self._random.uniform(0, LONGEST_PAUSE_SECONDS))
            started = self._clock()  # what is said from now on must come from a later look

    def release(self, uuids: Sequence[str]) -> int:
        """These instances hold nothing any more; how many of them did."""
        return self.ledger.release(uuids)

    def _choose(self, spec: RequestSpec, uuids: Sequence[str], alternates: int, started: float) -> _Chosen:
        """Choose and consume in the picture. Before it says that there is no host, it looks again.

        What other threads have consumed and not claimed yet may be refused. So it waits for them first; nobody else
        can choose meanwhile, so what is seen then is what the store has.
        """
        with self.picture.lock:
            self._look(not_before=started if spec.instance_group else started - self._longest_age)
            try:
                return self._run_pipeline(spec, uuids, alternates)
            except NoValidHost:
                if self._looked_at >= started and not self._under_way:
                    raise
            self._wait_for_others()
            self._look(not_before=self._clock())
            return self._run_pipeline(spec, uuids, alternates)

    def _wait_for_others(self) -> None:
        with self._settled:
            self._settled.wait_for(lambda: not self._under_way)

    def _look(self, not_before: float) -> None:
        with self._settled:
            doubtful, self._doubtful = self._doubtful, set()
        if doubtful or self._looked_at < not_before:
            now = self._clock()
            try:
                self.picture.refresh(also=doubtful)
            except BaseException:
                with self._settled:
                    self._doubtful |= doubtful
                raise
            self._looked_at = now

    def _run_pipeline(self, spec: RequestSpec, uuids: Sequence[str], alternates: int) -> _Chosen:
        table = self.picture.table
        decision = self.pipeline.place(
            table,
            self._with_current_group(spec, uuids),
            uuids,
            randomness=self._random,
            clock=time.perf_counter_ns,
            alternates=alternates,
        )
        claims = [_claim_of(selection, table) for selection in decision.selections]
        if spec.is_rebuild:  # it stays where it is, with what it has
            _give_back(table, decision.selections)
            claims = []
        with self._settled:
            self._under_way += 1
        return _Chosen(decision, claims)

    def _with_current_group(self, spec: RequestSpec, uuids: Sequence[str]) -> RequestSpec:
        """The group as it is now: with those who joined elsewhere, the new ones, and where all of them are."""
        group, table = spec.instance_group, self.picture.table
        if group is None:
            return spec
        known = self.ledger.members_of(group.uuid) if group.uuid else ()
        members = tuple(dict.fromkeys((*group.members, *known, *uuids)))
        rows = [row for member in members for row in table.rows_of_instance(member)]
        hosts = tuple(dict.fromkeys((*group.hosts, *(table.names[row][0] for row in rows))))
        return spec.with_group(group.updated(members, hosts))

    def _claim(self, chosen: _Chosen) -> None:
        """In the ledger; where that fails, the hosts are read anew before anybody looks at them again."""
        try:
            if chosen.claims:
                self.ledger.claim(chosen.claims)
        except BaseException:
            with self._settled:
                self._doubtful |= {(each.host, each.node) for each in chosen.decision.selections}
            raise
        finally:
            with self._settled:
                self._under_way -= 1
                self._settled.notify_all()


def _claim_of(selection: Selection, table: HostTable) -> Claim:
    """Of what the host took in."""
    placed: Any = selection.placed
    return claim_for(placed, table.uuids[selection.row])


def _give_back(table: HostTable, selections: Iterable[Selection]) -> None:
    for selection in selections:
        if selection.placed is not None:
            table.release(selection.row, selection.placed)
