# SPDX-License-Identifier: Apache-2.0
"""Decisions as JSON data and back: steps, scores of the best hosts, choices, and the request as it was placed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from roost.model import Decision, RequestSpec
from roost.model.decision import Candidate, Ranked, RankedList, Scores, Selection, Step
from roost.wire import request_from_object, request_to_object

Data = dict[str, Any]
"""JSON data."""


@dataclass(frozen=True)
class DecisionRecord:
    """A decision as it is kept: what was asked, what came of it, and by whom and from which state."""

    id: int
    created_at: datetime
    request_id: str | None
    project_id: str | None
    run_uuid: str
    """The scheduler that decided, from its start or last reload on."""
    position: int
    """The state of its table that it decided from."""
    data: Data
    """As `decision_to_data` made it."""

    @property
    def decision(self) -> Decision:
        """Steps, scores and choices; scores of the best hosts only."""
        return decision_from_data(self.data)

    @property
    def request(self) -> RequestSpec:
        """The request as it was put to the hosts: completed, with its group as it was then."""
        return request_from_object(self.data["request"])

    @property
    def rounds(self) -> int:
        """How often hosts were chosen: more than once where another scheduler claimed them first."""
        return int(self.data["rounds"])


def decision_to_data(decision: Decision, spec: RequestSpec, uuids: Sequence[str], rounds: int) -> Data:
    """A decision and its request as JSON data. `uuids`: of the instances that were asked for."""
    return {
        "hosts": decision.hosts,
        "wanted": decision.wanted,
        "failed_at": decision.failed_at,
        "steps": [list(step) for step in decision.steps],
        "weighers": list(decision.weighers),
        "best": [_ranked_to_data(each) for each in decision.best],
        "selections": [_selection_to_data(each) for each in decision.selections],
        "time_us": {stage: round(spent, 1) for stage, spent in decision.time_us.items()},
        "rounds": rounds,
        "servers": list(uuids),
        "request": request_to_object(spec),
    }


def decision_from_data(data: Data) -> Decision:
    """The decision that `decision_to_data` wrote; selections are without limits and rows."""
    return Decision(
        hosts=data["hosts"],
        wanted=data["wanted"],
        steps=tuple(Step(*step) for step in data["steps"]),
        weighers=tuple(data["weighers"]),
        best=RankedList([_noted(each) for each in data["best"]]),
        selections=tuple(_selection_from_data(each) for each in data["selections"]),
        time_us=data["time_us"],
        failed_at=data["failed_at"],
    )


def _ranked_to_data(ranked: Ranked) -> Any:
    parts = ranked.scores.parts if isinstance(ranked.scores, Scores) else ((), (), (), ())
    return [ranked.host, ranked.node, ranked.weight, *parts]


def _noted(data: Any) -> Any:
    host, node, weight, names, numbers, spans, multipliers = data
    pairs = tuple((low, high) for low, high in spans)
    return (host, node), weight, (tuple(names), tuple(numbers), pairs, tuple(multipliers))


def _selection_to_data(selection: Selection) -> Any:
    alternates = [[each.host, each.node] for each in selection.alternates]
    ranked = _ranked_to_data(selection.ranked) if selection.ranked else None
    return [selection.host, selection.node, selection.instance_uuid, alternates, ranked]


def _selection_from_data(data: Any) -> Selection:
    host, node, uuid, alternates, ranked = data
    return Selection(
        host,
        node,
        instance_uuid=uuid,
        ranked=RankedList([_noted(ranked)]).first if ranked else None,
        alternates=tuple(Candidate(*each) for each in alternates),
    )
