# SPDX-License-Identifier: Apache-2.0
"""The weigh stage, and the engine that asks and weighs every host for every instance and caches nothing.

The weight of a host is the sum over weighers of multiplier x (number - low) / (high - low). `low` and `high` are the
extremes of a weigher's numbers among the hosts that are weighed, unless it pins them. Orders are kept by the negated
weight, the key: sorted as numbers are, the best host comes first. Every function here works out a weight by the
operations of the formula in its order, so that full scan and cache agree to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from roost.errors import PluginFailed, RoostError
from roost.hosts import Hosts, HostTable
from roost.hosts.encoded import FloatArray, RowArray
from roost.model.decision import RankedList, ScoredHost, Step
from roost.model.request import RequestSpec
from roost.model.resources import AllocationCandidate
from roost.scheduler.checks import Check, is_forced, narrow, with_details
from roost.scheduler.search import Choice, Order, Rules, StageTimes
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
