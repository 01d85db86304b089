# SPDX-License-Identifier: Apache-2.0
"""Decisions and states in the database: written once, found again, removed when they are due."""

import datetime
import random

import pytest
from sqlalchemy import delete, func, select
from tests.flow.cloud import TurnedClock, request, state_of

from roost.errors import DatabaseError, DatabaseUnreachable, NoValidHost, SchemaError, UnknownName
from roost.records.decisions import DecisionStore, prune_decisions, read_latest_options
from roost.records.options import DecisionOptions
from roost.records.recorder import DecisionRecorder
from roost.scheduler.pipeline import Pipeline
from roost.store.schema.history import decision_servers, decisions, scheduler_runs, table_changes, table_checkpoints
from roost.testing import make_hosts

UUID = "6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e%02d"
START = datetime.datetime(2026, 11, 18, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)


class Scheduler:
    """Places on a table, and records what it decides."""

    def __init__(self, engine, host="s1"):
        self.engine, self.clock = engine, TurnedClock()
        self.table = make_hosts(
            host=["a", "b"], vcpus_total=64, total_usable_ram_mb=4096, total_usable_disk_gb=500
        ).table.copy()
        self.pipeline = Pipeline([], [])
        self.store = DecisionStore(engine, START)
        self.recorder = DecisionRecorder(self.store, host, {"x": {"y": 1}}, self.clock, random.Random(host))
        self.states = []

    def place(self, number, memory_mb=256):
        """Decide and record; how the decision is told, and the state that it saw."""
        spec = request(memory_mb, project_id="blue")
        seen = self.recorder.observe(self.table, spec)
        self.states.append(state_of(self.table))
        try:
            decision = self.pipeline.place(
                self.table, spec, [UUID % number], randomness=random.Random(1), clock=lambda: 0
            )
        except NoValidHost as error:
            decision = error.decision
        self.recorder.record(seen, decision, [UUID % number], f"req-{number}", rounds=1)

    def at(self, hour):
        """Stamp what is written with this hour from now on."""
        self.store._times = START + hour * HOUR


@pytest.fixture
def scheduler(current):
    with current.begin() as connection:
        for each in (decision_servers, decisions, table_changes, table_checkpoints, scheduler_runs):
            connection.execute(delete(each))
    return Scheduler(current)


def count(engine, *tables):
    with engine.connect() as connection:
        return [connection.scalar(select(func.count()).select_from(each)) for each in tables]


def summaries(scheduler, **filters):
    return [row.summary for row in scheduler.store.list_decisions(**filters)]


def test_decisions_are_found_by_server_request_and_result(scheduler):
    for number in range(3):
        scheduler.place(number)
    scheduler.place(3, memory_mb=10**6)
    scheduler.recorder.flush()
    assert summaries(scheduler) == [
        "0 of 2 hosts fit: 2 ram (needs 1000000 MiB, most free 4096)",
        *["1 of 1 placed on a"] * 3,
    ]
    assert [row.request_id for row in scheduler.store.list_decisions(server_uuid=UUID % 1)] == ["req-1"]
    assert [row.number for row in scheduler.store.list_decisions(request_id="req-2")] == [2]
    assert len(summaries(scheduler, is_placed=False)) == 1
    assert len(summaries(scheduler, project_id="blue", limit=2)) == 2
    assert summaries(scheduler, project_id="red") == []
    (latest, *_) = scheduler.store.list_decisions()
    assert len(summaries(scheduler, before=latest.id)) == 3


def test_a_decision_comes_back_with_its_scores_its_request_and_its_state(scheduler):
    for number in range(3):
        scheduler.place(number)
        scheduler.recorder.flush()
    rows = scheduler.store.list_decisions()
    for row, state in zip(reversed(rows), scheduler.states, strict=True):
        record = scheduler.store.get(row.id)
        assert state_of(scheduler.store.read_state(record).restore()) == state
    assert record.decision.selections[0].host == "a"
    assert record.request.memory_mb == 256
    assert scheduler.store.read_state(record).options == {"x": {"y": 1}}
    with scheduler.engine.connect() as connection:
        assert read_latest_options(connection) == {"x": {"y": 1}}


def test_an_unknown_decision_is_told_with_the_latest_id(scheduler):
    with pytest.raises(UnknownName, match=r"there is no decision 9999 \(none is recorded yet\)"):
        scheduler.store.get(9999)
    scheduler.place(1)
    scheduler.recorder.flush()
    (latest,) = scheduler.store.list_decisions()
    with pytest.raises(UnknownName, match=f"the latest is {latest.id}\\b"):
        scheduler.store.get(9999)


