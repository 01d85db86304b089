# SPDX-License-Identifier: Apache-2.0
"""The weigh stage: the weight of a host is the sum over weighers of multiplier x (number - low) / (high - low).

`low` and `high` are the extremes of a weigher's numbers among the hosts that are weighed, unless it pins them. Orders
are kept by the negated weight, the key: sorted as numbers are, the best host comes first. Every function here works
out a weight by the operations of the formula in its order, so that full scan and cache agree to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from roost.errors import PluginFailed, RoostError
from roost.hosts import Hosts
from roost.hosts.arrays import FloatArray, RowArray
from roost.model.decision import ScoredHost
from roost.model.request import RequestSpec
from roost.scheduler.checks import is_built_in
from roost.weighers.base import Weigher

Span = tuple[float, float]
"""The extremes between which a weigher's numbers are spread."""
NO_SPREAD: Span = (0.0, 0.0)
_FEW = 16
"""Up to so many of the best are found one after the other, which is faster than sorting."""


class Scale:
    """One weigher for one request: its multipliers, and the extremes that it pins."""

    def __init__(self, weigher: Weigher, multipliers: float | FloatArray, spec: RequestSpec) -> None:
        """`multipliers`: one number for all hosts, or one for each that is weighed."""
        self.weigher, self.name, self.multipliers = weigher, weigher.name, multipliers
        self.is_constant = is_built_in(weigher) and not weigher.applies_to(spec)
        """The request gives the weigher nothing to say: all its numbers are 0."""
        self.pinned_low = None if self.is_constant else weigher.minval
        self.pinned_high = None if self.is_constant else weigher.maxval

    def span(self, numbers: FloatArray) -> Span:
        """The extremes of these numbers, where the weigher does not pin them."""
        low = numbers.min().item() if self.pinned_low is None else float(self.pinned_low)
        high = numbers.max().item() if self.pinned_high is None else float(self.pinned_high)
        return low, high

    def multiplier_at(self, position: int) -> float:
        """The multiplier of one host."""
        held = self.multipliers
        return held if isinstance(held, float) else held.item(position)


class Term(NamedTuple):
    """What one weigher adds to a weight, between certain extremes."""

    at: int
    """Number of the weigher's scale."""
    low: float
    width: float
    multipliers: float | FloatArray


def make_terms(scales: Sequence[Scale], spans: Sequence[Span]) -> list[Term]:
    """The terms of a weight, without those that add 0 for every host."""
    return [
        Term(at, low, high - low, scale.multipliers)
        for at, (scale, (low, high)) in enumerate(zip(scales, spans, strict=True))
        if low != high and not (isinstance(scale.multipliers, float) and not scale.multipliers)
    ]


def weight_of(terms: Iterable[Term], numbers: Sequence[float], row: int) -> float:
    """The weight of one row with these raw numbers, one per scale."""
    total = 0.0
    for at, low, width, multipliers in terms:
        multiplier = multipliers if isinstance(multipliers, float) else multipliers.item(row)
        total += multiplier * ((numbers[at] - low) / width)
    return total


def keys_of(
    terms: Iterable[Term], columns: Mapping[int, FloatArray] | FloatArray, size: int, rows: RowArray | None = None
) -> FloatArray:
    """The negated weights of `size` hosts whose raw numbers by scale are `columns`.

    `rows`: which hosts of those that the multipliers are for; None: all of them, in their order.
    """
    keys = np.zeros(size)
    for term in terms:
        keys -= _part_of(term, columns[term.at], rows)
    return keys


def _part_of(term: Term, numbers: FloatArray, rows: RowArray | None) -> FloatArray:
    """What one term adds to each weight. Subtracting 0 and multiplying by 1 change nothing, and are left out."""
    part: FloatArray = (numbers - term.low if term.low else numbers) / term.width
    multipliers = term.multipliers
    if not isinstance(multipliers, float):
        part *= multipliers if rows is None else multipliers.take(rows)
    elif multipliers != 1.0:
        part *= multipliers
    return part


class Weighed:
    """Hosts with their weights, and the numbers these came from."""

    def __init__(
        self, hosts: Hosts, scales: Sequence[Scale], columns: Mapping[int, FloatArray], spans: tuple[Span, ...]
    ) -> None:
        """`columns`: scale -> raw number of each host; scales without one have 0 everywhere."""
        self._hosts, self._scales, self._columns, self._spans = hosts, scales, columns, spans
        self.keys = keys_of(make_terms(scales, spans), columns, len(hosts))
        """The negated weight of each host."""

    @property
    def weights(self) -> FloatArray:
        """The weight of each host."""
        weights: FloatArray = 0.0 - self.keys
        return weights

    def best(self, count: int) -> RowArray:
        """Positions of the `count` best hosts, best first; equal weights keep the hosts' order."""
        found = self._few_best(count) if count <= _FEW else None
        return np.argsort(self.keys, kind="stable")[:count] if found is None else found

    def _few_best(self, count: int) -> RowArray | None:
        """The best host, then the best of the others, and so on; None where a weight is not finite."""
        left = self.keys.copy() if count > 1 else self.keys
        found: list[int] = []
        for _ in range(min(count, len(left))):
            position = int(left.argmin())
            if not np.isfinite(left[position]):
                return None
            found.append(position)
            if count > 1:
                left[position] = np.inf
        return np.array(found, dtype=np.intp)

    def noted(self, position: int) -> ScoredHost:
        """What a decision notes of one host: its names, its weight, and what its scores are worked out from."""
        numbers = [0.0] * len(self._scales)
        for at, column in self._columns.items():
            numbers[at] = column.item(position)
        multipliers = tuple([scale.multiplier_at(position) for scale in self._scales])
        parts = (tuple([scale.name for scale in self._scales]), tuple(numbers), self._spans, multipliers)
        return self._hosts.table.names[self._hosts.row_at(position)], 0.0 - self.keys.item(position), parts


def weigh(hosts: Hosts, weighers: Sequence[Weigher], spec: RequestSpec) -> Weighed:
    """Weigh hosts, in the weighers' order; a single host is not weighed, and a weigher that is off is not asked."""
    scales: list[Scale] = []
    columns: dict[int, FloatArray] = {}
    spans: list[Span] = []
    for weigher in weighers if len(hosts) > 1 else ():
        try:
            multipliers: Any = weigher.multipliers(hosts)
            if weigher.is_off(multipliers):
                continue
            scale = Scale(weigher, multipliers, spec)
            if not scale.is_constant:
                columns[len(scales)] = _numbers_of(weigher, hosts, spec)
        except RoostError:
            raise
        except Exception as cause:
            raise PluginFailed(weigher.name, "", cause) from cause
        spans.append(NO_SPREAD if scale.is_constant else scale.span(columns[len(scales)]))
        scales.append(scale)
    return Weighed(hosts, scales, columns, tuple(spans))


def _numbers_of(weigher: Weigher, hosts: Hosts, spec: RequestSpec) -> FloatArray:
    """One raw number per host, or an error."""
    numbers = weigher.clamped(hosts, spec)
    if numbers.shape != (len(hosts),):
        raise ValueError(f"{numbers.size} weights for {len(hosts)} hosts")
    return numbers
