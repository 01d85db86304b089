# SPDX-License-Identifier: Apache-2.0
"""Claims are stamped by the clock of the database: they are compared with it, and a machine's clock may be wrong."""

import datetime

import pytest
from sqlalchemy import insert
from tests.store.test_ledger import add_node, claim, new_uuid, rows_of

from roost.ledger.ledger import Ledger
from roost.model.resources import move_of
from roost.store.schema.fleet import compute_nodes, consumers
from roost.store.schema.servers import servers
from roost.store.store_clock import StoreClock

WRONG = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)


class WrongClock:
    """The clock of a machine that is years behind."""

    def now(self):
        return WRONG


@pytest.fixture
def book(current):
    return Ledger(current, times=StoreClock(current, WrongClock()))


def times_of(engine, uuid):
    """When the claim of a consumer was made, and when it was changed."""
    (row,) = rows_of(engine, consumers, uuid=uuid)
    return [
        None if time is None else time.replace(tzinfo=datetime.UTC) for time in (row["created_at"], row["updated_at"])
    ]


def is_right(engine, time):
    """Whether it is the time of the database: SQLite has none."""
    if engine.dialect.name == "sqlite":
        return time == WRONG
    with engine.connect() as connection:
        age = StoreClock(engine, WrongClock()).read(connection) - time
    return datetime.timedelta() <= age < datetime.timedelta(minutes=5)


@pytest.mark.parametrize("instances", [1, 3])
def test_claims_have_the_time_of_the_database(current, book, instances):
    node = add_node(current)
    ones = [claim(node, 1) for _ in range(instances)]
    book.claim(ones)
    for one in ones:
        created, changed = times_of(current, one.consumer_uuid)
        assert is_right(current, created)
        assert changed is None


def test_moves_have_the_time_of_the_database(current, book):
    nodes = [add_node(current), add_node(current)]
    one = claim(nodes[0])
    book.claim([one])
    book.start_move(move_of(one.consumer_uuid), claim(nodes[1], consumer=one.consumer_uuid))
    claimed = times_of(current, move_of(one.consumer_uuid))
    assert is_right(current, claimed[0])
    assert claimed[1] == times_of(current, one.consumer_uuid)[0]
    assert is_right(current, times_of(current, one.consumer_uuid)[1])


def test_a_server_that_left_its_host_was_changed_at_the_time_of_the_database(current, book):
    node, uuid = add_node(current), new_uuid()
    (row,) = rows_of(current, compute_nodes, uuid=node)
    book.claim([claim(node, consumer=uuid)])
    with current.begin() as connection:
        connection.execute(insert(servers), {"uuid": uuid, "name": uuid, "host": row["host"], "node": "n"})
    book.release_on([uuid], [node], left_host=row["host"])
    (server,) = rows_of(current, servers, uuid=uuid)
    assert server["host"] is None
    assert is_right(current, server["updated_at"].replace(tzinfo=datetime.UTC))


@pytest.mark.parametrize("kind", ["mariadb"], indirect=True)
def test_many_claims_are_still_one_insertion_on_mariadb(current, book):
    """Its driver rewrites an INSERT of many rows as one statement only in some forms."""
    import pymysql.cursors

    ones, inserted = [claim(add_node(current), 1) for _ in range(3)], []
    real = pymysql.cursors.Cursor._query

    def query(cursor, sql):
        inserted.extend([sql] if "INTO consumers" in str(sql) else [])
        return real(cursor, sql)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pymysql.cursors.Cursor, "_query", query)
        book.claim(ones)
    assert len(inserted) == 1
