# SPDX-License-Identifier: Apache-2.0
"""Breaks ties among hosts of equal weight for the instances of one request.

Each instance starts from the order that the one before it left: equal weights are settled by the weights of the round
before, those by the round before that, and at last by the order of the table. So it is enough to record between which
extremes each round weighed, and the numbers of the chosen hosts before they were chosen.

A few tied hosts are followed back, round by round, until they differ. Where many are equal for long, as on a fleet
of equal hosts that take a second instance each, that would be more work with every instance. Before it exceeds the
work of sorting all hosts by all recorded rounds, they are sorted, and only later rounds count from then on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from roost.hosts.arrays import FloatArray, RowArray
from roost.scheduler.incremental.scales import Numbers
from roost.scheduler.weighing import Term, keys_of, weight_of

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
