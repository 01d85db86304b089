# SPDX-License-Identifier: Apache-2.0
"""Opens the database of section [database]: one engine per process, so that all three databases behave alike.

Isolation is READ COMMITTED; on SQLite a transaction sees what was committed before its first statement. SQLite has
one writer at a time, for which others wait (busy timeout), and which readers do not block (WAL). The URL has the form
of nova's option; it is parsed, checked, and gets the driver that Roost ships.
"""

from __future__ import annotations

import select
import sqlite3
import time
from inspect import signature
from pathlib import Path
from typing import Any

from pymysql.connections import Connection as PyMySQLConnection
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, InvalidatePoolError

from roost.errors import DatabaseAddressError, DatabaseUnreachable, nearest
from roost.store.options import DatabaseOptions

SQLALCHEMY_DRIVERS = {
    "sqlite": "sqlite+pysqlite",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
}
"""Kind of database -> driver that is used, even if the URL, such as nova's, names another one."""

MARIADB_PARAMETERS = frozenset(signature(PyMySQLConnection.__init__).parameters) - {
    "self",
    "password",
    "passwd",
    "user",
}

OPTION = "[database] connection"
FORM = "write it as sqlite:////FILE, postgresql://USER:PASSWORD@HOST/NAME or mysql+pymysql://USER:PASSWORD@HOST/NAME"


def parse_database_url(text: str | None, option: str = OPTION) -> URL:
    """Parse the URL; DatabaseAddressError if it is wrong, without the URL in it, which may contain a password.

    `option`: where the URL is from, for messages.
    """
    if not text:
        raise DatabaseAddressError(f"{option} is not set", FORM)
    try:
        url = make_url(text.strip())
    except (ArgumentError, ValueError):
        raise DatabaseAddressError(f"{option} is no address of a database", FORM) from None
    kind = url.get_backend_name()
    if kind not in SQLALCHEMY_DRIVERS:
        raise DatabaseAddressError(
            f"{option}: {kind[:40]!r} is no kind of database", nearest(kind, SQLALCHEMY_DRIVERS)
        )
    if "@" in f"{url.host}{url.database if kind != 'sqlite' else ''}":
        raise DatabaseAddressError(f"{option}: there is an @ too many", "in a password, write %40 for @")
    _check_place(kind, url, option)
    _check_parameters(kind, url, option)
    return url.set(drivername=SQLALCHEMY_DRIVERS[kind])


def _check_place(kind: str, url: URL, option: str) -> None:
    if kind != "sqlite":
        if not url.database:
            raise DatabaseAddressError(f"{option} names no database", FORM)
    elif url.host:
        raise DatabaseAddressError(f"{option} names a host", "a file takes three slashes, with a full path four")
    elif url.database in (None, "", ":memory:") or str(url.database).startswith("file:"):
        raise DatabaseAddressError(f"{option} names no file", "Roost keeps SQLite in a file: sqlite:////FILE")


def _check_parameters(kind: str, url: URL, option: str) -> None:
    """DatabaseAddressError for a parameter on which PyMySQL or SQLite would fail later; psycopg checks its own."""
    known = {"sqlite": (), "postgresql": url.query, "postgres": url.query}.get(kind, MARIADB_PARAMETERS)
    for name in url.query:
        if name not in known:
            raise DatabaseAddressError(f"{option} has no parameter {name[:40]!r}", nearest(name, known))


def redacted_url(url: URL) -> str:
    """The URL for messages: without the password, and without query parameters, which may contain one too."""
    redacted = url.set(drivername=url.get_backend_name(), password=None, query={})
    return redacted.render_as_string(hide_password=True)


BUSY_TIMEOUT_MS = 10_000
"""How long SQLite waits for another writer."""
_BUSY_ERRORS = ("SQLITE_BUSY", "SQLITE_BUSY_RECOVERY", "SQLITE_LOCKED")
_BUSY_RETRY_SECONDS = 0.01
CONNECT_TIMEOUT_SECONDS = 10
IDLE_TRANSACTION_SECONDS = 30
"""The server rolls back a transaction whose client sends nothing for this long, and so releases its locks."""
LOCK_TIMEOUT_SECONDS = 10
"""How long a statement waits for a lock."""
PING_AFTER_SECONDS = 1.0
"""A connection that was idle for this long is pinged before it is used."""
RANDOM_PAGE_COST = 1.1
"""Cost of a random page read for PostgreSQL's planner; a sequential one is 1. Its default of 4, meant for
spinning disks, would scan a whole table to find 100 of 10,000 rows, although the tables fit in memory."""
STATEMENT_TIMEOUT_SECONDS = 30
"""How long the server executes one statement."""
MARIADB_TIMEOUTS = {"lock_wait_timeout": LOCK_TIMEOUT_SECONDS, "max_statement_time": STATEMENT_TIMEOUT_SECONDS}
"""Session variable -> seconds. lock_wait_timeout is for table locks; MariaDB's default is a day."""

