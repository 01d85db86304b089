# SPDX-License-Identifier: Apache-2.0
"""Pages of a list: sorted by a column, after the record that a marker names, by keyset and so without an offset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, or_, select

from roost.errors import BadInput, FieldError, nearest


class Page(NamedTuple):
    """Which part of a list is wanted, and in which order."""

    limit: int | None = None
    """Records at most; None: all."""
    marker: str | int | None = None
    """Id of the last record of the page before."""
    sort_key: str | None = None
    """Name of the column to sort by; None: the list's own order."""
    is_descending: bool = False


WHOLE_LIST = Page()


@dataclass(frozen=True)
class PagedTable:
    """How records of a table are sorted, and found by a marker."""

    marker: ColumnElement[Any]
    """The unique column that markers name."""
    tie_break: ColumnElement[Any]
    """A unique column, by which records are sorted whose sort key is equal."""
    sort_keys: Mapping[str, ColumnElement[Any]]
    """Name -> expression that is never NULL; the first one is the default."""

    def cut(self, connection: Connection, statement: Select[Any], page: Page) -> Select[Any]:
        """The SELECT, sorted and limited to the page. BadInput for an unknown marker or sort key."""
        key = self._sort_key(page.sort_key)
        if page.marker is not None:
            statement = statement.where(self._is_after(connection, key, page))
        order = [each.desc() if page.is_descending else each.asc() for each in (key, self.tie_break)]
        return statement.order_by(*order).limit(page.limit)

    def _sort_key(self, name: str | None) -> ColumnElement[Any]:
        if name is None:
            return next(iter(self.sort_keys.values()))
        if name not in self.sort_keys:
            raise FieldError("sort_key", f"{name[:60]!r} is no sort key", nearest(name, self.sort_keys))
        return self.sort_keys[name]

    def _is_after(self, connection: Connection, key: ColumnElement[Any], page: Page) -> ColumnElement[bool]:
        last = connection.execute(select(key, self.tie_break).where(self.marker == page.marker)).first()
        if last is None:
            raise BadInput(f"marker [{page.marker}] not found")
        value, number = last
        if page.is_descending:
            return or_(key < value, and_(key == value, self.tie_break < number))
        return or_(key > value, and_(key == value, self.tie_break > number))
