# SPDX-License-Identifier: Apache-2.0
"""A recorded decision with the fleet as it was then, for questions about that moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from roost.library import Scheduler
from roost.messages.objects.request import request_from_object
from roost.records.decision_codec import decision_from_data
from roost.records.decisions import RecordedState
from roost.scheduler.explain.explaining import explain_host, explain_request
from roost.scheduler.explain.host_names import find_row
from roost.scheduler.explain.records import Explanation, HostExplanation
from roost.scheduler.full_scan import FullScanEngine
from roost.sources.fleet_file import Fleet

STATE_IS_GONE = "the state of all hosts at that moment is no longer kept ([roost] decision_state_retention_hours)"
REPEATED = "the servers had these hosts already: the request was a repeat, and nothing was decided"


class PastDecision:
    """A decision whose table is restored, as it was when the decision was made."""

    def __init__(self, record: Mapping[str, Any], files: Sequence[Path]) -> None:
        """`record`: with its state, as `DecisionQueries.get_decision` returns it. `files`: say where plugins are."""
        state = RecordedState(**record["state"])
        self._table = state.restore()
        fleet = Fleet(self._table, options=state.options, options_win=True)
        self._scheduler = Scheduler(fleet, config_files=files, engine=FullScanEngine)
        spec = request_from_object(record["data"]["request"])
        self._spec = spec.changed(num_instances=record["data"]["wanted"])

    def explain(self) -> Explanation:
        """Why the request fitted where it did, or nowhere."""
        alternates = self._scheduler.options.max_attempts - 1
        return explain_request(self._scheduler.pipeline, self._table, self._spec, alternates)

    def explain_host(self, host: str, node: str | None = None) -> HostExplanation:
        """Why one host was not chosen, or was; UnknownName where there was none of that name."""
        row = find_row(self._table, host, node)
        return explain_host(self._scheduler.pipeline, self._table, self._spec, row)


def why_not_explained(record: Mapping[str, Any]) -> str:
    """Why a decision, read with its state, cannot be explained; empty if it can."""
    decision = decision_from_data(record["data"])
    if decision.is_placed and not decision.steps:
        return REPEATED
    return "" if record["state"] else STATE_IS_GONE
