# SPDX-License-Identifier: Apache-2.0
"""Maps errors of database drivers to `DatabaseError` and its subclasses: one line of text, no password."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc
from sqlalchemy.engine import URL, Engine

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
from roost.store.database_url import OPTION, redacted_url

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
