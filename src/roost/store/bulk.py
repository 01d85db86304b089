# SPDX-License-Identifier: Apache-2.0
"""Many rows, or many keys, in one statement with few parameters, on any of the three databases.

PostgreSQL gets a list of lists as JSON and reads it as a table: psycopg makes a statement per row of `executemany`,
which for a claim of 20 instances were 180 of them. The drivers of SQLite and MariaDB batch the rows of an INSERT.
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
    Table,
    TableClause,
    TextClause,
    and_,
    any_,
    bindparam,
    column,
    delete,
    literal,
    table,
    text,
    update,
)

from roost.store.column_types import LONG_TEXT, MARIADB, JsonText, UtcTime
from roost.store.schema import MARIADB_TABLE
from roost.store.statement_batch import Statement, is_key, key_of, send

Row = dict[str, Any]
"""Column -> value; JSON as its text."""
Rows = Sequence[Sequence[Any]]
Columns = tuple[tuple[str, str], ...]
"""Name and PostgreSQL's type of each column, in the order of the values."""

NUMBER, WORD = "BIGINT", "TEXT"
MOST_KEYS = 500
"""In one statement."""
MOST_ROWS = 2000
"""Written in one call of the driver: a lost connection is noticed, and memory has a limit."""
FEW_KEYS = 50
_SIZES = (4, 16, 64)
"""PostgreSQL assumes 100 rows in any JSON, and would rather scan a whole table than look up each of them: 1 ms for
the 6,000 inventories of 2,000 nodes. A limit that changes nothing lets it plan for as few as there are."""

Item = TypeVar("Item")

_TYPES = {BigInteger: NUMBER, Integer: NUMBER, Double: "DOUBLE PRECISION", Boolean: "BOOLEAN", UtcTime: "TIMESTAMP"}
_LETTERS = f"CHARACTER SET {MARIADB_TABLE['mysql_charset']} COLLATE {MARIADB_TABLE['mysql_collate']}"
_MARIADB_TYPES = {NUMBER: "BIGINT", WORD: f"VARCHAR(255) {_LETTERS}"}
"""Without a character set, the server's default would decide which letters there are."""


@cache
def raw(whole: Table) -> TableClause:
    """The table with its JSON columns as plain text: hosts that are alike share a text, encoded and decoded once."""
    kinds = {each.name: LONG_TEXT if isinstance(each.type, JsonText) else each.type for each in whole.columns}
    return table(whole.name, *(column(name, kind) for name, kind in kinds.items()))


def in_chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of at most `size` items, in their order."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


# --- rows read by their keys -------------------------------------------------------------------------


def one_of(connection: Connection, column: ColumnElement[Any], keys: Collection[Any]) -> ColumnElement[bool]:
    """The condition that the column has one of these values.

    PostgreSQL gets them as one array: a statement with hundreds of parameters takes longer to write and to parse than
    to carry out, and a plan that is cached for it compares each row with each of them.
    """
    if connection.dialect.name != "postgresql":
        return column.in_(keys)
    return column == any_(literal(list(keys), ARRAY(column.type)))


def rows_where(
    connection: Connection, statement: Select[Any], key: ColumnElement[Any], wanted: Collection[Any] | None
) -> Iterator[Any]:
    """The rows whose key is one of the wanted, in the order of the keys, chunk by chunk; None: all rows there are."""
    if wanted is None:
        yield from connection.execute(statement).all()  # a list is twice as fast as row by row
        return
    with _planned_for_its_keys(connection) if len(wanted) > FEW_KEYS else nullcontext():
        for chunk in in_chunks(sorted(wanted), MOST_KEYS):
            yield from connection.execute(statement.where(one_of(connection, key, chunk)).order_by(key)).all()


class ByKeys(NamedTuple):
    """A SELECT for the rows that have one of some keys."""

    statement: Select[Any]
    """A module's constant: what is compiled for it is cached."""
    key: ColumnElement[Any]
    wanted: Collection[Any]


def read_together(connection: Connection, asked: Sequence[ByKeys]) -> list[Sequence[Any]]:
    """The rows of each SELECT, in no order; on PostgreSQL in one round trip, with values as the driver gives them."""
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
    """Statements in this context are planned by PostgreSQL for the keys they come with; elsewhere it has no effect.

    Tables that were just filled are empty to PostgreSQL as far as its statistics go: a cached plan scans all rows.
    Statements after it are planned as usual: checks of foreign keys would be planned anew for every row, too.
    """
    if connection.dialect.name != "postgresql":
        yield
        return
    connection.execute(_FOR_ITS_KEYS)
    yield
    connection.execute(_AS_USUAL)


# --- rows written ------------------------------------------------------------------------------------


def insert_rows(
    connection: Connection, into: TableClause, names: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    """Insert rows, given as their values in the order of the names; JSON as its text."""
    for chunk in in_chunks(rows, MOST_ROWS):
        connection.execute(*insertion(connection.dialect.name, into, tuple(names), chunk))


def insertion(dialect: str, into: TableClause, names: tuple[str, ...], rows: Rows) -> Statement:
    """The INSERT of rows, as part of a batch: values in the order of the names; JSON as its text."""
    statement = _insert(dialect, into, names)
    if dialect == "postgresql":
        return Statement(statement, {"given": json.dumps(rows, default=_as_text)})
    return Statement(statement, [dict(zip(names, map(_plain, row), strict=True)) for row in rows])


def update_rows(connection: Connection, where: TableClause, key: Collection[str], rows: Sequence[Row]) -> None:
    """Update rows that are found by their key columns, which are part of each row; all rows have the same columns."""
    if rows:
        changed: dict[str, Any] = {name: bindparam(name) for name in rows[0] if name not in key}
        statement = update(where).where(_has_key(where, key)).values(changed)
        for chunk in in_chunks(rows, MOST_ROWS):
            connection.execute(statement, [_with_key_parameters(row, key) for row in chunk])


def delete_rows(
    connection: Connection, where: TableClause, key: Sequence[str], keys: Iterable[Sequence[Any]]
) -> None:
    """Delete the rows that have these values in their key columns."""
    statement = delete(where).where(_has_key(where, key))
    for chunk in in_chunks(keys, MOST_ROWS):
        rows = [dict(zip(key, values, strict=True)) for values in chunk]
        connection.execute(statement, [_with_key_parameters(row, key) for row in rows])


def _has_key(where: TableClause, key: Iterable[str]) -> ColumnElement[bool]:
    return and_(*(where.c[name] == bindparam(f"key_{name}") for name in key))


def _with_key_parameters(row: Row, key: Collection[str]) -> Row:
    return {f"key_{name}" if name in key else name: value for name, value in row.items()}


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
    """The moment as the column type `UtcTime` stores it."""
    return moment.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")


def _table_of(dialect: str, columns: Columns, most: int | None = None) -> str:
    """The parameter as a table called `given`; `most`: an upper bound of its rows."""
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
def _insert(dialect: str, into: TableClause, names: tuple[str, ...]) -> TextClause:
    quote = "`" if dialect in MARIADB else '"'  # `binary` and `key` are words of the language
    target = f"{into.name} ({', '.join(f'{quote}{name}{quote}' for name in names)})"
    if dialect != "postgresql":
        return text(f"INSERT INTO {target} VALUES ({', '.join(f':{name}' for name in names)})")  # noqa: S608
    columns = tuple((name, _TYPES.get(type(into.c[name].type), WORD)) for name in names)
    values = ", ".join(f'given."{name}"' for name in names)
    return text(f"INSERT INTO {target} SELECT {values} FROM {_table_of(dialect, columns)}")  # noqa: S608


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
