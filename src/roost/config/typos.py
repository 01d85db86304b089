# SPDX-License-Identifier: Apache-2.0
"""Slips of the pen: a name that is almost one of ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

LONG = 12
"""Names of so many letters may differ by two, shorter ones by one."""


def meant(name: str, known: Iterable[str]) -> str:
    """The known name that somebody who wrote this one has meant, or nothing. Case and hyphens do not count."""
    plain = _plain(name)
    limit = 2 if len(plain) >= LONG else 1
    near = [(_edits(plain, _plain(each)), each) for each in known if _may_be_near(plain, _plain(each), limit)]
    edits, best = min(near, default=(limit + 1, ""))
    return best if edits <= limit else ""


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


def _may_be_near(one: str, other: str, limit: int) -> bool:
    """A cheap look at lengths and letters, before the edits are counted."""
    if abs(len(one) - len(other)) > limit:
        return False
    return (Counter(one) - Counter(other)).total() <= limit


def _edits(one: str, other: str) -> int:
    """Letters to add, drop, replace, or swap with their neighbour, to make the one name the other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, start=1):
        before, above, row = row, before, [i]
        for j, wanted in enumerate(other, start=1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted)))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                row[j] = min(row[j], above[j - 2] + 1)
    return row[-1]
