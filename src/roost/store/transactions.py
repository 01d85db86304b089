# SPDX-License-Identifier: Apache-2.0
"""The one way to write: everything or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import IntegrityError

from roost.errors import DatabaseConflict
from roost.store.database_url import show_address
from roost.store.engine import BEGINS_WRITING
from roost.store.error_mapping import HINTS, database_errors


@contextmanager
def writing(engine: Engine, is_dry_run: bool = False) -> Iterator[Connection]:
    """A transaction that writes everything or nothing; a dry run, nothing. What goes wrong is one of our errors.

    Who writes looks up beforehand what a rule would refuse. So a rule that is broken means that somebody else wrote
    the same in between: a conflict like others.
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
        message = f"database {show_address(engine.url)}: somebody wrote the same meanwhile"
        raise DatabaseConflict(message, HINTS[DatabaseConflict]) from error
