# SPDX-License-Identifier: Apache-2.0
"""Pages of a list by keyset: rows in the order of several keys, those after the row of a marker, without an offset.

`PagedTable` sorts by columns that have names, and finds the row of the marker by the id that a client names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, false, or_, select

from roost.errors import BadInput, FieldError, nearest


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


class SortBy(NamedTuple):
    """By what a list is sorted."""

    name: str
    """Of the sort key."""
    is_descending: bool = False


class Page(NamedTuple):
    """Which part of a list is wanted, and in which order."""

    limit: int | None = None
    """Records at most; None: all."""
    marker: str | int | None = None
    """Id of the last record of the page before."""
    sort: tuple[SortBy, ...] = ()
    """Each counts where those before it are equal; empty: the list's own order."""


WHOLE_LIST = Page()


@dataclass(frozen=True)
class PagedTable:
    """How records of a table are sorted, and found by a marker."""

    marker: ColumnElement[Any]
    """The unique column that markers name."""
    tie_break: ColumnElement[Any]
    """A unique column, by which records are sorted whose sort keys are equal."""
    sort_keys: Mapping[str, ColumnElement[Any]]
    """Name -> expression; the first one is the default."""

    def cut(self, connection: Connection, statement: Select[Any], page: Page) -> Select[Any]:
        """The SELECT, sorted and limited to the page. BadInput for an unknown marker or sort key."""
        keys = self._keys(page.sort)
        if page.marker is not None:
            wanted = select(*(key.column for key in keys)).where(self.marker == page.marker)
            last = connection.execute(wanted).first()
            if last is None:
                raise BadInput(f"marker [{page.marker}] not found")
            statement = statement.where(after_marker(keys, last))
        return statement.order_by(*in_order(keys)).limit(page.limit)

    def _keys(self, wanted: Sequence[SortBy]) -> list[SortKey]:
        """The keys, by which no two records are equal."""
        keys = [SortKey(self._column(each.name), each.is_descending) for each in wanted]
        keys = keys or [SortKey(next(iter(self.sort_keys.values())))]
        if keys[-1].column is not self.tie_break:
            keys.append(SortKey(self.tie_break, keys[-1].is_descending))
        return keys

    def _column(self, name: str) -> ColumnElement[Any]:
        if name not in self.sort_keys:
            raise FieldError("sort_key", f"{name[:60]!r} is no sort key", nearest(name, self.sort_keys))
        return self.sort_keys[name]
