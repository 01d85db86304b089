# SPDX-License-Identifier: Apache-2.0
"""Decisions as JSON data and back: steps, scores of the best hosts, choices, and the request as it was placed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from roost.messages.objects.request import request_from_object, request_to_short_object
from roost.model import Decision, RequestSpec
from roost.model.decision import Candidate, RankedList, ScoredHost, Scores, Selection, Step

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
    scores = _ScoresWriter()
    best = decision.best.noted if isinstance(decision.best, RankedList) else ()
    is_single = len(decision.selections) == 1  # its scores are those of the best host
    return {
        "hosts": decision.hosts,
        "wanted": decision.wanted,
        "failed_at": decision.failed_at,
        "steps": decision.steps,
        "weighers": decision.weighers,
        "best": [scores.write(each) for each in best],
        "selections": [_selection_to_data(each, None if is_single else scores) for each in decision.selections],
        "scales": scores.scales,
        "time_us": {stage: round(spent, 1) for stage, spent in decision.time_us.items()},
        "rounds": rounds,
        "servers": list(uuids),
        "request": request_to_short_object(spec),
    }


def decision_from_data(data: Data) -> Decision:
    """The decision that `decision_to_data` wrote; selections are without limits and rows."""
    best = [_noted(each, data["scales"]) for each in data["best"]]
    return Decision(
        hosts=data["hosts"],
        wanted=data["wanted"],
        steps=tuple(Step(*step) for step in data["steps"]),
        weighers=tuple(data["weighers"]),
        best=RankedList(best),
        selections=tuple(_selection_from_data(each, data["scales"], best) for each in data["selections"]),
        time_us=data["time_us"],
        failed_at=data["failed_at"],
    )


class _ScoresWriter:
    """Writes hosts with their scores; what all of them share - names, extremes and multipliers - once."""

    def __init__(self) -> None:
        self.scales: list[Any] = []
        self._numbers: dict[tuple[int, int, int], int] = {}

    def write(self, noted: ScoredHost) -> Any:
        """A host, its weight and its raw numbers."""
        (host, node), weight, (names, numbers, spans, multipliers) = noted
        key = id(names), id(spans), id(multipliers)
        scale = self._numbers.get(key)
        if scale is None:
            scale = self._numbers[key] = len(self.scales)
            self.scales.append((names, spans, multipliers))
        return host, node, weight, numbers, scale


def _noted(data: Any, scales: Sequence[Any]) -> ScoredHost:
    host, node, weight, numbers, scale = data
    names, spans, multipliers = scales[scale]
    pairs = tuple((low, high) for low, high in spans)
    return (host, node), weight, (tuple(names), tuple(numbers), pairs, tuple(multipliers))


def _selection_to_data(selection: Selection, scores: _ScoresWriter | None) -> Any:
    """`scores`: writes those of the selection; None: they are those of the best host."""
    alternates = [(each.host, each.node) for each in selection.alternates]
    ranked = selection.ranked
    scored = None
    if scores is not None and ranked is not None and isinstance(ranked.scores, Scores):
        scored = scores.write(((ranked.host, ranked.node), ranked.weight, ranked.scores.parts))
    return selection.host, selection.node, selection.instance_uuid, alternates, scored


def _selection_from_data(data: Any, scales: Sequence[Any], best: Sequence[ScoredHost]) -> Selection:
    host, node, uuid, alternates, scored = data
    noted = _noted(scored, scales) if scored else next((each for each in best if each[0] == (host, node)), None)
    return Selection(
        host,
        node,
        instance_uuid=uuid,
        ranked=RankedList([noted]).first if noted else None,
        alternates=tuple(Candidate(*each) for each in alternates),
    )
