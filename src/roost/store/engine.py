# SPDX-License-Identifier: Apache-2.0
"""Opens the database: one engine per process, set up so that all three kinds behave alike.

SQLite waits for the writer before it (busy timeout) and lets readers read meanwhile (WAL). A transaction reads what
was committed before each statement; on SQLite, before its first. `BEGINS_WRITING` is for those that will write.
"""

from __future__ import annotations

import select
import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import InvalidatePoolError

from roost.errors import DatabaseUnreachable
from roost.store.database_url import show_address, take_address
from roost.store.options import DatabaseOptions

BUSY_TIMEOUT_MS = 10_000
"""How long SQLite waits for another writer."""
_BUSY = ("SQLITE_BUSY", "SQLITE_BUSY_RECOVERY", "SQLITE_LOCKED")
_PAUSE_SECONDS = 0.01
CONNECT_TIMEOUT_SECONDS = 10
IDLE_TRANSACTION_SECONDS = 30
"""A transaction whose process says nothing for so long is rolled back by the server, and its locks are free."""
LOCK_SECONDS = 10
"""How long a statement waits for another transaction."""
TRUSTED_SECONDS = 1.0
"""A connection that was used so recently is taken to work, unless there are signs that it does not."""
RANDOM_PAGE_COST = 1.1
"""What PostgreSQL takes a page out of order to cost, beside 1 in order. By its own 4, for disks that turn, it reads a
whole table rather than look up a hundred rows of 10,000: tables of a fleet are in memory."""
STATEMENT_SECONDS = 30
"""How long a server works on one statement."""
MARIADB_LIMITS = {"lock_wait_timeout": LOCK_SECONDS, "max_statement_time": STATEMENT_SECONDS}
"""For locks on whole tables, which MariaDB would wait for a day for, and for everything together."""

_NOTICING_SILENCE = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""For libpq: a network that swallows everything is noticed within half a minute, not a quarter of an hour."""

BEGINS_WRITING = {"roost_begins_writing": True}
"""Execution options of a connection that will write: SQLite takes its lock at once instead of failing half way."""


def open_engine(options: DatabaseOptions, may_create: bool = False) -> Engine:
    """The engine for [database] connection; nothing is sent yet. `may_create`: an SQLite file may be new."""
    url = take_address(options.connection)
    kind = url.get_backend_name()
    if kind == "sqlite":
        _check_file(Path(str(url.database)), show_address(url), may_create)
    engine = create_engine(
        url,
        connect_args=_connect_args(kind, dict(url.query)),
        pool_size=options.max_pool_size,
        max_overflow=options.max_overflow,
        pool_timeout=options.pool_timeout,
        pool_recycle=options.connection_recycle_time,
        pool_pre_ping=kind not in ("sqlite", "postgresql"),  # a file does not go away; a server does, and comes back
        hide_parameters=True,
        **({} if kind == "sqlite" else {"isolation_level": "READ COMMITTED"}),
    )
    if kind == "sqlite":
        _prepare_sqlite(engine, options.sqlite_synchronous)
    else:
        _prepare_server(engine, kind)
    if kind == "postgresql":
        _ping_when_in_doubt(engine)
    return engine


def _check_file(path: Path, address: str, may_create: bool) -> None:
    """SQLite would make an empty database of any file name, a misspelt one included."""
    if not path.parent.is_dir():
        raise DatabaseUnreachable(f"database {address}: there is no folder {path.parent}", "make it first")
    if not may_create and not path.exists():
        raise DatabaseUnreachable(f"database {address}: there is no such file", "roost db upgrade makes it")


def _connect_args(kind: str, asked: dict[str, Any]) -> dict[str, Any]:
    """What the driver is told, where the address does not say it."""
    if kind == "sqlite":
        wanted: dict[str, Any] = {"timeout": BUSY_TIMEOUT_MS / 1000}
    elif kind == "postgresql":
        wanted = {"connect_timeout": CONNECT_TIMEOUT_SECONDS, "application_name": "roost", **_NOTICING_SILENCE}
    else:
        wanted = {"connect_timeout": CONNECT_TIMEOUT_SECONDS, "charset": "utf8mb4"}
        asked = {name: value for name, value in asked.items() if name != "charset"}  # nova's may be utf8: 3 bytes
    return {name: value for name, value in wanted.items() if name not in asked}


def _prepare_sqlite(engine: Engine, waits_for_disk: bool) -> None:
    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # the driver would begin too late; we say when
        _write_ahead(connection)
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


def _write_ahead(connection: Any) -> None:
    """Readers beside a writer. While two turn a new file into one of that kind, SQLite refuses without waiting."""
    last_try = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").close()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname not in _BUSY or time.monotonic() > last_try:
                raise
        time.sleep(_PAUSE_SECONDS)


def _prepare_server(engine: Engine, kind: str) -> None:
    """Session settings; TRADITIONAL makes MariaDB refuse what it would otherwise cut to size."""
    if kind == "postgresql":
        settings = [f"SET idle_in_transaction_session_timeout = '{IDLE_TRANSACTION_SECONDS}s'"]
        settings += [f"SET lock_timeout = '{LOCK_SECONDS}s'", f"SET statement_timeout = '{STATEMENT_SECONDS}s'"]
        settings.append(f"SET random_page_cost = {RANDOM_PAGE_COST}")
    else:
        settings = ["SET SESSION sql_mode = 'TRADITIONAL'"]
        settings.append(f"SET SESSION idle_transaction_timeout = {IDLE_TRANSACTION_SECONDS}")
        settings.append(f"SET SESSION innodb_lock_wait_timeout = {LOCK_SECONDS}")
        settings += [f"SET SESSION {name} = {seconds}" for name, seconds in MARIADB_LIMITS.items()]

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        with connection.cursor() as cursor:
            for setting in settings:
                cursor.execute(setting)
        connection.commit()


def _ping_when_in_doubt(engine: Engine) -> None:
    """A round trip before each transaction is a tenth of a claim, so a connection in steady use is only looked at.

    One whose server has gone, or ended it, has something to read: the end. That is seen without asking anybody. Only
    where a network lost the news would it take an error to find out, so idle connections are asked as ever.
    """

    @event.listens_for(engine, "checkin")
    def returned(_: Any, record: Any) -> None:
        record.info["roost_used_at"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def taken(connection: Any, record: Any, _: Any) -> None:
        used_at = record.info.get("roost_used_at")
        if used_at is None or (time.monotonic() - used_at < TRUSTED_SECONDS and not has_news(connection)):
            return
        try:
            engine.dialect.do_ping(connection)
        except connection.Error as error:
            raise InvalidatePoolError from error


def has_news(connection: Any) -> bool:
    """Whether the server said something that nobody asked for."""
    if connection.closed:
        return True
    watch = select.poll()
    watch.register(connection.fileno(), select.POLLIN)
    return bool(watch.poll(0))
