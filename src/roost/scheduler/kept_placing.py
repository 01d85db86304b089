# SPDX-License-Identifier: Apache-2.0
"""Several instances whose class is known: only what changed since is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from roost.hosts.arrays import RowArray
from roost.model.decision import Ranked, Scores, Selection, Standings, Step
from roost.model.request import RequestSpec
from roost.scheduler.checks import with_details
from roost.scheduler.incremental.request_classes import RequestClass
from roost.scheduler.incremental.survivors import PASSED
from roost.scheduler.incremental.tie_breaks import RowNumbers, TieBreaks
from roost.scheduler.placing import KEPT_BEST, Given, Placing


class KeptPlacing(Placing):
    """The same decisions as the plain way's, to the bit, from what the class keeps."""

    def __init__(self, given: Given, kept: RequestClass) -> None:
        super().__init__(given, given.table.in_the_running())
        self.kept = kept
        self.rounds = TieBreaks(kept)
        self.others: list[int] = []
        """At the end: rows that none of them went to, best first, as far as somebody looked."""
        self.equals: Iterator[list[RowNumbers]] = iter(())
        """Where they come from: the survivors, those of equal weight together."""

    def place_one(self, index: int, is_last: bool, alternates: int) -> bool:
        """Choose from the ranking; ties are settled by the rounds before."""
        self.catch_up(index)
        if not self.kept.survivors.left:
            self.steps = self.kept.refusal() if index == 0 else self.explain()
            return False
        key, row = self.choose_first() if index == 0 else self.choose_next()
        ranked = self.ranked(key, row)
        self.rounds.note(self.kept.ranking.terms, row, self.kept.ranking.numbers_of(row))
        self.note_time("weigh")
        self.take(row, ranked)
        return True

    def catch_up(self, index: int) -> None:
        """What the instance before this one changed; only its host can have fallen out."""
        if index == 0:
            self.steps = self.kept.survivors.steps
        else:
            self.kept.follow(self.spec)
            survivors = self.kept.survivors
            code = survivors.codes[self.taken[-1].row]
            if code != PASSED:
                lost, left = survivors.checks[code], survivors.left
                self.steps = (*self.steps, Step(lost.stage, lost.name, left + 1, left))
        self.note_time("filter")

    def explain(self) -> tuple[Step, ...]:
        """What all those lacked who fell out, in whichever round."""
        return tuple(with_details(self.steps, self.kept.survivors.fallen(), self.hosts))

    def choose_first(self) -> tuple[float, int]:
        """The best row; who comes after it is noted for the decision."""
        order = self.kept.best(KEPT_BEST)
        self.best = Standings(self.kept.ranking.noted_of(order)) if len(order) > 1 else (self.ranked(*order[0]),)
        return order[0]

    def choose_next(self) -> tuple[float, int]:
        """The best row; of several, the one that came first in the round before."""
        (key, row), *others = self.kept.best(2)
        if others and others[0][0] == key:
            tied = self.kept.ranking.tied(key, self.kept.survivors, self.rounds.changed, self.rounds.order)
            row = self.rounds.first(tied)
        return key, row

    def ranked(self, key: float, row: int) -> Ranked:
        """One host with its weight and scores; where it is the only one left, nobody was weighed."""
        if self.kept.survivors.left == 1:
            return Ranked(*self.table.names[row], 0.0, {})
        ((pair, weight, parts),) = self.kept.ranking.noted_of([(key, row)])
        return Ranked(*pair, weight, Scores(*parts))

    def select(self, alternates: int) -> tuple[Selection, ...]:
        """What the last instance took may have changed who fits."""
        if alternates:
            self.kept.follow(self.spec)
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

    def next_best(self) -> Iterator[int]:
        """As they are now."""
        yield from self.others
        for equal in self.equals:
            start = len(self.others)
            self.others += self.rounds.in_order(equal)
            yield from self.others[start:]

    def limits(self, rows: Sequence[int], spec: RequestSpec) -> list[dict[str, Any]]:
        """Most classes know of no filter that sets any."""
        return super().limits(rows, spec) if self.kept.has_limits else [{} for _ in rows]
