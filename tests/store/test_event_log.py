# SPDX-License-Identifier: Apache-2.0
"""Events from the tables of decisions and changes, in whatever order their transactions commit."""

import datetime
import random

import pytest
from sqlalchemy import delete, insert

from roost.api.roost.events import DECISION, HOST, EventLog, EventPosition
from roost.errors import BadInput
from roost.records.decisions import DecisionStore
from roost.store.change_log import NODES, SERVERS, SERVICES, USAGE
from roost.store.schema.fleet import compute_nodes
from roost.store.schema.history import changes, decisions

NOW = datetime.datetime(2026, 11, 18, tzinfo=datetime.UTC)
NODE = "2f0d4c2a-5b1e-4b7e-8a51-0c4a5d1e7b11"


@pytest.fixture
def log(current):
    with current.begin() as connection:
        for table in (decisions, changes, compute_nodes):
            connection.execute(delete(table))
        node = {"id": 7, "uuid": NODE, "host": "h", "hypervisor_hostname": "n"}
        connection.execute(insert(compute_nodes).values(**node, created_at=NOW, updated_at=NOW))
    return EventLog(current, DecisionStore(current, NOW))


def decide(engine, *numbers):
    with engine.begin() as connection:
        for each in numbers:
            row = {"id": each, "hosts": 3, "wanted": 1, "is_placed": True, "summary": f"number {each}", "record": {}}
            connection.execute(insert(decisions).values(**row, project_id="blue", created_at=NOW))


def change(engine, number, subject, key):
    with engine.begin() as connection:
        row = {"number": number, "subject": subject, "subject_key": key, "token": random.getrandbits(60)}
        connection.execute(insert(changes).values(**row))


def numbers_of(events):
    return [each.number for each in events]


def read_on(log, position):
    found = log.read(position)
    for each in found:
        position = position.after(each)
    return numbers_of(found), position


def test_a_reader_that_begins_now_gets_what_comes_later(log, current):
    decide(current, 1, 2)
    position = log.present()
    assert log.read(position) == []
    decide(current, 3)
    assert numbers_of(log.read(position)) == [3]


def test_a_decision_that_commits_late_comes_once(log, current):
    decide(current, 1)
    position = log.present()
    decide(current, 4)
    first, position = read_on(log, position)
    decide(current, 2, 3, 5)
    second, position = read_on(log, EventPosition.parse(str(position)))
    assert (first, second, log.read(position)) == ([4], [2, 3, 5], [])


def test_a_reader_that_begins_amid_open_transactions_gets_them(log, current):
    decide(current, 1, 4)
    position = log.present()
    decide(current, 3)
    assert numbers_of(log.read(position)) == [3]


def test_what_lies_between_two_positions_is_read_without_what_neither_has(log, current):
    decide(current, 1)
    left = log.present()
    decide(current, 3)
    joined = log.present()
    decide(current, 2, 4)
    assert numbers_of(log.read(left, joined)) == [3]
    assert numbers_of(log.read(joined)) == [2, 4]


def test_changes_name_the_host_and_what_changed(log, current):
    position = log.present()
    for at, (subject, key) in enumerate([(NODES, "7"), (USAGE, f"7/{NODE}"), (SERVICES, "h"), (SERVERS, NODE)], 1):
        change(current, at, subject, key)
    assert [each.data for each in log.read(position)] == [
        {"host": "h", "node": "n", "changed": "report"},
        {"host": "h", "node": "n", "changed": "use"},
        {"host": "h", "node": None, "changed": "service"},
        None,
    ]


def test_decisions_come_with_their_project_and_what_lists_have(log, current):
    position = log.present()
    decide(current, 1)
    (event,) = log.read(position)
    assert (event.kind, event.project_id, event.data["summary"]) == (DECISION, "blue", "number 1")


def test_removed_events_and_a_restored_database_are_noticed(log, current):
    decide(current, 4, 5)
    change(current, 9, NODES, "7")
    kept = log.present()
    assert not log.is_lost(kept)
    assert not log.is_lost(EventPosition.parse("d3.c8"))
    assert log.is_lost(EventPosition.parse("d2.c9"))
    assert log.is_lost(EventPosition.parse("d5.c10"))


@pytest.mark.parametrize("text", ["", "d1", "c1.d1", "d1.c", "d1.cx", "1.1", "d1.c1.c1"])
def test_an_id_that_is_none_is_refused(text):
    with pytest.raises(BadInput):
        EventPosition.parse(text)


def test_gaps_that_are_given_up_are_not_waited_for():
    position = EventPosition.parse("d5-2.c7-1-3")
    assert position.gaps == {(DECISION, 3), (HOST, 6), (HOST, 4)}
    assert str(position.without({(DECISION, 3), (HOST, 4)})) == "d5.c7-1"
