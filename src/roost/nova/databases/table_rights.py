# SPDX-License-Identifier: Apache-2.0
"""Rights of a user to nova's tables: which are missing, and the SQL that grants them.

`find_unreadable` and `find_unwritable` find out by reading alone. `needs_rights` makes the GRANT that helps the hint
of a write that was refused.

Names of users come from the server: on MariaDB a user is a name with a pattern of hosts, of which the address of the
database says only the name.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from sqlalchemy import Connection, MetaData, Table, select, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from roost.errors import DatabaseError, DatabaseReadOnly, DatabaseRefused
from roost.nova.databases.engines import POSTGRESQL, open_read_only, reading

_DENIED = ("1142", "1143", "42501")
_NO_TABLE = ("1146", "42P01")
_NO_COLUMN = ("1054", "42703")
_NO_DATABASE_RIGHT = "1044"
_WRITING = frozenset({"ALL PRIVILEGES", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP"})
_GRANT = re.compile(r"GRANT (?P<rights>.+?) ON (?:TABLE )?(?P<database>\S+)\.(?P<table>\S+) TO ")
_COLUMNS = re.compile(r"(\w+) \([^)]*\)")
"""A right to some columns, as `UPDATE (`a`, `b`)`."""
_FIND_TABLE = text(
    "SELECT n.nspname, has_schema_privilege(n.oid, 'USAGE') FROM pg_class c JOIN pg_namespace n"
    " ON n.oid = c.relnamespace WHERE c.relname = :name AND c.relkind IN ('r', 'p', 'v')"
    " AND n.nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY n.nspname <> 'public' LIMIT 1"
)
_MAY = text("SELECT has_table_privilege(:table, :right)")
_MAY_COUNT_UP = text("SELECT has_sequence_privilege(:sequence, 'USAGE')")
_COUNT_WRITABLE = text(
    "SELECT count(*) FROM pg_class c WHERE c.relname = ANY(:names) AND c.relkind IN ('r', 'p', 'v')"
    " AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE')"
)


class TableProblem(NamedTuple):
    """A table that cannot be read, or not be written to."""

    name: str
    problem: str
    """Why not, in one line."""
    statement: str = ""
    """SQL that an administrator runs in this database to grant the right; empty if it is no matter of rights."""


def find_unreadable(connection: Connection, tables: MetaData) -> list[TableProblem]:
    """The tables of which not all columns can be read. A DBAPIError if the database fails otherwise."""
    found = (_try_table(connection, table) for table in tables.sorted_tables)
    return [each for each in found if each]


def _try_table(connection: Connection, table: Table) -> TableProblem | None:
    try:
        connection.execute(select(table).limit(1)).all()
    except DBAPIError as error:
        code = _code_of(error)
        if code in _DENIED:
            return TableProblem(table.name, "no right to SELECT", _grant_select(connection, table.name))
        if code in _NO_TABLE:
            return _explain_absence(connection, table.name)
        if code in _NO_COLUMN:
            return TableProblem(table.name, f"lacks a column: {_message_of(error)}")
        raise
    return None


def find_unwritable(connection: Connection, table: Table, rights: str) -> TableProblem | None:
    """What keeps the user from `rights`, such as `SELECT, INSERT`, on a table; None if nothing does.

    Nothing is written. A right to some columns only does not count.
    """
    problem = _try_table(connection, table)
    if problem and not problem.statement:
        return problem
    database = str(connection.engine.url.database)
    lacking = [right for right in rights.split(", ") if not _may(connection, right, table.name, database)]
    if not problem and not lacking:
        return None
    grant = _make_grant(connection, rights, table.name, database)
    return TableProblem(table.name, f"no right to {', '.join(lacking) or rights}", grant)


def _may(connection: Connection, right: str, table: str, database: str) -> bool:
    if not _is_postgresql(connection):
        grants = [str(row[0]) for row in connection.execute(text("SHOW GRANTS"))]
        held = (rights for rights, _, _ in _table_grants(grants, database, [table]))
        return any({right, "ALL PRIVILEGES"} & rights for rights in held)
    schema, _ = connection.execute(_FIND_TABLE, {"name": table}).one()
    quote = connection.dialect.identifier_preparer.quote_identifier
    may = bool(connection.scalar(_MAY, {"table": f"{quote(schema)}.{quote(table)}", "right": right}))
    sequence = {"sequence": f"{quote(schema)}.{quote(f'{table}_id_seq')}"}
    return may and (right != "INSERT" or bool(connection.scalar(_MAY_COUNT_UP, sequence)))


def _explain_absence(connection: Connection, name: str) -> TableProblem:
    """A table that the server does not find: PostgreSQL hides tables of a schema that the user may not use."""
    is_hidden = _is_postgresql(connection) and connection.execute(_FIND_TABLE, {"name": name}).first() is not None
    if is_hidden:
        return TableProblem(name, "no right to use its schema", _grant_select(connection, name))
    return TableProblem(name, "there is no such table")


def _grant_select(connection: Connection, table: str) -> str:
    return _make_grant(connection, "SELECT", table, str(connection.engine.url.database))


def _make_grant(connection: Connection, rights: str, table: str, database: str) -> str:
    """The statement that gives the user of a connection these rights on a table, and all that they take."""
    quote = connection.dialect.identifier_preparer.quote
    if not _is_postgresql(connection):
        return _mariadb_grant(rights, _mariadb_account(connection), quote(database), quote(table))
    schema, may_use = connection.execute(_FIND_TABLE, {"name": table}).one()
    user = quote(str(connection.scalar(text("SELECT current_user"))))
    usage = "" if may_use else f"GRANT USAGE ON SCHEMA {quote(schema)} TO {user}; "
    sequence = f"{quote(schema)}.{quote(f'{table}_id_seq')}"
    counting = f" GRANT USAGE ON SEQUENCE {sequence} TO {user};" if "INSERT" in rights else ""
    return f"{usage}GRANT {rights} ON {quote(schema)}.{quote(table)} TO {user};{counting}"


def find_missing_grant(error: DatabaseError, url: URL, rights: str, table: str) -> str:
    """The GRANT of `rights`, such as `SELECT, INSERT`, that helps against an error; empty if no right is missing.

    The server is asked for the user's account, over a connection of its own. Empty, too, where it does not answer.
    """
    cause = error.__cause__
    if not isinstance(cause, DBAPIError) or _code_of(cause) not in (*_DENIED, _NO_DATABASE_RIGHT):
        return ""
    # A user of MariaDB who may not enter the database can log in without it.
    engine = open_read_only(url if url.get_backend_name() == POSTGRESQL else url.set(database=""))
    try:
        with reading(engine, "") as connection:
            return _make_grant(connection, rights, table, str(url.database))
    except DatabaseError:
        return ""
    finally:
        engine.dispose()


def find_entry_grants(error: DatabaseError, url: URL, tables: MetaData) -> list[TableProblem]:
    """What is missing where a user is known to the server but may not use the database; empty for other errors."""
    cause = error.__cause__
    if not isinstance(cause, DBAPIError):
        return []
    problem = f"no right to use the database {url.database}"
    if url.get_backend_name() == POSTGRESQL:
        is_denied = "permission denied for database" in str(cause.orig)
        return [TableProblem("", problem, _postgresql_connect_grant(url))] if is_denied else []
    if _code_of(cause) != _NO_DATABASE_RIGHT:
        return []
    return [TableProblem(name, problem, grant) for name, grant in _all_mariadb_grants(url, tables)]


def _postgresql_connect_grant(url: URL) -> str:
    quote = url.get_dialect()().identifier_preparer.quote
    return f"GRANT CONNECT ON DATABASE {quote(str(url.database))} TO {quote(str(url.username))};"


def _all_mariadb_grants(url: URL, tables: MetaData) -> Iterator[tuple[str, str]]:
    """(table, GRANT) for all tables; the user's pattern of hosts is asked without entering the database."""
    engine = open_read_only(url.set(database=""))
    try:
        with reading(engine, "") as connection:
            quote = connection.dialect.identifier_preparer.quote
            account = _mariadb_account(connection)
            for table in tables.sorted_tables:
                yield table.name, _mariadb_grant("SELECT", account, quote(str(url.database)), quote(table.name))
    finally:
        engine.dispose()


