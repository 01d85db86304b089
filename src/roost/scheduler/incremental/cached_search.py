# SPDX-License-Identifier: Apache-2.0
"""Searches that answer from the cache: for one instance, and for several with their ties broken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from roost.hosts import HostTable
from roost.hosts.arrays import RowArray
from roost.model.decision import RankedList, Step
from roost.model.request import RequestSpec
from roost.scheduler.checks import with_details
from roost.scheduler.incremental.overlay import RequestOverlay
from roost.scheduler.incremental.request_class import RequestClass
from roost.scheduler.incremental.survivors import PASSED
from roost.scheduler.incremental.tie_breaks import Round, RowNumbers, TieBreaks
from roost.scheduler.rules import Rules
from roost.scheduler.search import Order, StageTimes


class CachedSearch:
    """A request for one instance, answered from a class of requests that is up to date."""

    def __init__(self, cached: RequestClass | RequestOverlay, table: HostTable, times: StageTimes) -> None:
        self._cached, self._table, self._times = cached, table, times
        self.looked_at = len(table.names)
        self.steps = cached.survivors.steps

    def narrow(self, spec: RequestSpec, index: int) -> int:
        """How many hosts are left: the class knows."""
        self._times.note("filter")
        return self._cached.survivors.left

    def rank(self, count: int) -> Order:
        """The `count` best hosts, best first; of equal ones the first rows."""
        self._order: Order = self._cached.best(count)
        return self._order

    def reorder(self, order: Order) -> None:
        """The best hosts are in this order from now on."""
        self._order = order

    def scores(self, order: Order) -> RankedList:
        """These hosts with their weights and scores; a host that is the only one left is not weighed."""
        if self._cached.survivors.left == 1:
            return RankedList([(self._table.names[row], 0.0, ((), (), (), ())) for _, row in order])
        return RankedList(self._cached.ranking.noted_of(order))

    def next_best(self) -> Iterator[int]:
        """Rows that are left, best first; more are looked for only if those that were ranked do not suffice."""
        rows = [row for _, row in self._order]
        yield from rows
        known, left = set(rows), self._cached.survivors.left
        while len(known) < left:
            for _, row in self._cached.best(min(left, 4 * len(known))):
                if row not in known:
                    known.add(row)
                    yield row

    def explain(self) -> tuple[Step, ...]:
        """The steps with what the rejected hosts lacked."""
        return self._cached.refusal()

    def written_limits(self, row: int) -> dict[str, Any]:
        """Empty: requests with plugins in nova's shape, which write limits on hosts, get a full scan."""
        return {}

    def candidate_of(self, row: int) -> None:
        """None: requests with allocation candidates get a full scan."""


class TieBreakingSearch(CachedSearch):
    """A request for several instances: only what the instance before changed is looked at for the next.

    Hosts of equal weight are in the order that the instance before left, see `tie_breaks.py`.
    """

    _cached: RequestClass

    def __init__(self, rules: Rules, cached: RequestClass, table: HostTable, times: StageTimes) -> None:
        super().__init__(cached, table, times)
        self._rules = rules
        self._tie_breaks = TieBreaks(cached)
        self._index = 0
        self._round: Round | None = None
        """What the latest instance was weighed by, and the host it goes to."""
        self._last_row = -1
        """The host of the instance before."""
        self._others: list[int] = []
        self._ties_left: Iterator[list[RowNumbers]] | None = None
        """Where `next_best` goes on after the rows in `_others`."""

    def narrow(self, spec: RequestSpec, index: int) -> int:
        """Bring the class up to date after the instance before: how many hosts are left."""
        self._spec, self._index, self._ties_left = spec, index, None
        if self._round is None:
            return super().narrow(spec, index)
        self._last_row = self._round.row
        self._tie_breaks.note(self._round)
        self._cached.follow(spec)
        survivors = self._cached.survivors
        code = survivors.codes[self._last_row]  # no other host can have been rejected
        if code != PASSED:
            lost, left = survivors.checks[code], survivors.left
            self.steps = (*self.steps, Step(lost.stage, lost.name, left + 1, left))
        self._times.note("filter")
        return survivors.left

    def rank(self, count: int) -> Order:
        """The `count` best hosts of the first instance; of further ones the best alone, its ties broken."""
        order = self._cached.best(count) if self._index == 0 else [self._best_after_ties()]
        row, ranking = order[0][1], self._cached.ranking
        self._round = Round(ranking.terms, row, ranking.numbers_of(row))
        return order

    def _best_after_ties(self) -> tuple[float, int]:
        (key, row), *others = self._cached.best(2)
        if others and others[0][0] == key:
            ties = self._tie_breaks
            row = ties.first(self._cached.ranking.tied(key, self._cached.survivors, ties.changed, ties.order))
        return key, row

    def next_best(self) -> Iterator[int]:
        """Rows that could take another instance and took none, best first; put in order only as far as asked for."""
        if self._ties_left is None:
            self._others, self._ties_left = [], self._cached.ranking.in_order(self._rows_left())
        yield from self._others
        for tied in self._ties_left:
            start = len(self._others)
            self._others += self._tie_breaks.in_order(tied)
            yield from self._others[start:]

    def _rows_left(self) -> RowArray:
        """Rows that are left; an anti-affinity group lets its last member stay where it is."""
        rows, group = self._cached.survivors.passed(), self._spec.instance_group
        if group is None or group.policy != "anti-affinity":
            return rows
        last = self._last_row
        if self._cached.survivors.codes[last] != PASSED:
            checks = self._rules.checks(self._table, self._spec, self._index)
            if all(check.for_rows(self._table)(last) for check in checks):
                return np.sort(np.append(rows, last))
        return rows

    def explain(self) -> tuple[Step, ...]:
        """The steps with what the hosts lacked that each of them rejected, for whichever instance."""
        if self._index == 0:
            return super().explain()
        return tuple(with_details(self.steps, self._cached.survivors.fallen(), self._table))
