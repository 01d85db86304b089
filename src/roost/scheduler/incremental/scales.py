# SPDX-License-Identifier: Apache-2.0
"""One weigher among many hosts: its numbers, the extremes they are spread between, its part of the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from roost.hosts import HostTable
from roost.hosts.arrays import FloatArray, RowArray
from roost.model.lazy import lazy
from roost.model.request import RequestSpec
from roost.scheduler.incremental.survivors import Uncacheable
from roost.scheduler.incremental.top_rows import TopRows
from roost.weighers.base import Weigher

Span = tuple[float, float]
"""The extremes between which a weigher's numbers are spread."""
NO_SPREAD: Span = (0.0, 0.0)
Numbers = tuple[float, ...]
"""One host's raw numbers, weigher by weigher."""

ROUNDING = 1e-12
"""What sums and quotients of numbers around 1 may be off by, and some more."""


class Scale:
    """One weigher: its numbers, its multipliers, and the extremes of its numbers among the survivors."""

    def __init__(
        self, weigher: Weigher, multipliers: float | FloatArray, table: HostTable, spec: RequestSpec
    ) -> None:
        self.weigher, self.name, self.multipliers = weigher, weigher.name, multipliers
        self.is_constant = not weigher.applies_to(spec)
        self.lowest = TopRows() if weigher.minval is None and not self.is_constant else None
        self.highest = TopRows() if weigher.maxval is None and not self.is_constant else None
        self.low = 0.0 if weigher.minval is None else float(weigher.minval)
        """Where it is pinned."""
        self.high = 0.0 if weigher.maxval is None else float(weigher.maxval)
        if self.is_constant:  # all numbers are 0: there is no spread
            self.low = self.high = 0.0
        self._table, self._spec = table, spec

    @lazy
    def read(self) -> Callable[[int], float]:
        """Gives the number of one row. The first request of a family has no use for it."""
        return _zero if self.is_constant else self.weigher.reader(self._table, self._spec)

    def renew(self, spec: RequestSpec) -> None:
        """Read for this request from now on."""
        self._spec = spec
        vars(self).pop("read", None)

    def note(self, row: int, number: float) -> None:
        """One survivor's number."""
        if self.highest is not None:
            self.highest.put(row, -number)
        if self.lowest is not None:
            self.lowest.put(row, number)

    def note_many(self, positions: Mapping[int, int], rows: RowArray, numbers: FloatArray) -> None:
        """The numbers of several survivors; `positions` are those of the rows."""
        for leaders, keys in ((self.lowest, numbers), (self.highest, -numbers)):
            if leaders is not None:
                leaders.put_many(positions, rows, keys)

    def span(self, numbers: FloatArray) -> Span:
        """The extremes of these numbers, if they are such."""
        low = self.low if self.lowest is None else numbers.min().item()
        high = self.high if self.highest is None else numbers.max().item()
        is_pinned = self.lowest is None and self.highest is None
        if is_pinned or not math.isfinite(high - low):  # where a number is infinite, or none, so is an extreme
            proper(self.weigher, numbers)
        return low, high

    def forget(self, row: int) -> None:
        """A row is no survivor any more."""
        for leaders in (self.lowest, self.highest):
            if leaders is not None:
                leaders.drop(row)

    def reach(self, span: Span, reference: Span) -> float:
        """By how much a part of the weight between these extremes can exceed that between the reference's."""
        held = self.multipliers
        multipliers = (held,) if isinstance(held, float) else (float(held.min()), float(held.max()))
        low, high = span
        gain = max(
            multiplier * (_between(number, span) - _between(number, reference))
            for number in span
            for multiplier in multipliers
        )
        widest = max(abs(low), abs(high)) / ((high - low) or 1.0)
        farthest = max(abs(_between(low, reference)), abs(_between(high, reference)))
        return gain + ROUNDING * max(map(abs, multipliers)) * (1 + widest + farthest)


def _zero(row: int) -> float:
    return 0.0


def _between(number: float, span: Span) -> float:
    low, high = span
    return 0.0 if low == high else (number - low) / (high - low)


class Term(NamedTuple):
    """What one weigher adds to a weight, between certain extremes."""

    at: int
    low: float
    width: float
    multipliers: float | FloatArray


def weight_of(terms: Iterable[Term], numbers: Sequence[float], row: int) -> float:
    """The weight of one row: the same operations as the plain formula's, in the same order, to the bit."""
    total = 0.0
    for at, low, width, multipliers in terms:
        multiplier = multipliers if isinstance(multipliers, float) else multipliers.item(row)
        total += multiplier * ((numbers[at] - low) / width)
    return total


def keys_of(
    terms: Iterable[Term], columns: Mapping[int, FloatArray] | FloatArray, size: int, rows: RowArray | None = None
) -> FloatArray:
    """The weights of many rows, turned round, so that the best comes first: to the bit what `weight_of` gives.

    `columns`: their numbers by weigher, `size` of each. `rows`: which they are; None: all, in the table's order.
    """
    keys = np.zeros(size)
    for term in terms:
        keys -= part_of(term, columns[term.at], rows)
    return keys


def proper(weigher: Weigher, numbers: FloatArray) -> FloatArray:
    """The same numbers, if they are such. A column as it stands always holds numbers."""
    if not weigher.column and not np.isfinite(numbers).all():
        raise Uncacheable(weigher.name)
    return numbers


def part_of(term: Term, numbers: FloatArray, rows: np.ndarray | None) -> FloatArray:
    """One weigher's part of the weights of these rows; None: of all, in the table's order.

    To take away 0, as from all numbers that cannot be less, or to multiply with 1 changes nothing.
    """
    part: FloatArray = (numbers - term.low if term.low else numbers) / term.width
    multipliers = term.multipliers
    if not isinstance(multipliers, float):
        part *= multipliers if rows is None else multipliers.take(rows)
    elif multipliers != 1.0:
        part *= multipliers
    return part
