# SPDX-License-Identifier: Apache-2.0
"""Detects typos: unknown names within a small edit distance of a known one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

LONG_NAME = 12
"""Letters from which on a name may differ by two edits; shorter ones by one."""


def correct_typo(name: str, known: Iterable[str]) -> str:
    """The known name of which `name` is a typo; empty where it is none. Case and hyphens are ignored."""
    normal = _normalize(name)
    limit = 2 if len(normal) >= LONG_NAME else 1
    near = [
        (_edit_distance(normal, _normalize(each)), each)
        for each in known
        if _may_be_near(normal, _normalize(each), limit)
    ]
    edits, best = min(near, default=(limit + 1, ""))
    return best if edits <= limit else ""


def _normalize(name: str) -> str:
    return name.lower().replace("-", "_")


def _may_be_near(one: str, other: str, limit: int) -> bool:
    """A cheap lower bound on the edit distance, from lengths and letter counts: False where it exceeds the limit."""
    if abs(len(one) - len(other)) > limit:
        return False
    return (Counter(one) - Counter(other)).total() <= limit


def _edit_distance(one: str, other: str) -> int:
    """Damerau-Levenshtein distance (optimal string alignment): inserts, deletes, replacements, adjacent swaps."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, start=1):
        before, above, row = row, before, [i]
        for j, wanted in enumerate(other, start=1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted)))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                row[j] = min(row[j], above[j - 2] + 1)
    return row[-1]
