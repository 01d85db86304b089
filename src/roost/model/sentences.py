# SPDX-License-Identifier: Apache-2.0
"""Numbers and lists in sentences."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, noun: str) -> str:
    """`1 host`, `1,200 hosts`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Sequence[str], most: int = 3, total: int = 0) -> str:
    """`a, b and c`, or `a, b, c and 97 more`. `total`: how many there are, if `names` are only the first ones."""
    shown = list(names[:most])
    if (more := max(total, len(names)) - len(shown)) > 0:
        shown.append(f"{more:,} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
