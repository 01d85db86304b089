# SPDX-License-Identifier: Apache-2.0
"""What a scheduler writes into the records of servers, on every database."""

import datetime
import itertools
import logging

import pytest
from sqlalchemy import select
from tests.store.writers import NOW, uuid_like, writing

from roost.claims import Ledger
from roost.inventory import find_known_servers, save_server_scheduled, save_server_state
from roost.model.consumers import move_of
from roost.store.schema import changes, servers

LATER = NOW + datetime.timedelta(seconds=5)
numbers = itertools.count(1)


@pytest.fixture
def add_server(current):
    def add(**columns):
        uuid = uuid_like(next(numbers))
        with writing(current) as writer:
            writer.server(uuid, **columns)
        return uuid

    return add


@pytest.fixture
def row_of(current):
    def read(uuid):
        with current.connect() as connection:
            return connection.execute(select(servers).where(servers.c.uuid == uuid)).one()

    return read


@pytest.fixture
def changes_of(current):
    def read(uuid):
        with current.connect() as connection:
            return list(connection.scalars(select(changes.c.subject).where(changes.c.subject_key == uuid)))

    return read


def test_a_state_is_saved_and_nothing_else(current, add_server, row_of, changes_of):
    uuid, other = (add_server(host="a", vm_state="building", task_state="scheduling") for _ in range(2))
    assert save_server_state(current, uuid, "error", None, LATER)
    row = row_of(uuid)
    assert (row.vm_state, row.task_state, row.updated_at) == ("error", None, LATER)
    assert (row.host, row.node) == ("a", "a")
    assert row_of(other).vm_state == "building"
    assert changes_of(uuid) == ["servers"]  # of its birth


def test_saving_the_same_state_again_is_saved_too(current, add_server):
    uuid = add_server(vm_state="error")
    assert save_server_state(current, uuid, "error", None, LATER)
    assert save_server_state(current, uuid, "error", None, LATER)


def test_a_server_without_a_record_is_passed_over_and_logged(current, caplog):
    assert not save_server_state(current, uuid_like(900001), "error", None, LATER)
    assert uuid_like(900001) in caplog.text
    assert find_known_servers(current, [uuid_like(900001)]) == set()


def test_a_state_may_depend_on_what_the_server_is_at(current, add_server, row_of, caplog):
    at_it, elsewhere = add_server(task_state="migrating"), add_server(task_state="deleting")
    assert save_server_state(current, at_it, "active", None, LATER, only_from_task="migrating")
    assert not save_server_state(current, elsewhere, "active", None, LATER, only_from_task="migrating")
    assert row_of(at_it).vm_state == "active"
    assert (row_of(elsewhere).vm_state, row_of(elsewhere).task_state) == (None, "deleting")
    assert "is not migrating" in caplog.text


def test_a_scheduled_server_is_nowhere_and_schedulers_hear_of_it(current, add_server, row_of, changes_of):
    uuid = add_server(host="a", vm_state="building")
    assert save_server_scheduled(current, uuid, LATER)
    row = row_of(uuid)
    assert (row.host, row.node, row.vm_state, row.updated_at) == (None, None, "building", LATER)
    assert changes_of(uuid) == ["servers", "servers"]


def test_who_was_nowhere_before_is_no_news(current, add_server, changes_of):
    uuid = add_server()
    assert save_server_scheduled(current, uuid, LATER)
    assert changes_of(uuid) == ["servers"]


def test_nobody_is_scheduled_without_a_record(current, caplog):
    caplog.set_level(logging.INFO)
    assert not save_server_scheduled(current, uuid_like(900002), LATER)
    assert uuid_like(900002) in caplog.text


def test_known_servers_are_found_among_many(current, add_server):
    known = {add_server() for _ in range(3)}
    assert find_known_servers(current, [*known, *(uuid_like(900000 + number) for number in range(2000))]) == known
    assert find_known_servers(current, []) == set()


def test_a_server_that_left_its_host_is_on_none(current, add_server, row_of, changes_of):
    """Whether the ledger has booked something for it or not; one that is on another host by now stays there."""
    left, elsewhere = add_server(host="a", task_state="deleting"), add_server(host="b")
    for _ in range(2):
        for uuid in (left, elsewhere):
            assert Ledger(current, now=lambda: LATER).release_on([uuid, move_of(uuid)], ["some node"], None, "a") == 0
    row = row_of(left)
    assert (row.host, row.node, row.task_state, row.updated_at) == (None, None, "deleting", LATER)
    assert row_of(elsewhere).host == "b"
    assert [changes_of(uuid) for uuid in (left, elsewhere)] == [["servers"] * 2, ["servers"]]
