# SPDX-License-Identifier: Apache-2.0
"""D22: a transaction whose commit hangs for longer than a gap is waited for is read when it appears."""

import pytest
from sqlalchemy import text
from tests.store.test_change_log import Clock, Follower, note, open_transaction

from roost.store import change_log
from roost.store.change_log import (
    GAP_TIMEOUT_SECONDS,
    NODES,
    OVERDUE_CHECK_SECONDS,
    OVERDUE_SECONDS,
    Change,
    record_changes,
)
from roost.store.schema_upgrade import upgrade

SERVERS = pytest.mark.parametrize("kind", ["postgresql", "mariadb"])


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def engine(opened, databases, kind):
    made = opened(databases.create(kind))
    upgrade(made)
    return made


@pytest.fixture
def hung(engine, clock):
    """A transaction that has written its change and does not end, and a reader that has given its number up."""
    follower = Follower(engine, clock)
    with open_transaction(engine) as slow:
        record_changes(slow, [Change(NODES, "slow")])
        note(engine, "quick")
        assert follower.keys() == ["quick"]
        clock.now += GAP_TIMEOUT_SECONDS + 1
        assert follower.keys() == []
        assert follower.reader.missing == {}
        yield slow, follower


@SERVERS
def test_d22_a_commit_after_the_timeout_is_read(hung, clock):
    slow, follower = hung
    clock.now += 3600
    assert follower.keys() == []
    slow.commit()
    clock.now += OVERDUE_CHECK_SECONDS
    assert follower.keys() == ["slow"]
    clock.now += OVERDUE_CHECK_SECONDS
    assert follower.keys() == []


@SERVERS
def test_d22_a_commit_during_an_outage_of_the_reader_is_read(hung, clock):
    slow, follower = hung
    slow.commit()
    clock.now += 10 * OVERDUE_SECONDS
    assert follower.keys() == ["slow"]


@SERVERS
def test_d22_a_number_that_was_rolled_back_is_forgotten_after_hours(hung, clock):
    slow, follower = hung
    slow.rollback()
    for _ in range(3):
        clock.now += OVERDUE_SECONDS / 2
        assert follower.keys() == []
    assert follower.reader.overdue == {}


@pytest.fixture
def sqlite_engine(opened, databases):
    made = opened(databases.create("sqlite"))
    upgrade(made)
    return made


def add(engine, number):
    with engine.begin() as connection:
        row = {"number": number, "subject": NODES, "subject_key": f"n{number}", "token": number}
        connection.execute(change_log.changes.insert().values(row))


def test_d22_overdue_numbers_are_bounded_and_all_get_their_turn(sqlite_engine, clock, monkeypatch):
    monkeypatch.setattr(change_log, "_MOST_MISSING_KEYS", 10)
    monkeypatch.setattr(change_log, "_MOST_OVERDUE", 30)
    follower = Follower(sqlite_engine, clock)
    add(sqlite_engine, 51)
    assert follower.keys() == ["n51"]
    clock.now += GAP_TIMEOUT_SECONDS + 1
    assert follower.keys() == []
    assert list(follower.reader.overdue) == list(range(21, 51))
    for number in (15, 25, 35, 45):
        add(sqlite_engine, number)
    found = []
    for _ in range(4):
        clock.now += OVERDUE_CHECK_SECONDS
        found += follower.keys()
    assert found == ["n25", "n35", "n45"]


def test_d22_a_usual_read_asks_for_no_overdue_number(sqlite_engine, clock):
    follower = Follower(sqlite_engine, clock)
    add(sqlite_engine, 3)
    follower.keys()
    clock.now += GAP_TIMEOUT_SECONDS + 1
    follower.keys()
    clock.now += OVERDUE_CHECK_SECONDS
    follower.keys()
    assert list(follower.reader.overdue) == [1, 2]
    add(sqlite_engine, 1)
    clock.now += OVERDUE_CHECK_SECONDS / 2
    assert follower.keys() == []
    clock.now += OVERDUE_CHECK_SECONDS / 2
    assert follower.keys() == ["n1"]
    assert list(follower.reader.overdue) == [2]
    with sqlite_engine.begin() as connection:
        connection.execute(text("DELETE FROM changes"))
    assert follower.keys() is None
