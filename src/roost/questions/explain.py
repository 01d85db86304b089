# SPDX-License-Identifier: Apache-2.0
"""Explanations of a request, and of one host. Pure: they change nothing, and read neither clock nor files.

Of hosts that can take a request they say the ranks, and what each weigher contributes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap

import numpy as np

from roost.hosts import Hosts, HostTable
from roost.model.decision import Score
from roost.model.request import RequestSpec
from roost.questions.blockers import Obstacles, find_blockers, find_lifts
from roost.questions.funnel import NONE, ExplainedInstance, Funnel, find_explained_instance, run_funnel, subject_of
from roost.questions.misses import find_misses
from roost.questions.records import (
    Blocker,
    Explanation,
    HostExplanation,
    HostScore,
    RankedHost,
    Rejection,
    ScoreDifference,
)
from roost.scheduler.full_scan import Span, weigh
from roost.scheduler.pipeline import SHOWN_BEST, Pipeline
from roost.scheduler.search import Choice, Rules


class HostOrder:
    """Hosts in the order of their weights; equal ones in that of the table."""

    def __init__(self, hosts: Hosts, rules: Rules, spec: RequestSpec) -> None:
        self._hosts = hosts
        self._weighed = weigh(hosts, rules.weighers, spec)
        self._order = np.argsort(self._weighed.keys, kind="stable")

    def __len__(self) -> int:
        return len(self._order)

    def count_best(self) -> int:
        """How many hosts have the best weight."""
        return int(np.count_nonzero(self._weighed.keys == self._weighed.keys.min()))

    def best(self, count: int) -> tuple[RankedHost, ...]:
        """The `count` best hosts, best first."""
        return tuple(self._host(rank, int(position)) for rank, position in enumerate(self._order[:count], start=1))

    def of_row(self, row: int) -> RankedHost:
        """The host in this row of the table, which must be among the weighed ones."""
        position = int(np.flatnonzero(self._hosts.rows == row)[0])
        return self._host(int(np.flatnonzero(self._order == position)[0]) + 1, position)

    def next_of_cell(self, count: int) -> Iterator[str]:
        """The hosts after the best one that are in its nova cell: its alternates."""
        rows = self._hosts.rows[self._order]
        cells = self._hosts.table.encoded["cell"].codes[rows]
        for row in rows[1:][cells[1:] == cells[0]][:count].tolist():
            yield self._hosts.table.names[row][0]

    def _host(self, rank: int, position: int) -> RankedHost:
        ((host, node), weight, parts) = self._weighed.noted([position])[0]
        return RankedHost(host, node, rank, weight, tuple(starmap(_score, zip(*parts, strict=True))))


def _score(weigher: str, raw: float, span: Span, multiplier: float) -> HostScore:
    """What a weigher contributes, also one whose multiplier is 0 on this host: it may be another on others."""
    low, high = span
    score = Score(raw, 0.0 if low == high else (raw - low) / (high - low), multiplier)
    return HostScore(weigher, *score, score.contribution)


def explain_request(pipeline: Pipeline, table: HostTable, spec: RequestSpec, alternates: int = 0) -> Explanation:
    """Why the prepared request fits where it does, or nowhere. Raises the error of a plugin that fails.

    `alternates`: how many hosts to name that would be tried next.
    """
    instance = find_explained_instance(pipeline, table, spec)
    funnel = run_funnel(instance)
    fitting, wanted = len(funnel.left), instance.wanted
    fits = bool(fitting) and (wanted == 1 or instance.placed == wanted)
    blockers = find_blockers(instance)
    obstacles = None if fits else Obstacles(blockers, funnel)
    ranking = HostOrder(funnel.left, instance.rules, instance.spec) if fits else None
    best = ranking.best(SHOWN_BEST) if ranking else ()
    return Explanation(
        fits=fits,
        hosts=len(table.names),
        wanted=wanted,
        placed=wanted if fits else instance.placed,
        fitting=fitting,
        steps=funnel.steps,
        reasons=funnel.reasons(blockers.masks),
        lifts=find_lifts(obstacles) if obstacles else (),
        misses=find_misses(obstacles) if obstacles else (),
        best=best,
        margin=best[0].weight - best[1].weight if len(best) > 1 else None,
        alternates=tuple(ranking.next_of_cell(alternates)) if ranking else (),
        picks_among=_picks_among(pipeline.choice, ranking) if ranking else 1,
        rejections=funnel.rejections(),
    )


def _picks_among(choice: Choice, ranking: HostOrder) -> int:
    """Among how many of the best chance picks: a number that is set, or those of equal weight that are shuffled."""
    return max(min(choice.host_subset_size, len(ranking)), ranking.count_best() if choice.shuffles_best else 1)


def list_rejections(pipeline: Pipeline, table: HostTable, spec: RequestSpec) -> tuple[Rejection, ...]:
    """Every host that cannot take one instance of the request, with the first check that rejects it."""
    return run_funnel(find_explained_instance(pipeline, table, spec.changed(num_instances=1))).rejections()


def explain_host(pipeline: Pipeline, table: HostTable, spec: RequestSpec, row: int) -> HostExplanation:
    """Everything that rejects the host in this row, or why another host won. Raises what a plugin raises."""
    instance = find_explained_instance(pipeline, table, spec)
    funnel = run_funnel(instance)
    ranking = HostOrder(funnel.left, instance.rules, instance.spec) if len(funnel.left) else None
    is_left = funnel.first[row] == NONE
    own = ranking.of_row(row) if ranking and is_left else None
    winner = ranking.best(1)[0] if ranking else None
    differences = _differences(own, winner) if own and winner and own != winner else ()
    host, node = table.names[row]
    return HostExplanation(
        host=host,
        node=node,
        hosts=len(table.names),
        wanted=instance.wanted,
        placed=instance.placed,
        blockers=() if is_left else _blockers(instance, funnel, row),
        fitting=len(funnel.left),
        own=own,
        winner=winner,
        differences=differences,
        decided_by=_decided_by(own, winner, differences),
    )


def _blockers(instance: ExplainedInstance, funnel: Funnel, row: int) -> tuple[Blocker, ...]:
    """Every check that rejects the row, in the order of the checks."""
    found, first = find_blockers(instance), int(funnel.first[row])
    obstacles = Obstacles(found, funnel)
    numbers = sorted({*found.of_row(row), first})
    return tuple(
        Blocker(
            check.stage,
            check.name,
            subject_of(check),
            obstacles.reason(row, number),
            is_first=number == first,
            is_plugin=check.rule is not None and not check.rule.is_built_in,
            remedy=obstacles.remedy(row, number),
        )
        for number in numbers
        for check in [instance.checks[number].check]
    )


def _differences(own: RankedHost, winner: RankedHost) -> tuple[ScoreDifference, ...]:
    beside = {each.weigher: each for each in winner.scores}
    found = [ScoreDifference(each.weigher, each, beside[each.weigher]) for each in own.scores]
    return tuple(sorted(found, key=lambda each: -each.lead))


def _decided_by(own: RankedHost | None, winner: RankedHost | None, differences: tuple[ScoreDifference, ...]) -> str:
    """The weigher through which the winner leads most; empty if there is no winner ahead of the host."""
    if own is None or winner is None or own.weight == winner.weight or not differences:
        return ""
    return differences[0].weigher
