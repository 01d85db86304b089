# SPDX-License-Identifier: Apache-2.0
"""Engines on nova's databases: read-only ones, and those for the two writes that an option switches on.

Every session of a read-only engine is read-only, so a statement that writes fails. Each statement is a transaction of
its own (autocommit): a reader never holds back the purge of old row versions, and what changes between two statements
is found by the next read. Only settings that MySQL has too are made: nova's databases are often on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.engine import URL, Engine
from sqlalchemy.pool import NullPool

from roost.errors import DatabaseAddressError
from roost.store.engine import KEEPALIVE, parse_database_url, ping_idle_connections
from roost.store.transactions import database_errors

CONNECT_TIMEOUT_SECONDS = 5
READ_TIMEOUT_SECONDS = 30
"""How long a statement may take."""
POOL_SIZE = 2
RECYCLE_SECONDS = 3600
POSTGRESQL = "postgresql"
_IGNORED_PARAMETERS = ("plugin", "charset")
"""Parameters of nova's addresses that concern SQLAlchemy in nova's processes, or that are set here."""
_FORM = "write it as postgresql://USER:PASSWORD@HOST/NAME or mysql+pymysql://USER:PASSWORD@HOST/NAME"


def parse_nova_url(text: str | None, option: str) -> URL:
    """The address of a database of nova's, with the driver that Roost ships; DatabaseAddressError if it is wrong."""
    if not text:
        raise DatabaseAddressError(f"{option} is not set", _FORM)
    url = parse_database_url(_without_ignored(text), option)
    if url.get_backend_name() == "sqlite":
        raise DatabaseAddressError(f"{option} names a file", _FORM)
    return url


def _without_ignored(text: str) -> str:
    """The address without parameters that are of no use here; unknown ones would be refused."""
    address, mark, query = text.partition("?")
    kept = [each for each in query.split("&") if each and each.partition("=")[0] not in _IGNORED_PARAMETERS]
    return f"{address}{mark if kept else ''}{'&'.join(kept)}"


def open_read_only(
    url: URL, recycle_seconds: int = RECYCLE_SECONDS, read_seconds: int = READ_TIMEOUT_SECONDS
) -> Engine:
    """An engine whose sessions cannot write, not connected yet.

    `recycle_seconds`: age of a connection; -1: any. `read_seconds`: how long a statement may take.
    """
    kind = url.get_backend_name()
    engine = create_engine(
        url,
        connect_args={
            name: value for name, value in connect_args(kind, read_seconds).items() if name not in url.query
        },
        isolation_level="AUTOCOMMIT",
        skip_autocommit_rollback=True,
        pool_size=POOL_SIZE,
        max_overflow=0,
        pool_timeout=read_seconds,
        pool_recycle=recycle_seconds,
        pool_pre_ping=kind != POSTGRESQL,
        hide_parameters=True,
    )
    make_settings(engine, _session_settings(kind, read_seconds))
    if kind == POSTGRESQL:
        ping_idle_connections(engine)
    return engine


def make_settings(engine: Engine, settings: Sequence[str]) -> None:
    """Execute these statements on each new connection of the engine."""

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        with connection.cursor() as cursor:
            for setting in settings:
                cursor.execute(setting)
        connection.commit()


def connect_args(kind: str, read_seconds: int = READ_TIMEOUT_SECONDS) -> dict[str, Any]:
    """Arguments of the driver: timeouts, and how the session is called."""
    if kind == POSTGRESQL:
        return {"connect_timeout": CONNECT_TIMEOUT_SECONDS, "application_name": "roost", **KEEPALIVE}
    timeouts = dict.fromkeys(("read_timeout", "write_timeout"), read_seconds)
    return {"connect_timeout": CONNECT_TIMEOUT_SECONDS, "charset": "utf8mb4", **timeouts}


def statement_timeout(seconds: int = READ_TIMEOUT_SECONDS) -> str:
    """The statement that bounds how long others may take, on PostgreSQL."""
    return f"SET statement_timeout = '{seconds}s'"


def _session_settings(kind: str, read_seconds: int) -> tuple[str, ...]:
    if kind == POSTGRESQL:
        return "SET default_transaction_read_only = on", "SET timezone = 'UTC'", statement_timeout(read_seconds)
    return ("SET SESSION TRANSACTION READ ONLY",)


@contextmanager
def reading(engine: Engine, option: str) -> Iterator[Connection]:
    """A connection; errors of the driver become a DatabaseError whose hint names `option`."""
    with database_errors(engine, option), engine.connect() as connection:
        yield connection


def open_for_writing(url: URL) -> Engine:
    """An engine that connects for each write and keeps no connection; each statement is a transaction of its own."""
    kind = url.get_backend_name()
    arguments = {name: value for name, value in connect_args(kind).items() if name not in url.query}
    engine = create_engine(
        url, connect_args=arguments, isolation_level="AUTOCOMMIT", poolclass=NullPool, hide_parameters=True
    )
    if kind == POSTGRESQL:
        make_settings(engine, (statement_timeout(),))
    return engine


@contextmanager
def writing(engine: Engine, option: str) -> Iterator[Connection]:
    """A connection; errors of the driver become a DatabaseError whose hint names `option`, except IntegrityError."""
    with database_errors(engine, option), engine.connect() as connection:
        yield connection
