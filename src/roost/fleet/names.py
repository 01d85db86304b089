# SPDX-License-Identifier: Apache-2.0
"""Names that stand for many: `node-[001-200]` is node-001 to node-200."""

from __future__ import annotations

import itertools
import math
import re

from roost.errors import FieldError
from roost.model.checks import shown

MAX_HOSTS = 5_000_000

_RANGE = re.compile(r"\[([0-9]{1,18})-([0-9]{1,18})\]")


def expand_name(name: str, field: str) -> list[str]:
    """All names a pattern stands for, in order; a plain name stands for itself."""
    if "[" not in name and "]" not in name:
        return [name]
    pieces = _RANGE.split(name)
    literals = pieces[0::3]
    if any(bracket in literal for literal in literals for bracket in "[]"):
        raise FieldError(field, f"{shown(name)} has a bracket that is no range", "write a range as [001-200]")
    bounds = list(zip(pieces[1::3], pieces[2::3], strict=True))
    for first, last in bounds:
        if int(last) < int(first):
            problem = f"the range [{first}-{last}] in {shown(name)} runs backwards"
            raise FieldError(field, problem, f"write [{last}-{first}]")
    ranges = [range(int(first), int(last) + 1) for first, last in bounds]
    total = math.prod(each.stop - each.start for each in ranges)
    if total > MAX_HOSTS:
        raise FieldError(field, f"{shown(name)} stands for {total} names", f"at most {MAX_HOSTS}")
    choices = [
        [f"{number:0{len(first)}d}{rest}" for number in each]
        for each, (first, _), rest in zip(ranges, bounds, literals[1:], strict=True)
    ]
    return [literals[0] + "".join(numbers) for numbers in itertools.product(*choices)]
