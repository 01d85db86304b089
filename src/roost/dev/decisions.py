# SPDX-License-Identifier: Apache-2.0
"""The latest decisions of the scheduler in this process, to be shown beside the servers that they placed."""

from __future__ import annotations

import threading
from typing import Any

from roost.model import Decision
from roost.model.decision import Selection
from roost.observe.metrics import Metrics

KEPT = 32
"""Decisions that are kept; the oldest is dropped."""


class DecisionMetrics(Metrics):
    """Metrics of a scheduler that also keep its latest decisions. May be shared by threads."""

    def __init__(self, *arguments: Any) -> None:
        """Arguments as those of Metrics."""
        super().__init__(*arguments)
        self._latest: list[Decision] = []
        self._lock = threading.Lock()

    def decided(self, decision: Decision, seconds: float, *, claim_seconds: float = 0.0, rounds: int = 1) -> None:
        """A request was answered, with hosts or with NoValidHost: count it and keep it."""
        super().decided(decision, seconds, claim_seconds=claim_seconds, rounds=rounds)
        with self._lock:
            self._latest = [decision, *self._latest[: KEPT - 1]]

    def placement_of(self, server: str) -> tuple[Decision, Selection] | None:
        """The latest decision that chose a host for the server of this uuid, and its choice; None if none is kept."""
        with self._lock:
            latest = self._latest
        choices = ((decision, each) for decision in latest for each in decision.selections)
        return next((found for found in choices if found[1].instance_uuid == server), None)
