# SPDX-License-Identifier: Apache-2.0
"""Measures how the time of a request splits into stages and rules, on a copy of the table."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from roost.errors import NoValidHost, RoostError
from roost.hosts import Hosts, HostTable
from roost.model.request import RequestSpec
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.search import STAGES, Randomness

FIRST_RUNS, AGAIN_RUNS, RULE_RUNS = 9, 101, 9


@dataclass(frozen=True)
class Profile:
    """Medians in microseconds."""

    hosts: int
    first_us: Mapping[str, float]
    """Stage -> time of the first request of its kind, which is a full scan; `total` included."""
    again_us: Mapping[str, float]
    """Stage -> time of further requests of its kind, from the cache if the engine has one; `total` included."""
    rules_us: Mapping[str, float]
    """Filter or weigher that applies to the request -> its time on all hosts, by itself."""


def profile(
    pipeline: Pipeline, table: HostTable, spec: RequestSpec, randomness: Randomness, clock: Callable[[], int]
) -> Profile:
    """Place one instance of the request repeatedly, and release it each time."""
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

    spent(pipeline.fresh())  # the first calls of Python and numpy code are not the request's
    first = [spent(pipeline.fresh()) for _ in range(FIRST_RUNS)]
    warm = pipeline.fresh()
    spent(warm)
    spent(warm)
    again = [spent(warm) for _ in range(AGAIN_RUNS)]
    return Profile(len(table.names), _medians(first), _medians(again), _rules(pipeline, table, spec, clock))


def _medians(runs: list[Mapping[str, float]]) -> dict[str, float]:
    return {stage: statistics.median(run[stage] for run in runs) for stage in (*STAGES, "total")}


def _rules(pipeline: Pipeline, table: HostTable, spec: RequestSpec, clock: Callable[[], int]) -> dict[str, float]:
    """Each rule alone; without rules that raise an error for hosts which an earlier rule would have rejected."""
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
