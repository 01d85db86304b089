# SPDX-License-Identifier: Apache-2.0
"""Numbered changes reach every reader, in whatever order transactions commit: docs/adr/0007."""

import contextlib

import pytest
from sqlalchemy import func, select, text

from roost.store import change_log as changes
from roost.store.change_log import (
    GAP_TIMEOUT_SECONDS,
    NODES,
    USAGE,
    Change,
    ChangeReader,
    prune,
    prune_all,
    record_changes,
    split_usage_key,
    usage_key,
)
from roost.store.engine import BEGINS_WRITING
from roost.store.schema_upgrade import upgrade


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def fresh(empty):
    upgrade(empty)
    return empty


# One transaction writes while another has written and not committed: SQLite lets one write at a time.
overlapping = pytest.mark.parametrize("kind", ["postgresql", "mariadb"], indirect=True, scope="module")


class Follower:
    """A reader and the database it reads."""

    def __init__(self, engine, clock):
        self.engine, self.reader = engine, ChangeReader(clock)
        self.start()

    def start(self):
        with self.engine.connect() as connection:
            self.reader.start(connection)

    def keys(self):
        with self.engine.connect() as connection:
            found = self.reader.read(connection)
        return None if found is None else [each.key for each in found]


@contextlib.contextmanager
def open_transaction(engine):
    with engine.connect() as connection:
        connection = connection.execution_options(**BEGINS_WRITING)
        connection.begin()
        yield connection
        connection.rollback()


def note(engine, *keys):
    with open_transaction(engine) as connection:
        record_changes(connection, [Change(NODES, key) for key in keys])
        connection.commit()


def test_what_is_noted_is_read_once(current, clock):
    follower = Follower(current, clock)
    note(current, "1", "2")
    assert follower.keys() == ["1", "2"]
    assert follower.keys() == []


def test_what_was_noted_before_the_start_is_not_read(current, clock):
    note(current, "old")
    assert Follower(current, clock).keys() == []


def test_the_same_change_twice_is_one(current, clock):
    follower = Follower(current, clock)
    note(current, "1")
    note(current, "1", "2")
    assert follower.keys() == ["1", "2"]


def test_nothing_to_note_writes_nothing(current, clock):
    follower = Follower(current, clock)
    note(current)
    assert follower.keys() == []
    assert follower.reader.missing == {}


def test_a_key_of_usage_names_node_and_consumer():
    assert split_usage_key(usage_key(17, "a/b")) == (17, "a/b")
    assert Change(USAGE, usage_key(1, "u")).key == "1/u"


# --- the classic trap --------------------------------------------------------------------------------


@overlapping
def test_a_number_that_becomes_visible_after_a_higher_one_is_read(current, clock):
    follower = Follower(current, clock)
    with open_transaction(current) as slow:
        record_changes(slow, [Change(NODES, "slow")])
        note(current, "quick")
        assert follower.keys() == ["quick"]
        assert len(follower.reader.missing) == 1
        slow.commit()
    assert follower.keys() == ["slow"]
    assert follower.reader.missing == {}
    assert follower.keys() == []


@overlapping
def test_a_number_that_was_not_visible_at_the_start_is_read(current, clock):
    with open_transaction(current) as slow:
        record_changes(slow, [Change(NODES, "slow")])
        note(current, "quick")
        follower = Follower(current, clock)
        assert follower.keys() == []
        slow.commit()
    assert follower.keys() == ["slow"]


@overlapping
def test_the_first_numbers_of_all_may_come_late_too(fresh, clock):
    with open_transaction(fresh) as slow:
        record_changes(slow, [Change(NODES, "first")])
        follower = Follower(fresh, clock)
        assert follower.keys() == []
        note(fresh, "second")
        assert follower.keys() == ["second"]
        slow.commit()
    assert follower.keys() == ["first"]


@overlapping
def test_a_number_that_is_missing_for_longer_than_any_transaction_lasts_is_given_up(current, clock):
    follower = Follower(current, clock)
    with open_transaction(current) as undone:
        record_changes(undone, [Change(NODES, "undone")])
        note(current, "1")
    assert follower.keys() == ["1"]
    clock.now += GAP_TIMEOUT_SECONDS
    assert follower.keys() == []
    assert len(follower.reader.missing) == 1
    clock.now += 1
    assert follower.keys() == []
    assert follower.reader.missing == {}


