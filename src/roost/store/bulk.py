# SPDX-License-Identifier: Apache-2.0
"""Many rows in one statement with one parameter: a list of lists as JSON, which all three databases read as a table.

A driver's `executemany` is a statement per row; for a claim of 20 instances that made 180 of them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import ARRAY, ColumnElement, Connection, TextClause, any_, bindparam, literal, text

from roost.store.schema import MARIADB_TABLE
from roost.store.types import MARIADB, UtcTime

Rows = Sequence[Sequence[Any]]
Columns = tuple[tuple[str, str], ...]
"""Name and kind of each column, in the order of the values."""

NUMBER, WORD = "number", "word"
"""A whole number, a text."""

_LETTERS = f"CHARACTER SET {MARIADB_TABLE['mysql_charset']} COLLATE {MARIADB_TABLE['mysql_collate']}"
_MARIADB_TYPES = {NUMBER: "BIGINT", WORD: f"VARCHAR(255) {_LETTERS}"}
"""Without a word on letters, those of the server's default would be all there are."""


def one_of(connection: Connection, column: ColumnElement[Any], keys: Collection[Any]) -> ColumnElement[bool]:
    """Whether the column has one of these values.

    PostgreSQL gets them as one array: a statement with hundreds of parameters takes longer to write and to read than
    to carry out, and a plan that is kept for it compares each row with each of them.
    """
    if connection.dialect.name != "postgresql":
        return column.in_(keys)
    return column == any_(literal(list(keys), ARRAY(column.type)))


def insert_rows(connection: Connection, table: str, columns: Columns, rows: Rows, **same: Any) -> None:
    """New rows; `same`: moments that are the same for all of them.

    MariaDB's driver makes one statement of many rows by itself. What it inserts from a query would leave gaps in
    numbers that count up.
    """
    statement = _insert(connection.dialect.name, table, columns, tuple(same))
    if connection.dialect.name in MARIADB:
        names = [name for name, _ in columns]
        connection.execute(statement, [dict(zip(names, row, strict=True)) | same for row in rows])
    else:
        connection.execute(statement, {"given": json.dumps(rows), **same})


def add_to_rows(
    connection: Connection, table: str, keys: Columns, sums: Mapping[str, str], rows: Rows, only_if: str = ""
) -> int:
    """Add to columns of rows that are there; how many of them there were.

    A row gives its key, then its amounts. `sums`: column -> the amount that is added to it. `only_if`: a condition;
    amounts are called `given.NAME` in it.
    """
    amounts = tuple(dict.fromkeys(each.removeprefix("-") for each in sums.values()))
    statement = _add(connection.dialect.name, table, keys, amounts, tuple(sums.items()), only_if)
    return connection.execute(statement, {"given": json.dumps(rows)}).rowcount


def _table_of(dialect: str, columns: Columns) -> str:
    """The parameter as a table called `given`."""
    numbered = list(enumerate(columns))
    if dialect == "postgresql":
        casts = {NUMBER: "CAST(row ->> {} AS BIGINT)", WORD: "row ->> {}"}
        parts = ", ".join(f"{casts[kind].format(at)} AS {name}" for at, (name, kind) in numbered)
        return f"(SELECT {parts} FROM jsonb_array_elements(CAST(:given AS JSONB)) AS rows(row)) AS given"  # noqa: S608
    if dialect in MARIADB:
        parts = ", ".join(f"{name} {_MARIADB_TYPES[kind]} PATH '$[{at}]'" for at, (name, kind) in numbered)
        return f"JSON_TABLE(:given, '$[*]' COLUMNS ({parts})) AS given"
    parts = ", ".join(f"json_extract(value, '$[{at}]') AS {name}" for at, (name, _) in numbered)
    return f"(SELECT {parts} FROM json_each(:given)) AS given"  # noqa: S608


@cache
def _insert(dialect: str, table: str, columns: Columns, same: tuple[str, ...]) -> TextClause:
    names = [name for name, _ in columns]
    into = ", ".join([*names, *same])
    if dialect in MARIADB:
        values = ", ".join(f":{name}" for name in [*names, *same])
        statement = text(f"INSERT INTO {table} ({into}) VALUES ({values})")  # noqa: S608
    else:
        values = ", ".join([*(f"given.{name}" for name in names), *(f":{name}" for name in same)])
        statement = text(f"INSERT INTO {table} ({into}) SELECT {values} FROM {_table_of(dialect, columns)}")  # noqa: S608
    return statement.bindparams(*(bindparam(name, type_=UtcTime()) for name in same))


@cache
def _add(
    dialect: str, table: str, keys: Columns, amounts: tuple[str, ...], sums: tuple[tuple[str, str], ...], only_if: str
) -> TextClause:
    given = _table_of(dialect, (*keys, *((name, NUMBER) for name in amounts)))
    same = " AND ".join(f"{table}.{name} = given.{name}" for name, _ in keys)
    where = f"{same} AND {only_if}" if only_if else same
    changed = ", ".join(f"{column} = {table}.{column} {_signed(amount)}" for column, amount in sums)
    if dialect in MARIADB:
        return text(f"UPDATE {table} JOIN {given} ON {where} SET {changed}")  # noqa: S608
    return text(f"UPDATE {table} SET {changed} FROM {given} WHERE {where}")  # noqa: S608


def _signed(amount: str) -> str:
    return f"- given.{amount[1:]}" if amount.startswith("-") else f"+ given.{amount}"