def test_what_is_written_twice_after_a_lost_acknowledgement_is_there_once(scheduler, monkeypatch):
    written = scheduler.store.add

    def lose_acknowledgement(*arguments, **more):
        written(*arguments, **more)
        raise DatabaseUnreachable("the connection broke")

    scheduler.place(1)
    monkeypatch.setattr(scheduler.store, "add", lose_acknowledgement)
    with pytest.raises(DatabaseUnreachable):
        scheduler.recorder.flush()
    monkeypatch.undo()
    scheduler.place(2)
    scheduler.recorder.flush()
    tables = decisions, decision_servers, table_checkpoints, table_changes, scheduler_runs
    assert count(scheduler.engine, *tables) == [2, 2, 1, 1, 1]


def test_what_a_failed_transaction_did_not_write_is_written_later(scheduler, monkeypatch):
    def refuse(*arguments, **more):
        raise DatabaseUnreachable("away")

    scheduler.place(1)
    with monkeypatch.context() as patch:
        patch.setattr(scheduler.store, "add", refuse)
        for _ in range(2):
            with pytest.raises(DatabaseUnreachable):
                scheduler.recorder.flush()
    scheduler.recorder.flush()
    scheduler.recorder.flush()
    assert count(scheduler.engine, decisions, table_checkpoints) == [1, 1]


def test_other_options_begin_another_run(scheduler):
    scheduler.place(1)
    scheduler.recorder.begin({"x": {"y": 2}})
    scheduler.place(2)
    scheduler.recorder.flush()
    records = [scheduler.store.get(row.id) for row in scheduler.store.list_decisions()]
    states = [scheduler.store.read_state(each) for each in records]
    assert [each.options for each in states] == [{"x": {"y": 2}}, {"x": {"y": 1}}]
    assert [state_of(each.restore()) for each in states] == scheduler.states[::-1]


def test_decisions_that_no_database_takes_are_given_up_and_counted(scheduler, monkeypatch):
    dropped = []
    monkeypatch.setattr(scheduler.recorder, "_on_dropped", dropped.append)
    monkeypatch.setattr("roost.records.recorder.MOST_WAITING", 3)
    for number in range(5):
        scheduler.place(number)
    assert dropped == [4]
    scheduler.recorder.flush()
    (record,) = [scheduler.store.get(row.id) for row in scheduler.store.list_decisions()]
    assert record.request_id == "req-4"
    assert state_of(scheduler.store.read_state(record).restore()) == scheduler.states[4]


def test_what_is_decided_while_a_batch_is_written_waits_for_the_next_time(scheduler, monkeypatch):
    add = scheduler.store.add

    def add_slowly(*batch, is_repeat):
        add(*batch, is_repeat=is_repeat)
        scheduler.place(len(scheduler.states))

    monkeypatch.setattr(scheduler.store, "add", add_slowly)
    scheduler.place(0)
    scheduler.place(1)
    scheduler.recorder.flush()
    assert [row.request_id for row in scheduler.store.list_decisions()] == ["req-1", "req-0"]
    scheduler.recorder.flush()
    assert [row.request_id for row in scheduler.store.list_decisions(limit=1)] == ["req-2"]


def test_a_decision_of_the_options_before_is_recorded_late_and_keeps_its_state(scheduler):
    spec = request(256)
    seen, state = scheduler.recorder.observe(scheduler.table, spec), state_of(scheduler.table)
    decision = scheduler.pipeline.place(
        scheduler.table, spec, [UUID % 1], randomness=random.Random(1), clock=lambda: 0
    )
    scheduler.recorder.begin({"x": {"y": 2}})
    scheduler.place(2)
    scheduler.recorder.flush()
    scheduler.recorder.record(seen, decision, [UUID % 1], "req-1", rounds=1)
    scheduler.recorder.flush()
    (row,) = scheduler.store.list_decisions(request_id="req-1")
    restored = scheduler.store.read_state(scheduler.store.get(row.id))
    assert (restored.options, state_of(restored.restore())) == ({"x": {"y": 1}}, state)


