# SPDX-License-Identifier: Apache-2.0
"""Orders of many hosts whose numbers change: the extremes of a weigher, the top k rows, and how ties are broken.

Each instance of a request starts from the order that the one before it left: equal weights are settled by the weights
of the round before, those by the round before that, and at last by the order of the table. So it is enough to record
between which extremes each round weighed, and the numbers of the chosen hosts before they were chosen.

A few tied hosts are followed back, round by round, until they differ. Where many are equal for long, as on a fleet
of equal hosts that take a second instance each, that would be more work with every instance. Before it exceeds the
work of sorting all hosts by all recorded rounds, they are sorted, and only later rounds count from then on.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from roost.hosts import HostTable
from roost.hosts.encoded import FloatArray, RowArray
from roost.model.kinds import lazy
from roost.model.request import RequestSpec
from roost.scheduler.full_scan import Scale, Span, Term, is_constant, keys_of, weight_of
from roost.scheduler.search import Uncacheable
from roost.weighers.base import Weigher

BEFORE_ALL: tuple[float, int] = (-math.inf, -1)
AFTER_ALL: tuple[float, int] = (math.inf, 0)
FEW = 32
"""Up to so many changes are made one by one, more of them in bulk."""


class TopRows:
    """The (key, row) pairs with the smallest keys, sorted. All rows that are not held come after `bound`.

    A row whose key gets small enough is taken in, a held one whose key gets too large is dropped; once none is held,
    it must be filled again. A fill looks at every row, a change costs a binary search.
    """

    __slots__ = ("bound", "entries", "held", "size")

    def __init__(self) -> None:
        self.entries: list[tuple[float, int]] = []
        self.bound = BEFORE_ALL
        self.size = 0
        self.held: dict[int, float] = {}
        """Row -> key."""

    def __contains__(self, row: int) -> bool:
        return row in self.held

    def starts_with(self, row: int) -> bool:
        """Whether this row is the first, or none is held any more."""
        return not self.entries or self.entries[0][1] == row

    def fill(self, keys: FloatArray, size: int) -> RowArray:
        """Hold the `size` rows with the smallest keys, except infinite ones; returns the rows held."""
        rows, is_all = smallest(keys, size)
        self.held = dict(zip(rows.tolist(), keys[rows].tolist(), strict=True))
        self.entries = [(key, row) for row, key in self.held.items()]
        self.bound = AFTER_ALL if is_all else self.entries[-1]
        self.size = size
        return rows

    def put_many(self, positions: Mapping[int, int], rows: RowArray, keys: FloatArray) -> None:
        """These rows have these keys now; `positions`: row -> its position in both arrays."""
        key, row = self.bound
        near = np.flatnonzero((keys < key) | ((keys == key) & (rows <= row)))
        gone = [each for each in positions if each in self.held]
        if len(near) + len(gone) > FEW:
            for each in gone:
                del self.held[each]
            self._take_in(positions, rows[near].tolist(), keys[near].tolist())
        else:
            for at in {*near.tolist(), *(positions[each] for each in gone)}:
                self.put(int(rows[at]), keys.item(at))

    def _take_in(self, changed: Container[int], rows: list[int], keys: list[float]) -> None:
        """Hold these rows, and no other row that changed."""
        self.held.update(zip(rows, keys, strict=True))
        entries = [entry for entry in self.entries if entry[1] not in changed]
        entries += zip(keys, rows, strict=True)
        entries.sort()
        self.entries = entries
        if len(entries) > 2 * self.size:
            self._trim()

    def put(self, row: int, key: float) -> bool:
        """The row has this key now; True if it is held."""
        old = self.held.get(row)
        if old is not None:
            if old == key:
                return True
            del self.entries[bisect_left(self.entries, (old, row))]
        if (key, row) <= self.bound:
            self.held[row] = key
            insort(self.entries, (key, row))
            if len(self.entries) > 2 * self.size:
                self._trim()
                return row in self.held
            return True
        if old is not None:
            del self.held[row]
        return False

    def drop(self, row: int) -> None:
        """Do not hold this row."""
        old = self.held.pop(row, None)
        if old is not None:
            del self.entries[bisect_left(self.entries, (old, row))]

    def _trim(self) -> None:
        for _, row in self.entries[self.size :]:
            del self.held[row]
        del self.entries[self.size :]
        self.bound = self.entries[-1]


def smallest(keys: FloatArray, size: int) -> tuple[RowArray, bool]:
    """Rows of the `size` smallest finite keys, sorted, of equal ones the first rows; and whether these are all."""
    if size < len(keys):
        first = keys.min()
        equal = keys == first
        if first < math.inf and np.count_nonzero(equal) >= size:  # equal hosts: no need to look for the last
            return np.flatnonzero(equal)[:size], False
        last = np.partition(keys, size - 1)[size - 1]
        if last < math.inf:
            before = np.flatnonzero(keys < last)
            rows = np.concatenate([before, np.flatnonzero(keys == last)[: size - len(before)]])
            return rows[np.argsort(keys[rows], kind="stable")], False
    rows = np.flatnonzero(keys < math.inf)
    return rows[np.argsort(keys[rows], kind="stable")], True


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


SORTING, SORTING_PER_HOST = 16, 1 / 32
"""Sorting by one round costs as much as working out so many weights one by one, and so many more per host."""

RowNumbers = tuple[int, Numbers]
"""A row and its raw numbers now."""


class RankedHosts(Protocol):
    """The hosts that are left."""

    @property
    def left(self) -> int:
        """How many there are."""

    def numbers_left(self) -> tuple[RowArray, FloatArray]:
        """Their rows in the table's order, and their raw numbers now, a line per weigher, which may be written to."""


