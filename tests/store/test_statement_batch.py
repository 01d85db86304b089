# SPDX-License-Identifier: Apache-2.0
"""Several statements at once: the same as one by one, on all three databases, whatever goes wrong between them."""

import threading

import pytest
from sqlalchemy import insert, select, text
from sqlalchemy.exc import IntegrityError
from tests.store.rows import ODD
from tests.store.test_ledger import add_node, claim, rows_of

from roost.errors import DatabaseConflict, DatabaseError, DatabaseUnreachable
from roost.ledger.ledger import Ledger
from roost.store import libpq_pipeline as pipelines
from roost.store.schema.fleet import allocations, compute_nodes, consumers
from roost.store.statements import Statement, is_key, key_parameter, send_batch
from roost.store.transactions import database_errors, writing

ADD = text("INSERT INTO consumers (uuid, project_id) VALUES (:uuid, :project)")
REMOVE = text("DELETE FROM consumers WHERE uuid = :uuid")
READ = text("SELECT uuid, project_id FROM consumers WHERE uuid LIKE :start ORDER BY uuid")
on_postgresql = pytest.mark.parametrize("kind", ["postgresql"], indirect=True, scope="module")


def add(uuid, project=None):
    return Statement(ADD, {"uuid": uuid, "project": project})


def read(start):
    return Statement(READ, {"start": start + "%"})


def as_tuples(answer):
    return [tuple(row) for row in answer.rows]


def test_answers_come_in_order_with_rows_or_their_number(transaction):
    before, first, second, after, gone, rest = send_batch(
        transaction,
        [read("o"), add("o1", "p"), add("o2"), read("o"), Statement(REMOVE, {"uuid": "nobody"}), read("o1")],
    )
    assert as_tuples(before) == []
    assert (first.touched, second.touched, gone.touched) == (1, 1, 0)
    assert as_tuples(after) == [("o1", "p"), ("o2", None)]
    assert as_tuples(rest) == [("o1", "p")]
    assert send_batch(transaction, []) == []


@pytest.mark.parametrize(
    "keys", [["k1"], ["k1", "k2"], ["k{,}", 'k"\\"', "k'", "kNULL", "NULL", ODD[:30]], ["k nobody"]]
)
def test_keys_are_taken_as_they_are(transaction, kind, keys):
    there = ["k1", "k2", "k{,}", 'k"\\"', "k'", "kNULL", ODD[:30]]
    column, is_one = consumers.c.uuid, len(keys) == 1
    statement = select(column).where(is_key(transaction.dialect.name, column, "keys", is_one))
    *_, found = send_batch(transaction, [*map(add, there), Statement(statement, {"keys": key_parameter(keys)})])
    assert sorted(uuid for (uuid,) in found.rows) == sorted(set(keys) & set(there))


def test_a_broken_rule_ends_the_batch_and_nothing_of_it_is_done(current):
    with pytest.raises(IntegrityError), current.begin() as connection:
        send_batch(connection, [add("b1"), add("b1"), add("b2")])
    with current.begin() as connection:
        (answer,) = send_batch(connection, [read("b")])
    assert as_tuples(answer) == []


def test_somebody_who_writes_the_same_is_a_conflict(current):
    with pytest.raises(DatabaseConflict), writing(current) as connection:
        send_batch(connection, [add("c1"), add("c1")])


@on_postgresql
def test_a_text_that_postgresql_cannot_keep_is_refused_not_cut_off(current):
    for wrong in (add("n1\0rest"), Statement(READ, {"start": "\0"})):
        with pytest.raises(DatabaseError), writing(current) as connection:
            send_batch(connection, [wrong])
    with current.begin() as connection:
        assert as_tuples(send_batch(connection, [read("n1")])[0]) == []


@on_postgresql
def test_a_statement_that_waits_or_works_too_long_is_a_conflict(current):
    node = add_node(current)
    lock = Statement(text("SELECT id FROM compute_nodes WHERE uuid = :uuid FOR UPDATE"), {"uuid": node})
    with current.begin() as holder:
        send_batch(holder, [lock])
        with pytest.raises(DatabaseConflict), writing(current) as connection:
            send_batch(
                connection, [Statement(text("SET LOCAL lock_timeout = '20ms'"), {}), add("w1"), lock, read("w")]
            )
    slow = Statement(text("SELECT pg_sleep(10)"), {})
    with pytest.raises(DatabaseConflict), writing(current) as connection:
        send_batch(connection, [Statement(text("SET LOCAL statement_timeout = '20ms'"), {}), slow, read("w")])
    assert rows_of(current, consumers, uuid="w1") == []


