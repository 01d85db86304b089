# SPDX-License-Identifier: Apache-2.0
"""Keeps the decisions of a scheduler in a database: the recorder, and the tasks that write and prune beside it."""

from __future__ import annotations

import random
from contextlib import suppress

from sqlalchemy import Engine

from roost.clock import Clock
from roost.errors import DatabaseError
from roost.options.settings import Settings
from roost.records.decisions import DecisionStore, prune_decisions
from roost.records.options import DecisionOptions
from roost.records.recorder import FLUSH_SECONDS, DecisionRecorder
from roost.scheduler.options import ServiceOptions
from roost.scheduler.service.cloud import BackgroundTask
from roost.services.metrics import Metrics
from roost.sources.snapshot import deciding_options
from roost.store.store_clock import StoreClock

PRUNE_SECONDS = 300.0


class DecisionKeeping:
    """The record of decisions of one scheduler process."""

    def __init__(
        self, engine: Engine, times: StoreClock, settings: Settings, *, clock: Clock, randomness: random.Random,
        metrics: Metrics,
    ) -> None:  # fmt: skip
        """`times`: stamps the rows."""
        self._engine, self._times, self._options = engine, times, settings.fill(DecisionOptions)
        self.recorder = DecisionRecorder(
            DecisionStore(engine, times),
            settings.fill(ServiceOptions).service_host,
            deciding_options(settings),
            clock,
            randomness,
            metrics.decisions_unrecorded,
        )

    def tasks(self) -> list[BackgroundTask]:
        """Writing what was decided, and removing what is too old."""
        write = BackgroundTask("record decisions", self.recorder.flush, lambda: FLUSH_SECONDS, is_writing=True)
        prune = BackgroundTask("prune old decisions", self._prune, lambda: PRUNE_SECONDS, is_writing=True)
        return [write, prune]

    def _prune(self) -> None:
        prune_decisions(self._engine, self._options, self._times)

    def reload(self, settings: Settings) -> None:
        """Decisions are kept for as long as these options say."""
        self._options = settings.fill(DecisionOptions)

    def close(self) -> None:
        """Write decisions that wait, if the database takes them."""
        with suppress(DatabaseError):
            self.recorder.flush()
