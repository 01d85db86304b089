# SPDX-License-Identifier: Apache-2.0
"""The instances of one request so far: what settles ties among equal hosts.

Each instance starts from the order that the one before it left: equal weights are settled by the weights of the round
before, those by the round before that, and at last by the order of the table. So it is enough to remember between
which extremes each round weighed, and the numbers of the hosts that were chosen before they were.

Few equal hosts are followed back, round by round, until they differ. Where many are equal for long, as on a fleet of
equal hosts that take a second instance each, that would be more work with every instance. So before it is more than
to sort all hosts by all these rounds, that is done, and only later rounds are looked at from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from roost.hosts.arrays import FloatArray, RowArray
from roost.scheduler.incremental.scales import Numbers, Term, keys_of, weight_of

SORTING, SORTING_A_HOST = 16, 1 / 32
"""To sort by one round takes as long as to work out so many weights one by one, and so many more for each host."""

RowNumbers = tuple[int, Numbers]
"""A row and its raw numbers as they are now."""


class RankedHosts(Protocol):
    """The hosts that are in the running, as they are now."""

    @property
    def left(self) -> int:
        """How many."""

    def standings(self) -> tuple[RowArray, FloatArray]:
        """Their rows in the table's order, and their raw numbers, a line for each weigher, to be written to."""


class Round(NamedTuple):
    """What a round weighed by, and whom it chose with which numbers."""

    terms: Sequence[Term]
    row: int
    numbers: Numbers


class TieBreaks:
    """What each round weighed by, and whom it chose."""

    def __init__(self, everybody: RankedHosts | None = None) -> None:
        """`everybody`: who can be sorted; None: all are followed back, however long that takes."""
        self._everybody = everybody
        self._rounds: list[Round] = []
        """Those since all were sorted."""
        self.changed: set[int] = set()
        """Rows that took an instance since then: what they were differs from what they are."""
        self._chosen: set[int] = set()
        """Rows that took one at any time."""
        self._multipliers: dict[int, FloatArray] = {}
        """Those that vary from host to host."""
        self._work = 0
        """Weights that were worked out since all were sorted."""
        self.order: RowArray | None = None
        """Everybody as they were when all were sorted; None: not yet, it is the table's order that counts."""
        self._places: dict[int, int] = {}
        """Row -> where it is in that order."""

    def note(self, terms: Sequence[Term], row: int, numbers: Numbers) -> None:
        """A round is over: what it weighed by, and whom it chose with which numbers."""
        self._rounds.append(Round(terms, row, numbers))
        self._chosen.add(row)
        self.changed.add(row)
        for term in terms:
            if not isinstance(term.multipliers, float):
                self._multipliers[id(term.multipliers)] = term.multipliers

    def first(self, tied: Iterable[RowNumbers]) -> int:
        """Of rows with the same weight now, the one that a stable sort, round by round, would put first."""
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
        """All rows with the same weight now, in that order. Those that were chosen are left out."""
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
        """Rows of one kind that were not chosen had the same weight in every round since all were sorted."""
        return (*numbers, *[each.item(row) for each in self._multipliers.values()])

    def _distinct(self, tied: Iterable[RowNumbers]) -> dict[int, Numbers]:
        """The first row of each kind, and all that were chosen since all were sorted."""
        rivals: dict[object, RowNumbers] = {}
        for row, numbers in tied:
            key = row if row in self.changed else self._kind(row, numbers)
            if key not in rivals or self._place(row) < self._place(rivals[key][0]):
                rivals[key] = row, numbers
        return dict(rivals.values())

    def _place(self, row: int) -> int:
        """Where it was before these rounds; until all are sorted, where it is in the table."""
        return self._places.get(row, row)

    # --- sorting ---

    def _sort_if_less_work(self, rivals: int) -> None:
        """Sort everybody, if to follow so many of them back, besides what was done so far, may be more work."""
        if rivals > 1 and self._everybody is not None:
            rounds = len(self._rounds)
            if self._work + rivals * rounds > rounds * (SORTING + SORTING_A_HOST * self._everybody.left):
                self._sort(*self._everybody.standings())

    def _sort(self, rows: RowArray, numbers: FloatArray) -> None:
        """Bring the order up to date: the rounds so far need not be looked at again."""
        positions = {row: at for at, row in enumerate(rows.tolist())}
        order = np.argsort([self._place(row) for row in positions])
        keys, weighed_by = np.zeros(len(rows)), None
        for (terms, row, _), after in zip(self._rounds, self._undo(positions, numbers), strict=True):
            if terms is not weighed_by:  # in most rounds no extreme moves, and only the chosen one weighs less
                keys, weighed_by = keys_of(terms, numbers, len(rows), rows), terms
            order = order[np.argsort(keys[order], kind="stable")]
            if row in positions:
                numbers[:, positions[row]] = after
                keys[positions[row]] = -weight_of(terms, after, row)
        self.order = rows[order]
        self._places = {row: place for place, row in enumerate(self.order.tolist())}
        self._rounds, self.changed, self._work = [], set(), 0

    def _undo(self, positions: dict[int, int], numbers: FloatArray) -> list[Sequence[float]]:
        """Give all rows the numbers that they had in the first round; tells what the chosen one had after each."""
        after: list[Sequence[float]] = []
        for _, row, before in reversed(self._rounds):
            if row in positions:
                after.append(numbers[:, positions[row]].tolist())
                numbers[:, positions[row]] = before
            else:  # it fell out: nobody asks any more where it was
                after.append(())
        return after[::-1]