@overlapping
def test_many_that_are_missing_are_read_each_once(current, clock):
    follower = Follower(current, clock)
    late = [f"late{number}" for number in range(changes._MOST_MISSING_KEYS + 100)]
    with open_transaction(current) as slow:
        record_changes(slow, [Change(NODES, key) for key in late])
        note(current, "1", "2")
        assert follower.keys() == ["1", "2"]
        assert len(follower.reader.missing) >= len(late) > changes._MOST_MISSING_KEYS
        note(current, "3")
        assert follower.keys() == ["3"]
        slow.commit()
    assert follower.keys() == late
    assert follower.keys() == []


def test_a_transaction_that_is_rolled_back_is_never_heard_of(current, clock):
    follower = Follower(current, clock)
    with open_transaction(current) as undone:
        record_changes(undone, [Change(NODES, "undone")])
    note(current, "1")
    assert follower.keys() == ["1"]
    clock.now += GAP_TIMEOUT_SECONDS + 1
    note(current, "2")
    assert follower.keys() == ["2"]
    assert follower.reader.missing == {}


# --- what was pruned ---------------------------------------------------------------------------------


def prune_to(engine, keep):
    with open_transaction(engine) as connection:
        gone = prune(connection, keep)
        connection.commit()
    return gone


def test_a_reader_that_is_behind_what_was_pruned_has_to_read_everything(fresh, clock):
    note(fresh, "0")
    follower = Follower(fresh, clock)
    note(fresh, "1", "2", "3")
    assert prune_to(fresh, keep=1) == 3
    assert follower.keys() is None
    follower.start()
    note(fresh, "4")
    assert follower.keys() == ["4"]


def test_a_reader_that_is_up_to_date_does_not_care(fresh, clock):
    follower = Follower(fresh, clock)
    note(fresh, "1", "2")
    assert follower.keys() == ["1", "2"]
    prune_to(fresh, keep=1)
    assert follower.keys() == []
    note(fresh, "3")
    assert follower.keys() == ["3"]


def test_the_last_number_stays_and_none_is_given_twice(fresh, clock):
    note(fresh, "1", "2")
    prune_to(fresh, keep=0)
    with fresh.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(changes.changes)) == 1
    follower = Follower(fresh, clock)
    note(fresh, "3")
    assert follower.keys() == ["3"]


def test_all_that_is_gone_has_to_be_read_anew_even_where_nothing_is_left(fresh, clock):
    note(fresh, "1", "2")
    follower = Follower(fresh, clock)
    with open_transaction(fresh) as connection:
        connection.execute(text("DELETE FROM changes"))
        connection.commit()
    assert follower.keys() is None


def test_a_reader_of_a_pruned_table_misses_only_the_latest_numbers(fresh, clock, monkeypatch):
    note(fresh, *map(str, range(10)))
    monkeypatch.setattr(changes, "_START_WINDOW", 3)
    follower = Follower(fresh, clock)
    assert follower.reader.missing == {}
    note(fresh, "new")
    assert follower.keys() == ["new"]


def test_old_ones_are_pruned_in_portions(fresh, clock, monkeypatch):
    monkeypatch.setattr(changes, "_MOST_PRUNED", 3)
    note(fresh, *map(str, range(1, 11)))
    follower = Follower(fresh, clock)
    assert [prune_to(fresh, keep=2) for _ in range(4)] == [3, 3, 2, 0]
    note(fresh, *map(str, range(11, 21)))
    prune_all(fresh, keep=2)
    with fresh.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(changes.changes)) == 2
    assert follower.keys() is None


def test_an_empty_log_has_nothing_to_prune(fresh):
    prune_all(fresh)
    assert prune_to(fresh, keep=1) == 0


def put_back(engine, until):
    """The database is again as it was then: a copy was put in its place, and numbers come a second time."""
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM changes WHERE number > :until"), {"until": until})


def add(engine, number, key):
    with engine.begin() as connection:
        connection.execute(changes.changes.insert().values(number=number, subject=NODES, subject_key=key, token=1))


@pytest.mark.parametrize("later", [0, 1, 3, 6])
def test_a_database_that_was_put_back_has_to_be_read_anew(fresh, clock, later):
    for number in range(1, 4):
        add(fresh, number, f"n{number}")
    follower = Follower(fresh, clock)
    for number in range(4, 8):
        add(fresh, number, f"n{number}")
    assert follower.keys() == ["n4", "n5", "n6", "n7"]
    put_back(fresh, until=3)
    for number in range(4, 4 + later):
        add(fresh, number, f"m{number}")
    assert follower.keys() is None
    follower.start()
    add(fresh, 20, "m20")
    assert follower.keys() == ["m20"]