KEEPALIVE = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Parameters of libpq: a dead network connection is noticed within 30 s instead of 15 minutes."""

BEGINS_WRITING = {"roost_begins_writing": True}
"""Execution options of a connection that will write: on SQLite it takes the write lock when it begins.
A transaction that reads first and takes the lock later may fail."""


def open_engine(options: DatabaseOptions, may_create: bool = False) -> Engine:
    """The engine for [database] connection, not connected yet. `may_create`: the SQLite file need not exist."""
    url = parse_database_url(options.connection)
    kind = url.get_backend_name()
    if kind == "sqlite":
        _check_file(Path(str(url.database)), redacted_url(url), may_create)
    engine = create_engine(
        url,
        connect_args=_connect_args(kind, dict(url.query)),
        pool_size=options.max_pool_size,
        max_overflow=options.max_overflow,
        pool_timeout=options.pool_timeout,
        pool_recycle=options.connection_recycle_time,
        pool_pre_ping=kind not in ("sqlite", "postgresql"),  # a file needs no ping; PostgreSQL has its own, below
        hide_parameters=True,
        **({} if kind == "sqlite" else {"isolation_level": "READ COMMITTED"}),
    )
    if kind == "sqlite":
        _prepare_sqlite(engine, options.sqlite_synchronous)
    else:
        _prepare_server(engine, kind)
    if kind == "postgresql":
        ping_idle_connections(engine)
    return engine


def _check_file(path: Path, address: str, may_create: bool) -> None:
    """DatabaseUnreachable if the file is missing: SQLite would create it, also for a name with a typo."""
    if not path.parent.is_dir():
        raise DatabaseUnreachable(f"database {address}: there is no folder {path.parent}", "make it first")
    if not may_create and not path.exists():
        raise DatabaseUnreachable(f"database {address}: there is no such file", "roost db upgrade makes it")


def _connect_args(kind: str, given: dict[str, Any]) -> dict[str, Any]:
    """Arguments of the driver's `connect` that the URL does not give itself."""
    if kind == "sqlite":
        wanted: dict[str, Any] = {"timeout": BUSY_TIMEOUT_MS / 1000}
    elif kind == "postgresql":
        wanted = {"connect_timeout": CONNECT_TIMEOUT_SECONDS, "application_name": "roost", **KEEPALIVE}
    else:
        wanted = {"connect_timeout": CONNECT_TIMEOUT_SECONDS, "charset": "utf8mb4"}
        given = {name: value for name, value in given.items() if name != "charset"}  # nova's may be utf8: 3 bytes
    return {name: value for name, value in wanted.items() if name not in given}


def _prepare_sqlite(engine: Engine, waits_for_disk: bool) -> None:
    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # the driver would begin only at the first write
        _enable_wal(connection)
        for pragma in (
            f"synchronous = {'FULL' if waits_for_disk else 'OFF'}",
            f"busy_timeout = {BUSY_TIMEOUT_MS}",
            "foreign_keys = ON",
        ):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        is_writing = connection.get_execution_options().get("roost_begins_writing")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")


def _enable_wal(connection: Any) -> None:
    """Switch to write-ahead logging, with retries: while another process does so, SQLite fails without waiting."""
    last_try = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").close()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname not in _BUSY_ERRORS or time.monotonic() > last_try:
                raise
        time.sleep(_BUSY_RETRY_SECONDS)


def _prepare_server(engine: Engine, kind: str) -> None:
    """Set session variables; TRADITIONAL makes MariaDB reject values that it would otherwise truncate."""
    if kind == "postgresql":
        settings = [f"SET idle_in_transaction_session_timeout = '{IDLE_TRANSACTION_SECONDS}s'"]
        settings += [f"SET lock_timeout = '{LOCK_TIMEOUT_SECONDS}s'"]
        settings.append(f"SET statement_timeout = '{STATEMENT_TIMEOUT_SECONDS}s'")
        settings.append(f"SET random_page_cost = {RANDOM_PAGE_COST}")
    else:
        settings = ["SET SESSION sql_mode = 'TRADITIONAL'"]
        settings.append(f"SET SESSION idle_transaction_timeout = {IDLE_TRANSACTION_SECONDS}")
        settings.append(f"SET SESSION innodb_lock_wait_timeout = {LOCK_TIMEOUT_SECONDS}")
        settings += [f"SET SESSION {name} = {seconds}" for name, seconds in MARIADB_TIMEOUTS.items()]

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        with connection.cursor() as cursor:
            for setting in settings:
                cursor.execute(setting)
        connection.commit()


def ping_idle_connections(engine: Engine) -> None:
    """Ping a connection from the pool only if it was idle for PING_AFTER_SECONDS, or has unread input.

    A ping before every transaction would take a tenth of the time of a claim. A connection that the server has closed
    has unread input, the end of the stream, which needs no round trip to notice.
    """

    @event.listens_for(engine, "checkin")
    def returned(_: Any, record: Any) -> None:
        record.info["roost_used_at"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def taken(connection: Any, record: Any, _: Any) -> None:
        used_at = record.info.get("roost_used_at")
        if used_at is None or (time.monotonic() - used_at < PING_AFTER_SECONDS and not has_unread_input(connection)):
            return
        try:
            engine.dialect.do_ping(connection)
        except connection.Error as error:
            raise InvalidatePoolError from error


def has_unread_input(connection: Any) -> bool:
    """Whether the connection is closed, or the server sent something unrequested, such as the end of the stream."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
