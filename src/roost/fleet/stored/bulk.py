# SPDX-License-Identifier: Apache-2.0
"""Many rows at a time, in one transaction, on any of the three databases."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    TableClause,
    and_,
    bindparam,
    column,
    delete,
    table,
    text,
    update,
)

from roost.store import bulk
from roost.store.bulk import one_of
from roost.store.types import LONG_TEXT, JsonText

MOST_KEYS = 500
"""In one statement."""
MOST_ROWS = 2000
"""In one call of the driver: a lost connection is noticed, and memory has a limit."""
_FEW_KEYS = 50

Row = dict[str, Any]
Item = TypeVar("Item")


def raw(whole: Table) -> TableClause:
    """The same table with JSON as its text, for who has the text already: hosts that are alike share it."""
    kinds = {each.name: LONG_TEXT if isinstance(each.type, JsonText) else each.type for each in whole.columns}
    return table(whole.name, *(column(name, kind) for name, kind in kinds.items()))


def in_chunks(items: Iterable[Item], size: int = MOST_KEYS) -> Iterator[list[Item]]:
    """So many at a time, in their order."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def rows_where(
    connection: Connection, statement: Select[Any], key: ColumnElement[Any], wanted: Collection[Any]
) -> Iterator[Any]:
    """The rows whose key is one of the wanted, in the order of the keys, chunk by chunk."""
    with _planned_for_its_keys(connection) if len(wanted) > _FEW_KEYS else nullcontext():
        for chunk in in_chunks(sorted(wanted)):
            yield from connection.execute(statement.where(one_of(connection, key, chunk)).order_by(key))


@contextmanager
def _planned_for_its_keys(connection: Connection) -> Iterator[None]:
    """An import fills tables of which PostgreSQL thinks that they are empty: a plan that it keeps reads all of them.

    Only for the while: what it does by itself for foreign keys would be planned anew for every row, too.
    """
    if connection.dialect.name != "postgresql":
        yield
        return
    connection.execute(text("SET LOCAL plan_cache_mode = force_custom_plan"))
    yield
    connection.execute(text("SET LOCAL plan_cache_mode = auto"))


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
