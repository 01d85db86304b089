# SPDX-License-Identifier: Apache-2.0
"""One request under way whose class is known: only what changed since is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from roost.errors import NoValidHost
from roost.hosts.arrays import RowArray
from roost.model.decision import Decision, Ranked, Scores, Selection, Standings, Step
from roost.model.request import RequestSpec
from roost.scheduler.checks import explained
from roost.scheduler.classes import OwnPart, RequestClass
from roost.scheduler.placing import KEPT_BEST, Given, Placing, Taken
from roost.scheduler.rounds import Rounds, Standing
from roost.scheduler.survivors import PASSED


class KeptPlacing(Placing):
    """The same decisions as the plain way's, to the bit, from what the class keeps."""

    def __init__(self, given: Given, kept: RequestClass | OwnPart) -> None:
        super().__init__(given)
        self.kept = kept
        self.rounds: Rounds | None = None
        """Where there are several instances."""
        self.order: list[tuple[float, int]] = []
        """(Weight turned round, row) of the best for the first instance, the chosen one first."""
        self.others: list[int] = []
        """After several instances: rows that none of them went to, best first, as far as somebody looked."""
        self.equals: Iterator[list[Standing]] = iter(())
        """Where they come from: the survivors, those of equal weight together."""

    def run(self, uuids: Sequence[str | None], alternates: int) -> Decision:
        """One instance, as almost always, goes a shorter way through the same steps: a tenth of its time is calls."""
        if len(uuids) > 1:
            return super().run(uuids, alternates)
        survivors, clock = self.kept.survivors, self.clock
        self.spec = self.spec.for_instance(uuids[0])
        self.steps = survivors.steps
        asked = clock()
        self.nanoseconds["filter"] = asked - self.started
        if not survivors.left:
            self.steps = self.kept.refusal()
            raise NoValidHost(self.decide((), 1, failed_at=0))
        key, row = self.choose_first(True, alternates)
        ranked = self.ranked(key, row)
        weighed = clock()
        self.nanoseconds["weigh"] = weighed - asked
        taken = Taken(row, self.table.consume(row, self.spec), ranked)
        self.taken.append(taken)
        try:
            selection = self.selection(taken, {row}, alternates)
        except BaseException:
            self.table.release(row, taken.spec)
            raise
        self.nanoseconds["choose"] = clock() - weighed
        return self.decide((selection,), 1)

    def place_one(self, index: int, is_last: bool, alternates: int) -> bool:
        """Choose from the ranking; several instances settle ties by their rounds."""
        self.catch_up(index)
        if not self.kept.survivors.left:
            self.steps = self.kept.refusal() if index == 0 else self.explain()
            return False
        key, row = self.choose_first(is_last, alternates) if index == 0 else self.choose_next()
        ranked = self.ranked(key, row)
        if not is_last or self.rounds:
            self.rounds = self.rounds or Rounds()
            self.rounds.note(self.kept.ranking.terms, row, self.kept.ranking.numbers_of(row))
        self.note_time("weigh")
        self.take(row, ranked)
        return True

    def catch_up(self, index: int) -> None:
        """What the instance before this one changed; only its host can have fallen out."""
        if index == 0:
            self.steps = self.kept.survivors.steps
        else:
            self.follow()
            survivors = self.kept.survivors
            code = survivors.codes[self.taken[-1].row]
            if code != PASSED:
                lost, left = survivors.checks[code], survivors.left
                self.steps = (*self.steps, Step(lost.stage, lost.name, left + 1, left))
        self.note_time("filter")

    def follow(self) -> None:
        """What the last instance changed."""
        if isinstance(self.kept, RequestClass):  # those with questions of their own are for one instance
            self.kept.follow(self.spec)

    def explain(self) -> tuple[Step, ...]:
        """What all those lacked who fell out, in whichever round."""
        return tuple(explained(self.steps, self.kept.survivors.fallen(), self.hosts))

    def choose_first(self, is_last: bool, alternates: int) -> tuple[float, int]:
        """The best row, or one of the best where chance decides."""
        subset = self.pipeline.choice.host_subset_size
        self.order = self.kept.best(max(KEPT_BEST, alternates + 1, subset))
        pick = self.randomness.randrange(min(subset, self.kept.survivors.left)) if subset > 1 else 0
        if is_last and alternates and len(self.table.encoded["cell"].values) > 1:
            self.look_further(self.order[pick][1], alternates)
        if pick:
            self.order.insert(0, self.order.pop(pick))
        self.best = self.standings(self.order[:KEPT_BEST])
        return self.order[0]

    def look_further(self, row: int, alternates: int) -> None:
        """Until there are enough alternates in the cell of this row, or nobody else."""
        codes, left = self.table.encoded["cell"].codes, self.kept.survivors.left
        while len(self.order) < left and sum(codes[each] == codes[row] for _, each in self.order) <= alternates:
            self.order = self.kept.best(min(left, 4 * len(self.order)))

    def choose_next(self) -> tuple[float, int]:
        """The best row; of several, the one that came first in the round before."""
        (key, row), *others = self.kept.best(2)
        if others and others[0][0] == key and self.rounds:
            row = self.rounds.first(self.kept.ranking.tied(key, self.kept.survivors))
        return key, row

    def standings(self, order: list[tuple[float, int]]) -> Sequence[Ranked]:
        """The best hosts with their scores."""
        if self.kept.survivors.left == 1:
            return tuple([self.ranked(*each) for each in order])
        names, noted = self.table.names, self.kept.ranking.noted_of([row for _, row in order])
        return Standings([(names[row], 0.0 - key, parts) for (key, row), parts in zip(order, noted, strict=True)])

    def ranked(self, key: float, row: int) -> Ranked:
        """One host with its weight and scores; where it is the only one left, nobody was weighed."""
        host, node = self.table.names[row]
        if self.kept.survivors.left == 1:
            return Ranked(host, node, 0.0, {})
        return Ranked(host, node, 0.0 - key, Scores(*self.kept.ranking.noted_of([row])[0]))

    def select(self, alternates: int) -> tuple[Selection, ...]:
        """After several instances: what the last one took may have changed who fits."""
        if alternates and len(self.taken) > 1:
            self.follow()
            self.equals = self.kept.ranking.in_order(self.still_passing())
        return super().select(alternates)

    def still_passing(self) -> RowArray:
        """Who could take an instance now. An anti-affinity group lets the last one stay where it is."""
        rows, last, group = self.kept.survivors.passed(), self.taken[-1].row, self.spec.instance_group
        if group is not None and group.policy == "anti-affinity" and self.kept.survivors.codes[last] != PASSED:
            checks = self.pipeline.checks(self.table, self.spec, len(self.taken) - 1)
            if all(check.for_rows(self.table)(last) for check in checks):
                return np.sort(np.append(rows, last))
        return rows

    def others_for(self, row: int, chosen: set[int], count: int) -> list[int]:
        """After one instance, those it was chosen from."""
        if len(self.taken) > 1:
            return super().others_for(row, chosen, count)
        cells, others = self.table.encoded["cell"], [each for _, each in self.order[1:]]
        if len(cells.values) > 1:
            others = [each for each in others if cells.codes[each] == cells.codes[row]]
        return others[:count]

    def next_best(self) -> Iterator[int]:
        """After several instances, as they are now."""
        yield from self.others
        for equal in self.equals:
            start = len(self.others)
            self.others += self.rounds.in_order(equal) if self.rounds else []
            yield from self.others[start:]

    def limits(self, rows: Sequence[int], spec: RequestSpec) -> list[dict[str, Any]]:
        """Most classes know of no filter that sets any."""
        return super().limits(rows, spec) if self.kept.has_limits else [{} for _ in rows]
