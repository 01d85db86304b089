# SPDX-License-Identifier: Apache-2.0
"""The hosts that can take a request, weighed: their ranks, and what each weigher contributes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap

import numpy as np

from roost.hosts import Hosts
from roost.model.decision import Score
from roost.model.request import RequestSpec
from roost.scheduler.explain.records import HostScore, WeighedHost
from roost.scheduler.rules import Rules
from roost.scheduler.weighing import Span, weigh


class Ranking:
    """Hosts in the order of their weights; equal ones in that of the table."""

    def __init__(self, hosts: Hosts, rules: Rules, spec: RequestSpec) -> None:
        self._hosts = hosts
        self._weighed = weigh(hosts, rules.weighers, spec)
        self._order = np.argsort(self._weighed.keys, kind="stable")

    def __len__(self) -> int:
        return len(self._order)

    def count_best(self) -> int:
        """How many hosts have the best weight."""
        return int(np.count_nonzero(self._weighed.keys == self._weighed.keys.min()))

    def best(self, count: int) -> tuple[WeighedHost, ...]:
        """The `count` best hosts, best first."""
        return tuple(self._host(rank, int(position)) for rank, position in enumerate(self._order[:count], start=1))

    def of_row(self, row: int) -> WeighedHost:
        """The host in this row of the table, which must be among the weighed ones."""
        position = int(np.flatnonzero(self._hosts.rows == row)[0])
        return self._host(int(np.flatnonzero(self._order == position)[0]) + 1, position)

    def next_of_cell(self, count: int) -> Iterator[str]:
        """The hosts after the best one that are in its nova cell: its alternates."""
        rows = self._hosts.rows[self._order]
        cells = self._hosts.table.encoded["cell"].codes[rows]
        for row in rows[1:][cells[1:] == cells[0]][:count].tolist():
            yield self._hosts.table.names[row][0]

    def _host(self, rank: int, position: int) -> WeighedHost:
        ((host, node), weight, parts) = self._weighed.noted([position])[0]
        return WeighedHost(host, node, rank, weight, tuple(starmap(_score, zip(*parts, strict=True))))


def _score(weigher: str, raw: float, span: Span, multiplier: float) -> HostScore:
    """What a weigher contributes, also one whose multiplier is 0 on this host: it may be another on others."""
    low, high = span
    score = Score(raw, 0.0 if low == high else (raw - low) / (high - low), multiplier)
    return HostScore(weigher, *score, score.contribution)
