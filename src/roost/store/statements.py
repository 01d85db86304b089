# SPDX-License-Identifier: Apache-2.0
"""Many rows or keys in one statement, and several statements in one round trip, on all three databases.

A claim is eight small statements. Sent one by one, most of its time would be spent waiting for results that the next
statement does not need. A batch is one round trip on PostgreSQL, and ends where the program has to look at a result;
SQLite and MariaDB get its statements one by one. Statements are built once and cached: each is compiled, and prepared
by the server, when it is first sent.

PostgreSQL gets many rows as one JSON parameter and reads it as a table, because psycopg sends a statement per row of
`executemany`: 180 for a claim of 20 instances. The drivers of SQLite and MariaDB batch the rows of an INSERT.
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
    Column,
    ColumnElement,
    Connection,
    Delete,
    Double,
    Executable,
    Integer,
    Select,
    Table,
    TableClause,
    Text,
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

from roost.store.columns import LONG_TEXT, MARIADB, MARIADB_TABLE, JsonText, UtcTime
from roost.store.store_clock import given_or_present
from roost.store.transactions import BY_PRIMARY_KEY

Values = Mapping[str, Any]
"""Parameter -> value."""


class Statement(NamedTuple):
    """A cached statement and its values: texts, integers, None, or lists of keys."""

    statement: Executable
    values: Values | Sequence[Values]
    """A sequence executes the statement once per item; not on PostgreSQL."""


class StatementResult(NamedTuple):
    """Result of a statement of a batch."""

    rows: Sequence[Any]
    """Rows as the driver returns them, without the conversions of column types; empty if it returns none."""
    touched: int
    """Number of rows that were returned or changed."""


def is_key(dialect: str, column: ColumnElement[Any], name: str, is_one: bool) -> ColumnElement[bool]:
    """The condition that the column equals a parameter, or one of the keys in it if not `is_one`.

    `name`: the parameter; `key_parameter` makes its value. A single key has its own form, because PostgreSQL assumes
    ten keys in a list, and may scan a whole table that was small when it made the plan.
    """
    kind: Any = BigInteger() if isinstance(column.type, Integer) else Text()
    if is_one:
        return column == bindparam(name, type_=kind)
    if dialect == "postgresql":
        return column == any_(bindparam(name, type_=ARRAY(kind)))
    return column.in_(bindparam(name, expanding=True))


def key_parameter(keys: Sequence[Any]) -> Any:
    """The value of a parameter of `is_key`: the key itself if there is one, else the list."""
    return keys[0] if len(keys) == 1 else keys


def send_batch(connection: Connection, statements: Collection[Statement]) -> list[StatementResult]:
    """Execute the statements: their results, in order. The first one that fails raises; later ones are not executed.

    Each statement sees what was committed before it began, as if it had been sent alone.
    """
    if not statements:
        return []
    if connection.dialect.driver == "psycopg":
        from roost.store.libpq_pipeline import send_pipelined  # needs psycopg, which is slow to import

        return send_pipelined(connection, statements)
    return [_execute(connection, each) for each in statements]


def _execute(connection: Connection, statement: Statement) -> StatementResult:
    result = connection.execute(statement.statement, statement.values)
    return StatementResult(result.all() if result.returns_rows else (), result.rowcount)


Row = dict[str, Any]
"""Column -> value; a JSON column as its text."""
Rows = Sequence[Sequence[Any]]
"""Rows as their values, in an order of columns that is given elsewhere."""
Columns = tuple[tuple[str, str], ...]
"""Name and PostgreSQL type of each column, in the order of the values."""

INTEGER_TYPE, TEXT_TYPE = "BIGINT", "TEXT"
MOST_KEYS = 500
"""Keys in one statement."""
MOST_ROWS = 2000
"""Rows in one call of the driver: bounds memory, and the time until a lost connection is noticed."""
CACHED_PLAN_KEYS = 50
"""Up to this many keys a cached plan of PostgreSQL is good enough."""
_ROW_LIMITS = (4, 16, 64)
"""LIMITs on rows that are given as JSON. PostgreSQL assumes 100 rows and scans the table instead of an
index: 1 ms for the 6,000 inventories of 2,000 nodes. A limit not below the number of rows changes the plan, not the
result."""

Item = TypeVar("Item")

_POSTGRESQL_TYPES = {
    BigInteger: INTEGER_TYPE,
    Integer: INTEGER_TYPE,
    Double: "DOUBLE PRECISION",
    Boolean: "BOOLEAN",
    UtcTime: "TIMESTAMP",
}
_CHARACTER_SET = f"CHARACTER SET {MARIADB_TABLE['mysql_charset']} COLLATE {MARIADB_TABLE['mysql_collate']}"
_MARIADB_TYPES = {INTEGER_TYPE: "BIGINT", TEXT_TYPE: f"VARCHAR(255) {_CHARACTER_SET}"}
"""PostgreSQL type -> MariaDB type; without a character set the server's default would apply."""


