# SPDX-License-Identifier: Apache-2.0
"""Rows of a table are made equal to wanted rows, and only what differs is written."""

import datetime
import json
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, event, insert, select

from roost.errors import BadInput
from roost.store import statements
from roost.store.reconcile import Reconciler, ReconcileResult, is_same_json
from roost.store.schema import metadata
from roost.store.schema.fleet import aggregate_hosts, aggregate_metadata, aggregates, consumers, services
from roost.store.schema.servers import servers

TABLES = (aggregates, aggregate_hosts, aggregate_metadata, consumers, servers, services)
BEFORE = datetime.datetime(2026, 11, 15, 12, tzinfo=datetime.UTC)
NOW = BEFORE + datetime.timedelta(hours=1)
CONSUMERS = Reconciler(consumers, ("uuid",), columns=("kind", "project_id", "details"))
AGGREGATES = Reconciler(aggregates, ("name",))
METADATA = Reconciler(aggregate_metadata, ("aggregate_id", "key"))
HOSTS = Reconciler(aggregate_hosts, ("aggregate_id", "host"))
SERVICES = Reconciler(services, ("host", "binary"), columns=("disabled", "last_seen_up"), quiet=("last_seen_up",))
SERVERS = Reconciler(servers, ("uuid",), columns=("host",))


@contextmanager
def database():
    """A connection to an empty database in memory, and the statements that went to it."""
    engine = create_engine("sqlite://")
    metadata.create_all(engine, TABLES)
    sent = []
    event.listen(engine, "before_cursor_execute", lambda *given: sent.append(given[2]))
    with engine.connect() as connection:
        yield connection, sent
    engine.dispose()


@pytest.fixture
def connection():
    with database() as (connection, _):
        yield connection


def place(row):
    return f"the row {row}"


def consumer(kind="instance", project_id=None, details=None):
    return {"kind": kind, "project_id": project_id, "details": None if details is None else json.dumps(details)}


# --- any rows ----------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, -0.0, 1.0, 2.5]) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)
CONSUMER_ROWS = st.dictionaries(
    st.tuples(st.sampled_from("abcdefgh")),
    st.builds(consumer, st.sampled_from(("instance", "migration")), st.sampled_from((None, "p", "q")), VALUES),
)


@given(CONSUMER_ROWS, CONSUMER_ROWS)
def test_after_it_the_table_has_the_wanted_rows_and_a_second_time_changes_nothing(first, wanted):
    everything = [(letter,) for letter in "abcdefgh"]
    uuids = [uuid for (uuid,) in everything]
    with database() as (connection, sent):
        assert CONSUMERS.apply(connection, {}, first, place, BEFORE) == ReconcileResult(list(first), [], [])
        stored = CONSUMERS.read(connection, "uuid", uuids)
        assert stored == first
        done = CONSUMERS.apply(connection, stored, wanted, place, NOW)
        after = CONSUMERS.read(connection, "uuid", uuids)
        assert after.keys() == wanted.keys()
        assert all(is_same_json(after[key]["details"], row["details"]) for key, row in wanted.items())
        assert all(after[key][name] == row[name] for key, row in wanted.items() for name in ("kind", "project_id"))
        both = first.keys() & wanted.keys()
        assert (set(done.new), set(done.gone)) == (wanted.keys() - first.keys(), first.keys() - wanted.keys())
        assert set(done.changed) == {key for key in both if meaning(first[key]) != meaning(wanted[key])}
        check_stamps(connection, done, wanted)
        sent.clear()
        assert CONSUMERS.apply(connection, after, wanted, place, NOW) == ReconcileResult([], [], [])
        assert sent == []


def meaning(row):
    """The row with its JSON as a text that is the same for every way to write it."""
    details = (
        None if row["details"] is None else json.loads(row["details"], parse_float=lambda text: float(text) + 0.0)
    )
    return row["kind"], row["project_id"], json.dumps(details, sort_keys=True), row["details"] is None


def check_stamps(connection, done, wanted):
    rows = connection.execute(select(consumers.c.uuid, consumers.c.created_at, consumers.c.updated_at))
    for uuid, created_at, updated_at in rows:
        assert created_at == (NOW if (uuid,) in done.new else BEFORE)
        assert updated_at == (NOW if (uuid,) in done.changed else None)


@given(
    st.dictionaries(st.tuples(st.just(1), st.sampled_from("abcd")), st.builds(dict, value=st.text(max_size=2))),
    st.dictionaries(st.tuples(st.just(1), st.sampled_from("abcd")), st.builds(dict, value=st.text(max_size=2))),
)
def test_parts_of_something_that_has_others_beside_it(first, wanted):
    with database() as (connection, _):
        connection.execute(
            insert(aggregates), [{"id": 1, "name": "a", "uuid": "a"}, {"id": 2, "name": "b", "uuid": "b"}]
        )
        connection.execute(insert(aggregate_metadata), {"aggregate_id": 2, "key": "a", "value": "stays"})
        METADATA.replace(connection, "aggregate_id", [1], first, place)
        done = METADATA.replace(connection, "aggregate_id", [1], wanted, place)
        assert METADATA.read(connection, "aggregate_id", [1]) == wanted
        assert METADATA.read(connection, "aggregate_id", [2]) == {(2, "a"): {"value": "stays"}}
        unchanged = {key for key, row in wanted.items() if first.get(key) == row}
        assert set(done.touched) == (first.keys() | wanted.keys()) - unchanged


# --- keys, columns, stamps ---------------------------------------------------------------------------


