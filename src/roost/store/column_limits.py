# SPDX-License-Identifier: Apache-2.0
"""Limits of columns, checked before the database does: the error names the row, the value and a remedy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import BigInteger, Column, Double, Integer, String, Table

from roost.errors import BadInput
from roost.model.kinds import shown
from roost.store.column_types import JsonText

LARGEST_BIGINT = 2**63 - 1
LARGEST_INTEGER = 2**31 - 1
_LONGEST_DESCRIPTION = 100
"""Characters of the description of a row in an error."""

Check = Callable[[Any], tuple[str, str] | None]
"""Check of a value: the problem and a remedy, or None if the value fits."""


def check_rows(
    table: Table, names: Sequence[str], rows: Iterable[Sequence[Any]], describe: Callable[[dict[str, Any]], str]
) -> None:
    """Raise BadInput for the first value that does not fit its column; NULL always fits.

    `names`: the columns, in the order of each row's values. `describe`: names a row, given as a dict, for the error.
    """
    checks = _checks_of(table, tuple(names))
    for row in rows:
        for at, check in checks:
            if (value := row[at]) is not None and (wrong := check(value)):
                problem, remedy = wrong
                described = _shorten(describe(dict(zip(names, row, strict=True))))
                raise BadInput(f"{described}: {names[at]}: {shown(value)} {problem}", remedy)


def fits(column: Column[Any], value: Any) -> bool:
    """Whether a value can be stored in the column, and so can be searched for there."""
    check = _check_of(column.type)
    return value is None or check is None or check(value) is None


def _shorten(description: str) -> str:
    """The start of a description: it may contain the value that is too long."""
    if len(description) <= _LONGEST_DESCRIPTION:
        return description
    return f"{description[:_LONGEST_DESCRIPTION]}..."


@lru_cache(maxsize=256)
def _checks_of(table: Table, names: tuple[str, ...]) -> list[tuple[int, Check]]:
    """Positions in a row with the check of the value there, in the order of the table's columns."""
    found = [(names.index(each.name), _check_of(each.type)) for each in table.columns if each.name in names]
    return [(at, check) for at, check in found if check is not None]


def _check_of(kind: Any) -> Check | None:
    if isinstance(kind, JsonText):  # takes any JSON value, encoded as ASCII
        return None
    if isinstance(kind, String):
        return _text_check(kind.length)
    if isinstance(kind, Integer):
        return _integer_check(LARGEST_BIGINT if isinstance(kind, BigInteger) else LARGEST_INTEGER)
    return _check_finite if isinstance(kind, Double) else None


def _text_check(length: int | None) -> Check:
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


def _integer_check(most: int) -> Check:
    def check(value: int) -> tuple[str, str] | None:
        return None if -most - 1 <= value <= most else ("does not fit into the database", f"at most {most}")

    return check


def _check_finite(value: float) -> tuple[str, str] | None:
    return None if math.isfinite(value) else ("is no finite number", "write one")
