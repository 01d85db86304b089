# SPDX-License-Identifier: Apache-2.0
"""Expansion of name patterns: `node-[001-200]` expands to node-001, ..., node-200."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator

from roost.errors import FieldError
from roost.model.kinds import shown

MAX_HOSTS = 5_000_000

_RANGE = re.compile(r"\[([0-9]{1,18})-([0-9]{1,18})\]")


def expand_name(name: str, field: str, most: int = MAX_HOSTS) -> Iterator[str]:
    """The names that a pattern expands to, in order, as an iterator; a plain name expands to itself."""
    if "[" not in name and "]" not in name:
        return iter((name,))
    pieces = _RANGE.split(name)
    literals, bounds = pieces[0::3], list(zip(pieces[1::3], pieces[2::3], strict=True))
    if any(bracket in literal for literal in literals for bracket in "[]"):
        raise FieldError(field, f"{shown(name)} has a bracket that is no range", "write a range as [001-200]")
    for first, last in bounds:
        if int(last) < int(first):
            problem = f"the range [{first}-{last}] in {shown(name)} runs backwards"
            raise FieldError(field, problem, f"write [{last}-{first}]")
    ranges = [range(int(first), int(last) + 1) for first, last in bounds]
    total = count_names(name)
    if total > most:
        hint = f"at most {MAX_HOSTS}" if most == MAX_HOSTS else f"the fleet has {most}"
        raise FieldError(field, f"{shown(name)} stands for {total} hosts", hint)
    *outer, (first, _) = bounds
    *outer_ranges, inner = ranges
    heads = (
        literals[0] + "".join(f"{number:0{len(low)}d}{rest}" for number, (low, _), rest in parts)
        for parts in (zip(numbers, outer, literals[1:], strict=False) for numbers in itertools.product(*outer_ranges))
    )
    return (f"{head}{number:0{len(first)}d}{literals[-1]}" for head in heads for number in inner)


def count_names(name: str) -> int:
    """The number of names that a pattern expands to."""
    return math.prod(max(0, int(last) - int(first) + 1) for first, last in _RANGE.findall(name))
