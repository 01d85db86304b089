# SPDX-License-Identifier: Apache-2.0
"""The transaction that all writers use, all or nothing, and one that reads a consistent state.

Errors of database drivers become `DatabaseError` or a subclass of it: one line of text, no password.

Statements that lock (`select_for_update`) lock the rows they name, and no others, in the order of their ids. MariaDB
locks every row that a statement reads, also those that its condition then rejects, and waits for each of them: such a
statement must find its rows by a key. Its optimizer scans a table instead where statistics say that it is small, as
they do of a table that was filled a moment ago: hints forbid that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, FromClause, Select, Table, exc, or_, select, union
from sqlalchemy.engine import URL
from sqlalchemy.exc import IntegrityError

from roost.errors import (
    DatabaseConflict,
    DatabaseError,
    DatabaseFull,
    DatabaseReadOnly,
    DatabaseRefused,
    DatabaseUnreachable,
    SchemaError,
)
from roost.options.declare import REDACTED
from roost.store.columns import MARIADB
from roost.store.engine import BEGINS_WRITING, OPTION, redacted_url

MOST_ATTEMPTS = 5
"""How often `write` begins: each time another transaction was faster with the same rows."""

Result = TypeVar("Result")


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A transaction whose statements all see the same state. Driver errors become a DatabaseError."""
    # Snapshot isolation; on SQLite every transaction has it.
    settings = {} if engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ"}
    with database_errors(engine), engine.connect().execution_options(**settings) as connection, connection.begin():
        yield connection


@contextmanager
def writing(engine: Engine, is_dry_run: bool = False) -> Iterator[Connection]:
    """A transaction that writes all or nothing; a dry run is rolled back. Driver errors become a DatabaseError.

    Writers read beforehand what a constraint would refuse. So a violated constraint means that another transaction
    wrote in between: it is a DatabaseConflict, which can be retried.
    """
    try:
        with (
            database_errors(engine),
            engine.connect().execution_options(**BEGINS_WRITING) as connection,
            connection.begin() as transaction,
        ):
            yield connection
            if is_dry_run:
                transaction.rollback()
    except IntegrityError as error:
        message = f"database {redacted_url(engine.url)}: another transaction wrote the same row meanwhile"
        raise DatabaseConflict(message, HINTS[DatabaseConflict]) from error


def write(engine: Engine, change: Callable[[Connection], Result]) -> Result:
    """What `change` returns, called in a transaction of its own; again, from its reads on, after a DatabaseConflict.

    So a change that looks for a row before it inserts one finds, the second time, the row of a faster writer.
    """
    for _ in range(MOST_ATTEMPTS - 1):
        try:
            with writing(engine) as connection:
                return change(connection)
        except DatabaseConflict:
            continue
    with writing(engine) as connection:
        return change(connection)


BY_PRIMARY_KEY = "FORCE INDEX (PRIMARY)"
"""Index hint of MariaDB: a scan of the table is the last resort. The condition must begin with the primary key."""


def by_index(statement: Select[Any], table: FromClause, index: str = "PRIMARY") -> Select[Any]:
    """The SELECT with the hint that rows of the table are found by this index; no effect but on MariaDB."""
    for dialect in MARIADB:
        statement = statement.with_hint(table, f"FORCE INDEX ({index})", dialect)
    return statement


def select_for_update(
    dialect: str,
    columns: Sequence[ColumnElement[Any]],
    table: Table,
    wanted: Sequence[ColumnElement[bool]],
    is_one: bool = False,
) -> Select[Any]:
    """A SELECT that locks the rows for which one of the conditions `wanted` holds, in the order of `id`.

    Each condition compares a column that has an index with its keys. `is_one`: there is one condition, which compares
    a unique column with one key; MariaDB never scans a table for that.
    """
    rows = select(*columns)
    if is_one or dialect not in MARIADB:
        return rows.where(or_(*wanted)).order_by(table.c.id).with_for_update(of=table)
    # The ids are read first, without a lock. A subquery with UNION or DISTINCT is not merged into the outer query.
    ids = [select(table.c.id).where(each).distinct() for each in wanted]
    found = (ids[0] if len(ids) == 1 else union(*ids)).subquery("wanted")
    rows = rows.select_from(found.join(table, table.c.id == found.c.id)).prefix_with("STRAIGHT_JOIN")
    return by_index(rows, table).order_by(found.c.id).with_for_update(of=table)


Kind = type[DatabaseError]

