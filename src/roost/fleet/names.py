# SPDX-License-Identifier: Apache-2.0
"""Names that stand for many: `node-[001-200]` is node-001 to node-200."""

from __future__ import annotations

import itertools
import re

from roost.errors import FieldError

MAX_HOSTS = 5_000_000

_RANGE = re.compile(r"\[(\d+)-(\d+)\]")


def expand_name(name: str, field: str) -> list[str]:
    """All names a pattern stands for, in order; a plain name stands for itself."""
    pieces = _RANGE.split(name)
    if len(pieces) == 1:
        return [name]
    choices = []
    for first, last in zip(pieces[1::3], pieces[2::3], strict=True):
        if int(last) < int(first):
            raise FieldError(field, f"the range [{first}-{last}] in {name!r} runs backwards")
        if int(last) - int(first) >= MAX_HOSTS:
            raise FieldError(field, f"{name!r} stands for more than {MAX_HOSTS} names")
        choices.append([str(each).zfill(len(first)) for each in range(int(first), int(last) + 1)])
    literals = pieces[0::3]
    total = 1
    for each in choices:
        total *= len(each)
    if total > MAX_HOSTS:
        raise FieldError(field, f"{name!r} stands for {total} names", f"at most {MAX_HOSTS}")
    return [
        literals[0] + "".join(number + rest for number, rest in zip(numbers, literals[1:], strict=True))
        for numbers in itertools.product(*choices)
    ]
