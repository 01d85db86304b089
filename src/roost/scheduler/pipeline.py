# SPDX-License-Identifier: Apache-2.0
"""One request from all hosts to the chosen ones: prefilter, capacity, filter, weigh, choose, consume.

Pure: the table, the request, randomness and the clock come in, a Decision comes out. Each instance of a request
is placed on the survivors of the one before it, in their order of preference; all are placed, or none is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from roost.errors import NoValidHost
from roost.filters.base import Filter
from roost.hosts import Hosts, HostTable
from roost.model.decision import Candidate, Decision, Ranked, Selection, Step
from roost.model.request import RequestSpec
from roost.scheduler.checks import Check, capacity_checks, filter_checks, is_forced, prefilter_checks
from roost.scheduler.scoring import Choice, Randomness, Weighed, prefer, weigh
from roost.weighers.base import Weigher

STAGES = ("prefilter", "capacity", "filter", "weigh", "choose")
KEPT_BEST = 5
"""How many hosts a decision shows with their scores."""


class Pipeline:
    """The enabled filters and weighers, and how one of the best is picked."""

    def __init__(
        self,
        filters: Sequence[Filter],
        weighers: Sequence[Weigher],
        choice: Choice | None = None,
        checks_capacity: bool = True,
    ) -> None:
        self.filters = tuple(filters)
        self.weighers = tuple(weighers)
        self.choice = choice or Choice()
        self.checks_capacity = checks_capacity
        self._limiting = [rule for rule in self.filters if type(rule).ceilings is not Filter.ceilings]

    def place(
        self,
        table: HostTable,
        spec: RequestSpec,
        uuids: Sequence[str | None],
        *,
        randomness: Randomness,
        clock: Callable[[], int],
        alternates: int = 0,
    ) -> Decision:
        """Choose a host for each instance and consume it there; NoValidHost, and no change, if one has none."""
        return _Placing(self, table, spec, randomness, clock).run(uuids, alternates)

    def checks(self, spec: RequestSpec, index: int) -> Iterator[Check]:
        """The questions for the instance of this number. What names hosts is settled with the first."""
        if index == 0:
            yield from prefilter_checks(spec)
        if self.checks_capacity:
            yield from capacity_checks(spec)
        yield from filter_checks(self.filters, spec, index)

    def limits(self, hosts: Hosts, row: int, spec: RequestSpec) -> dict[str, float]:
        """The ceilings that the filters set on one host, for whoever builds the instance there."""
        if is_forced(spec):
            return {}
        one = Hosts(hosts.table, np.array([row]), {})
        ceilings = (rule.ceilings(one, spec) for rule in self._limiting)
        found = {name: float(values[0]) for each in ceilings for name, values in each.items()}
        return {name: value for name, value in found.items() if value == value} | hosts.written_limits(row)


class _Placing:
    """One request under way."""

    def __init__(
        self,
        pipeline: Pipeline,
        table: HostTable,
        spec: RequestSpec,
        randomness: Randomness,
        clock: Callable[[], int],
    ) -> None:
        self.pipeline, self.table, self.spec = pipeline, table, spec
        self.randomness, self.clock = randomness, clock
        self.hosts = table.in_the_running()
        self.steps: list[Step] = []
        self.best: tuple[Ranked, ...] = ()
        self.taken: list[tuple[int, RequestSpec, Ranked]] = []
        """Row, request and score of each instance placed so far."""
        self.started = clock()
        self.nanoseconds = dict.fromkeys(STAGES, 0)

    def run(self, uuids: Sequence[str | None], alternates: int) -> Decision:
        try:
            for index, uuid in enumerate(uuids):
                self.place_one(index, uuid, is_last=index + 1 == len(uuids), alternates=alternates)
                if not len(self.hosts):
                    raise NoValidHost(self.decide((), len(uuids), failed_at=index))
            return self.decide(self.select(alternates), len(uuids))
        except BaseException:
            for row, spec, _ in reversed(self.taken):
                self.table.release(row, spec)
            raise

    def place_one(self, index: int, uuid: str | None, is_last: bool, alternates: int) -> None:
        """One instance; leaves the survivors in order of preference, nobody where none fits."""
        spec = self.spec = self.spec.for_instance(uuid)
        self.narrow(index)
        if not len(self.hosts):
            return
        weighed = self.weigh(spec)
        depth = self.depth(weighed, index, is_last, alternates)
        order = prefer(weighed, self.pipeline.choice, depth, self.randomness)
        shown = order[: KEPT_BEST if index == 0 else 1]
        best = tuple(weighed.ranked(position) for position in shown.tolist())
        self.best, ranked = self.best or best, best[0]
        self.hosts = self.hosts.take(order)
        row = self.hosts.row_at(0)
        self.table.consume(row, spec)
        self.taken.append((row, spec, ranked))
        self.spec = spec.with_group_host(ranked.host)
        self.note_time("choose")

    def narrow(self, index: int) -> None:
        """Put every question to the hosts in the running until none is left."""
        trail: list[tuple[Check, Hosts]] = []
        for check in self.pipeline.checks(self.spec, index):
            if not len(self.hosts):
                break
            asked = self.hosts
            self.hosts = check.survivors(asked)
            if index == 0 or len(self.hosts) < len(asked):
                trail.append((check, asked))
                self.steps.append(Step(check.stage, check.name, len(asked), len(self.hosts)))
            self.note_time(check.stage)
        if not len(self.hosts):
            self.explain(trail)

    def explain(self, trail: list[tuple[Check, Hosts]]) -> None:
        """Nobody is left: say of each step that took hosts out what they lacked."""
        told = len(self.steps) - len(trail)
        for at, (check, asked) in enumerate(trail, start=told):
            step = self.steps[at]
            if step.before > step.after:
                detail = check.shortage(asked)
                self.steps[at] = Step(step.stage, step.name, step.before, step.after, detail)

    def weigh(self, spec: RequestSpec) -> Weighed:
        weighed = weigh(self.hosts, self.pipeline.weighers, spec)
        self.note_time("weigh")
        return weighed

    def depth(self, weighed: Weighed, index: int, is_last: bool, alternates: int) -> int:
        """How many hosts must be in order: all, if others are still to be chosen from them."""
        if not is_last or (alternates and (index > 0 or len(self.table.encoded["cell"].values) > 1)):
            return len(self.hosts)
        return max(KEPT_BEST, alternates + 1) if index == 0 else 1

    def select(self, alternates: int) -> tuple[Selection, ...]:
        """The chosen hosts, each with the hosts to try next: same cell, chosen for none of the instances."""
        if alternates and len(self.taken) > 1:
            self.narrow(len(self.taken) - 1)
            weighed = self.weigh(self.spec)
            if len(self.hosts):
                self.hosts = self.hosts.take(prefer(weighed, self.pipeline.choice, len(self.hosts), self.randomness))
        chosen = {row for row, _, _ in self.taken}
        selections = []
        for row, spec, ranked in self.taken:
            others = tuple(self.others(row, chosen, alternates, spec)) if alternates else ()
            limits = self.pipeline.limits(self.hosts, row, spec)
            selections.append(Selection(ranked.host, ranked.node, limits, spec.instance_uuid, ranked, others))
        return tuple(selections)

    def others(self, row: int, chosen: set[int], alternates: int, spec: RequestSpec) -> Iterator[Candidate]:
        cells = self.table.encoded["cell"].codes
        found = 0
        for other in map(int, self.hosts.rows):
            if found == alternates:
                return
            if other not in chosen and cells[other] == cells[row]:
                found += 1
                yield Candidate(*self.table.names[other], self.pipeline.limits(self.hosts, other, spec))

    def decide(self, selections: tuple[Selection, ...], wanted: int, failed_at: int | None = None) -> Decision:
        time_us = {stage: spent / 1000 for stage, spent in self.nanoseconds.items()}
        return Decision(
            hosts=len(self.table),
            wanted=wanted,
            steps=tuple(self.steps),
            weighers=tuple(weigher.name for weigher in self.pipeline.weighers),
            best=self.best,
            selections=selections,
            time_us=time_us | {"total": sum(time_us.values())},
            failed_at=failed_at,
        )

    def note_time(self, stage: str) -> None:
        """Everything since the last note went into this stage."""
        now = self.clock()
        self.nanoseconds[stage] += now - self.started
        self.started = now
