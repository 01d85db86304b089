# SPDX-License-Identifier: Apache-2.0
"""Many rows at a time, in one transaction, on any of the three databases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    TableClause,
    and_,
    bindparam,
    column,
    delete,
    table,
    update,
)

from roost.store import bulk
from roost.store.bulk import in_chunks
from roost.store.column_types import LONG_TEXT, JsonText

MOST_ROWS = 2000
"""In one call of the driver: a lost connection is noticed, and memory has a limit."""

Row = dict[str, Any]


def raw(whole: Table) -> TableClause:
    """The same table with JSON as its text, for who has the text already: hosts that are alike share it."""
    kinds = {each.name: LONG_TEXT if isinstance(each.type, JsonText) else each.type for each in whole.columns}
    return table(whole.name, *(column(name, kind) for name, kind in kinds.items()))


def insert_rows(connection: Connection, into: TableClause, rows: Iterable[Row]) -> None:
    """New rows; all have the same columns, JSON as its text."""
    for chunk in in_chunks(rows, MOST_ROWS):
        names = list(chunk[0])
        bulk.insert_rows(connection, into, names, [[row[name] for name in names] for row in chunk])


def update_rows(connection: Connection, where: TableClause, key: Sequence[str], rows: Sequence[Row]) -> None:
    """Rows that are there, found by their key; all have the same columns."""
    if rows:
        changed: dict[str, Any] = {name: bindparam(name) for name in rows[0] if name not in key}
        statement = update(where).where(_is_key(where, key)).values(changed)
        for chunk in in_chunks(rows, MOST_ROWS):
            connection.execute(statement, [_with_old_keys(row, key) for row in chunk])


def delete_rows(connection: Connection, where: TableClause, key: Sequence[str], rows: Sequence[Row]) -> None:
    """Rows that are there, found by their key."""
    statement = delete(where).where(_is_key(where, key))
    for chunk in in_chunks(rows, MOST_ROWS):
        connection.execute(statement, [_with_old_keys(row, key) for row in chunk])


def _is_key(where: TableClause, key: Sequence[str]) -> ColumnElement[bool]:
    return and_(*(where.c[name] == bindparam(f"old_{name}") for name in key))


def _with_old_keys(row: Mapping[str, Any], key: Sequence[str]) -> Row:
    return {f"old_{name}" if name in key else name: value for name, value in row.items()}