def _mariadb_account(connection: Connection) -> str:
    name, _, hosts = str(connection.scalar(text("SELECT CURRENT_USER()"))).rpartition("@")
    return "@".join("'{}'".format(part.replace("\\", "\\\\").replace("'", "''")) for part in (name, hosts))


def _mariadb_grant(rights: str, account: str, database: str, table: str) -> str:
    return f"GRANT {rights} ON {database}.{table} TO {account};"


def describe_writing(connection: Connection, tables: MetaData) -> str:
    """With which right the user could change nova's tables; empty if it has none. Nothing is tried."""
    names = [table.name for table in tables.sorted_tables]
    if _is_postgresql(connection):
        count = connection.scalar(_COUNT_WRITABLE, {"names": names})
        return f"{count} of {len(names)} tables" if count else ""
    grants = [str(row[0]) for row in connection.execute(text("SHOW GRANTS"))]
    return ", ".join(_writing_grants(grants, str(connection.engine.url.database), names))


def _writing_grants(grants: list[str], database: str, names: list[str]) -> Iterator[str]:
    """RIGHT on SCOPE of each GRANT that allows to write."""
    for rights, scope, table in _table_grants(grants, database, names, of_columns=True):
        if writing := rights & _WRITING:
            yield f"{', '.join(sorted(writing))} on {scope}.{table}"