HINTS: dict[Kind, str] = {
    DatabaseUnreachable: "is it running, and is {option} right?",
    DatabaseRefused: "look at user, password, rights and database name in {option}",
    DatabaseReadOnly: "Roost needs to write: look at the rights, or at a server that is set to read-only",
    DatabaseFull: "make room, then try again",
    DatabaseConflict: "try again",
    SchemaError: "does {option} name the right database, of a version that this Roost knows?",
}
ERROR_MEANINGS: dict[Kind, str] = {
    DatabaseUnreachable: "cannot be reached",
    DatabaseRefused: "does not let us in",
    DatabaseReadOnly: "is read-only",
    DatabaseFull: "is full",
    DatabaseConflict: "is busy with others",
    SchemaError: "has not the tables that are needed",
    DatabaseError: "failed",
}
# By PostgreSQL's SQLSTATE: its class (two characters), or all five.
SQLSTATES: dict[str, Kind] = {
    "08": DatabaseUnreachable,
    "57": DatabaseUnreachable,
    "57014": DatabaseConflict,  # statement timeout
    "28": DatabaseRefused,
    "3D": DatabaseRefused,
    "42501": DatabaseRefused,
    **dict.fromkeys(("3F", "42P01", "42703"), SchemaError),
    "25006": DatabaseReadOnly,
    "25P03": DatabaseUnreachable,  # idle in a transaction: the server has closed the connection
    "53100": DatabaseFull,
    "40001": DatabaseConflict,
    "40P01": DatabaseConflict,
    "55P03": DatabaseConflict,
}
# By MariaDB's error number.
MARIADB_NUMBERS: dict[int, Kind] = {
    **dict.fromkeys((0, 1040, 1053, 1927, 2002, 2003, 2005, 2006, 2013, 2055), DatabaseUnreachable),
    1047: DatabaseUnreachable,  # a node of Galera that has not joined its cluster
    **dict.fromkeys((1044, 1045, 1049, 1130, 1142, 1143, 1227, 1698), DatabaseRefused),
    **dict.fromkeys((1054, 1146), SchemaError),
    **dict.fromkeys((1290, 1792, 1836), DatabaseReadOnly),
    **dict.fromkeys((1021, 1114), DatabaseFull),
    **dict.fromkeys((1020, 1205, 1213), DatabaseConflict),
    1317: DatabaseConflict,  # an administrator killed the statement
    1969: DatabaseConflict,  # statement timeout
}
# By the prefix of SQLite's error name.
SQLITE_NAMES: dict[str, Kind] = {
    "SQLITE_CANTOPEN": DatabaseUnreachable,
    "SQLITE_PERM": DatabaseRefused,
    "SQLITE_READONLY": DatabaseReadOnly,
    "SQLITE_NOTADB": SchemaError,
    "SQLITE_FULL": DatabaseFull,
    "SQLITE_BUSY": DatabaseConflict,
    "SQLITE_LOCKED": DatabaseConflict,
}
SQLITE_LACKS = ("no such table", "no such column")
"""What SQLite, which has no number for it, says of a schema that is not the expected one."""
# psycopg has no SQLSTATE for a failed connection attempt, only a text.
REFUSED_WORDS = ("authentication failed", "does not exist", "no pg_hba.conf entry", "permission denied")


@contextmanager
def database_errors(engine: Engine, option: str = OPTION) -> Iterator[None]:
    """In this context errors of the driver become a DatabaseError. `option`: where the address is from, for hints.

    IntegrityError passes unchanged: only the caller knows what a violated constraint means.
    """
    try:
        yield
    except exc.IntegrityError:
        raise
    except exc.DBAPIError as error:
        raise map_driver_error(error, engine.url, option) from error
    except exc.TimeoutError as error:
        message = f"database {redacted_url(engine.url)}: all connections are in use"
        raise DatabaseUnreachable(message, "raise [database] max_pool_size or max_overflow") from error


def map_driver_error(error: exc.DBAPIError, url: URL, option: str = OPTION) -> DatabaseError:
    """The DatabaseError, or subclass of it, for an error of the driver."""
    kind = _kind_of(error)
    message = f"database {redacted_url(url)} {ERROR_MEANINGS[kind]}: {_first_line(error, url)}"
    return kind(message, HINTS.get(kind, "").format(option=option))


def _kind_of(error: exc.DBAPIError) -> Kind:
    cause = error.orig
    if (number := _mariadb_number(cause)) is not None:
        return MARIADB_NUMBERS.get(number, DatabaseError)
    if sqlstate := getattr(cause, "sqlstate", None):
        return SQLSTATES.get(sqlstate) or SQLSTATES.get(sqlstate[:2]) or DatabaseError
    if name := getattr(cause, "sqlite_errorname", None):
        if str(cause).startswith(SQLITE_LACKS):
            return SchemaError
        return next((kind for start, kind in SQLITE_NAMES.items() if name.startswith(start)), DatabaseError)
    if isinstance(error, exc.OperationalError) or error.connection_invalidated:
        refused = any(word in str(cause) for word in REFUSED_WORDS)
        return DatabaseRefused if refused else DatabaseUnreachable
    return DatabaseError


def _mariadb_number(cause: BaseException | None) -> int | None:
    first = cause.args[0] if cause and cause.args else None
    return first if isinstance(first, int) else None


def _first_line(error: exc.DBAPIError, url: URL) -> str:
    """The first line of the driver's message, with the password redacted."""
    cause = error.orig
    number = _mariadb_number(cause)
    message = str(cause.args[1] if cause and number is not None and len(cause.args) > 1 else cause)
    line = next((each.strip() for each in message.splitlines() if each.strip()), type(cause).__name__)
    return line.replace(str(url.password), REDACTED) if url.password else line
