# SPDX-License-Identifier: Apache-2.0
"""Records the decisions of a scheduler beside its work: captured when they are made, written in batches.

A request never waits for the database here, and no error of the record reaches it. While the database cannot be
written, records wait in memory up to a bound; then they are dropped and counted, and the record goes on with a new
checkpoint.
"""

from __future__ import annotations

import itertools
import math
import random
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import structlog

from roost.best_effort import best_effort
from roost.clock import Clock
from roost.errors import DatabaseError, SchemaError
from roost.hosts import HostTable
from roost.model import Decision, RequestSpec
from roost.records.decision_codec import decision_to_data
from roost.records.decisions import DecisionStore, NewDecision, SchedulerRun
from roost.records.table_changes import ChangeGroup, Checkpoint, TableObserver
from roost.sources.documents import gc_paused
from roost.store.columns import NAME, compress_json

LOG = structlog.get_logger(__name__)
FLUSH_SECONDS = 0.5
MOST_WAITING = 5000
"""Decisions that wait for a database; beyond that they are dropped."""
MOST_CHECKPOINTS_WAITING = 16
"""Copies of the table that wait, each with the changes after it; beyond that all that waits is dropped."""
LARGEST_BATCH = 500
"""Decisions in one transaction."""
MOST_REFUSALS = 60
"""How often a batch is tried that the database refuses for a reason of its own; then it is given up."""


class SeenState(NamedTuple):
    """What a decision was made from: a state of the table, and the request as it was put to the hosts."""

    run: SchedulerRun
    position: int
    spec: RequestSpec


class _Batch(NamedTuple):
    """What one transaction writes."""

    run: SchedulerRun
    states: list[Checkpoint | ChangeGroup]
    made: list[NewDecision]


