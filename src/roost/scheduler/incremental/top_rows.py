# SPDX-License-Identifier: Apache-2.0
"""The top k rows of an order that changes all the time, without keeping all rows sorted."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Container, Mapping

import numpy as np

from roost.hosts.arrays import FloatArray, RowArray

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
