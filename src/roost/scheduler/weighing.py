# SPDX-License-Identifier: Apache-2.0
"""The weigh stage: the weight of a host is the sum over weighers of multiplier x (number - low) / (high - low).

`low` and `high` are the extremes of a weigher's numbers among the hosts that are weighed, unless it pins them. Orders
are kept by the negated weight, the key: sorted as numbers are, the best host comes first. Every function here works
out a weight by the operations of the formula in its order, so that full scan and cache agree to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from roost.errors import PluginFailed, RoostError
from roost.hosts import Hosts
from roost.hosts.arrays import FloatArray, RowArray
from roost.model.decision import ScoredHost
from roost.model.request import RequestSpec
from roost.weighers.base import Weigher

Span = tuple[float, float]
"""The extremes between which a weigher's numbers are spread."""
NO_SPREAD: Span = (0.0, 0.0)
_FEW = 16
"""Up to so many of the best are found one after the other, which is faster than sorting."""


class Scale:
    """One weigher for one request: its multipliers, and the extremes that it pins."""

    def __init__(self, weigher: Weigher, multipliers: float | FloatArray, is_constant: bool) -> None:
        """`multipliers`: one number for all hosts, or one for each that is weighed. `is_constant`: see there."""
        self.weigher, self.multipliers, self.is_constant = weigher, multipliers, is_constant
        self.pinned_low = None if self.is_constant else weigher.minval
        self.pinned_high = None if self.is_constant else weigher.maxval

    def span(self, numbers: FloatArray) -> Span:
        """The extremes of these numbers, where the weigher does not pin them."""
        low = numbers.min().item() if self.pinned_low is None else float(self.pinned_low)
        high = numbers.max().item() if self.pinned_high is None else float(self.pinned_high)
        return low, high


def is_constant(weigher: Weigher, spec: RequestSpec) -> bool:
    """Whether the request gives a weigher nothing to say: all its numbers are 0."""
    if not weigher.is_built_in:
        return False
    is_about_it = weigher.applies_if is None or bool(weigher.applies_if(spec))
    return not (is_about_it and weigher.applies_to(spec))


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
        self, hosts: Hosts, scales: Sequence[Scale], spans: Sequence[Span], columns: Mapping[int, FloatArray]
    ) -> None:
        """`columns`: scale -> raw number of each host; scales without one have 0 everywhere."""
        self._hosts, self._scales, self._spans, self._columns = hosts, scales, tuple(spans), columns
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

    def noted(self, positions: Iterable[int]) -> list[ScoredHost]:
        """What a decision notes of these hosts: names, weight, and what the scores are worked out from."""
        names = tuple([scale.weigher.name for scale in self._scales])
        rows, table = self._hosts.rows, self._hosts.table
        found: list[ScoredHost] = []
        for position in positions:
            numbers = [0.0] * len(names)
            for at, column in self._columns.items():
                numbers[at] = column.item(position)
            held = [scale.multipliers for scale in self._scales]
            multipliers = tuple([each if isinstance(each, float) else each.item(position) for each in held])
            parts = names, tuple(numbers), self._spans, multipliers
            found.append((table.names[rows.item(position)], 0.0 - self.keys.item(position), parts))
        return found


def weigh(hosts: Hosts, weighers: Sequence[Weigher], spec: RequestSpec) -> Weighed:
    """Weigh hosts, in the weighers' order; a single host is not weighed, and a weigher that is off is not asked."""
    if len(hosts) < 2:
        return Weighed(hosts, (), (), {})
    scales: list[Scale] = []
    spans: list[Span] = []
    columns: dict[int, FloatArray] = {}
    for weigher in weighers:
        try:
            multipliers = weigher.multipliers(hosts)
            if weigher.is_off(multipliers):
                continue
            if not isinstance(multipliers, (float, np.ndarray)):
                multipliers = float(multipliers)
            scale, span = Scale(weigher, multipliers, is_constant(weigher, spec)), NO_SPREAD
            if not scale.is_constant:
                numbers = columns[len(scales)] = _numbers_of(weigher, hosts, spec)
                span = scale.span(numbers)
        except RoostError:
            raise
        except Exception as cause:
            raise PluginFailed(weigher.name, "", cause) from cause
        scales.append(scale)
        spans.append(span)
    return Weighed(hosts, scales, spans, columns)


def _numbers_of(weigher: Weigher, hosts: Hosts, spec: RequestSpec) -> FloatArray:
    """One raw number per host, or an error."""
    numbers = weigher.clamped(hosts, spec)
    if numbers.shape != (len(hosts),):
        raise ValueError(f"{numbers.size} weights for {len(hosts)} hosts")
    return numbers
