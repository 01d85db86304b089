# SPDX-License-Identifier: Apache-2.0
"""A change that another transaction was faster with is made again, from its reads on."""

import pytest
from sqlalchemy import insert, select

from roost.errors import Conflict, DatabaseConflict
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema.history import changes
from roost.store.transactions import MOST_ATTEMPTS, write


@pytest.fixture
def engine(tmp_path):
    opened = open_engine(DatabaseOptions(connection=f"sqlite:///{tmp_path}/roost.db"), may_create=True)
    changes.create(opened)
    yield opened
    opened.dispose()


class Change:
    """Inserts a row, and then fails for its first so many attempts."""

    def __init__(self, failures, error=DatabaseConflict):
        self.failures, self.error, self.attempts = failures, error, 0

    def __call__(self, connection):
        self.attempts += 1
        connection.execute(insert(changes).values(subject="servers", subject_key=str(self.attempts), token=0))
        if self.attempts <= self.failures:
            raise self.error("another was faster")
        return self.attempts


def keys(engine):
    with engine.connect() as connection:
        return connection.scalars(select(changes.c.subject_key)).all()


def test_only_the_attempt_that_succeeds_is_written(engine):
    assert write(engine, Change(2)) == 3
    assert keys(engine) == ["3"]


def test_after_some_attempts_the_conflict_is_told(engine):
    change = Change(MOST_ATTEMPTS)
    with pytest.raises(DatabaseConflict):
        write(engine, change)
    assert (change.attempts, keys(engine)) == (MOST_ATTEMPTS, [])


def test_another_error_is_no_reason_for_an_attempt(engine):
    change = Change(1, Conflict)
    with pytest.raises(Conflict):
        write(engine, change)
    assert (change.attempts, keys(engine)) == (1, [])
