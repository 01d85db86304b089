# SPDX-License-Identifier: Apache-2.0
"""Requirement expressions of extra specs, such as `>= 4` or `<or> v1 <or> v2`.

A requirement whose first word is no operator is compared literally, blanks included. `=` means "at least".
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from roost.errors import RuleError

NUMERIC: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
}
_TEXTUAL: dict[str, Callable[[Any, Any], bool]] = {
    "s==": operator.eq,
    "s!=": operator.ne,
    "s<": operator.lt,
    "s<=": operator.le,
    "s>": operator.gt,
    "s>=": operator.ge,
    "<in>": operator.contains,
}
_REQUIREMENT_OPERATORS = {*NUMERIC, *_TEXTUAL, "<all-in>", "<or>"}


def match(value: Any, req: str) -> bool:
    """Whether a value satisfies a requirement. RuleError if the requirement is malformed."""
    words = req.split()
    if not words or words[0] not in _REQUIREMENT_OPERATORS:
        return bool(value == req)
    if value is None:
        return False
    name, operands = words[0], words[1:]
    if name == "<or>":
        if not operands:
            raise RuleError("extra specs", f"{req!r} names no alternative", "IndexError", "write <or> A <or> B")
        return value in operands[::2]  # every second word is a separator, and need not be <or>
    if not operands:
        return False
    if name == "<all-in>":
        return all(operand in value for operand in operands)
    if name in NUMERIC:
        return bool(NUMERIC[name](to_number(value, req), to_number(operands[0], req)))
    return bool(_TEXTUAL[name](value, operands[0]))


def to_number(value: Any, req: str) -> float:
    """A value as a number, for the numeric operators; RuleError if it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise RuleError("extra specs", f"{req!r} compares numbers, and {value!r} is none") from None


def numeric_comparison(req: str) -> tuple[Callable[[Any, Any], Any], float] | None:
    """The operator and the number of a numeric requirement; None for any other requirement."""
    words = req.split()
    if len(words) < 2 or words[0] not in NUMERIC:
        return None
    return NUMERIC[words[0]], to_number(words[1], req)


def satisfying_value(req: str) -> str | None:
    """A metadata value that satisfies a requirement, in the words of the requirement; None if none is found."""
    words = req.split()
    operands = words[1:]
    candidates = [req] if not words or words[0] not in _REQUIREMENT_OPERATORS else [*operands[:1], " ".join(operands)]
    candidates += ["0", "other"] if words[:1] in (["!="], ["s!="]) else []
    usable = (each for each in candidates if "," not in each and each == each.strip())
    try:
        return next((each for each in usable if match(each, req)), None)
    except RuleError:  # it compares with a number that is none: no value satisfies it
        return None
