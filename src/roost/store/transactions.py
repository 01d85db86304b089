# SPDX-License-Identifier: Apache-2.0
"""The transaction that all writers use, all or nothing, and one that reads a consistent state; errors are mapped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import IntegrityError

from roost.errors import DatabaseConflict
from roost.store.database_url import redacted_url
from roost.store.engine import BEGINS_WRITING
from roost.store.error_mapping import HINTS, database_errors

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
