# SPDX-License-Identifier: Apache-2.0
"""The funnel of a request: its checks put one after the other to the hosts that are left, as a placement does it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from roost.hosts import Hosts, HostTable, HostView
from roost.hosts.arrays import BoolArray, RowArray
from roost.scheduler.explain.explained_instance import ExplainedInstance, TableCheck
from roost.scheduler.explain.records import FunnelStep, Reason, Rejection
from roost.scheduler.explain.subjects import by_subject, subject_of

NONE = -1
"""In place of the number of a check: no check rejects the host."""


@dataclass(frozen=True)
class Funnel:
    """Who was rejected by which check first, and who is left."""

    instance: ExplainedInstance
    steps: tuple[FunnelStep, ...]
    first: RowArray
    """Per row of the table, the number of the first check that rejects it, or NONE."""
    left: Hosts
    """The hosts that can take the instance."""
    views: dict[int, Hosts]
    """By `id` of a table: all its hosts, with what checks noted on them."""

    def host(self, row: int, of: TableCheck) -> HostView:
        """A host as the check saw it."""
        return self.views[id(of.table)].view_of(row)

    def rejections(self) -> tuple[Rejection, ...]:
        """Every rejected host with its reason; the table, and so the result, is sorted by host and node."""
        checks = self.instance.checks
        found = []
        for row in np.flatnonzero(self.first != NONE).tolist():
            put = checks[self.first[row]]
            host = self.host(row, put)
            found.append(Rejection(host.host, host.nodename, put.check.stage, put.check.name, put.check.reason(host)))
        return tuple(found)

    def reasons(self, rejects: Sequence[BoolArray]) -> tuple[Reason, ...]:
        """The histogram, largest first. `rejects`: per check, the rows that it rejects, put to each by itself."""
        checks = [check for check, _ in self.instance.checks]
        # A check may reject a host only because an earlier one took allocation candidates away there.
        masks = [mask | (self.first == number) for number, mask in enumerate(rejects)]
        of_subject = {
            subject: int(np.count_nonzero(np.logical_or.reduce([masks[number] for number in numbers])))
            for subject, numbers in by_subject(checks).items()
        }
        firsts = Counter(self.first.tolist())
        found = [
            Reason(check.stage, check.name, subject, firsts[number], in_all, of_subject[subject])
            for number, check in enumerate(checks)
            for subject, in_all in [(subject_of(check), int(np.count_nonzero(masks[number])))]
            if in_all
        ]
        return tuple(sorted(found, key=lambda each: (-each.hosts, -each.hosts_in_all)))


def run_funnel(instance: ExplainedInstance, without: Collection[int] = ()) -> Funnel:
    """Put the checks, `without` those of these numbers, to the hosts that are left. Raises what a check raises."""
    views = {id(table): Hosts(table, None, {}) for table in _tables(instance)}
    left = dict(views)
    first = np.full(len(instance.table.names), NONE, dtype=np.intp)
    steps: list[FunnelStep] = []
    remaining = len(first)
    for number, (check, table) in enumerate(instance.checks):
        if not remaining:
            break
        if number in without:
            continue
        hosts = left[id(table)]
        assert check.ask is not None  # noqa: S101 - an ExplainedInstance has no others
        passes = check.ask(hosts)
        before, remaining = remaining, int(np.count_nonzero(passes))
        if remaining < before:
            first[hosts.rows[~passes]] = number
            left = {key: each.keep(passes) for key, each in left.items()}
        steps.append(FunnelStep(check.stage, check.name, before, remaining))
    return Funnel(instance, tuple(steps), first, left[id(instance.table)], views)


def _tables(instance: ExplainedInstance) -> list[HostTable]:
    return [instance.table, *(each.table for each in instance.checks)]