@cache
def with_json_as_text(typed: Table) -> TableClause:
    """The table with JSON columns as plain text: equal texts, which similar hosts share, are encoded only once."""
    types = {each.name: LONG_TEXT if isinstance(each.type, JsonText) else each.type for each in typed.columns}
    return table(typed.name, *(column(name, kind) for name, kind in types.items()))


def in_chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Split items into lists of at most `size`, in order."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


# --- read by keys ------------------------------------------------------------------------------------


def column_in(connection: Connection, column: ColumnElement[Any], keys: Collection[Any]) -> ColumnElement[bool]:
    """The condition that the column has one of the values.

    PostgreSQL gets them as one array: hundreds of parameters take longer to build and parse than the statement takes
    to execute, and its cached plan would compare each row with each of them.
    """
    if connection.dialect.name != "postgresql":
        return column.in_(keys)
    return column == any_(literal(list(keys), ARRAY(column.type)))


def read_rows(
    connection: Connection, statement: Select[Any], key: ColumnElement[Any], wanted: Collection[Any] | None
) -> Iterator[Any]:
    """The rows whose key is wanted, ordered by key, in one statement per MOST_KEYS; None: all rows, unordered."""
    if wanted is None:
        yield from connection.execute(statement).all()  # a list is twice as fast as row by row
        return
    with _custom_plans(connection) if len(wanted) > CACHED_PLAN_KEYS else nullcontext():
        for chunk in in_chunks(sorted(wanted), MOST_KEYS):
            yield from connection.execute(statement.where(column_in(connection, key, chunk)).order_by(key)).all()


class KeyedSelect(NamedTuple):
    """A SELECT, restricted to rows whose key column has one of the wanted values."""

    statement: Select[Any]
    """A constant of a module: its compiled form is cached by identity."""
    key: ColumnElement[Any]
    wanted: Collection[Any]


def read_in_one_trip(connection: Connection, selects: Sequence[KeyedSelect]) -> list[Sequence[Any]]:
    """The rows of each SELECT, unordered; on PostgreSQL in one round trip, with values as the driver returns them."""
    if connection.dialect.name != "postgresql":
        return [list(read_rows(connection, *each)) for each in selects]
    statements = [_keyed_statement(each.statement, each.key, sorted(each.wanted)) for each in selects]
    if max(len(each.wanted) for each in selects) > CACHED_PLAN_KEYS:
        statements = [Statement(_FORCE_CUSTOM_PLAN, {}), *statements, Statement(_AUTO_PLAN, {})]
        results = send_batch(connection, statements)[1:-1]
    else:
        results = send_batch(connection, statements)
    pairs = zip(selects, results, strict=True)
    return [list(map(_row_class(each.statement)._make, result.rows)) for each, result in pairs]


@lru_cache(maxsize=64)
def _row_class(statement: Select[Any]) -> Any:
    """A named tuple with the columns of the SELECT."""
    return namedtuple("Row", statement.selected_columns.keys())


def _keyed_statement(statement: Select[Any], key: ColumnElement[Any], wanted: list[Any]) -> Statement:
    return Statement(_select_by_keys(statement, key, len(wanted) == 1), {"keys": key_parameter(wanted)})


@lru_cache(maxsize=64)
def _select_by_keys(statement: Select[Any], key: ColumnElement[Any], is_one: bool) -> Select[Any]:
    return statement.where(is_key("postgresql", key, "keys", is_one))


