# SPDX-License-Identifier: Apache-2.0
"""What Roost thought of every host at the moment of a decision: its weight, or why it was rejected.

It is made before it is known which host the live scheduler chose, and kept until then; the table has moved on by that
time. So it holds arrays, and texts for a bounded number of hosts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from roost.hosts import HostTable
from roost.hosts.arrays import FloatArray, RowArray
from roost.hosts.record import Pair
from roost.model import RequestSpec
from roost.scheduler.checks import Check
from roost.scheduler.full_scan import weigh
from roost.scheduler.search import Rules

MOST_REASONS = 100
"""Rejected hosts for which the reason is kept in words; of further ones, the check that rejected them."""
MOST_TIES = 1000
"""Hosts of the best weight that a record names."""
_TOLERANCE = 1e-9
"""Weights that differ by less are equal: two schedulers may add the same numbers in another order."""


class _Loss(NamedTuple):
    """The hosts that one check rejected."""

    check: str
    rows: RowArray
    reasons: Sequence[str]
    """For the first of the rows."""


class HostReview:
    """The hosts of a request with their weights, and those that were rejected."""

    def __init__(
        self, names: Sequence[Pair], rows: RowArray, weights: FloatArray, losses: Sequence[_Loss] = ()
    ) -> None:
        """`names`: all rows of the table, sorted. `rows`, `weights`: those that passed every check."""
        self._names, self._rows, self._weights, self._losses = names, rows, weights, losses

    @classmethod
    def of(cls, rules: Rules, table: HostTable, spec: RequestSpec) -> HostReview:
        """Put all checks to all hosts and weigh those that are left; the table must not change meanwhile."""
        hosts, losses, budget = table.in_the_running(), [], MOST_REASONS
        for check in rules.checks(table, spec, index=0):
            if not len(hosts):
                break
            hosts, rejected = check.split(hosts)
            if len(rejected):
                reasons = [check.reason(host) for host, _ in zip(rejected, range(budget), strict=False)]
                losses.append(_Loss(_name_of(check), rejected.rows, reasons))
                budget -= len(reasons)
        return cls(table.names, hosts.rows, weigh(hosts, rules.weighers, spec).weights, losses)

    def weight_of(self, host: str) -> float | None:
        """The best weight of a host's nodes; None where it was rejected, or is not known."""
        weights = self._weights[np.isin(self._rows, self._rows_of(host))]
        return float(weights.max()) if len(weights) else None

    def why_not(self, host: str) -> str:
        """Which check rejected a host, and why; empty where none did."""
        rows = self._rows_of(host)
        if not rows:
            return f"{host} is not in the replica"
        for check, lost, reasons in self._losses:
            for at in np.flatnonzero(np.isin(lost, rows)).tolist():
                return f"{check}: {reasons[at]}" if at < len(reasons) else check
        return ""

    def ties(self) -> list[str]:
        """All hosts of the best weight, sorted."""
        if not len(self._weights):
            return []
        best = np.abs(self._weights - self._weights.max()) <= _TOLERANCE
        return sorted({self._names[row][0] for row in self._rows[best].tolist()})

    def _rows_of(self, host: str) -> list[int]:
        first, after = bisect_left(self._names, (host, "")), bisect_left(self._names, (host + "\0", ""))
        return list(range(first, after))


def are_equal(one: float, other: float) -> bool:
    """Whether two weights are equal, but for rounding."""
    return abs(one - other) <= _TOLERANCE


def _name_of(check: Check) -> str:
    return f"{check.stage} {check.name}"
