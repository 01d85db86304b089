# SPDX-License-Identifier: Apache-2.0
"""One request under way, the plain way: every host is asked and weighed for every instance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from roost.errors import NoValidHost
from roost.hosts import Hosts, HostTable
from roost.hosts.arrays import RowArray
from roost.model.decision import Candidate, Decision, Ranked, Selection, Step, build_unchecked
from roost.model.request import RequestSpec
from roost.scheduler.checks import Check, narrow, with_details
from roost.scheduler.weighing import Randomness, Weighed, prefer, weigh

if TYPE_CHECKING:
    from roost.scheduler.pipeline import Pipeline

STAGES = ("prefilter", "capacity", "filter", "weigh", "choose")
KEPT_BEST = 5
"""How many hosts a decision shows with their scores."""
_NO_TIME = dict.fromkeys(STAGES, 0)


class Given(NamedTuple):
    """A request and what it is placed with."""

    pipeline: Pipeline
    table: HostTable
    spec: RequestSpec
    randomness: Randomness
    clock: Callable[[], int]
    """Nanoseconds."""
    started: int
    """When the request came in, by this clock."""


class Taken(NamedTuple):
    """One instance that has its host."""

    row: int
    spec: RequestSpec
    """As it was placed: this is what gives the resources back."""
    ranked: Ranked


class Placing(ABC):
    """All instances are placed, or none is. Each starts from the survivors of the one before it, in their order."""

    def __init__(self, given: Given, hosts: Hosts) -> None:
        """`hosts`: those to choose from, in the order that settles ties."""
        self.pipeline, self.table, self.spec, self.randomness, self.clock, self.started = given
        """`started` is when the last note of the time was taken."""
        self.hosts, self.looked_at = hosts, len(hosts)
        self.steps: tuple[Step, ...] = ()
        self.best: Sequence[Ranked] = ()
        self.taken: list[Taken] = []
        self.nanoseconds = dict(_NO_TIME)

    def run(self, uuids: Sequence[str | None], alternates: int) -> Decision:
        """Place one instance per uuid; NoValidHost, and nothing taken, where one has no host."""
        try:
            for index, uuid in enumerate(uuids):
                self.spec = self.spec.for_instance(uuid)
                if not self.place_one(index, is_last=index + 1 == len(uuids), alternates=alternates):
                    raise NoValidHost(self.decide((), len(uuids), failed_at=index))
            return self.decide(self.select(alternates), len(uuids))
        except BaseException:
            for each in reversed(self.taken):
                self.table.release(each.row, each.spec)
            raise

    @abstractmethod
    def place_one(self, index: int, is_last: bool, alternates: int) -> bool:
        """Choose a host for this instance and take it; False where none is left."""

    @abstractmethod
    def next_best(self) -> Iterable[int]:
        """Rows that could take an instance, in order of preference."""

    def take(self, row: int, ranked: Ranked) -> None:
        """The instance goes to this row."""
        placed = self.table.consume(row, self.spec, self.pipeline.numa_limits(self.hosts, row, self.spec))
        self.taken.append(Taken(row, placed, ranked))
        self.spec = placed.with_group_host(ranked.host)
        self.note_time("choose")

    def select(self, alternates: int) -> tuple[Selection, ...]:
        """The chosen hosts, each with the hosts to try next: same cell, chosen for none of the instances."""
        chosen = {each.row for each in self.taken}
        return tuple([self.selection(each, chosen, alternates) for each in self.taken])

    def selection(self, taken: Taken, chosen: set[int], alternates: int) -> Selection:
        """One chosen host and the next best of its cell that no instance went to, all with their limits."""
        others = self.others_for(taken.row, chosen, alternates) if alternates else []
        own, *limits = self.limits([taken.row, *others], taken.spec)
        names, ranked = self.table.names, taken.ranked
        candidates = [
            build_unchecked(Candidate, {"host": names[row][0], "node": names[row][1], "limits": limit, "row": row})
            for row, limit in zip(others, limits, strict=True)
        ]
        return build_unchecked(
            Selection,
            {
                "host": ranked.host,
                "node": ranked.node,
                "limits": own,
                "instance_uuid": taken.spec.instance_uuid,
                "ranked": ranked,
                "alternates": tuple(candidates),
                "placed": taken.spec,
                "row": taken.row,
            },
        )

    def limits(self, rows: Sequence[int], spec: RequestSpec) -> list[dict[str, Any]]:
        """What travels with the request to each of these rows."""
        return self.pipeline.limits(self.hosts, rows, spec)

    def others_for(self, row: int, chosen: set[int], count: int) -> list[int]:
        """The next best of the same cell that no instance went to."""
        cells, found = self.table.encoded["cell"], []
        is_one = len(cells.values) == 1
        for each in self.next_best():
            if each not in chosen and (is_one or cells.codes[each] == cells.codes[row]):
                found.append(each)
                if len(found) == count:
                    break
        return found

    def decide(self, selections: tuple[Selection, ...], wanted: int, failed_at: int | None = None) -> Decision:
        """The record of it all."""
        time_us, total = {}, 0
        for stage, spent in self.nanoseconds.items():
            time_us[stage] = spent / 1000
            total += spent
        time_us["total"] = total / 1000
        return build_unchecked(
            Decision,
            {
                "hosts": self.looked_at,
                "wanted": wanted,
                "steps": self.steps,
                "weighers": self.pipeline.weigher_names,
                "best": self.best,
                "selections": selections,
                "time_us": time_us,
                "failed_at": failed_at,
            },
        )

    def note_time(self, stage: str) -> None:
        """Everything since the last note went into this stage."""
        now = self.clock()
        self.nanoseconds[stage] += now - self.started
        self.started = now


class PlainPlacing(Placing):
    """Nothing is known beforehand, and nothing is kept."""

    def __init__(self, given: Given, hosts: Hosts | None) -> None:
        """`hosts`: all of the table by default."""
        super().__init__(given, given.table.in_the_running() if hosts is None else hosts)
        self.losses: list[tuple[Check, RowArray]] = []
        """Questions at which hosts fell out, and which rows these are."""

    def place_one(self, index: int, is_last: bool, alternates: int) -> bool:
        """Leaves the survivors in order of preference."""
        self.narrow(index)
        if not len(self.hosts):
            self.explain()
            return False
        weighed = self.weigh()
        order = prefer(weighed, self.pipeline.choice, self.depth(index, is_last, alternates), self.randomness)
        shown = order[: KEPT_BEST if index == 0 else 1]
        best = tuple(weighed.ranked(position) for position in shown.tolist())
        self.best = self.best or best
        self.hosts = self.hosts.take(order)
        self.take(self.hosts.row_at(0), best[0])
        return True

    def narrow(self, index: int) -> None:
        """Put every question to the hosts in the running until none is left."""
        before, asked = len(self.hosts), None
        for asked in narrow(self.hosts, self.pipeline.checks(self.table, self.spec, index)):
            check = asked.check
            if asked.takes_out:
                self.losses.append((check, asked.lost()))
            if index == 0 or asked.left < before:
                self.steps = (*self.steps, Step(check.stage, check.name, before, asked.left))
            before = asked.left
            self.note_time(check.stage)
        if asked is not None:
            self.hosts = asked.hosts.keep(asked.stays)

    def explain(self) -> None:
        """Nobody is left: say of each step what all those lacked whom it took out, in whichever round."""
        self.steps = tuple(with_details(self.steps, self.losses, self.hosts))

    def weigh(self) -> Weighed:
        """The weights of those who are left."""
        weighed = weigh(self.hosts, self.pipeline.weighers, self.spec)
        self.note_time("weigh")
        return weighed

    def depth(self, index: int, is_last: bool, alternates: int) -> int:
        """How many hosts must be in order: all, if others are still to be chosen from them."""
        if not is_last or (alternates and (index > 0 or len(self.table.encoded["cell"].values) > 1)):
            return len(self.hosts)
        return max(KEPT_BEST, alternates + 1) if index == 0 else 1

    def select(self, alternates: int) -> tuple[Selection, ...]:
        """After several instances: what the last one took may have changed who fits."""
        if alternates and len(self.taken) > 1:
            steps = self.steps
            self.narrow(len(self.taken) - 1)
            self.steps = steps  # this is not part of the story of the chosen ones
            weighed = self.weigh()
            if len(self.hosts):
                self.hosts = self.hosts.take(prefer(weighed, self.pipeline.choice, len(self.hosts), self.randomness))
        return super().select(alternates)

    def next_best(self) -> Iterable[int]:
        """Those who are left."""
        return (int(row) for row in self.hosts.rows)
