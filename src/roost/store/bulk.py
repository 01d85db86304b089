# SPDX-License-Identifier: Apache-2.0
"""Many rows, or many keys, in one statement with few parameters.

PostgreSQL gets a list of lists as JSON and reads it as a table: psycopg makes a statement per row of `executemany`,
which for a claim of 20 instances were 180 of them. The drivers of SQLite and MariaDB know how to hurry with new rows.
"""

from __future__ import annotations

import datetime
import json
from collections import namedtuple
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, lru_cache
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    ColumnElement,
    Connection,
    Double,
    Integer,
    Select,
    TableClause,
    TextClause,
    any_,
    literal,
    text,
)

from roost.store.column_types import MARIADB, UtcTime
from roost.store.schema import MARIADB_TABLE
from roost.store.statement_batch import Statement, is_key, key_of, send

Rows = Sequence[Sequence[Any]]
Columns = tuple[tuple[str, str], ...]
"""Name and PostgreSQL's type of each column, in the order of the values."""

NUMBER, WORD = "BIGINT", "TEXT"
MOST_KEYS = 500
"""In one statement."""
FEW_KEYS = 50
_SIZES = (4, 16, 64)
"""PostgreSQL takes any JSON for 100 rows, and would rather read a whole table than look up each of them: 1 ms for the
6,000 inventories of 2,000 nodes. A limit that changes nothing tells it how few there are."""

Item = TypeVar("Item")

_TYPES = {BigInteger: NUMBER, Integer: NUMBER, Double: "DOUBLE PRECISION", Boolean: "BOOLEAN", UtcTime: "TIMESTAMP"}
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