def test_a_decision_that_cannot_be_encoded_keeps_no_other_from_being_recorded(scheduler, monkeypatch):
    dropped = []
    monkeypatch.setattr(scheduler.recorder, "_on_dropped", dropped.append)
    scheduler.place(1)
    spec = request(256)
    scheduler.recorder.record(scheduler.recorder.observe(scheduler.table, spec), None, [], "req-2", rounds=1)
    scheduler.place(3)
    scheduler.recorder.flush()
    assert [row.request_id for row in scheduler.store.list_decisions()] == ["req-3", "req-1"]
    assert dropped == [1]
    record = scheduler.store.get(scheduler.store.list_decisions()[0].id)
    assert state_of(scheduler.store.read_state(record).restore()) == scheduler.states[1]


def test_an_id_of_a_request_that_no_column_takes_is_cut(scheduler):
    spec = request(256)
    seen = scheduler.recorder.observe(scheduler.table, spec)
    decision = scheduler.pipeline.place(
        scheduler.table, spec, [UUID % 1], randomness=random.Random(1), clock=lambda: 0
    )
    scheduler.recorder.record(seen, decision, [UUID % 1], "req-\0" + "x" * 999, rounds=1)
    scheduler.recorder.flush()
    assert [row.request_id for row in scheduler.store.list_decisions()] == ["req-" + "x" * 251]


@pytest.mark.parametrize("refusal", [DatabaseError, SchemaError])
def test_a_batch_that_the_database_keeps_refusing_is_given_up(scheduler, monkeypatch, refusal):
    dropped = []
    monkeypatch.setattr(scheduler.recorder, "_on_dropped", dropped.append)
    monkeypatch.setattr("roost.records.recorder.MOST_REFUSALS", 2)

    def refuse(*arguments, **more):
        raise refusal("the packet is too large, or the table is gone")

    scheduler.place(1)
    with monkeypatch.context() as patch:
        patch.setattr(scheduler.store, "add", refuse)
        with pytest.raises(DatabaseError):
            scheduler.recorder.flush()
        scheduler.recorder.flush()
    assert dropped == [1]
    scheduler.place(2)
    scheduler.recorder.flush()
    (row,) = scheduler.store.list_decisions()
    restored = scheduler.store.read_state(scheduler.store.get(row.id)).restore()
    assert (row.request_id, state_of(restored)) == ("req-2", scheduler.states[1])


def test_states_without_decisions_do_not_pile_up(scheduler, monkeypatch):
    monkeypatch.setattr("roost.records.recorder.MOST_CHECKPOINTS_WAITING", 3)
    for _ in range(10):
        scheduler.recorder.begin({})
        scheduler.recorder.observe(scheduler.table, request(256))
    assert len(scheduler.recorder._states) <= 4
    scheduler.place(1)
    scheduler.recorder.flush()
    record = scheduler.store.get(scheduler.store.list_decisions()[0].id)
    assert state_of(scheduler.store.read_state(record).restore()) == scheduler.states[0]


def test_the_options_of_a_scheduler_are_known_before_its_first_decision(scheduler):
    scheduler.recorder.flush()
    with scheduler.engine.connect() as connection:
        assert read_latest_options(connection) == {"x": {"y": 1}}


def test_many_changes_between_two_decisions_are_no_reason_for_a_checkpoint(scheduler):
    scheduler.place(1)
    for number in range(9000):
        scheduler.table.set_numbers(0, {"free_disk_mb": float(number)})
        scheduler.table.changes.note(0, frozenset({"free_disk_mb"}))
    scheduler.place(2)
    scheduler.recorder.flush()
    assert count(scheduler.engine, table_checkpoints, table_changes) == [1, 1]
    record = scheduler.store.get(scheduler.store.list_decisions()[0].id)
    assert state_of(scheduler.store.read_state(record).restore()) == scheduler.states[1]


# --- pruning -----------------------------------------------------------------------------------------


def prune(scheduler, hour, **options):
    return prune_decisions(scheduler.engine, DecisionOptions(**options), START + hour * HOUR)


def test_decisions_are_removed_by_age_failed_ones_later(scheduler):
    scheduler.place(1)
    scheduler.place(2, memory_mb=10**6)
    scheduler.recorder.flush()
    assert prune(scheduler, 71) == 0
    assert prune(scheduler, 73) == 1
    assert [each.is_placed for each in scheduler.store.list_decisions()] == [False]
    assert count(scheduler.engine, decision_servers) == [1]
    assert prune(scheduler, 337) == 1


