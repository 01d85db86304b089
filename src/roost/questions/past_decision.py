# SPDX-License-Identifier: Apache-2.0
"""Asks a recorded decision why it came out as it did: with the hosts and the options that it saw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from roost.messages.objects.request import request_from_object
from roost.questions.explain import explain_host, explain_request
from roost.questions.funnel import find_row
from roost.questions.records import Explanation, HostExplanation
from roost.records.decision_codec import decision_from_data
from roost.records.decisions import RecordedState
from roost.sources.fleet_file import Fleet

if TYPE_CHECKING:
    from roost.library import Scheduler


STATE_IS_GONE = "the state of all hosts at that moment is no longer kept ([roost] decision_state_retention_hours)"


REPEATED = "the servers had these hosts already: the request was a repeat, and nothing was decided"


def fleet_seen_by(record: Mapping[str, Any]) -> Fleet:
    """The hosts and options that a recorded decision saw."""
    state = RecordedState(**record["state"])
    return Fleet(state.restore(), options=state.options, options_win=True)


class PastDecision:
    """A decision whose table is restored, as it was when the decision was made."""

    def __init__(self, record: Mapping[str, Any], scheduler: Scheduler) -> None:
        """`record`: with its state. `scheduler`: of its fleet, `fleet_seen_by`."""
        self._scheduler, self._table = scheduler, scheduler.table
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