def test_rows_that_have_nothing_but_a_key(connection):
    connection.execute(insert(aggregates), {"id": 1, "name": "a", "uuid": "a"})
    rows = {(1, "x"): {}, (1, "y"): {}}
    assert HOSTS.replace(connection, "aggregate_id", [1], rows, place).new == [(1, "x"), (1, "y")]
    done = HOSTS.replace(connection, "aggregate_id", [1], {(1, "y"): {}, (1, "z"): {}}, place)
    assert done == ReconcileResult([(1, "z")], [], [(1, "x")])
    assert set(HOSTS.read(connection, "aggregate_id", [1])) == {(1, "y"), (1, "z")}


def test_a_row_that_is_found_by_its_name_keeps_its_number(connection):
    connection.execute(insert(aggregates), {"id": 7, "name": "a", "uuid": "one"})
    stored = AGGREGATES.read(connection, "name", ["a", "b"])
    assert stored == {("a",): {"id": 7, "uuid": "one"}}
    done = AGGREGATES.apply(connection, stored, {("a",): {"uuid": "two"}, ("b",): {"uuid": "three"}}, place, NOW)
    assert done == ReconcileResult([("b",)], [("a",)], [])
    assert AGGREGATES.read(connection, "name", ["a"]) == {("a",): {"id": 7, "uuid": "two"}}
    AGGREGATES.apply(connection, AGGREGATES.read(connection, "name", ["a"]), {}, place)
    assert AGGREGATES.read(connection, "name", ["a", "b"]).keys() == {("b",)}


def service(disabled=False, seen=BEFORE):
    return {"uuid": "u", "disabled": disabled, "last_seen_up": seen}


def test_a_quiet_column_is_written_and_is_no_change(connection):
    key = ("a", "nova-compute")
    SERVICES.apply(connection, {}, {key: service()}, place, BEFORE)
    for wanted, is_change, stamp in ((service(seen=NOW), False, None), (service(True, BEFORE), True, NOW)):
        stored = SERVICES.read(connection, "host", ["a"])
        done = SERVICES.apply(connection, stored, {key: wanted}, place, NOW)
        assert done.changed == ([key] if is_change else [])
        row = connection.execute(select(services)).one()
        assert (row.last_seen_up, row.updated_at, row.created_at) == (wanted["last_seen_up"], stamp, BEFORE)


def test_a_quiet_difference_leaves_an_earlier_stamp(connection):
    key = ("a", "nova-compute")
    SERVICES.apply(connection, {}, {key: service()}, place, BEFORE)
    SERVICES.replace(connection, "host", ["a"], {key: service(True)}, place, BEFORE)
    SERVICES.replace(connection, "host", ["a"], {key: service(True, NOW)}, place, NOW)
    assert connection.execute(select(services.c.updated_at)).scalar() == BEFORE


def test_other_columns_are_written_with_a_new_row_only(connection):
    SERVERS.apply(connection, {}, {("u",): {"host": "a", "name": "one", "vm_state": "active"}}, place)
    wanted = {("u",): {"host": "b", "name": "two", "vm_state": "error"}}
    assert SERVERS.replace(connection, "uuid", ["u"], wanted, place).changed == [("u",)]
    row = connection.execute(select(servers)).one()
    assert (row.host, row.name, row.vm_state) == ("b", "one", "active")


def test_a_condition_leaves_out_rows(connection):
    rows = {("a", "nova-compute"): service(), ("a", "other"): service() | {"uuid": "v"}}
    SERVICES.apply(connection, {}, rows, place)
    only = statements.with_json_as_text(services).c.binary == "other"
    assert SERVICES.read(connection, "host", ["a"], where=only, is_locked=True).keys() == {("a", "other")}


def test_without_a_time_nothing_is_stamped(connection):
    CONSUMERS.apply(connection, {}, {("a",): consumer()}, place)
    CONSUMERS.replace(connection, "uuid", ["a"], {("a",): consumer(project_id="p")}, place)
    assert connection.execute(select(consumers.c.created_at, consumers.c.updated_at)).one() == (None, None)


def test_many_rows_are_written_in_chunks(monkeypatch):
    monkeypatch.setattr(statements, "MOST_ROWS", 10)
    rows = {(f"{number:02d}",): consumer() for number in range(25)}
    with database() as (connection, sent):
        CONSUMERS.apply(connection, {}, rows, place)
        assert [each.split()[0] for each in sent] == ["INSERT"] * 3
        stored = CONSUMERS.read(connection, "uuid", [uuid for (uuid,) in rows])
        sent.clear()
        CONSUMERS.apply(connection, stored, {key: consumer("migration") for key in list(rows)[:11]}, place)
        assert [each.split()[0] for each in sent] == ["DELETE"] * 2 + ["UPDATE"] * 2


def test_a_value_that_does_not_fit_is_refused_with_its_place_and_nothing_is_written():
    with database() as (connection, sent):
        CONSUMERS.apply(connection, {}, {("a",): consumer(), ("gone",): consumer()}, place)
        stored = CONSUMERS.read(connection, "uuid", ["a", "gone"])
        sent.clear()
        for wanted in ({("a",): consumer(project_id="p" * 256)}, {("u" * 37,): consumer()}):
            with pytest.raises(BadInput, match=r"the row .*characters long"):
                CONSUMERS.apply(connection, stored, wanted, place)
        assert sent == []


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (None, None, True),
        (None, "null", False),
        ('{"a": 1, "b": [1.0]}', '{"b":[1.0],"a":1}', True),
        ("0.0", "-0.0", True),
        ("1", "1.0", False),
        ("1", "true", False),
        ("1", '"1"', False),
        ("[1,2]", "[2,1]", False),
    ],
)
def test_json_is_compared_by_its_meaning(one, other, is_same):
    assert is_same_json(one, other) is is_same_json(other, one) is is_same