def test_decisions_are_removed_by_number_the_oldest_first(scheduler):
    for number in range(10):
        scheduler.place(number)
    scheduler.recorder.flush()
    assert prune(scheduler, 0, decisions_kept=3) == 7
    assert [each.request_id for each in scheduler.store.list_decisions()] == ["req-9", "req-8", "req-7"]


def test_a_state_that_is_too_old_is_gone_and_newer_ones_are_still_whole(scheduler):
    for hour in range(4):
        scheduler.at(hour)
        scheduler.place(hour)
        scheduler.recorder.flush()
        scheduler.clock.seconds += 3600.0  # the next one begins with a checkpoint
    prune(scheduler, 3.5, decision_state_retention_hours=2)
    records = [scheduler.store.get(row.id) for row in reversed(scheduler.store.list_decisions())]
    states = [scheduler.store.read_state(each) for each in records]
    assert states[0] is None
    assert [state_of(each.restore()) for each in states[1:]] == scheduler.states[1:]


def test_states_go_with_the_decisions_that_saw_them(scheduler):
    for number in range(4):
        scheduler.at(number / 100)
        scheduler.place(number)
        scheduler.recorder.flush()
        scheduler.clock.seconds += 3600.0
    prune(scheduler, 1, decisions_kept=1)
    assert count(scheduler.engine, decisions, table_checkpoints) == [1, 2]  # the one before it has the changes


def test_runs_that_ended_are_removed_with_their_states(scheduler):
    for number in range(3):
        scheduler.place(number)
        scheduler.recorder.flush()
    scheduler.recorder.begin({})
    scheduler.at(1)
    scheduler.place(4)
    scheduler.recorder.flush()
    assert count(scheduler.engine, scheduler_runs, table_changes) == [2, 2]
    prune(scheduler, 30, decision_state_retention_hours=6)
    assert count(scheduler.engine, scheduler_runs, table_checkpoints, table_changes) == [1, 0, 0]


def find_state(scheduler, request_id):
    (row,) = scheduler.store.list_decisions(request_id=request_id)
    return scheduler.store.read_state(scheduler.store.get(row.id))


def test_states_of_failed_decisions_are_kept_where_nothing_was_placed(scheduler):
    for hour in range(3):
        scheduler.at(hour)
        scheduler.place(hour, memory_mb=10**6)
        scheduler.table.set_numbers(0, {"free_ram_mb": 100.0 + hour})
        scheduler.table.changes.note(0, frozenset({"free_ram_mb"}))
        scheduler.recorder.flush()
        scheduler.clock.seconds += 3600.0
    prune(scheduler, 3)
    assert [state_of(find_state(scheduler, f"req-{hour}").restore()) for hour in range(3)] == scheduler.states


def test_a_failed_decision_of_a_run_that_ended_keeps_its_state(scheduler):
    scheduler.place(1, memory_mb=10**6)
    scheduler.recorder.flush()
    scheduler.at(20)
    scheduler.place(2, memory_mb=10**6)  # from the same state: nothing has changed
    scheduler.recorder.flush()
    scheduler.recorder.begin({})
    scheduler.at(21)
    scheduler.place(3)
    scheduler.recorder.flush()
    prune(scheduler, 26)
    assert state_of(find_state(scheduler, "req-2").restore()) == scheduler.states[1]


def test_a_worker_that_was_idle_for_days_still_records_what_it_sees(scheduler):
    other = Scheduler.__new__(Scheduler)
    vars(other).update(vars(scheduler))
    other.recorder = DecisionRecorder(scheduler.store, "s1", {"z": {}}, scheduler.clock, random.Random(2))
    scheduler.place(1)
    scheduler.recorder.flush()
    scheduler.at(1)
    other.place(2)
    other.recorder.flush()
    for hour in range(2, 200, 2):
        prune(scheduler, hour)
        scheduler.clock.seconds += 7200.0
    scheduler.at(200)
    scheduler.place(3)
    scheduler.recorder.flush()
    prune(scheduler, 200)
    restored = find_state(scheduler, "req-3")
    assert (restored.options, state_of(restored.restore())) == ({"x": {"y": 1}}, scheduler.states[-1])


def test_the_states_of_a_scheduler_that_never_comes_back_are_removed(scheduler):
    scheduler.place(1)
    scheduler.recorder.flush()
    scheduler.at(1)
    newer = Scheduler(scheduler.engine, host="s2")
    newer.at(1)
    newer.place(2)
    newer.recorder.flush()
    prune(scheduler, 50)
    assert count(scheduler.engine, scheduler_runs, table_checkpoints) == [1, 0]