class DecisionRecorder:
    """Records what one scheduler decides. Thread-safe."""

    def __init__(
        self,
        store: DecisionStore,
        host: str,
        options: Mapping[str, Any],
        clock: Clock,
        randomness: random.Random,
        on_dropped: Callable[[int], None] = lambda count: None,
    ) -> None:
        """`host`: name of the scheduler; `options`: those that it decides by, without secrets.

        `on_dropped`: called with the number of decisions that are given up.
        """
        self._on_dropped = on_dropped
        self._store, self._host, self._random = store, host, randomness
        self._observer = TableObserver(clock.monotonic)
        self._lock = threading.Lock()
        """Guards what waits. Nothing is written while it is held: requests wait for it."""
        self._flushing = threading.Lock()
        self._unsure: _Batch | None = None
        """A batch whose transaction failed: it may be committed all the same."""
        self._refusals = 0
        """How often the database refused that batch for a reason that waiting does not remove."""
        self._states: list[tuple[SchedulerRun, Checkpoint | ChangeGroup]] = []
        """With the run that each belongs to; positions rise, over all runs."""
        self._checkpoints = 0
        """How many of the states are checkpoints."""
        self._made: list[tuple[SchedulerRun, NewDecision]] = []
        self._numbers = itertools.count()
        self._stored_run: SchedulerRun | None = None
        """The run that was last written when it began."""
        self.begin(options)

    def begin(self, options: Mapping[str, Any]) -> None:
        """Begin a run with other options: decisions before it keep those that they were made by."""
        with self._lock:
            run_uuid = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
            self._run = SchedulerRun(run_uuid, self._host, options)
            self._observer.start_again()

    # --- while a request is decided ----------------------------------------------------------------------

    @best_effort("decision_record")
    def observe(self, table: HostTable, spec: RequestSpec) -> SeenState:
        """Note the state of the table that a decision is about to be made from; called under the table's lock.

        None where that fails: then the decision is not recorded.
        """
        with self._lock:
            if self._checkpoints > MOST_CHECKPOINTS_WAITING or len(self._states) > 4 * MOST_WAITING:
                self._drop_all()
            try:
                position, change = self._observer.observe(table)
            except Exception:
                self._observer.start_again()  # some changes may be lost: they must not be missing in what follows
                raise
            if change is not None:
                self._states.append((self._run, change))
                self._checkpoints += isinstance(change, Checkpoint)
            return SeenState(self._run, position, spec)

    @best_effort("decision_record")
    def record(
        self, seen: SeenState | None, decision: Decision, uuids: Sequence[str], request_id: str, rounds: int
    ) -> None:
        """Encode a decision and keep it, to be written soon. `seen`: None where `observe` has failed.

        It is encoded at once: while it is in the processor's cache that takes less time, and what waits is a few
        texts instead of hundreds of objects, which garbage collections would look at.
        """
        if seen is None:
            self._on_dropped(1)
            return
        try:
            made = _encode(next(self._numbers), seen, decision, uuids, request_id, rounds)
        except Exception:
            self._on_dropped(1)
            raise
        with self._lock:
            self._made.append((seen.run, made))
            if len(self._made) > MOST_WAITING:
                self._drop_all()

    def _drop_all(self) -> None:
        if self._made:  # else only states wait, of requests that failed before anything was decided
            self._on_dropped(len(self._made))
            LOG.warning("decisions are not recorded: the database takes none", dropped=len(self._made))
        self._made, self._states, self._checkpoints = [], [], 0
        self._observer.start_again()

    # --- beside it ---------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what waits, in one transaction per batch; a DatabaseError leaves it for the next time.

        What is decided meanwhile waits for the next time: a scheduler under load would else write all the time, a few
        decisions per transaction, and each transaction costs as much as several decisions.
        """
        with self._flushing, gc_paused():  # what is encoded is gone soon: nothing for the garbage collector
            if self._unsure is not None:
                self._write(self._unsure, is_repeat=True)
            self._store_run(self._run)
            waiting = len(self._made)
            while waiting > 0 and (batch := self._take()) is not None:
                self._write(batch, is_repeat=False)
                waiting -= len(batch.made)

    def _store_run(self, run: SchedulerRun) -> None:
        """Write a run when it begins: snapshots have the options of the newest."""
        if run is not self._stored_run:
            self._store.add_run(run)
            self._stored_run = run

    def _take(self) -> _Batch | None:
        """The next batch: decisions of one run, and the states up to the last of them; None if no decision waits.

        States without a decision wait for the next one: nothing can be asked about them. Those of a run before this
        one are written all the same: a request that saw one of them may still be about to be recorded.
        """
        with self._lock:
            if not self._made:
                return None
            oldest = self._states[0][0] if self._states else self._run
            run = oldest if oldest is not self._run else self._made[0][0]
            made = [each for of, each in self._made if of is run][:LARGEST_BATCH]
            taken = {each.number for each in made}
            self._made = [(of, each) for of, each in self._made if each.number not in taken]
            last = max(each.position for each in made) if run is self._run else math.inf
            states = [each for of, each in self._states if of is run and each.position <= last]
            self._states = [(of, each) for of, each in self._states if of is not run or each.position > last]
            self._checkpoints = sum(isinstance(each, Checkpoint) for _, each in self._states)
        return _Batch(run, states, made)

    def _write(self, batch: _Batch, is_repeat: bool) -> None:
        """Write a batch, or give it up where it can never be written: it must not keep all later ones."""
        self._unsure = batch
        try:
            self._store.add(*batch, is_repeat=is_repeat)
        except DatabaseError as error:
            self._refusals += type(error) in (DatabaseError, SchemaError)  # others pass: unreachable, full, ...
            if self._refusals < MOST_REFUSALS:
                raise
            self._give_up(batch)
        except Exception:
            self._give_up(batch)
        self._unsure, self._refusals = None, 0

    def _give_up(self, batch: _Batch) -> None:
        """Note that a batch is lost, while an error is handled; the next decision begins with a checkpoint."""
        LOG.exception("decisions could not be recorded", count=len(batch.made))
        self._on_dropped(len(batch.made))
        with self._lock:
            self._observer.start_again()


def _encode(
    number: int, seen: SeenState, decision: Decision, uuids: Sequence[str], request_id: str, rounds: int
) -> NewDecision:
    data = decision_to_data(decision, seen.spec, uuids, rounds)
    return NewDecision(
        number,
        request_id.replace("\0", "")[: NAME.length],
        seen.spec.project_id,
        decision.hosts,
        decision.wanted,
        decision.failed_at is None,
        decision.summary,
        compress_json(data),
        seen.position,
        data["servers"],
    )
