# SPDX-License-Identifier: Apache-2.0
"""The instances of one request so far: what settles ties among equal hosts.

Each instance starts from the order that the one before it left: equal weights are settled by the weights of the round
before, those by the round before that, and at last by the order of the table. So it is enough to remember between
which extremes each round weighed, and the numbers of the hosts that were chosen before they were.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from roost.hosts.arrays import FloatArray
from roost.scheduler.scales import Numbers, Term, weight_of

Standing = tuple[int, Numbers]
"""A row and its raw numbers as they are now."""


class Rounds:
    """What each round weighed by, and whom it chose."""

    def __init__(self) -> None:
        self._terms: list[Sequence[Term]] = []
        self._earlier: dict[int, list[tuple[int, Numbers]]] = {}
        """Chosen rows -> their numbers, with the last round in which they had them."""
        self._multipliers: dict[int, FloatArray] = {}
        """Those that vary from host to host."""

    def note(self, terms: Sequence[Term], row: int, numbers: Numbers) -> None:
        """A round is over: what it weighed by, and whom it chose with which numbers."""
        self._earlier.setdefault(row, []).append((len(self._terms), numbers))
        self._terms.append(terms)
        for term in terms:
            if not isinstance(term.multipliers, float):
                self._multipliers[id(term.multipliers)] = term.multipliers

    @property
    def chosen(self) -> Collection[int]:
        """Rows that took an instance: what they were before differs from what they are."""
        return self._earlier.keys()

    def first(self, tied: Iterable[Standing]) -> int:
        """Of rows with the same weight now, the one that a stable sort, round by round, would put first."""
        rivals = self._distinct(tied)
        for at in range(len(self._terms) - 1, -1, -1):
            if len(rivals) == 1:
                break
            weights = [self._weight(at, row, numbers) for row, numbers in rivals]
            best = max(weights)
            rivals = [rival for rival, weight in zip(rivals, weights, strict=True) if weight == best]
        return min(row for row, _ in rivals)

    def in_order(self, tied: Iterable[Standing]) -> list[int]:
        """All rows with the same weight now, in that order. Those that were chosen are left out."""
        rows = [each for each in tied if each[0] not in self._earlier]
        kinds = {self._kind(*each): each for each in rows}
        keys: dict[Numbers, list[float]] = {}
        if len(kinds) > 1:
            backwards = range(len(self._terms) - 1, -1, -1)
            keys = {kind: [-self._weight(at, *each) for at in backwards] for kind, each in kinds.items()}
        return [row for row, _ in sorted(rows, key=lambda each: (keys.get(self._kind(*each), []), each[0]))]

    def _kind(self, row: int, numbers: Numbers) -> Numbers:
        """Rows of one kind that were never chosen had the same weight in every round."""
        return (*numbers, *[each.item(row) for each in self._multipliers.values()])

    def _distinct(self, tied: Iterable[Standing]) -> list[Standing]:
        """The first row of each kind, and all that were chosen."""
        rivals: dict[object, Standing] = {}
        for row, numbers in tied:
            key = row if row in self._earlier else self._kind(row, numbers)
            if key not in rivals or row < rivals[key][0]:
                rivals[key] = row, numbers
        return list(rivals.values())

    def _weight(self, at: int, row: int, now: Numbers) -> float:
        for last, numbers in self._earlier.get(row, ()):
            if at <= last:
                return weight_of(self._terms[at], numbers, row)
        return weight_of(self._terms[at], now, row)