_FORCE_CUSTOM_PLAN = text("SET LOCAL plan_cache_mode = force_custom_plan")
_AUTO_PLAN = text("SET LOCAL plan_cache_mode = auto")


@contextmanager
def _custom_plans(connection: Connection) -> Iterator[None]:
    """Have PostgreSQL plan each statement of the block for its own keys; no effect on other databases.

    Statistics show a table that was just filled as empty, so a cached plan would scan all of it. Only in the block:
    otherwise the checks of foreign keys would be planned again for every row.
    """
    if connection.dialect.name != "postgresql":
        yield
        return
    connection.execute(_FORCE_CUSTOM_PLAN)
    yield
    connection.execute(_AUTO_PLAN)


# --- write -------------------------------------------------------------------------------------------


def insert_rows(
    connection: Connection, into: TableClause, names: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    """Insert rows in chunks of MOST_ROWS. `names`: columns, in the order of each row's values; JSON as its text."""
    for chunk in in_chunks(rows, MOST_ROWS):
        connection.execute(*insert_statement(connection.dialect.name, into, tuple(names), chunk))


def insert_statement(
    dialect: str, into: TableClause, names: tuple[str, ...], rows: Rows, stamped: str | None = None
) -> Statement:
    """An INSERT of rows, for a batch. `names`: columns, in the order of each row's values; JSON as its text.

    `stamped`: a column that PostgreSQL sets to the present time by its clock in rows where it is None. The driver of
    MariaDB sends rows one by one if there are other values than parameters.
    """
    statement = _insert(dialect, into, names, stamped)
    if dialect == "postgresql":
        return Statement(statement, {"given": json.dumps(rows, default=utc_text)})
    return Statement(statement, [dict(zip(names, map(_driver_value, row), strict=True)) for row in rows])


def update_rows(connection: Connection, where: TableClause, key: Collection[str], rows: Sequence[Row]) -> None:
    """Update rows, found by the key columns that each row contains; all rows must have the same columns."""
    if rows:
        changed: dict[str, Any] = {name: bindparam(name) for name in rows[0] if name not in key}
        statement = update(where).where(_has_key(where, key)).values(changed)
        for chunk in in_chunks(rows, MOST_ROWS):
            connection.execute(statement, [_with_key_parameters(row, key) for row in chunk])


def delete_rows(
    connection: Connection, where: TableClause, key: Sequence[str], keys: Iterable[Sequence[Any]]
) -> None:
    """Delete rows. `key`: their key columns; `keys`: the values of these columns, per row."""
    statement = delete(where).where(_has_key(where, key))
    for chunk in in_chunks(keys, MOST_ROWS):
        rows = [dict(zip(key, values, strict=True)) for values in chunk]
        connection.execute(statement, [_with_key_parameters(row, key) for row in rows])


def _has_key(where: TableClause, key: Iterable[str]) -> ColumnElement[bool]:
    return and_(*(where.c[name] == bindparam(f"key_{name}") for name in key))


def _with_key_parameters(row: Row, key: Collection[str]) -> Row:
    return {f"key_{name}" if name in key else name: value for name, value in row.items()}


def addition_statement(
    dialect: str, table: str, keys: Columns, sums: Mapping[str, str], rows: Rows, only_if: str = ""
) -> Statement:
    """An UPDATE that adds to columns of existing rows, for a batch; its result counts the rows that were changed.

    `rows`: the values of `keys`, then the amounts. `sums`: column -> name of the amount that is added to it, or
    subtracted if the name begins with "-". `only_if`: a further condition, in which amounts are `given.NAME`.
    """
    limit = next((limit for limit in _ROW_LIMITS if len(rows) <= limit), None)
    return Statement(_add(dialect, table, keys, tuple(sums.items()), only_if, limit), {"given": json.dumps(rows)})


def delete_statement(dialect: str, key: Column[Any], uuids: Sequence[str]) -> Statement:
    """A DELETE of the rows that have one of the uuids in the first column of their primary key, for a batch."""
    if dialect in MARIADB:
        return Statement(_delete_given(dialect, key.table.name, key.name), {"given": json.dumps([*zip(uuids)])})
    return Statement(_delete_by_key(dialect, key, len(uuids) == 1), {"uuids": key_parameter(uuids)})


@cache
def _delete_by_key(dialect: str, key: Column[Any], is_one: bool) -> Delete:
    return delete(key.table).where(is_key(dialect, key, "uuids", is_one))


@cache
def _delete_given(dialect: str, table: str, key: str) -> TextClause:
    given = _given_table(dialect, ((key, TEXT_TYPE),))
    joined = f"{given} STRAIGHT_JOIN {table} {BY_PRIMARY_KEY} ON {table}.{key} = given.{key}"
    return text(f"DELETE {table} FROM {joined}")


def _driver_value(value: Any) -> Any:
    return utc_text(value) if isinstance(value, datetime.datetime) else value


def utc_text(time: datetime.datetime) -> str:
    """A time as the column type `UtcTime` stores it."""
    return time.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")


def _given_table(dialect: str, columns: Columns, limit: int | None = None) -> str:
    """SQL that reads the JSON parameter as a table called `given`; `limit`: an upper bound of its rows."""
    numbered = list(enumerate(columns))
    if dialect == "postgresql":
        parts = ", ".join(f'CAST(row ->> {at} AS {kind}) AS "{name}"' for at, (name, kind) in numbered)
        rows = f"jsonb_array_elements(CAST(:given AS JSONB)) AS rows(row){f' LIMIT {limit}' if limit else ''}"
        return f"(SELECT {parts} FROM {rows}) AS given"  # noqa: S608
    if dialect in MARIADB:
        parts = ", ".join(f"{name} {_MARIADB_TYPES[kind]} PATH '$[{at}]'" for at, (name, kind) in numbered)
        return f"JSON_TABLE(:given, '$[*]' COLUMNS ({parts})) AS given"
    parts = ", ".join(f"json_extract(value, '$[{at}]') AS {name}" for at, (name, _) in numbered)
    return f"(SELECT {parts} FROM json_each(:given)) AS given"  # noqa: S608


@lru_cache(maxsize=256)
def _insert(dialect: str, into: TableClause, names: tuple[str, ...], stamped: str | None) -> TextClause:
    quote = "`" if dialect in MARIADB else '"'  # columns such as `binary` and `key` are SQL keywords
    target = f"{into.name} ({', '.join(f'{quote}{name}{quote}' for name in names)})"
    if dialect != "postgresql":
        return text(f"INSERT INTO {target} VALUES ({', '.join(f':{name}' for name in names)})")  # noqa: S608
    columns = tuple((name, _POSTGRESQL_TYPES.get(type(into.c[name].type), TEXT_TYPE)) for name in names)
    given = {name: f'given."{name}"' for name in names}
    if stamped is not None:
        given[stamped] = given_or_present(dialect, given[stamped])
    return text(f"INSERT INTO {target} SELECT {', '.join(given.values())} FROM {_given_table(dialect, columns)}")  # noqa: S608


@cache
def _add(
    dialect: str, table: str, keys: Columns, sums: tuple[tuple[str, str], ...], only_if: str, limit: int | None
) -> TextClause:
    amounts = dict.fromkeys(amount.removeprefix("-") for _, amount in sums)
    given = _given_table(dialect, (*keys, *((name, INTEGER_TYPE) for name in amounts)), limit)
    same = " AND ".join(f"{table}.{name} = given.{name}" for name, _ in keys)
    where = f"{same} AND {only_if}" if only_if else same
    changed = ", ".join(f"{column} = {table}.{column} {_signed(amount)}" for column, amount in sums)
    if dialect in MARIADB:
        joined = f"{given} STRAIGHT_JOIN {table} {BY_PRIMARY_KEY} ON {where}"
        return text(f"UPDATE {joined} SET {changed}")  # noqa: S608
    return text(f"UPDATE {table} SET {changed} FROM {given} WHERE {where}")  # noqa: S608


def _signed(amount: str) -> str:
    """The amount as the end of a sum; one whose name begins with "-" is subtracted."""
    return f"- given.{amount[1:]}" if amount.startswith("-") else f"+ given.{amount}"
