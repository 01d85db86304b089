# SPDX-License-Identifier: Apache-2.0
"""The survivors of a class of requests in their order of preference, patched where hosts change.

A weight is a sum of multiplier x (number - low) / (high - low), and low and high are the extremes of the survivors:
when one moves, every weight moves. So the order is kept by the weights between the extremes of some earlier moment,
the reference. How far a weight can be from that is bounded by how far the extremes have moved since: the few hosts
within that reach of the top are weighed anew, by the plain formula, and all others cannot be among the best.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np

from roost.hosts import Hosts
from roost.hosts.arrays import FloatArray, RowArray
from roost.model.lazy import lazy
from roost.model.request import RequestSpec
from roost.scheduler.incremental.scales import (
    NO_SPREAD,
    ROUNDING,
    Numbers,
    Scale,
    Span,
    Term,
    keys_of,
    proper,
    weight_of,
)
from roost.scheduler.incremental.survivors import PASSED, Survivors, Uncacheable
from roost.scheduler.incremental.top_rows import AFTER_ALL, TopRows, smallest
from roost.weighers.base import Weigher

FEWEST_LEADERS, FEWEST_EXTREMES = 256, 64
"""So many of the best, and of the smallest and largest numbers, are held; of large fleets more."""
FEW = 24
"""So many changed rows are looked at one by one; more of them together."""
_FEW_WANTED = 16
"""So many of the best are looked for one after the other, which is faster than sorting."""
_FEW_TIED = 64
"""So many of equal weight are looked at one by one."""
_MOST_NEAR = 48
"""So many hosts within reach of the best are weighed one by one; where there are more it is time to weigh all."""

Parts = tuple[tuple[str, ...], Numbers, tuple[Span, ...], tuple[float, ...]]
"""What the scores of a host are made from: names of the weighers, its numbers, their extremes, their multipliers."""
Noted = tuple[tuple[str, str], float, Parts]
"""(Host, node), its weight, and its scores: what `Standings` takes."""


class Ranking:
    """The best survivors and their weights."""

    def __init__(self, survivors: Survivors, weighers: Iterable[Weigher], spec: RequestSpec) -> None:
        self.survivors, self.table, self.spec = survivors, survivors.table, spec
        everybody = self.table.in_the_running()
        self.scales: list[Scale] = []
        for weigher in weighers:
            multipliers = weigher.multipliers(everybody)
            if not weigher.is_off(multipliers):
                self.scales.append(Scale(weigher, multipliers, self.table, spec))
        self.names = tuple(scale.name for scale in self.scales)
        self.looks_at_size = any(scale.weigher.looks_at_size and not scale.is_constant for scale in self.scales)
        self._varying = [(at, scale) for at, scale in enumerate(self.scales) if not scale.is_constant]
        are_same = all(isinstance(scale.multipliers, float) for scale in self.scales)
        self._multipliers = self._multipliers_of(0) if are_same else ()
        """One per scale, where they are those of all hosts."""
        self._stale_after: dict[frozenset[str], list[tuple[int, Scale]]] = {}
        self._leaders = TopRows()
        self._numbers: dict[int, Numbers] = {}
        """Of survivors that somebody asked about."""
        self._is_new = True
        self._fills, self._debt = 0, 0
        self._columns: dict[int, FloatArray] = {}
        self._spans: tuple[Span, ...] = ()
        self._terms: list[Term] = []
        self._weighed: dict[int, float] = {}
        """Row -> weight by the plain formula, turned round, of those that somebody asked about."""
        self._ends: set[int] | None = None
        """The rows that `_spans` are the extremes of, if they are those of all survivors; None: look for them."""
        self._reference: tuple[Span, ...] = ()
        self._reference_terms: list[Term] = []
        self._reach: float | None = None
        """Once it was worked out for these spans and this reference."""

    @lazy
    def _rounding(self) -> float:
        """What sums of such multipliers may be off by."""
        return ROUNDING * (1 + sum(float(np.abs(scale.multipliers).max()) for scale in self.scales))

    # --- changes ---

    def renew(self, spec: RequestSpec) -> None:
        """Another request of the class: its group has other members."""
        self.spec = spec
        for scale in self.scales:
            if scale.weigher.looks_at_group:
                scale.renew(spec)

    def update(self, changes: dict[int, frozenset[str]], moved: Sequence[int]) -> None:
        """Rows changed in these columns; `moved`: those that fell out, or came in, by that."""
        codes = self.survivors.codes
        for row in moved:
            if codes[row] != PASSED:
                self._drop(row)
        if len(changes) <= FEW:
            for row, columns in changes.items():
                if codes[row] == PASSED:
                    self._stand(row, self._varying if row in moved else self._stale(columns))
        else:
            standing = [row for row in changes if codes[row] == PASSED]
            columns = frozenset().union(*set(changes.values()))
            self._stand_many(np.array(standing, dtype=np.intp), {at for at, _ in self._stale(columns)}, moved)

    def _stale(self, columns: frozenset[str]) -> list[tuple[int, Scale]]:
        stale = self._stale_after.get(columns)
        if stale is None:
            varying = ((at, scale, scale.weigher.reads) for at, scale in self._varying)
            stale = [(at, scale) for at, scale, reads in varying if not reads or reads & columns]
            if len(self._stale_after) > 256:
                self._stale_after.clear()
            self._stale_after[columns] = stale
        return stale

    def _drop(self, row: int) -> None:
        for _, scale in self._varying:
            scale.forget(row)
        self._leaders.drop(row)
        self._numbers.pop(row, None)
        self._weighed.pop(row, None)
        self._ends = None

    def _stand(self, row: int, stale: Iterable[tuple[int, Scale]]) -> None:
        """A survivor changed: its numbers, and its place among the leaders."""
        known = self._numbers.get(row)
        numbers = list(known) if known else [0.0] * len(self.scales)
        is_end = self._ends is not None and row in self._ends
        for at, scale in stale:
            numbers[at] = number = scale.read(row)
            if number - number != 0.0:  # infinite, or no number
                raise Uncacheable(scale.name)
            highest, lowest = scale.highest, scale.lowest
            if highest is not None and (-number <= highest.bound[0] or row in highest.held):
                highest.put(row, -number)
                is_end = is_end or highest.starts_with(row)
            if lowest is not None and (number <= lowest.bound[0] or row in lowest.held):
                lowest.put(row, number)
                is_end = is_end or lowest.starts_with(row)
        if is_end:
            self._ends = None
        self._weighed.pop(row, None)
        if known:
            self._numbers[row] = tuple(numbers)
        else:
            for term in self._reference_terms:
                numbers[term.at] = self.scales[term.at].read(row)
        self._leaders.put(row, -weight_of(self._reference_terms, numbers, row))

    def _stand_many(self, rows: RowArray, stale: set[int], moved: Sequence[int]) -> None:
        """The same for many at once."""
        hosts, positions = Hosts(self.table, rows, {}), {row: at for at, row in enumerate(rows.tolist())}
        needed = stale | {term.at for term in self._reference_terms}
        weighers = {at: self.scales[at].weigher for at in needed}
        columns = {at: proper(weigher, weigher.clamped(hosts, self.spec)) for at, weigher in weighers.items()}
        for at in stale:
            self.scales[at].note_many(positions, rows, columns[at])
        for row in moved:
            if self.survivors.codes[row] == PASSED:
                for _, scale in self._varying:
                    scale.note(row, scale.read(row))
        self._leaders.put_many(positions, rows, keys_of(self._reference_terms, columns, len(rows), rows))
        for row in positions:
            self._numbers.pop(row, None)
        self._weighed.clear()
        self._ends = None

    # --- the best ---

    def _best(self, count: int, who: Survivors) -> list[tuple[float, int]] | None:
        count = min(count, who.left)
        if self._is_new:  # most requests are of a family that is not seen again
            self._is_new = False
            return self.best_of_all(count, who)
        if not self._settle(who):
            return None
        if self._fills and self._debt <= 400 + len(self.table.names) // 8:
            found = self._near_the_top(count, who)
            if found is not None:
                return found
        self._fill(count)
        return self._near_the_top(count, who)

    def best(self, count: int, who: Survivors) -> list[tuple[float, int]] | None:
        """(Weight turned round, row) of the best of these, best first; of equal ones the first rows.

        `who` are all survivors of this ranking, or some of them; None where its leaders cannot tell about these.
        """
        try:
            return self._best(count, who)
        finally:
            self._columns.clear()

    def best_of_all(self, count: int, who: Survivors) -> list[tuple[float, int]]:
        """The same without leaders: all of these are weighed, and none is held."""
        count, rows = min(count, who.left), who.passed()
        columns, keys = self._weigh(rows)
        if count > _FEW_WANTED:
            order, _ = smallest(keys, count)
            return list(zip(keys[order].tolist(), rows[order].tolist(), strict=True))
        best = []
        for _ in range(count):
            position = int(keys.argmin())
            row = rows.item(position)
            best.append((keys.item(position), row))
            keys[position] = np.inf
            # They are shown with their numbers, which are at hand here.
            numbers = [0.0] * len(self.scales)
            for at, column in columns.items():
                numbers[at] = column.item(position)
            self._numbers[row] = tuple(numbers)
        return best

    def _weigh(self, rows: RowArray) -> tuple[dict[int, FloatArray], FloatArray]:
        """The numbers of these rows, by weigher, and their weights between the extremes of these, turned round."""
        hosts = self.table.in_the_running() if len(rows) == len(self.table.names) else Hosts(self.table, rows, {})
        columns: dict[int, FloatArray] = {}
        found = [NO_SPREAD] * len(self.scales)
        for at, scale in self._varying:
            columns[at] = numbers = scale.weigher.clamped(hosts, self.spec)
            found[at] = scale.span(numbers)
        self._weigh_between(tuple(found))
        self._ends = None
        return columns, keys_of(self._terms, columns, len(rows), rows)

    def _settle(self, who: Survivors) -> bool:
        """The extremes of these, and the terms that follow; False where the leaders cannot tell."""
        if self._ends is not None:
            for row in self._ends:
                if who.codes[row] != PASSED:
                    break
            else:
                return True
        return self._look_for_ends(who.codes)

    def _look_for_ends(self, codes: bytearray) -> bool:
        """The same where some row that matters changed, or is not among these."""
        found, ends, are_first = [NO_SPREAD] * len(self.scales), set(), True
        for at, scale in self._varying:
            low, high, lowest, highest = scale.low, scale.high, scale.lowest, scale.highest
            if lowest is not None:
                low, row = entry = self._first(at, lowest, codes)
                ends.add(row)
                are_first = are_first and entry is lowest.entries[0]
            if highest is not None:
                key, row = entry = self._first(at, highest, codes)
                high = -key
                ends.add(row)
                are_first = are_first and entry is highest.entries[0]
            if not -math.inf < low <= high < math.inf:
                return False
            found[at] = low, high
        self._weigh_between(tuple(found))
        self._ends = ends if are_first else None
        return True

    def _first(self, at: int, leaders: TopRows, codes: bytearray) -> tuple[float, int]:
        """The smallest key of those who passed, and whose it is; infinite where the leaders cannot tell."""
        for entry in leaders.entries:
            if codes[entry[1]] == PASSED:
                return entry
        self._look_for_extremes(at)
        return next((entry for entry in leaders.entries if codes[entry[1]] == PASSED), AFTER_ALL)

    def _weigh_between(self, spans: tuple[Span, ...]) -> None:
        """Weights are those between these extremes from now on."""
        if spans != self._spans or not self._terms:
            self._spans = spans
            self._terms = self._terms_between()
            self._weighed.clear()
            self._reach = None

    def _terms_between(self) -> list[Term]:
        return [
            Term(at, low, high - low, scale.multipliers)
            for at, (scale, (low, high)) in enumerate(zip(self.scales, self._spans, strict=True))
            if low != high and not (isinstance(scale.multipliers, float) and not scale.multipliers)
        ]

    def _look_for_extremes(self, at: int) -> None:
        scale, numbers = self.scales[at], self._dense(at)
        for leaders, keys in ((scale.lowest, numbers), (scale.highest, -numbers)):
            if leaders is not None:
                size = min(max(FEWEST_EXTREMES, len(numbers) // 256), 1024)
                leaders.fill(self.survivors.only(keys, np.inf), size)

    def _dense(self, at: int) -> FloatArray:
        """The numbers of all rows; kept while one answer is worked out."""
        numbers = self._columns.get(at)
        if numbers is None:
            weigher = self.scales[at].weigher
            numbers = self._columns[at] = proper(weigher, weigher.clamped(self.table.in_the_running(), self.spec))
        return numbers

    def _near_the_top(self, count: int, who: Survivors) -> list[tuple[float, int]] | None:
        """The best by the plain formula, if the leaders can tell; None if others might be better."""
        if self._spans == self._reference:
            return self._first_leaders(count, who)
        leaders, codes, reach, weighed = self._leaders, who.codes, self.reach(), self._weighed
        found: list[tuple[float, int]] = []
        looked_at = 0
        for key, row in leaders.entries:
            if codes[row] != PASSED:
                continue
            if looked_at >= count and key - reach > found[count - 1][0]:
                break
            if looked_at > count + _MOST_NEAR:
                return None
            looked_at += 1
            now = weighed.get(row)
            if now is None:
                now = weighed[row] = -weight_of(self._terms, self.numbers_of(row), row)
            insort(found, (now, row))
        else:
            if looked_at < count or leaders.bound[0] - reach <= found[count - 1][0]:
                return None
        self._debt += looked_at - count
        return found[:count]

    def _first_leaders(self, count: int, who: Survivors) -> list[tuple[float, int]] | None:
        """The same while the extremes are those of the reference: the leaders are in order as they stand."""
        codes, found = who.codes, []
        for entry in self._leaders.entries:
            if codes[entry[1]] == PASSED:
                found.append(entry)
                if len(found) == count:
                    return found
        return None

    def reach(self) -> float:
        """By how much any weight can exceed that between the extremes of the reference."""
        if self._reach is None:
            total = 0.0
            for scale, span, reference in zip(self.scales, self._spans, self._reference, strict=True):
                if span != reference:
                    total += scale.reach(span, reference)
            self._reach = max(total, 0.0) + self._rounding
        return self._reach

    def _fill(self, count: int) -> None:
        """Weigh all survivors, and hold the best of them."""
        size = min(max(FEWEST_LEADERS, len(self.table.names) // 64), 4096)
        self._leaders.fill(self._keys(self.survivors), max(size, 2 * count))
        if len(self._numbers) > 4 * size:
            self._numbers.clear()
        self._reference, self._reference_terms, self._reach = self._spans, self._terms, None
        self._fills, self._debt = self._fills + 1, 0

    # --- ties ---

    @property
    def terms(self) -> list[Term]:
        """What the latest weights are the sum of."""
        return self._terms

    def numbers_of(self, row: int) -> Numbers:
        """The raw numbers of a survivor."""
        known = self._numbers.get(row)
        if known is None:
            numbers = [0.0] * len(self.scales)
            for at, scale in self._varying:
                numbers[at] = scale.read(row)
            known = self._numbers[row] = tuple(numbers)
        return known

    def numbers_of_many(self, rows: RowArray) -> FloatArray:
        """The raw numbers of these, a line for each weigher."""
        hosts, numbers = Hosts(self.table, rows, {}), np.zeros((len(self.scales), len(rows)))
        for at, scale in self._varying:
            numbers[at] = proper(scale.weigher, scale.weigher.clamped(hosts, self.spec))
        return numbers

    def tied(
        self, best: float, who: Survivors, apart: Collection[int] = (), order: RowArray | None = None
    ) -> list[tuple[int, Numbers]]:
        """Those of these that share the best weight, of which `best` is the key.

        Of many that are equal in every number the first stands for all, unless it is one of those to be kept `apart`.
        The first in this `order`, which all of these are in; None: in the table's.
        """
        reach = 0.0 if self._spans == self._reference or not self._fills else self.reach()
        if self._leaders.bound[0] - reach <= best:  # others may be among them
            try:
                is_tied = self._keys(who) == best
                equal = np.flatnonzero(is_tied) if order is None else order[is_tied[order]]
                rows = self._first_of_each_kind(equal, apart)
            finally:
                self._columns.clear()
        else:
            passed = ((key, row) for key, row in self._leaders.entries if who.codes[row] == PASSED)
            near = (row for key, row in passed if key - reach <= best)
            rows = [row for row in near if -weight_of(self._terms, self.numbers_of(row), row) == best]
        return [(row, self.numbers_of(row)) for row in rows]

    def _first_of_each_kind(self, rows: RowArray, apart: Collection[int]) -> list[int]:
        """A fleet of equal hosts has thousands of equals: too many to look at one by one. A few are left alone."""
        if len(rows) <= _FEW_TIED:
            return [*rows.tolist()]
        is_apart = np.isin(rows, list(apart))
        rows, others = rows[~is_apart], rows[is_apart].tolist()
        kinds = np.zeros(len(rows), dtype=np.intp)
        for at, scale in self._varying:
            for column in (self._dense(at), scale.multipliers):
                if not isinstance(column, float) and len(rows) and (column[rows] != column[rows[0]]).any():
                    values, codes = np.unique(column[rows], return_inverse=True)
                    _, kinds = np.unique(kinds * len(values) + codes, return_inverse=True)
        _, firsts = np.unique(kinds, return_index=True)
        return [*rows[firsts].tolist(), *others]

    def in_order(self, rows: RowArray) -> Iterator[list[tuple[int, Numbers]]]:
        """These rows, which are in the table's order, best first; those of equal weight together."""
        if not len(rows):
            return
        _, keys = self._weigh(rows)
        order = np.argsort(keys, kind="stable")
        ends = np.flatnonzero(np.diff(keys[order])) + 1
        for equal in np.split(rows[order], ends):
            yield [(row, self.numbers_of(row)) for row in equal.tolist()]

    def _keys(self, who: Survivors) -> FloatArray:
        """The weight of each of these, turned round; infinity for all others."""
        columns = {term.at: self._dense(term.at) for term in self._terms}
        return who.only(keys_of(self._terms, columns, len(self.table.names)), np.inf)

    def noted_of(self, order: Iterable[tuple[float, int]]) -> list[Noted]:
        """What a decision notes of each of these, which are (weight turned round, row)."""
        hosts, names, known, spans, held = self.table.names, self.names, self._numbers, self._spans, self._multipliers
        return [
            (
                hosts[row],
                0.0 - key,
                (names, known.get(row) or self.numbers_of(row), spans, held or self._multipliers_of(row)),
            )
            for key, row in order
        ]

    def _multipliers_of(self, row: int) -> tuple[float, ...]:
        held = [scale.multipliers for scale in self.scales]
        return tuple([each if isinstance(each, float) else each.item(row) for each in held])
