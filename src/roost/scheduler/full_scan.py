# SPDX-License-Identifier: Apache-2.0
"""The engine that asks and weighs every host for every instance, and keeps nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from roost.hosts import Hosts, HostTable
from roost.hosts.arrays import RowArray
from roost.model.decision import RankedList, Step
from roost.model.request import RequestSpec
from roost.model.resources import AllocationCandidate
from roost.scheduler.checks import Check, is_forced, narrow, with_details
from roost.scheduler.choice import Choice
from roost.scheduler.rules import Rules
from roost.scheduler.search import Order, StageTimes
from roost.scheduler.weighing import Weighed, weigh


class FullScan:
    """One request, every host: each instance starts from the survivors of the one before, in their order."""

    def __init__(self, rules: Rules, table: HostTable, times: StageTimes, hosts: Hosts | None = None) -> None:
        self._rules, self._table, self._times = rules, table, times
        self._hosts = table.in_the_running() if hosts is None else hosts
        self.looked_at = len(self._hosts)
        self.steps: tuple[Step, ...] = ()
        self._losses: list[tuple[Check, RowArray]] = []
        """Checks that rejected hosts, each with the rows it rejected."""
        self._weighed: Weighed | None = None
        self._head: list[int] = []
        """Rows of the best hosts, as far as they were asked for, the chosen one first."""

    def narrow(self, spec: RequestSpec, index: int) -> int:
        """Put every check to the hosts that are left, until none is: how many remain."""
        if self._weighed is not None:
            self._hosts = self._hosts.arranged(self._rows_in_order())
        self._spec, self._weighed, self._head = spec, None, []
        before, asked = len(self._hosts), None
        for asked in narrow(self._hosts, self._rules.checks(self._table, spec, index)):
            check = asked.check
            if asked.takes_out:
                self._losses.append((check, asked.lost()))
            if index == 0 or asked.left < before:
                self.steps = (*self.steps, Step(check.stage, check.name, before, asked.left))
            before = asked.left
            self._times.note(check.stage)
        if asked is not None:
            self._hosts = asked.hosts.keep(asked.stays)
        return len(self._hosts)

    def rank(self, count: int) -> Order:
        """Weigh the hosts that are left: the `count` best, best first, equal ones in the order they are in."""
        if self._weighed is None:
            self._weighed = weigh(self._hosts, self._rules.weighers, self._spec)
            self._times.note("weigh")
        positions = self._weighed.best(count)
        self._head = self._hosts.rows[positions].tolist()
        self._positions = dict(zip(self._head, positions.tolist(), strict=True))
        return list(zip(self._weighed.keys[positions].tolist(), self._head, strict=True))

    def reorder(self, order: Order) -> None:
        """The best hosts are in this order from now on."""
        self._head = [row for _, row in order]

    def _rows_in_order(self) -> RowArray:
        """All rows that are left, in order of preference."""
        if self._weighed is None:
            return self._hosts.rows
        rows = self._hosts.rows[np.argsort(self._weighed.keys, kind="stable")]
        rows[: len(self._head)] = self._head
        return rows

    def scores(self, order: Order) -> RankedList:
        """These hosts with their weights and scores."""
        if self._weighed is None:
            return RankedList(())
        return RankedList(self._weighed.noted([self._positions[row] for _, row in order]))

    def next_best(self) -> Iterator[int]:
        """Rows that are left, best first; all of them are put in order only if the first ones do not suffice."""
        yield from self._head
        yield from self._rows_in_order()[len(self._head) :].tolist()

    def explain(self) -> tuple[Step, ...]:
        """The steps with what the hosts lacked that each of them rejected, for whichever instance."""
        return tuple(with_details(self.steps, self._losses, self._hosts))

    def written_limits(self, row: int) -> dict[str, Any]:
        """Limits that a plugin in nova's shape wrote on a host during this request; filters saw no forced one."""
        return {} if is_forced(self._spec) else self._hosts.written_limits(row)

    def candidate_of(self, row: int) -> AllocationCandidate | None:
        """The first allocation candidate that filters left on a row; None if the request has no candidates."""
        if self._spec.candidates is None:
            return None
        return next(iter(self._hosts.view_of(row).allocation_candidates), None)


class FullScanEngine:
    """Answers every request with a full scan."""

    def __init__(self, rules: Rules, choice: Choice) -> None:
        """`choice` makes no difference to a full scan."""
        self._rules = rules

    def search(
        self,
        table: HostTable,
        spec: RequestSpec,
        uuids: Sequence[str | None],
        times: StageTimes,
        hosts: Hosts | None = None,
    ) -> FullScan:
        """A full scan of these hosts, all of the table by default."""
        return FullScan(self._rules, table, times, hosts)

    def warm(self, table: HostTable, spec: RequestSpec) -> None:
        """Nothing is cached."""

    def forget(self) -> None:
        """Nothing is cached."""
