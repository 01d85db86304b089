# SPDX-License-Identifier: Apache-2.0
"""Pages by keyset: rows in the order of several keys, and those after the row of a marker, without an offset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, false, or_


class SortKey(NamedTuple):
    """A column by which rows are sorted; rows without a value are the greatest."""

    column: ColumnElement[Any]
    is_descending: bool = False


def in_order(keys: Sequence[SortKey]) -> list[ColumnElement[Any]]:
    """The columns of ORDER BY; the same on all databases, which differ in where they put rows without a value."""
    pairs = [(each, key.is_descending) for key in keys for each in (*_sorts_last(key.column), key.column)]
    return [each.desc() if is_descending else each.asc() for each, is_descending in pairs]


def _sorts_last(column: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    """What puts rows without a value last. A column that always has one needs nothing, and keeps its index."""
    return [column.is_(None)] if getattr(column, "nullable", True) else []


def after_marker(keys: Sequence[SortKey], values: Sequence[Any]) -> ColumnElement[bool]:
    """The condition that a row comes after the one that has these values of the keys."""
    beyond = [_beyond(key, value) for key, value in zip(keys, values, strict=True)]
    equal = [key.column.is_not_distinct_from(value) for key, value in zip(keys, values, strict=True)]
    return or_(*(and_(*equal[:at], each) for at, each in enumerate(beyond)))


def _beyond(key: SortKey, value: Any) -> ColumnElement[bool]:
    """Whether a row comes after this value of one key."""
    if key.is_descending:
        return key.column.is_not(None) if value is None else key.column < value
    return false() if value is None else or_(key.column > value, key.column.is_(None))
