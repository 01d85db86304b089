# SPDX-License-Identifier: Apache-2.0
"""Records the decisions of a scheduler beside its work: captured when they are made, written in batches.

A request never waits for the database here. While it cannot be written, records wait in memory up to a bound; then
they are dropped and counted, and the record goes on with a new checkpoint.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any, NamedTuple

import structlog

from roost.clock import Clock
from roost.decisions.records import decision_to_data
from roost.decisions.store import DecisionStore, NewDecision
from roost.decisions.table_changes import ChangeGroup, Checkpoint, TableObserver
from roost.errors import DatabaseConflict, DatabaseError
from roost.fleet.gc_pause import gc_paused
from roost.hosts import HostTable
from roost.model import Decision, RequestSpec

LOG = structlog.get_logger(__name__)
FLUSH_SECONDS = 0.5
MOST_WAITING = 5000
"""Decisions that wait for a database; beyond that they are dropped."""
LARGEST_BATCH = 500
"""Decisions in one transaction."""


class SeenState(NamedTuple):
    """What a decision was made from: a state of the table, and the request as it was put to the hosts."""

    run_uuid: str
    position: int
    spec: RequestSpec


class MadeDecision(NamedTuple):
    """A decision as it was made; encoded later, by the thread that writes it."""

    seen: SeenState
    decision: Decision
    uuids: Sequence[str]
    request_id: str
    rounds: int


class _Batch(NamedTuple):
    """What one transaction writes."""

    run_uuid: str
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
        self._states: list[tuple[str, Checkpoint | ChangeGroup]] = []
        """With the run that each belongs to."""
        self._made: list[MadeDecision] = []
        self._number = 0
        self._unstored_runs: dict[str, Mapping[str, Any]] = {}
        """Run -> its options, until they are in the database."""
        self.begin(options)

    def begin(self, options: Mapping[str, Any]) -> None:
        """Begin a run with other options: decisions before it keep those that they were made by."""
        with self._lock:
            self._run_uuid = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
            self._unstored_runs[self._run_uuid] = options
            self._observer.start_again()

    # --- while a request is decided ----------------------------------------------------------------------

    def observe(self, table: HostTable, spec: RequestSpec) -> SeenState:
        """Note the state of the table that a decision is about to be made from; called under the table's lock."""
        with self._lock:
            position, change = self._observer.observe(table)
            if change is not None:
                self._states.append((self._run_uuid, change))
            return SeenState(self._run_uuid, position, spec)

    def record(self, seen: SeenState, decision: Decision, uuids: Sequence[str], request_id: str, rounds: int) -> None:
        """Keep a decision, to be written soon."""
        with self._lock:
            self._made.append(MadeDecision(seen, decision, uuids, request_id, rounds))
            if len(self._made) > MOST_WAITING or len(self._states) > 4 * MOST_WAITING:
                self._drop_all()

    def _drop_all(self) -> None:
        self._on_dropped(len(self._made))
        LOG.warning("decisions are not recorded: the database takes none", dropped=len(self._made))
        self._made, self._states = [], []
        self._observer.start_again()

    # --- beside it ---------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what waits, in one transaction per batch; a DatabaseError leaves it for the next time."""
        with self._flushing, gc_paused():  # what is encoded is gone soon: nothing for the garbage collector
            if self._unsure is not None:
                self._write(self._unsure, is_repeat=True)
                self._unsure = None
            while (batch := self._take()) is not None:
                self._unsure = batch
                self._write(batch, is_repeat=False)
                self._unsure = None

    def _take(self) -> _Batch | None:
        """The next batch: decisions of one run, and the states up to the last of them; None if no decision waits.

        States without a decision wait for the next one: nothing can be asked about them.
        """
        with self._lock:
            if not self._made:
                return None
            run_uuid = self._made[0].seen.run_uuid
            made = list(takewhile(lambda each: each.seen.run_uuid == run_uuid, self._made[:LARGEST_BATCH]))
            del self._made[: len(made)]
            last = max(each.seen.position for each in made)
            states = [each for run, each in self._states if run == run_uuid and each.position <= last]
            self._states = [(run, each) for run, each in self._states if each.position > last]
            first, self._number = self._number, self._number + len(made)
        return _Batch(run_uuid, states, [_encode(each, first + at) for at, each in enumerate(made)])

    def _write(self, batch: _Batch, is_repeat: bool) -> None:
        try:
            self._store_run(batch.run_uuid)
            self._store.add(*batch, is_repeat=is_repeat)
        except DatabaseError:
            raise  # tried again
        except Exception:  # a record that cannot be written must not keep all later ones
            LOG.exception("decisions could not be recorded", count=len(batch.made))
            self._on_dropped(len(batch.made))
            with self._lock:
                self._observer.start_again()

    def _store_run(self, run_uuid: str) -> None:
        options = self._unstored_runs.get(run_uuid)
        if options is not None:
            with suppress(DatabaseConflict):  # it was written, and the acknowledgement was lost
                self._store.add_run(run_uuid, self._host, options)
            del self._unstored_runs[run_uuid]


def _encode(made: MadeDecision, number: int) -> NewDecision:
    spec, decision = made.seen.spec, made.decision
    data = decision_to_data(decision, spec, made.uuids, made.rounds)
    return NewDecision(number, made.request_id, spec.project_id, decision.summary, made.seen.position, data)
