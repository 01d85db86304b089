# SPDX-License-Identifier: Apache-2.0
"""Batches of statements: one round trip on PostgreSQL; SQLite and MariaDB get them one by one.

A claim is eight small statements. Sent one by one, most of its time would be spent waiting for results that the next
statement does not need. A batch ends where the program has to look at a result.

Statements are built once and cached: each is compiled, and prepared by the server, when it is first sent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ARRAY, BigInteger, ColumnElement, Connection, Executable, Integer, Text, any_, bindparam

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
