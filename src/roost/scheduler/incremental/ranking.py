# SPDX-License-Identifier: Apache-2.0
"""The hosts that passed in their order of preference, patched where hosts change; and their raw numbers, memoised.

A weight is a sum of multiplier x (number - low) / (high - low), and low and high are the extremes among the hosts
that passed: when one moves, every weight moves. So the top rows are kept by the weights between the extremes of an
earlier state, the reference. How far a weight can be from that, the reach, is bounded by how far the extremes have
moved since: the few hosts within reach of the top are weighed again, and no other host can be among the best.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np

from roost.hosts import Hosts, HostTable
from roost.hosts.encoded import FloatArray, RowArray
from roost.model.decision import ScoredHost
from roost.model.kinds import lazy
from roost.model.request import RequestSpec
from roost.scheduler.full_scan import NO_SPREAD, Span, Term, keys_of, make_terms, weight_of
from roost.scheduler.incremental.order import (
    AFTER_ALL,
    ROUNDING,
    Numbers,
    RowNumbers,
    TopRows,
    TrackedScale,
    finite,
    first_of_each_kind,
    smallest,
)
from roost.scheduler.incremental.survivors import PASSED, Changes, Survivors
from roost.scheduler.search import Order, Uncacheable
from roost.weighers.base import Weigher


class RawNumbers:
    """One scale per weigher that is on, and the raw numbers of rows on each of them."""

    def __init__(self, table: HostTable, weighers: Iterable[Weigher], spec: RequestSpec) -> None:
        self.table, self.spec = table, spec
        hosts = table.in_the_running()
        self.scales: list[TrackedScale] = []
        for weigher in weighers:
            multipliers = weigher.multipliers(hosts)
            if not np.isfinite(multipliers).all():
                raise Uncacheable(f"multipliers of {weigher.name} are not finite")
            if not weigher.is_off(multipliers):
                self.scales.append(TrackedScale(weigher, multipliers, table, spec))
        self.names = tuple(scale.weigher.name for scale in self.scales)
        self.looks_at_size = any(scale.weigher.looks_at_size and not scale.is_constant for scale in self.scales)
        self._varying = [(at, scale) for at, scale in enumerate(self.scales) if not scale.is_constant]
        are_same = all(isinstance(scale.multipliers, float) for scale in self.scales)
        self._multipliers = self._multipliers_of(0) if are_same else ()
        """One per scale, if they are the same for all hosts."""
        self._stale_after: dict[frozenset[str], list[tuple[int, TrackedScale]]] = {}
        """Changed columns -> the scales whose numbers depend on them."""
        self._numbers: dict[int, Numbers] = {}
        """Memoised raw numbers of hosts that passed."""
        self._columns: dict[int, FloatArray] = {}
        """Memoised raw numbers of all rows by scale, while one answer is computed."""

    def renew(self, spec: RequestSpec) -> None:
        """Rank for this request from now on: its group has other members."""
        self.spec = spec
        for scale in self.scales:
            if scale.weigher.looks_at_group:
                scale.renew(spec)

    def numbers_of(self, row: int) -> Numbers:
        """The raw numbers of a host that passed, one per scale."""
        known = self._numbers.get(row)
        if known is None:
            numbers = [0.0] * len(self.scales)
            for at, scale in self._varying:
                numbers[at] = scale.read(row)
            known = self._numbers[row] = tuple(numbers)
        return known

    def numbers_of_many(self, rows: RowArray) -> FloatArray:
        """The raw numbers of these rows, a line per scale."""
        hosts, numbers = Hosts(self.table, rows, {}), np.zeros((len(self.scales), len(rows)))
        for at, scale in self._varying:
            numbers[at] = finite(scale.weigher, scale.weigher.clamped(hosts, self.spec))
        return numbers

    def _column(self, at: int) -> FloatArray:
        """The raw numbers of all rows on one scale."""
        numbers = self._columns.get(at)
        if numbers is None:
            weigher = self.scales[at].weigher
            numbers = self._columns[at] = finite(weigher, weigher.clamped(self.table.in_the_running(), self.spec))
        return numbers

    def _stale(self, columns: frozenset[str]) -> list[tuple[int, TrackedScale]]:
        """The scales whose numbers depend on these columns."""
        stale = self._stale_after.get(columns)
        if stale is None:
            varying = ((at, scale, scale.weigher.reads) for at, scale in self._varying)
            stale = [(at, scale) for at, scale, reads in varying if not reads or reads & columns]
            if len(self._stale_after) > 256:
                self._stale_after.clear()
            self._stale_after[columns] = stale
        return stale

    def _multipliers_of(self, row: int) -> tuple[float, ...]:
        held = [scale.multipliers for scale in self.scales]
        return tuple([each if isinstance(each, float) else each.item(row) for each in held])


FEWEST_TOP_ROWS, FEWEST_EXTREMES = 256, 64
"""So many of the best hosts, and of the smallest and largest numbers, are held; of large fleets more."""
FEW = 24
"""Up to so many changed rows are patched one by one, more of them in bulk."""
_FEW_WANTED = 16
"""Up to so many of the best are found one after the other, which is faster than sorting."""
_FEW_TIED = 64
"""Up to so many hosts of equal weight are looked at one by one."""
_MOST_NEAR = 48
"""With more hosts than this within reach of the top, it is time for a new reference."""


class Ranking(RawNumbers):
    """The best of the hosts that passed, and their weights."""

    def __init__(self, survivors: Survivors, weighers: Iterable[Weigher], spec: RequestSpec) -> None:
        super().__init__(survivors.table, weighers, spec)
        self.survivors = survivors
        self._top = TopRows()
        """The best hosts by the reference, keyed by negated weight."""
        self._keys: dict[int, float] = {}
        """Memoised negated weights between `_spans`."""
        self._spans: tuple[Span, ...] = ()
        self.terms: list[Term] = []
        """What weights between `_spans` are the sum of."""
        self._ends: set[int] | None = None
        """Rows whose numbers `_spans` are, if those are the extremes of all hosts that passed; None: search them."""
        self._reference: tuple[Span, ...] = ()
        self._reference_terms: list[Term] = []
        self._reach: float | None = None
        """Memoised for `_spans` and `_reference`."""
        self._is_filled, self._wasted = False, 0
        """Whether the top rows were filled, and how many hosts were weighed in vain since."""

    @lazy
    def _rounding(self) -> float:
        """A bound on the rounding error of sums of these multipliers."""
        return ROUNDING * (1 + sum(float(np.abs(scale.multipliers).max()) for scale in self.scales))

    # --- changes ---

    def update(self, changes: Changes, moved: Sequence[int]) -> None:
        """Patch rows that changed in these columns; `moved`: rows that were rejected, or pass again, by that."""
        codes = self.survivors.codes
        for row in moved:
            if codes[row] != PASSED:
                self._drop(row)
        if len(changes) <= FEW:
            for row, columns in changes.items():
                if codes[row] == PASSED:
                    self._patch(row, self._varying if row in moved else self._stale(columns))
        else:
            passed = [row for row in changes if codes[row] == PASSED]
            columns = frozenset().union(*set(changes.values()))
            self._patch_many(np.array(passed, dtype=np.intp), {at for at, _ in self._stale(columns)}, moved)

    def _drop(self, row: int) -> None:
        for _, scale in self._varying:
            scale.forget(row)
        self._top.drop(row)
        self._numbers.pop(row, None)
        self._keys.pop(row, None)
        self._ends = None

    def _patch(self, row: int, stale: Iterable[tuple[int, TrackedScale]]) -> None:
        """Patch one row that passed: its numbers, the extremes, its place among the top rows."""
        known = self._numbers.get(row)
        numbers = list(known) if known else [0.0] * len(self.scales)
        is_end = self._ends is not None and row in self._ends
        for at, scale in stale:
            numbers[at] = number = scale.read(row)
            if number - number != 0.0:  # infinite, or not a number
                raise Uncacheable(scale.weigher.name)
            highest, lowest = scale.highest, scale.lowest
            if highest is not None and (-number <= highest.bound[0] or row in highest.held):
                highest.put(row, -number)
                is_end = is_end or highest.starts_with(row)
            if lowest is not None and (number <= lowest.bound[0] or row in lowest.held):
                lowest.put(row, number)
                is_end = is_end or lowest.starts_with(row)
        if is_end:
            self._ends = None
        self._keys.pop(row, None)
        if known:
            self._numbers[row] = tuple(numbers)
        else:
            for term in self._reference_terms:
                numbers[term.at] = self.scales[term.at].read(row)
        self._top.put(row, -weight_of(self._reference_terms, numbers, row))

    def _patch_many(self, rows: RowArray, stale: set[int], moved: Sequence[int]) -> None:
        """Patch rows that passed, in bulk; `stale`: the scales whose numbers may have changed."""
        hosts, positions = Hosts(self.table, rows, {}), {row: at for at, row in enumerate(rows.tolist())}
        needed = stale | {term.at for term in self._reference_terms}
        weighers = {at: self.scales[at].weigher for at in needed}
        columns = {at: finite(weigher, weigher.clamped(hosts, self.spec)) for at, weigher in weighers.items()}
        for at in stale:
            self.scales[at].note_many(positions, rows, columns[at])
        for row in moved:
            if self.survivors.codes[row] == PASSED:
                for _, scale in self._varying:
                    scale.note(row, scale.read(row))
        self._top.put_many(positions, rows, keys_of(self._reference_terms, columns, len(rows), rows))
        for row in positions:
            self._numbers.pop(row, None)
        self._keys.clear()
        self._ends = None

    # --- the best ---

    def best(self, count: int, among: Survivors) -> Order | None:
        """The `count` best of these hosts, best first, of equal ones the first rows; None: the top rows cannot tell.

        `among`: the hosts that this ranking is of, or some of them.
        """
        try:
            count = min(count, among.left)
            if not self._find_extremes(among):
                return None
            if self._is_filled and self._wasted <= 400 + len(self.table.names) // 8:
                found = self._near_the_top(count, among)
                if found is not None:
                    return found
            self._fill(count)
            return self._near_the_top(count, among)
        finally:
            self._columns.clear()

    def best_of_all(self, count: int, among: Survivors) -> Order:
        """The `count` best of these hosts, found by weighing all of them, without the top rows."""
        count, rows = min(count, among.left), among.passed()
        columns, keys = self._weigh(rows)
        if count > _FEW_WANTED:
            order, _ = smallest(keys, count)
            if not np.isfinite(keys[order]).all():
                raise Uncacheable("weights are not finite")
            return list(zip(keys[order].tolist(), rows[order].tolist(), strict=True))
        best = []
        for _ in range(count):
            position = int(keys.argmin())
            key, row = keys.item(position), rows.item(position)
            if not math.isfinite(key):
                raise Uncacheable("weights are not finite")
            best.append((key, row))
            keys[position] = np.inf
            numbers = [0.0] * len(self.scales)
            for at, column in columns.items():
                numbers[at] = column.item(position)
            self._numbers[row] = tuple(numbers)
        return best

    def _weigh(self, rows: RowArray) -> tuple[dict[int, FloatArray], FloatArray]:
        """The raw numbers of these rows by scale, and their negated weights between the extremes of these rows."""
        hosts = self.table.in_the_running() if len(rows) == len(self.table.names) else Hosts(self.table, rows, {})
        columns: dict[int, FloatArray] = {}
        found = [NO_SPREAD] * len(self.scales)
        for at, scale in self._varying:
            columns[at] = numbers = scale.weigher.clamped(hosts, self.spec)
            found[at] = scale.span(numbers)
        self._weigh_between(tuple(found))
        self._ends = None
        return columns, keys_of(self.terms, columns, len(rows), rows)

    def _find_extremes(self, among: Survivors) -> bool:
        """Weigh between the extremes of these hosts from now on; False where the tracked extremes cannot tell."""
        if self._ends is not None:
            for row in self._ends:
                if among.codes[row] != PASSED:
                    break
            else:
                return True
        return self._search_extremes(among.codes)

    def _search_extremes(self, codes: bytearray) -> bool:
        """`_find_extremes`, where a row that has an extreme changed, or is not among the hosts asked about."""
        found, ends, are_first = [NO_SPREAD] * len(self.scales), set(), True
        for at, scale in self._varying:
            low, high, lowest, highest = scale.low, scale.high, scale.lowest, scale.highest
            if lowest is not None:
                entries = lowest.entries
                if entries and codes[entries[0][1]] == PASSED:  # almost always
                    low, row = entries[0]
                else:
                    low, row = entry = self._first(at, lowest, codes)
                    are_first = are_first and entry is lowest.entries[0]
                ends.add(row)
            if highest is not None:
                entries = highest.entries
                if entries and codes[entries[0][1]] == PASSED:
                    key, row = entries[0]
                else:
                    key, row = entry = self._first(at, highest, codes)
                    are_first = are_first and entry is highest.entries[0]
                high = -key
                ends.add(row)
            if not -math.inf < low <= high < math.inf:
                return False
            found[at] = low, high
        self._weigh_between(tuple(found))
        self._ends = ends if are_first else None
        return True

    def _first(self, at: int, top: TopRows, codes: bytearray) -> tuple[float, int]:
        """The smallest key of a host that passed, and its row; an infinite key where the top rows cannot tell."""
        for entry in top.entries:
            if codes[entry[1]] == PASSED:
                return entry
        self._fill_extremes(at)
        return next((entry for entry in top.entries if codes[entry[1]] == PASSED), AFTER_ALL)

    def _fill_extremes(self, at: int) -> None:
        scale, numbers = self.scales[at], self._column(at)
        for top, keys in ((scale.lowest, numbers), (scale.highest, -numbers)):
            if top is not None:
                size = min(max(FEWEST_EXTREMES, len(numbers) // 256), 1024)
                top.fill(self.survivors.only(keys, np.inf), size)

    def _weigh_between(self, spans: tuple[Span, ...]) -> None:
        """Weights are those between these extremes from now on."""
        if spans != self._spans or not self.terms:
            self._spans = spans
            self.terms = make_terms(self.scales, spans)
            self._keys.clear()
            self._reach = None

    def _near_the_top(self, count: int, among: Survivors) -> Order | None:
        """The best of these hosts, by weighing the top rows again; None if a row that is not held might be better."""
        if self._spans == self._reference:
            return self._first_of_top(count, among)
        top, codes, reach, keys = self._top, among.codes, self._find_reach(), self._keys
        found: Order = []
        weighed = 0
        for key, row in top.entries:
            if codes[row] != PASSED:
                continue
            if weighed >= count and key - reach > found[count - 1][0]:
                break
            if weighed > count + _MOST_NEAR:
                return None
            weighed += 1
            now = keys.get(row)
            if now is None:
                now = keys[row] = -weight_of(self.terms, self.numbers_of(row), row)
            insort(found, (now, row))
        else:
            if weighed < count or top.bound[0] - reach <= found[count - 1][0]:
                return None
        self._wasted += weighed - count
        return found[:count]

    def _first_of_top(self, count: int, among: Survivors) -> Order | None:
        """`_near_the_top`, while the extremes are those of the reference: the top rows are sorted as they stand."""
        codes, found = among.codes, []
        for entry in self._top.entries:
            if codes[entry[1]] == PASSED:
                found.append(entry)
                if len(found) == count:
                    return found
        return None

    def _find_reach(self) -> float:
        """The most that any weight can exceed the one between the extremes of the reference."""
        if self._reach is None:
            total = 0.0
            for scale, span, reference in zip(self.scales, self._spans, self._reference, strict=True):
                if span != reference:
                    total += scale.reach(span, reference)
            self._reach = max(total, 0.0) + self._rounding
        return self._reach

    def _fill(self, count: int) -> None:
        """Weigh all hosts that passed and hold the best: the extremes of now are the new reference."""
        size = min(max(FEWEST_TOP_ROWS, len(self.table.names) // 64), 4096)
        self._top.fill(self._keys_of_all(self.survivors), max(size, 2 * count))
        if len(self._numbers) > 4 * size:
            self._numbers.clear()
        self._reference, self._reference_terms, self._reach = self._spans, self.terms, None
        self._is_filled, self._wasted = True, 0

    def _keys_of_all(self, among: Survivors) -> FloatArray:
        """The negated weight of each row; infinity for all but these hosts."""
        columns = {term.at: self._column(term.at) for term in self.terms}
        return among.only(keys_of(self.terms, columns, len(self.table.names)), np.inf)

    # --- numbers and ties ---

    def tied(
        self, best: float, among: Survivors, apart: Collection[int] = (), order: RowArray | None = None
    ) -> list[RowNumbers]:
        """The hosts with the best weight, of which `best` is the key, and their numbers.

        Of many that are equal in every number the first stands for all, except rows to be kept `apart`: the first in
        this `order` of all hosts asked about; None: in the table's.
        """
        reach = 0.0 if self._spans == self._reference or not self._is_filled else self._find_reach()
        if self._top.bound[0] - reach <= best:  # rows that are not held may be tied, too
            try:
                is_tied = self._keys_of_all(among) == best
                equal = np.flatnonzero(is_tied) if order is None else order[is_tied[order]]
                rows = self._representatives(equal, apart)
            finally:
                self._columns.clear()
        else:
            passed = ((key, row) for key, row in self._top.entries if among.codes[row] == PASSED)
            near = (row for key, row in passed if key - reach <= best)
            rows = [row for row in near if -weight_of(self.terms, self.numbers_of(row), row) == best]
        return [(row, self.numbers_of(row)) for row in rows]

    def _representatives(self, rows: RowArray, apart: Collection[int]) -> list[int]:
        if len(rows) <= _FEW_TIED:
            return [*rows.tolist()]
        columns = (column for at, scale in self._varying for column in (self._column(at), scale.multipliers))
        return first_of_each_kind(rows, apart, (each for each in columns if not isinstance(each, float)))

    def in_order(self, rows: RowArray) -> Iterator[list[RowNumbers]]:
        """These rows, which are in the table's order, best first; rows of equal weight together."""
        if not len(rows):
            return
        _, keys = self._weigh(rows)
        order = np.argsort(keys, kind="stable")
        ends = np.flatnonzero(np.diff(keys[order])) + 1
        for equal in np.split(rows[order], ends):
            yield [(row, self.numbers_of(row)) for row in equal.tolist()]

    def noted_of(self, order: Order) -> list[ScoredHost]:
        """What a decision notes of each of these hosts."""
        hosts, names, known, spans, held = self.table.names, self.names, self._numbers, self._spans, self._multipliers
        return [
            (
                hosts[row],
                0.0 - key,
                (names, known.get(row) or self.numbers_of(row), spans, held or self._multipliers_of(row)),
            )
            for key, row in order
        ]
