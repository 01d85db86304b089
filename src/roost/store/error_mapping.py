# SPDX-License-Identifier: Apache-2.0
"""What databases say when something is wrong, turned into our errors: one line, no password."""

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
)
from roost.store.database_url import OPTION, show_address

Kind = type[DatabaseError]

HINTS: dict[Kind, str] = {
    DatabaseUnreachable: f"is it running, and is {OPTION} right?",
    DatabaseRefused: f"look at user, password and database name in {OPTION}",
    DatabaseReadOnly: "Roost needs to write: look at the rights, or at a server that is set to read-only",
    DatabaseFull: "make room, then try again",
    DatabaseConflict: "try again",
}
MEANINGS: dict[Kind, str] = {
    DatabaseUnreachable: "cannot be reached",
    DatabaseRefused: "does not let us in",
    DatabaseReadOnly: "is read-only",
    DatabaseFull: "is full",
    DatabaseConflict: "is busy with others",
    DatabaseError: "failed",
}
# By the first two or all five letters of PostgreSQL's SQLSTATE.
SQLSTATES: dict[str, Kind] = {
    "08": DatabaseUnreachable,
    "57": DatabaseUnreachable,
    "57014": DatabaseConflict,  # a statement that took too long
    "28": DatabaseRefused,
    "3D": DatabaseRefused,
    "42501": DatabaseRefused,
    "25006": DatabaseReadOnly,
    "53100": DatabaseFull,
    "40001": DatabaseConflict,
    "40P01": DatabaseConflict,
    "55P03": DatabaseConflict,
}
# By MariaDB's error number.
MARIADB_NUMBERS: dict[int, Kind] = {
    **dict.fromkeys((1040, 1053, 2002, 2003, 2005, 2006, 2013, 2055), DatabaseUnreachable),
    **dict.fromkeys((1044, 1045, 1049, 1130, 1142, 1227, 1698), DatabaseRefused),
    **dict.fromkeys((1290, 1792, 1836), DatabaseReadOnly),
    **dict.fromkeys((1021, 1114), DatabaseFull),
    **dict.fromkeys((1020, 1205, 1213), DatabaseConflict),
    1969: DatabaseConflict,  # a statement that took too long
}
# By the beginning of SQLite's name for it.
SQLITE_NAMES: dict[str, Kind] = {
    "SQLITE_CANTOPEN": DatabaseUnreachable,
    "SQLITE_PERM": DatabaseRefused,
    "SQLITE_READONLY": DatabaseReadOnly,
    "SQLITE_FULL": DatabaseFull,
    "SQLITE_BUSY": DatabaseConflict,
    "SQLITE_LOCKED": DatabaseConflict,
}
# psycopg gives no SQLSTATE for a connection that never came about; its text is all there is.
REFUSED_WORDS = ("authentication failed", "does not exist", "no pg_hba.conf entry", "permission denied")


@contextmanager
def database_errors(engine: Engine) -> Iterator[None]:
    """Around work with the database: what it complains about becomes a DatabaseError.

    A broken rule (IntegrityError) passes as it is: what it means is known only to whoever did the work.
    """
    try:
        yield
    except exc.IntegrityError:
        raise
    except exc.DBAPIError as error:
        raise explain(error, engine.url) from error
    except exc.TimeoutError as error:
        message = f"database {show_address(engine.url)}: all connections are in use"
        raise DatabaseUnreachable(message, "raise [database] max_pool_size or max_overflow") from error


def explain(error: exc.DBAPIError, url: URL) -> DatabaseError:
    """The error of ours for an error of the driver's."""
    kind = _kind_of(error)
    message = f"database {show_address(url)} {MEANINGS[kind]}: {_first_line(error, url)}"
    return kind(message, HINTS.get(kind, ""))


def _kind_of(error: exc.DBAPIError) -> Kind:
    cause = error.orig
    if (number := _mariadb_number(cause)) is not None:
        return MARIADB_NUMBERS.get(number, DatabaseError)
    if sqlstate := getattr(cause, "sqlstate", None):
        return SQLSTATES.get(sqlstate) or SQLSTATES.get(sqlstate[:2]) or DatabaseError
    if name := getattr(cause, "sqlite_errorname", None):
        return next((kind for start, kind in SQLITE_NAMES.items() if name.startswith(start)), DatabaseError)
    if isinstance(error, exc.OperationalError) or error.connection_invalidated:
        refused = any(word in str(cause) for word in REFUSED_WORDS)
        return DatabaseRefused if refused else DatabaseUnreachable
    return DatabaseError


def _mariadb_number(cause: BaseException | None) -> int | None:
    first = cause.args[0] if cause and cause.args else None
    return first if isinstance(first, int) else None


def _first_line(error: exc.DBAPIError, url: URL) -> str:
    """What the driver said, in a line; a password in it is blotted out."""
    cause = error.orig
    number = _mariadb_number(cause)
    said = str(cause.args[1] if cause and number is not None and len(cause.args) > 1 else cause)
    line = next((each.strip() for each in said.splitlines() if each.strip()), type(cause).__name__)
    return line.replace(str(url.password), "***") if url.password else line