def _table_grants(
    grants: list[str], database: str, names: list[str], *, of_columns: bool = False
) -> Iterator[tuple[set[str], str, str]]:
    """(rights, database, table) of each GRANT that concerns one of these tables, with patterns as they are.

    `of_columns`: with rights to some columns. The rest of a line is left out: it may hold the hash of a password.
    """
    for match in filter(None, map(_GRANT.match, grants)):
        listed = _COLUMNS.sub(r"\1" if of_columns else "", match["rights"])
        rights = {each.strip() for each in listed.split(",")}
        scope, table = (match[part].replace("`", "").replace("\\_", "_") for part in ("database", "table"))
        if fnmatch.fnmatchcase(database, scope.replace("%", "*")) and table in ("*", *names):
            yield rights, scope, table


def _is_postgresql(connection: Connection) -> bool:
    return connection.dialect.name == POSTGRESQL


def _code_of(error: DBAPIError) -> str:
    """MariaDB's number, or SQLSTATE of PostgreSQL; empty if the driver gives none."""
    cause = error.orig
    first = cause.args[0] if cause and cause.args else None
    return str(first if isinstance(first, int) else getattr(cause, "sqlstate", None) or "")


def _message_of(error: DBAPIError) -> str:
    """First line of the driver's message."""
    cause = error.orig
    return str(cause.args[-1] if cause and cause.args else cause).partition("\n")[0]


REFUSED_SECONDS = 300.0
"""How long to wait after a write that was refused: rights do not change often."""


@contextmanager
def needs_rights(url: URL, rights: str, table: str) -> Iterator[None]:
    """In this context the hint of a DatabaseRefused is the GRANT that helps, if a right is missing."""
    try:
        yield
    except DatabaseRefused as error:
        grant = find_missing_grant(error, url, rights, table)
        if not grant:
            raise
        raise DatabaseRefused(error.message, f"it needs: {grant}") from error


class RepeatedWrite:
    """A write that is repeated at an interval, and rarely while it is refused."""

    def __init__(self, write: Callable[[], object], seconds: Callable[[], float]) -> None:
        """`seconds`: the time between two writes."""
        self._write, self._interval, self._is_refused = write, seconds, False

    def run(self) -> None:
        """Write once."""
        self._is_refused = False
        try:
            self._write()
        except (DatabaseRefused, DatabaseReadOnly):
            self._is_refused = True
            raise

    def seconds(self) -> float:
        """Time until the next write."""
        return max(self._interval(), REFUSED_SECONDS) if self._is_refused else self._interval()
