# SPDX-License-Identifier: Apache-2.0
"""Makes rows of a table equal to wanted rows: reads, compares, checks, and writes only what differs.

A caller declares a `Reconciler` beside the table's other code, reads the stored rows of its scope (`read`), computes
the wanted ones and passes both to `apply`. Rows outside of that scope are not passed and stay unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, Table, select

from roost.store.columns import JsonText, check_rows
from roost.store.statements import Row, delete_rows, insert_rows, read_rows, update_rows, with_json_as_text
from roost.store.transactions import by_index

RowKey = tuple[Any, ...]
"""The values of a row's key columns, in their order."""
KeyedRows = Mapping[RowKey, Row]
"""Key -> the other columns of that row; JSON as its text. All rows of a mapping have the same columns."""

CREATED_AT, UPDATED_AT = "created_at", "updated_at"
_EMPTY_ROW: Row = {}


class ReconcileResult(NamedTuple):
    """The keys of rows that were inserted, updated and deleted."""

    new: list[RowKey]
    changed: list[RowKey]
    """Without rows of which only quiet columns differed."""
    gone: list[RowKey]

    @property
    def touched(self) -> list[RowKey]:
        """The keys of new, changed and gone rows, in one list."""
        return [*self.new, *self.changed, *self.gone]


class Reconciler:
    """Compares stored with wanted rows of one table and writes the difference. Stateless.

    Rows are matched by `key`, and updated and deleted by their primary key. New rows get `created_at` and changed
    ones `updated_at`, where the table has the column and the wanted row does not give it.
    """

    def __init__(
        self, table: Table, key: Sequence[str], columns: Collection[str] | None = None, quiet: Collection[str] = ()
    ) -> None:
        """`columns`: compared, and updated where they differ; None: all. Others are written with new rows only.

        `quiet`: columns whose difference is written without counting as a change: neither reported nor stamped.
        """
        names = [each.name for each in table.columns]
        self._table, self._key, self._quiet = table, tuple(key), frozenset(quiet)
        self._columns = frozenset(set(names) - {*key, CREATED_AT, UPDATED_AT} if columns is None else columns)
        self._primary_key = tuple(each.name for each in table.primary_key)
        self._json = frozenset(each.name for each in table.columns if isinstance(each.type, JsonText))
        self._stamps = frozenset({CREATED_AT, UPDATED_AT}.intersection(names))
        needed = {*self._columns, *self._primary_key, *(self._stamps & {UPDATED_AT} if quiet else ())}
        self._reads = tuple(name for name in names if name in needed and name not in key)

    # --- stored rows -----------------------------------------------------------------------------------------

    @cached_property
    def _select(self) -> Select[Any]:
        return select(*(with_json_as_text(self._table).c[name] for name in (*self._key, *self._reads)))

    def read(
        self,
        connection: Connection,
        column: str,
        values: Collection[Any],
        *,
        where: ColumnElement[bool] | None = None,
        is_locked: bool = False,
    ) -> dict[RowKey, Row]:
        """The rows that have one of the values in the column, ordered by that column, with their primary key.

        `where`: a further condition, on columns of the table `with_json_as_text`. `is_locked`: lock the rows until
        the transaction ends; the column must be the first of the primary key or of the key then.
        """
        statement = self._select if where is None else self._select.where(where)
        plain = with_json_as_text(self._table)
        statement = self._locking(statement, column) if is_locked else statement
        found = read_rows(connection, statement, plain.c[column], values)
        if not self._reads:
            return dict.fromkeys(map(tuple, found), _EMPTY_ROW)
        width = len(self._key)
        return {tuple(row[:width]): dict(zip(self._reads, row[width:], strict=True)) for row in found}

    def _locking(self, statement: Select[Any], column: str) -> Select[Any]:
        index = "PRIMARY" if column == self._primary_key[0] else "_".join(("uq", self._table.name, *self._key))
        return by_index(statement.with_for_update(), with_json_as_text(self._table), index)

    # --- the difference --------------------------------------------------------------------------------------

    def apply(
        self,
        connection: Connection,
        stored: KeyedRows,
        wanted: KeyedRows,
        describe: Callable[[Row], str],
        now: datetime | None = None,
    ) -> ReconcileResult:
        """Make the stored rows equal to the wanted ones, in up to three statements for every 2,000 rows.

        BadInput, with nothing written, for a value that does not fit its column; `describe` names the row in it.
        `now`: the stamp of new and changed rows; None: no stamps.
        """
        gone = [key for key in stored if key not in wanted]
        new = [key for key in wanted if key not in stored]
        columns = tuple(next(iter(wanted.values()), ()))
        updated = tuple(name for name in columns if name in self._columns)
        differing = self._find_differing(stored, wanted, updated)
        written = [key for key in wanted if key not in stored or key in differing] if differing else new
        values = _getter(columns)
        rows = {key: (*key, *values(wanted[key])) for key in written}
        check_rows(self._table, (*self._key, *columns), rows.values(), describe)
        addresses = [self._address(key, stored[key]) for key in gone]
        delete_rows(connection, with_json_as_text(self._table), self._primary_key, addresses)
        self._insert(connection, columns, [rows[key] for key in new], now)
        self._update(connection, stored, wanted, differing, updated, now)
        return ReconcileResult(new, [key for key, is_change in differing.items() if is_change], gone)

    def replace(
        self,
        connection: Connection,
        column: str,
        values: Collection[Any],
        wanted: KeyedRows,
        describe: Callable[[Row], str],
        now: datetime | None = None,
    ) -> ReconcileResult:
        """Make the rows that have one of the values in the column equal to the wanted ones: `read`, then `apply`."""
        return self.apply(connection, self.read(connection, column, values), wanted, describe, now)

    def _find_differing(self, stored: KeyedRows, wanted: KeyedRows, names: tuple[str, ...]) -> dict[RowKey, bool]:
        """Key of a row that differs -> whether that counts as a change: not only quiet columns differ."""
        found: dict[RowKey, bool] = {}
        values = _getter(names)
        for key, row in wanted.items() if names else ():
            old = stored.get(key)
            if old is not None and values(old) != values(row):
                other = {name for name in names if not self._is_same(name, old[name], row[name])}
                if other:
                    found[key] = not other <= self._quiet
        return found

    def _is_same(self, name: str, old: Any, new: Any) -> bool:
        return bool(old == new) or (name in self._json and is_same_json(old, new))

    # --- writing ---------------------------------------------------------------------------------------------

    def _address(self, key: RowKey, row: Row) -> RowKey:
        """The primary key of a stored row."""
        known = dict(zip(self._key, key, strict=True)) | row
        return tuple(known[name] for name in self._primary_key)

    def _insert(
        self, connection: Connection, columns: tuple[str, ...], rows: list[RowKey], now: datetime | None
    ) -> None:
        names = (*self._key, *columns)
        if now is not None and CREATED_AT in self._stamps and CREATED_AT not in columns:
            names, rows = (*names, CREATED_AT), [(*row, now) for row in rows]
        insert_rows(connection, with_json_as_text(self._table), names, rows)

    def _update(
        self,
        connection: Connection,
        stored: KeyedRows,
        wanted: KeyedRows,
        differing: Mapping[RowKey, bool],
        names: tuple[str, ...],
        now: datetime | None,
    ) -> None:
        rows = []
        for key, is_change in differing.items():
            old, new = stored[key], wanted[key]
            row = dict(zip(self._primary_key, self._address(key, old), strict=True))
            row |= {name: new[name] for name in names}
            if now is not None and UPDATED_AT in self._stamps:
                row[UPDATED_AT] = now if is_change else old[UPDATED_AT]
            rows.append(row)
        update_rows(connection, with_json_as_text(self._table), self._primary_key, rows)


def _getter(names: tuple[str, ...]) -> Callable[[Row], RowKey]:
    """A function of a row that returns the values of the columns, in order."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda row: tuple(row[name] for name in names)


def is_same_json(old: str | None, new: str | None) -> bool:
    """Whether two JSON texts have the same value: the order of keys is ignored; 1, 1.0, true and "1" differ."""
    if old is None or new is None:
        return old is new
    return old == new or _canonical(old) == _canonical(new)


def _canonical(text: str) -> str:
    # -0.0 equals 0.0, but its text differs.
    return json.dumps(json.loads(text, parse_float=lambda digits: float(digits) + 0.0), sort_keys=True)