def in_chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """So many at a time, in their order."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def rows_where(
    connection: Connection, statement: Select[Any], key: ColumnElement[Any], wanted: Collection[Any] | None
) -> Iterator[Any]:
    """The rows whose key is one of the wanted, in the order of the keys, chunk by chunk; None: all rows there are."""
    if wanted is None:
        yield from connection.execute(statement).all()  # at once is twice as fast as one by one
        return
    with _planned_for_its_keys(connection) if len(wanted) > FEW_KEYS else nullcontext():
        for chunk in in_chunks(sorted(wanted), MOST_KEYS):
            yield from connection.execute(statement.where(one_of(connection, key, chunk)).order_by(key)).all()


class ByKeys(NamedTuple):
    """Rows to be read by their keys."""

    statement: Select[Any]
    """One that is kept somewhere."""
    key: ColumnElement[Any]
    wanted: Collection[Any]


def read_together(connection: Connection, asked: Sequence[ByKeys]) -> list[Sequence[Any]]:
    """The rows of each, in no order; on PostgreSQL in one round trip, with values as the driver gives them."""
    if connection.dialect.name != "postgresql":
        return [list(rows_where(connection, *each)) for each in asked]
    requests = [_request_by_keys(each.statement, each.key, sorted(each.wanted)) for each in asked]
    if max(len(each.wanted) for each in asked) > FEW_KEYS:
        answers = send(connection, [Statement(_FOR_ITS_KEYS, {}), *requests, Statement(_AS_USUAL, {})])[1:-1]
    else:
        answers = send(connection, requests)
    named = zip(asked, answers, strict=True)
    return [list(map(_row_class(each.statement)._make, answer.rows)) for each, answer in named]


@lru_cache(maxsize=64)
def _row_class(statement: Select[Any]) -> Any:
    return namedtuple("Row", statement.selected_columns.keys())


def _request_by_keys(statement: Select[Any], key: ColumnElement[Any], wanted: list[Any]) -> Statement:
    return Statement(_by_keys(statement, key, len(wanted) == 1), {"keys": key_of(wanted)})


@lru_cache(maxsize=64)
def _by_keys(statement: Select[Any], key: ColumnElement[Any], is_one: bool) -> Select[Any]:
    return statement.where(is_key("postgresql", key, "keys", is_one))


_FOR_ITS_KEYS = text("SET LOCAL plan_cache_mode = force_custom_plan")
_AS_USUAL = text("SET LOCAL plan_cache_mode = auto")


@contextmanager
def _planned_for_its_keys(connection: Connection) -> Iterator[None]:
    """Tables that were just filled are empty to PostgreSQL, as far as its plans go: one that is kept reads all rows.

    Only for the while: what it does by itself for foreign keys would be planned anew for every row, too.
    """
    if connection.dialect.name != "postgresql":
        yield
        return
    connection.execute(_FOR_ITS_KEYS)
    yield
    connection.execute(_AS_USUAL)


def insert_rows(connection: Connection, table: TableClause, names: Sequence[str], rows: Rows) -> None:
    """New rows: values in the order of the names, JSON as its text."""
    connection.execute(*insertion(connection.dialect.name, table, tuple(names), rows))


def insertion(dialect: str, table: TableClause, names: tuple[str, ...], rows: Rows) -> Statement:
    """The same as part of a batch."""
    statement = _insert(dialect, table, names)
    if dialect == "postgresql":
        return Statement(statement, {"given": json.dumps(rows, default=_as_text)})
    return Statement(statement, [dict(zip(names, map(_plain, row), strict=True)) for row in rows])


def addition(
    dialect: str, table: str, keys: Columns, sums: Mapping[str, str], rows: Rows, only_if: str = ""
) -> Statement:
    """The UPDATE that adds to columns of rows that are there, as part of a batch; its result counts the rows found.

    A row gives its key, then its amounts. `sums`: column -> the amount that is added to it. `only_if`: a condition;
    amounts are called `given.NAME` in it.
    """
    most = next((size for size in _SIZES if len(rows) <= size), None)
    return Statement(_add(dialect, table, keys, tuple(sums.items()), only_if, most), {"given": json.dumps(rows)})


def _plain(value: Any) -> Any:
    return _as_text(value) if isinstance(value, datetime.datetime) else value


def _as_text(moment: datetime.datetime) -> str:
    """As `UtcTime` keeps it."""
    return moment.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")


def _table_of(dialect: str, columns: Columns, most: int | None = None) -> str:
    """The parameter as a table called `given`; `most`: it has no more rows than so many."""
    numbered = list(enumerate(columns))
    if dialect == "postgresql":
        parts = ", ".join(f'CAST(row ->> {at} AS {kind}) AS "{name}"' for at, (name, kind) in numbered)
        rows = f"jsonb_array_elements(CAST(:given AS JSONB)) AS rows(row){f' LIMIT {most}' if most else ''}"
        return f"(SELECT {parts} FROM {rows}) AS given"  # noqa: S608
    if dialect in MARIADB:
        parts = ", ".join(f"{name} {_MARIADB_TYPES[kind]} PATH '$[{at}]'" for at, (name, kind) in numbered)
        return f"JSON_TABLE(:given, '$[*]' COLUMNS ({parts})) AS given"
    parts = ", ".join(f"json_extract(value, '$[{at}]') AS {name}" for at, (name, _) in numbered)
    return f"(SELECT {parts} FROM json_each(:given)) AS given"  # noqa: S608


@lru_cache(maxsize=256)
def _insert(dialect: str, table: TableClause, names: tuple[str, ...]) -> TextClause:
    quote = "`" if dialect in MARIADB else '"'  # `binary` and `key` are words of the language
    into = f"{table.name} ({', '.join(f'{quote}{name}{quote}' for name in names)})"
    if dialect != "postgresql":
        return text(f"INSERT INTO {into} VALUES ({', '.join(f':{name}' for name in names)})")  # noqa: S608
    columns = tuple((name, _TYPES.get(type(table.c[name].type), WORD)) for name in names)
    values = ", ".join(f'given."{name}"' for name in names)
    return text(f"INSERT INTO {into} SELECT {values} FROM {_table_of(dialect, columns)}")  # noqa: S608


@cache
def _add(
    dialect: str, table: str, keys: Columns, sums: tuple[tuple[str, str], ...], only_if: str, most: int | None
) -> TextClause:
    amounts = dict.fromkeys(amount.removeprefix("-") for _, amount in sums)
    given = _table_of(dialect, (*keys, *((name, NUMBER) for name in amounts)), most)
    same = " AND ".join(f"{table}.{name} = given.{name}" for name, _ in keys)
    where = f"{same} AND {only_if}" if only_if else same
    changed = ", ".join(f"{column} = {table}.{column} {_signed(amount)}" for column, amount in sums)
    if dialect in MARIADB:
        return text(f"UPDATE {table} JOIN {given} ON {where} SET {changed}")  # noqa: S608
    return text(f"UPDATE {table} SET {changed} FROM {given} WHERE {where}")  # noqa: S608


def _signed(amount: str) -> str:
    return f"- given.{amount[1:]}" if amount.startswith("-") else f"+ given.{amount}"