@on_postgresql
def test_what_is_read_after_a_lock_is_what_its_last_holder_wrote(current):
    """Each statement of a batch has its own view of what is committed."""
    node, said = add_node(current), []
    (row,) = rows_of(current, compute_nodes, uuid=node)
    lock = Statement(text("SELECT id FROM compute_nodes WHERE uuid = :uuid FOR UPDATE"), {"uuid": node})
    look = Statement(text("SELECT used FROM inventories WHERE node_id = :id"), {"id": row["id"]})

    def wait_and_read():
        with current.begin() as connection:
            said.extend(send_batch(connection, [look, lock, look]))

    with current.begin() as holder:
        send_batch(holder, [lock])
        waiter = threading.Thread(target=wait_and_read)
        waiter.start()
        waiting = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = :name")
        while not holder.scalar(waiting, {"name": current.url.database}):
            holder.execute(text("SELECT pg_stat_clear_snapshot()"))
        holder.execute(text("UPDATE inventories SET used = 5 WHERE node_id = :id"), {"id": row["id"]})
    waiter.join()
    before, _, after = said
    assert ({used for (used,) in before.rows}, {used for (used,) in after.rows}) == ({0}, {5})


@on_postgresql
def test_much_to_say_and_much_to_hear_at_once(current):
    """More than both sockets hold: whoever only sends, while the other side only sends, waits for ever."""
    much = Statement(text("SELECT repeat('x', 3000000)"), {})
    echo = text("SELECT length(:said)")
    with current.begin() as connection:
        answers = send_batch(connection, [much, Statement(echo, {"said": "y" * 5_000_000})] * 3)
    assert [len(str(answer.rows[0][0])) for answer in answers] == [3_000_000, 7] * 3


# --- names that the server knows ---


@pytest.fixture
def alone(opened, current):
    """An engine with a single connection."""
    address = current.url.render_as_string(hide_password=False)
    return opened(address, max_pool_size=1, max_overflow=0)


@on_postgresql
def test_a_server_that_forgot_its_statements_is_told_them_again(alone):
    for number in range(3):
        with alone.begin() as connection:
            send_batch(connection, [read("f"), read("f")])
            send_batch(connection, [add(f"f{number}")])
        with alone.connect() as connection:
            connection.exec_driver_sql("DEALLOCATE ALL")
            connection.commit()
    with alone.begin() as connection:
        assert len(send_batch(connection, [read("f")])[0].rows) == 3


@on_postgresql
def test_a_transaction_that_began_without_a_batch_has_to_be_tried_again_then(alone):
    with alone.begin() as connection:
        send_batch(connection, [read("g")])
    with alone.connect() as connection:
        connection.exec_driver_sql("DEALLOCATE ALL")
        with pytest.raises(DatabaseConflict):
            send_batch(connection, [read("g")])
    with alone.begin() as connection:
        connection.exec_driver_sql("SELECT 1")
        assert as_tuples(send_batch(connection, [read("g")])[0]) == []


@on_postgresql
def test_without_names_where_the_address_forbids_them(alone):
    with alone.begin() as connection:
        connection.connection.driver_connection.prepare_threshold = None
        send_batch(connection, [add("p1")])
        assert as_tuples(send_batch(connection, [read("p1")])[0]) == [("p1", None)]
        assert connection.exec_driver_sql("SELECT count(*) FROM pg_prepared_statements").scalar() == 0


@on_postgresql
def test_an_interruption_in_the_middle_leaves_no_answers_to_others(alone, monkeypatch):
    def interrupt(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pipelines._ConnectionPipeline, "_read", interrupt)
        with pytest.raises(KeyboardInterrupt), writing(alone) as connection:
            send_batch(connection, [add("i1")])
    with alone.begin() as connection:
        assert as_tuples(send_batch(connection, [read("i")])[0]) == []


@on_postgresql
def test_a_server_that_ends_the_connection_is_unreachable_and_the_next_batch_finds_it_back(alone):
    end = Statement(text("SELECT pg_terminate_backend(pg_backend_pid())"), {})
    with pytest.raises(DatabaseUnreachable), database_errors(alone), alone.begin() as connection:
        send_batch(connection, [add("t1"), end, add("t2")])
    with alone.begin() as connection:
        assert as_tuples(send_batch(connection, [read("t")])[0]) == []


# --- what it is for ---


@on_postgresql
@pytest.mark.parametrize(("instances", "expected"), [(1, [1]), (2, [4, 5])])
def test_a_claim_is_one_round_trip_and_several_are_two_and_a_commit(current, monkeypatch, instances, expected):
    trips, real = [], pipelines._ConnectionPipeline._round_trip

    def counted(self, filled):
        trips.append(len(filled))
        return real(self, filled)

    monkeypatch.setattr(pipelines._ConnectionPipeline, "_round_trip", counted)
    node = add_node(current)
    Ledger(current).claim([claim(node) for _ in range(instances)])
    assert trips == expected


def test_consumers_with_a_row_and_nothing_else_may_claim(current):
    """An import lists such ones: they are no newcomers, and hold nothing."""
    one = claim(add_node(current))
    with current.begin() as connection:
        connection.execute(insert(consumers), {"uuid": one.consumer_uuid})
    Ledger(current).claim([one])
    assert len(rows_of(current, allocations, consumer_uuid=one.consumer_uuid)) == 2
