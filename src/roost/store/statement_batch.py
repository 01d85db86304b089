# SPDX-License-Identifier: Apache-2.0
"""Several statements in one round trip, where the database can: PostgreSQL. Others get them one by one.

A claim is eight small statements. Sent one by one, most of its time is waiting for answers that nobody needs before
the next statement. A batch ends at the first thing that the program has to decide.

Statements are built once and kept: each is compiled, and prepared by the server, when it is first sent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ARRAY, BigInteger, ColumnElement, Connection, Executable, Integer, Text, any_, bindparam

Values = Mapping[str, Any]


class Statement(NamedTuple):
    """A statement that is kept somewhere, and its values: texts, whole numbers, None, or lists of keys."""

    statement: Executable
    values: Values | Sequence[Values]
    """Those of several rows only where the database is not PostgreSQL."""


class StatementResult(NamedTuple):
    """What became of a request."""

    rows: Sequence[Any]
    """As the driver gives them: what a column type would make of a value is not done."""
    touched: int
    """How many rows were found, or changed."""


def is_key(dialect: str, column: ColumnElement[Any], name: str, is_one: bool) -> ColumnElement[bool]:
    """Whether the column is the key, or one of the keys, that a request gives under this name.

    One is no special case of several: PostgreSQL takes a list for ten, which is often reason enough to read the whole
    of a table that was small when it made its plan.
    """
    kind: Any = BigInteger() if isinstance(column.type, Integer) else Text()
    if is_one:
        return column == bindparam(name, type_=kind)
    if dialect == "postgresql":
        return column == any_(bindparam(name, type_=ARRAY(kind)))
    return column.in_(bindparam(name, expanding=True))


def key_of(keys: Sequence[Any]) -> Any:
    """The value for it: the only key there is, or all of them."""
    return keys[0] if len(keys) == 1 else keys


def send(connection: Connection, requests: Collection[Statement]) -> list[StatementResult]:
    """The answers, in order. The first request that fails raises, as it would by itself; those after it are not done.

    Each statement sees what was committed before it began, as if it had come alone.
    """
    if not requests:
        return []
    if connection.dialect.driver == "psycopg":
        from roost.store.libpq_pipeline import send_together  # only there: the driver takes a while to load

        return send_together(connection, requests)
    return [_answer(connection, request) for request in requests]


def _answer(connection: Connection, request: Statement) -> StatementResult:
    result = connection.execute(request.statement, request.values)
    return StatementResult(result.all() if result.returns_rows else (), result.rowcount)
