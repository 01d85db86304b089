# SPDX-License-Identifier: Apache-2.0
"""What a column can hold: checked before the database would, with an error that names value, place and remedy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import BigInteger, Double, Integer, String, Table

from roost.errors import BadInput
from roost.store.column_types import JsonText
from roost.validation.display import shown

LARGEST = 2**63 - 1
LARGEST_SMALL = 2**31 - 1
_LONGEST_PLACE = 100

Check = Callable[[Any], tuple[str, str] | None]
"""What is wrong with a value, and what to do; None where nothing is."""


def check_rows(
    table: Table, names: Sequence[str], rows: Iterable[Sequence[Any]], place: Callable[[dict[str, Any]], str]
) -> None:
    """Raise BadInput for the first value that does not fit its column; NULL always does.

    `names`: the columns, in the order of each row's values. `place` says whose row it is, given the row as a dict.
    """
    checks = _checks_of(table, tuple(names))
    for row in rows:
        for at, check in checks:
            if (value := row[at]) is not None and (wrong := check(value)):
                problem, remedy = wrong
                whose = _short(place(dict(zip(names, row, strict=True))))
                raise BadInput(f"{whose}: {names[at]}: {shown(value)} {problem}", remedy)


def _short(words: str) -> str:
    """The start of a place: the value that is too long may be part of it."""
    return words if len(words) <= _LONGEST_PLACE else f"{words[:_LONGEST_PLACE]}..."


@lru_cache(maxsize=256)
def _checks_of(table: Table, names: tuple[str, ...]) -> list[tuple[int, Check]]:
    """Position in a row and check of its value, in the order of the table's columns."""
    found = [(names.index(each.name), _check_of(each.type)) for each in table.columns if each.name in names]
    return [(at, check) for at, check in found if check is not None]


def _check_of(kind: Any) -> Check | None:
    if isinstance(kind, JsonText):  # any text and any number, written in ASCII
        return None
    if isinstance(kind, String):
        return _text_up_to(kind.length)
    if isinstance(kind, Integer):
        return _number_up_to(LARGEST if isinstance(kind, BigInteger) else LARGEST_SMALL)
    return _finite if isinstance(kind, Double) else None


def _text_up_to(length: int | None) -> Check:
    def check(value: str) -> tuple[str, str] | None:
        if length is not None and len(value) > length:
            return f"is {len(value)} characters long", f"at most {length} fit"
        if value.isascii() and "\0" not in value:
            return None
        if "\0" in value:
            return "has a NUL in it", "leave it out"
        if any("\ud800" <= each <= "\udfff" for each in value):
            return "has half a character in it", "write the whole one"
        return None

    return check


def _number_up_to(most: int) -> Check:
    def check(value: int) -> tuple[str, str] | None:
        return None if -most - 1 <= value <= most else ("does not fit into the database", f"at most {most}")

    return check


def _finite(value: float) -> tuple[str, str] | None:
    return None if math.isfinite(value) else ("is no finite number", "write one")