class Round(NamedTuple):
    """One instance: what hosts were weighed by, and the chosen row with its raw numbers before it was chosen."""

    terms: Sequence[Term]
    row: int
    numbers: Numbers


class TieBreaks:
    """The rounds of one request so far."""

    def __init__(self, hosts: RankedHosts | None = None) -> None:
        """`hosts`: those that can be sorted; None: ties are always followed back, however long that takes."""
        self._hosts = hosts
        self._rounds: list[Round] = []
        """The rounds since all hosts were sorted."""
        self.changed: set[int] = set()
        """Rows that were chosen since then: their numbers differ from those before."""
        self._chosen: set[int] = set()
        """Rows that were chosen in any round."""
        self._multipliers: dict[int, FloatArray] = {}
        """Multipliers that vary from host to host, by identity."""
        self._work = 0
        """Weights worked out since all hosts were sorted."""
        self.order: RowArray | None = None
        """All rows in the order in which they were sorted; None: not sorted yet, the table's order counts."""
        self._places: dict[int, int] = {}
        """Row -> its place in that order."""

    def note(self, done: Round) -> None:
        """Record a round."""
        self._rounds.append(done)
        self._chosen.add(done.row)
        self.changed.add(done.row)
        for term in done.terms:
            if not isinstance(term.multipliers, float):
                self._multipliers[id(term.multipliers)] = term.multipliers

    def first(self, tied: Iterable[RowNumbers]) -> int:
        """Of rows that weigh the same now, the one that a stable sort, round by round, would put first."""
        rivals = self._distinct(tied)
        self._sort_if_less_work(len(rivals))
        for terms, chosen, before in reversed(self._rounds):
            if len(rivals) == 1:
                break
            if chosen in rivals:
                rivals[chosen] = before
            weights = {row: weight_of(terms, numbers, row) for row, numbers in rivals.items()}
            best = max(weights.values())
            rivals = {row: numbers for row, numbers in rivals.items() if weights[row] == best}
            self._work += len(weights)
        return min(rivals, key=self._place)

    def in_order(self, tied: Iterable[RowNumbers]) -> list[int]:
        """Rows that weigh the same now, as a stable sort, round by round, would put them; without chosen ones."""
        rows = [each for each in tied if each[0] not in self._chosen]
        kinds = {self._kind(*each): each for each in rows}
        self._sort_if_less_work(len(kinds))
        keys: dict[Numbers, list[float]] = {}
        if len(kinds) > 1:
            backwards = [terms for terms, _, _ in reversed(self._rounds)]
            for kind, (row, numbers) in kinds.items():
                keys[kind] = [-weight_of(terms, numbers, row) for terms in backwards]
                self._work += len(backwards)
        rows.sort(key=lambda each: (keys.get(self._kind(*each), []), self._place(each[0])))
        return [row for row, _ in rows]

    def _kind(self, row: int, numbers: Numbers) -> Numbers:
        """Rows of one kind that were not chosen had equal weights in every recorded round."""
        return (*numbers, *[each.item(row) for each in self._multipliers.values()])

    def _distinct(self, tied: Iterable[RowNumbers]) -> dict[int, Numbers]:
        """The first row of each kind, and every row that was chosen in a recorded round."""
        rivals: dict[object, RowNumbers] = {}
        for row, numbers in tied:
            key = row if row in self.changed else self._kind(row, numbers)
            if key not in rivals or self._place(row) < self._place(rivals[key][0]):
                rivals[key] = row, numbers
        return dict(rivals.values())

    def _place(self, row: int) -> int:
        """The place of a row before the recorded rounds; until all are sorted, its place in the table."""
        return self._places.get(row, row)

    # --- sorting ---

    def _sort_if_less_work(self, rivals: int) -> None:
        """Sort all hosts, if following so many rivals back, with the work so far, may be more work than that."""
        if rivals > 1 and self._hosts is not None:
            rounds = len(self._rounds)
            if self._work + rivals * rounds > rounds * (SORTING + SORTING_PER_HOST * self._hosts.left):
                self._sort(*self._hosts.numbers_left())

    def _sort(self, rows: RowArray, numbers: FloatArray) -> None:
        """Sort these rows by the recorded rounds, which need not be looked at again."""
        positions = {row: at for at, row in enumerate(rows.tolist())}
        order = np.argsort([self._place(row) for row in positions])
        keys, weighed_by = np.zeros(len(rows)), None
        for (terms, row, _), after in zip(self._rounds, self._undo(positions, numbers), strict=True):
            if terms is not weighed_by:  # in most rounds no extreme moves, and only the chosen host weighs less
                keys, weighed_by = keys_of(terms, numbers, len(rows), rows), terms
            order = order[np.argsort(keys[order], kind="stable")]
            if row in positions:
                numbers[:, positions[row]] = after
                keys[positions[row]] = -weight_of(terms, after, row)
        self.order = rows[order]
        self._places = {row: place for place, row in enumerate(self.order.tolist())}
        self._rounds, self.changed, self._work = [], set(), 0

    def _undo(self, positions: dict[int, int], numbers: FloatArray) -> list[Sequence[float]]:
        """Give all rows their numbers of the first recorded round; returns the chosen row's numbers after each."""
        after: list[Sequence[float]] = []
        for _, row, before in reversed(self._rounds):
            if row in positions:
                after.append(numbers[:, positions[row]].tolist())
                numbers[:, positions[row]] = before
            else:  # it was rejected since: its place does not matter any more
                after.append(())
        return after[::-1]


def first_of_each_kind(rows: RowArray, apart: Collection[int], columns: Iterator[FloatArray]) -> list[int]:
    """The first row of each kind - equal in all these columns - and every row that is to be kept `apart`.

    A fleet of equal hosts has thousands of tied rows: too many to look at one by one.
    """
    is_apart = np.isin(rows, list(apart))
    rows, others = rows[~is_apart], rows[is_apart].tolist()
    kinds = np.zeros(len(rows), dtype=np.intp)
    for column in columns:
        if len(rows) and (column[rows] != column[rows[0]]).any():
            values, codes = np.unique(column[rows], return_inverse=True)
            _, kinds = np.unique(kinds * len(values) + codes, return_inverse=True)
    _, firsts = np.unique(kinds, return_index=True)
    return [*rows[firsts].tolist(), *others]
