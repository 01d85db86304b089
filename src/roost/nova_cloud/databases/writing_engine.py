# SPDX-License-Identifier: Apache-2.0
"""Engines on nova's databases that can write: for the two writes that an option switches on, and for nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, create_engine
from sqlalchemy.engine import URL, Engine
from sqlalchemy.pool import NullPool

from roost.nova_cloud.databases.read_only_engine import (
    POSTGRESQL,
    connect_args,
    make_settings,
    statement_timeout,
)
from roost.store.transactions import database_errors


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
