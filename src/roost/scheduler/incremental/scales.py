# SPDX-License-Identifier: Apache-2.0
"""One weigher among many hosts whose numbers change: it knows the extremes, and how far they can move a weight."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from roost.hosts import HostTable
from roost.hosts.arrays import FloatArray, RowArray
from roost.model.lazy import lazy
from roost.model.request import RequestSpec
from roost.scheduler.incremental.top_rows import TopRows
from roost.scheduler.search import Uncacheable
from roost.scheduler.weighing import Scale, Span, is_constant
from roost.weighers.base import Weigher

Numbers = tuple[float, ...]
"""One host's raw numbers, weigher by weigher."""

ROUNDING = 1e-12
"""More than the rounding error of sums and quotients of numbers around 1."""


class TrackedScale(Scale):
    """A scale that tracks the extremes of its numbers among the hosts that passed."""

    def __init__(
        self, weigher: Weigher, multipliers: float | FloatArray, table: HostTable, spec: RequestSpec
    ) -> None:
        super().__init__(weigher, multipliers, is_constant(weigher, spec))
        self.lowest = TopRows() if self.pinned_low is None and not self.is_constant else None
        """The rows with the smallest numbers; None where that end is pinned."""
        self.highest = TopRows() if self.pinned_high is None and not self.is_constant else None
        """The rows with the largest numbers, which are negated there; None where that end is pinned."""
        self.low = 0.0 if self.pinned_low is None else float(self.pinned_low)
        self.high = 0.0 if self.pinned_high is None else float(self.pinned_high)
        self._table, self._spec = table, spec

    @lazy
    def read(self) -> Callable[[int], float]:
        """A function that gives the number of one row."""
        return _zero if self.is_constant else self.weigher.reader(self._table, self._spec)

    def renew(self, spec: RequestSpec) -> None:
        """Read numbers for this request from now on: its group has other members."""
        self._spec = spec
        vars(self).pop("read", None)

    def note(self, row: int, number: float) -> None:
        """A row that passed has this number now."""
        if self.highest is not None:
            self.highest.put(row, -number)
        if self.lowest is not None:
            self.lowest.put(row, number)

    def note_many(self, positions: Mapping[int, int], rows: RowArray, numbers: FloatArray) -> None:
        """Rows that passed have these numbers now; `positions`: row -> its position in both arrays."""
        for top, keys in ((self.lowest, numbers), (self.highest, -numbers)):
            if top is not None:
                top.put_many(positions, rows, keys)

    def span(self, numbers: FloatArray) -> Span:
        """The extremes of these numbers; Uncacheable where one of the numbers is not finite."""
        low, high = super().span(numbers)
        is_pinned = self.lowest is None and self.highest is None
        if is_pinned or not math.isfinite(high - low):  # of numbers that are not finite, an extreme is not either
            finite(self.weigher, numbers)
        return low, high

    def forget(self, row: int) -> None:
        """A row does not pass any more."""
        for top in (self.lowest, self.highest):
            if top is not None:
                top.drop(row)

    def reach(self, span: Span, reference: Span) -> float:
        """The most that this weigher's part of a weight can gain when the extremes move from `reference` to `span`.

        The gain is linear in the number, so its maximum is at one of the two ends.
        """
        held = self.multipliers
        multipliers = (held,) if isinstance(held, float) else (float(held.min()), float(held.max()))
        low, high = span
        gain = max(
            multiplier * (_normalised(number, span) - _normalised(number, reference))
            for number in span
            for multiplier in multipliers
        )
        widest = max(abs(low), abs(high)) / ((high - low) or 1.0)
        farthest = max(abs(_normalised(low, reference)), abs(_normalised(high, reference)))
        return gain + ROUNDING * max(map(abs, multipliers)) * (1 + widest + farthest)


def finite(weigher: Weigher, numbers: FloatArray) -> FloatArray:
    """These numbers; Uncacheable where one is not finite. A numeric column always is."""
    if not weigher.column and not np.isfinite(numbers).all():
        raise Uncacheable(weigher.name)
    return numbers


def _zero(row: int) -> float:
    return 0.0


def _normalised(number: float, span: Span) -> float:
    low, high = span
    return 0.0 if low == high else (number - low) / (high - low)
