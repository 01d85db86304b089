# SPDX-License-Identifier: Apache-2.0
"""One request from all hosts to the chosen ones: prefilter, capacity, filter, weigh, choose, consume.

Pure: the table, the request, randomness and the clock come in, a Decision comes out. Each instance of a request
is placed on the survivors of the one before it, in their order of preference; all are placed, or none is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from roost.errors import NoValidHost
from roost.filters.base import Filter, applies_to_rebuild
from roost.hosts import Hosts, HostTable
from roost.hosts.arrays import BoolArray, RowArray
from roost.model.decision import Candidate, Decision, Ranked, Selection, Step
from roost.model.request import RequestSpec
from roost.scheduler.checks import Check, capacity_checks, filter_checks, is_forced, prefilter_checks
from roost.scheduler.prefilters import PrefilterOptions, request_checks
from roost.scheduler.rounds import Rounds, can_follow, is_steady
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
        prefilters: PrefilterOptions | None = None,
    ) -> None:
        self.filters = tuple(filters)
        self.weighers = tuple(weighers)
        self.choice = choice or Choice()
        self.checks_capacity = checks_capacity
        self.prefilters = prefilters or PrefilterOptions()
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
        hosts: Hosts | None = None,
    ) -> Decision:
        """Choose a host for each instance and consume it there; NoValidHost, and no change, if one has none.

        `hosts`: those to choose from, in the order that settles ties; all of the table by default.
        """
        return _Placing(self, hosts or table.in_the_running(), spec, randomness, clock).run(uuids, alternates)

    def checks(self, table: HostTable, spec: RequestSpec, index: int) -> Iterator[Check]:
        """The questions for the instance of this number. The prefilters are settled with the first."""
        if index == 0:
            yield from prefilter_checks(spec)
            yield from request_checks(spec, table.known_aggregates, self.prefilters)
        if self.checks_capacity:
            yield from capacity_checks(spec)
        yield from filter_checks(self.filters, spec, index)

    def can_follow(self, spec: RequestSpec) -> bool:
        """Whether further instances of this request need look at nothing but the host of the last one."""
        return can_follow(self.filters, self.weighers, self.choice, spec)

    def limits(self, hosts: Hosts, rows: Sequence[int], spec: RequestSpec) -> list[dict[str, Any]]:
        """The ceilings that the filters set on these hosts, for whoever builds the instance there."""
        if is_forced(spec):
            return [{} for _ in rows]
        those = Hosts(hosts.table, np.array(rows, dtype=np.intp), {})
        asked = (rule for rule in self._limiting if not spec.is_rebuild or applies_to_rebuild(rule))
        ceilings = {name: values.tolist() for rule in asked for name, values in rule.ceilings(those, spec).items()}
        return [
            {name: values[at] for name, values in ceilings.items() if values[at] == values[at]}
            | hosts.written_limits(row)
            for at, row in enumerate(rows)
        ]


class Taken(NamedTuple):
    """One instance that has its host."""

    row: int
    spec: RequestSpec
    """As it was placed: this is what gives the resources back."""
    ranked: Ranked


class _Placing:
    """One request under way."""

    def __init__(
        self,
        pipeline: Pipeline,
        hosts: Hosts,
        spec: RequestSpec,
        randomness: Randomness,
        clock: Callable[[], int],
    ) -> None:
        self.pipeline, self.hosts, self.table, self.spec = pipeline, hosts, hosts.table, spec
        self.randomness, self.clock = randomness, clock
        self.looked_at = len(hosts)
        self.steps: list[Step] = []
        self.best: tuple[Ranked, ...] = ()
        self.taken: list[Taken] = []
        self.position = 0
        """Where the last instance went, among the hosts."""
        self.rounds: Rounds | None = None
        self.losses: list[tuple[Check, Hosts, BoolArray]] = []
        """Questions at which hosts fell out: who was asked, and which of them fell."""
        self.started = clock()
        self.nanoseconds = dict.fromkeys(STAGES, 0)

    def run(self, uuids: Sequence[str | None], alternates: int) -> Decision:
        try:
            for index, uuid in enumerate(uuids):
                if self.rounds:
                    self.place_another(self.rounds, index, uuid)
                else:
                    self.place_one(index, uuid, is_last=index + 1 == len(uuids), alternates=alternates)
                if not len(self.hosts):
                    self.explain()
                    raise NoValidHost(self.decide((), len(uuids), failed_at=index))
            return self.decide(self.select(alternates), len(uuids))
        except BaseException:
            for each in reversed(self.taken):
                self.table.release(each.row, each.spec)
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
        if not is_last and is_steady(weighed) and self.pipeline.can_follow(spec):
            self.rounds = Rounds(weighed, self.pipeline.weighers, order)
        self.hosts = self.hosts.take(order)
        self.take(0, ranked)

    def take(self, position: int, ranked: Ranked) -> None:
        """The instance goes to the host at this position."""
        row = self.hosts.row_at(position)
        placed = self.table.consume(row, self.spec, self.numa_limits(row, self.spec))
        self.taken.append(Taken(row, placed, ranked))
        self.position, self.spec = position, placed.with_group_host(ranked.host)
        self.note_time("choose")

    def place_another(self, rounds: Rounds, index: int, uuid: str | None) -> None:
        """One more instance, where only the host of the last one has changed."""
        self.spec = self.spec.for_instance(uuid)
        if index == 1:
            changed = self.table.columns_touched(self.taken[0].row, self.spec)
            rounds.expect(changed, self.pipeline.checks(self.table, self.spec, index))
        lost = rounds.recheck(self.position)
        if lost:
            self.losses.append((lost, rounds.one(self.position), np.ones(1, dtype=np.bool_)))
            self.steps.append(Step(lost.stage, lost.name, rounds.left + 1, rounds.left))
        self.note_time("filter")
        if not rounds.left:
            self.hosts, self.rounds = rounds.hosts.take(np.zeros(0, dtype=np.intp)), None
            return
        rounds.reweigh(self.position, self.spec)
        self.note_time("weigh")
        position = rounds.best()
        self.take(position, rounds.ranked(position))

    def numa_limits(self, row: int, spec: RequestSpec) -> Any:
        """The overcommit to which the guest's NUMA cells are fitted; none where no filter sets one."""
        return self.pipeline.limits(self.hosts, [row], spec)[0].get("numa_topology") if spec.numa_topology else None

    def narrow(self, index: int) -> None:
        """Put every question to the hosts in the running until none is left."""
        hosts, stays, left = self.hosts, np.ones(len(self.hosts), dtype=np.bool_), len(self.hosts)
        for check in self.pipeline.checks(self.table, self.spec, index):
            if not left:
                break
            before, asked = left, stays
            if check.ask is not None:
                # Plain arithmetic on all is faster than gathering columns for those who are left, if these are many.
                if left < len(hosts) and (2 * left < len(hosts) or not check.never_fails):
                    hosts, asked = hosts.keep(stays), np.ones(left, dtype=np.bool_)
                stays = asked & check.ask(hosts)
                left = int(np.count_nonzero(stays))
            if left < before:
                self.losses.append((check, hosts, asked & ~stays))
            if index == 0 or left < before:
                self.steps.append(Step(check.stage, check.name, before, left))
            self.note_time(check.stage)
        self.hosts = hosts.keep(stays)

    def explain(self) -> None:
        """Nobody is left: say of each step what all those lacked whom it took out, in whichever round."""
        rows: dict[str, list[RowArray]] = {}
        for check, hosts, lost in self.losses:
            rows.setdefault(check.name, []).append(hosts.rows[lost])
        details = {
            check.name: check.shortage(Hosts(self.table, np.concatenate(rows[check.name]), {}))
            for check, _, _ in self.losses
        }
        self.steps = [step._replace(detail=details.get(step.name, "")) for step in self.steps]

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
        if self.rounds and alternates:
            self.hosts = self.rounds.in_order()
        if alternates and len(self.taken) > 1:  # what the last instance took may have changed who fits
            steps = len(self.steps)
            self.narrow(len(self.taken) - 1)
            del self.steps[steps:]  # this is not part of the story of the chosen ones
            weighed = self.weigh(self.spec)
            if len(self.hosts):
                self.hosts = self.hosts.take(prefer(weighed, self.pipeline.choice, len(self.hosts), self.randomness))
        chosen = {each.row for each in self.taken}
        return tuple(self.selection(each, chosen, alternates) for each in self.taken)

    def selection(self, taken: Taken, chosen: set[int], alternates: int) -> Selection:
        """One chosen host and the next best of its cell that no instance went to, all with their limits."""
        cells = self.table.encoded["cell"].codes
        rows = (int(row) for row in self.hosts.rows) if alternates else iter(())
        free = (row for row in rows if row not in chosen and cells[row] == cells[taken.row])
        others = list(islice(free, alternates))
        own, *limits = self.pipeline.limits(self.hosts, [taken.row, *others], taken.spec)
        return Selection(
            taken.ranked.host,
            taken.ranked.node,
            own,
            instance_uuid=taken.spec.instance_uuid,
            ranked=taken.ranked,
            alternates=tuple(
                Candidate(*self.table.names[row], limit) for row, limit in zip(others, limits, strict=True)
            ),
            placed=taken.spec,
        )

    def decide(self, selections: tuple[Selection, ...], wanted: int, failed_at: int | None = None) -> Decision:
        time_us = {stage: spent / 1000 for stage, spent in self.nanoseconds.items()}
        return Decision(
            hosts=self.looked_at,
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
