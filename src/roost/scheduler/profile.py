# SPDX-License-Identifier: Apache-2.0
"""Where does the time of a request go? Measured on a copy: nothing is placed."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from roost.errors import NoValidHost, RoostError
from roost.hosts import Hosts, HostTable
from roost.model.request import RequestSpec
from roost.scheduler.choice import Randomness
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.search import STAGES

FIRST_RUNS, AGAIN_RUNS, RULE_RUNS = 9, 101, 9


@dataclass(frozen=True)
class Profile:
    """Medians in microseconds."""

    hosts: int
    first_us: Mapping[str, float]
    """By stage, `total` included: the first request of its kind, of which nothing is known."""
    again_us: Mapping[str, float]
    """The same for every further one: only what changed is looked at."""
    rules_us: Mapping[str, float]
    """Each filter and weigher that has something to say, by itself, on all hosts."""


def profile(
    pipeline: Pipeline, table: HostTable, spec: RequestSpec, randomness: Randomness, clock: Callable[[], int]
) -> Profile:
    """Place one instance of the request again and again, and give it back each time."""
    table = table.copy()

    def spent(by: Pipeline) -> Mapping[str, float]:
        try:
            decision = by.place(table, spec, ["profiled"], randomness=randomness, clock=clock)
        except NoValidHost as failure:
            return failure.decision.time_us
        for each in decision.selections:
            if each.placed is not None:
                table.release(each.row, each.placed)
        return decision.time_us

    spent(pipeline.fresh())  # what Python and numpy do once is not the request's
    first = [spent(pipeline.fresh()) for _ in range(FIRST_RUNS)]
    kept = pipeline.fresh()
    spent(kept)
    spent(kept)
    again = [spent(kept) for _ in range(AGAIN_RUNS)]
    return Profile(len(table.names), _medians(first), _medians(again), _rules(pipeline, table, spec, clock))


def _medians(runs: list[Mapping[str, float]]) -> dict[str, float]:
    return {stage: statistics.median(run[stage] for run in runs) for stage in (*STAGES, "total")}


def _rules(pipeline: Pipeline, table: HostTable, spec: RequestSpec, clock: Callable[[], int]) -> dict[str, float]:
    """Each rule alone. One that cannot be asked of all hosts, but only of those others have left, is not in it."""
    asked: dict[str, Callable[[Hosts], Any]] = {}
    for rule in pipeline.rules.filters:
        if rule.applies_to(spec):
            asked[rule.name] = partial(rule.answers, spec=spec)
    for weigher in pipeline.rules.weighers:
        if weigher.applies_to(spec) and not weigher.is_off(weigher.multipliers(table)):
            asked[weigher.name] = partial(weigher.clamped, spec=spec)
    found = {}
    for name, ask in asked.items():
        try:
            found[name] = statistics.median(_time(ask, table, clock) for _ in range(RULE_RUNS))
        except RoostError:
            continue
    return found


def _time(ask: Callable[[Hosts], Any], table: HostTable, clock: Callable[[], int]) -> float:
    hosts, started = table.in_the_running(), clock()
    ask(hosts)
    return (clock() - started) / 1000
