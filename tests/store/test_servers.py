# SPDX-License-Identifier: Apache-2.0
"""Records of servers on all databases: steps, fencing by generation, faults, migrations, ages."""

import itertools
import threading
import uuid
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import update

from roost.clock import SystemClock
from roost.errors import IllegalStep, ServerChanged, UnknownName
from roost.records.server import Attempt, Fault, Migration, Server, TaskData
from roost.records.servers import ServerStore
from roost.store.schema.history import changes
from roost.store.schema.servers import servers
from roost.store.transactions import writing

NUMBERS = itertools.count(1)


class HourAhead(SystemClock):
    """The clock of a machine whose time is wrong."""

    def now(self):
        return super().now() + timedelta(hours=1)


@pytest.fixture
def store(current):
    return ServerStore(current, SystemClock())


@pytest.fixture
def new(store):
    """Creates a server that is being scheduled."""

    def create(**values):
        server = Server(str(uuid.uuid4()), f"server-{next(NUMBERS)}", None, project_id="p", **values)
        store.create([server])
        return store.get(server.uuid)

    return create


def count_changes(engine, key):
    with engine.connect() as connection:
        return len(connection.execute(changes.select().where(changes.c.subject_key == key)).all())


def test_a_new_server_is_scheduled(new):
    server = new(task=TaskData(batch=("a",)))
    assert (server.vm_state, server.task_state, server.generation) == ("building", "scheduling", 1)
    assert server.task.batch == ("a",)
    assert server.created_at is not None


def test_a_step_changes_state_host_and_generation(store, new, current):
    server = new()
    built = store.advance(server, "start build", host="h1", node="n1")
    assert store.get(server.uuid) == replace(built, updated_at=store.get(server.uuid).updated_at)
    assert (built.host, built.task_state, built.generation) == ("h1", "spawning", 2)
    assert count_changes(current, server.uuid) == 1  # schedulers learn that it is on a host


def test_a_step_from_another_state_is_refused(store, new):
    with pytest.raises(IllegalStep, match="finish build is not possible while it is building/scheduling"):
        store.advance(new(), "finish build")


def test_the_second_of_two_writers_is_refused_and_changes_nothing(store, new):
    server = new()
    store.advance(server, "start build", host="h1", node="n1")
    with pytest.raises(ServerChanged):
        store.advance(server, "fail build", fault=Fault("too late"))
    assert store.get(server.uuid).task_state == "spawning"
    assert store.read_faults(server.uuid) == []


def test_of_many_writers_at_once_one_succeeds(store, new):
    server, won = new(), []

    def take(host):
        try:
            store.advance(server, "start build", host=host, node=host)
            won.append(host)
        except ServerChanged:
            pass

    threads = [threading.Thread(target=take, args=(f"h{number}",)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [store.get(server.uuid).host] == won


def test_what_is_written_beside_a_step_is_undone_with_it(store, new):
    server = new()

    def fail(connection):
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError):
        store.advance(server, "start build", host="h1", also=fail)
    assert store.get(server.uuid).generation == 1


def test_the_end_of_a_task_clears_its_data_unless_new_ones_are_given(store, new):
    server = store.advance(new(task=TaskData(attempts=(Attempt("h0", "n0", "broken"),))), "start build", host="h1")
    assert store.advance(server, "finish build").task == TaskData()
    kept = TaskData(source=("h1", "h1"))
    server = store.advance(store.get(server.uuid), "resize", task=TaskData(vm_state="active"))
    assert store.advance(server, "undo resize", task=kept).task == kept
    assert store.get(server.uuid).vm_state == "active"


def test_a_fault_keeps_message_and_details(store, new):
    server = new()
    store.advance(server, "fail build", fault=Fault("No valid host was found.", "0 of 3 hosts fit", host="h1"))
    store.add_fault(server.uuid, Fault("later"))
    later, first = store.read_faults(server.uuid)
    assert (later.message, first.message, first.details) == ("later", "No valid host was found.", "0 of 3 hosts fit")
    assert first.created_at is not None


def test_details_are_changed_whatever_is_being_done(store, new):
    server = new(metadata={"a": "1"})
    changed = store.change_details(
        server.uuid, lambda found: {"name": "new", "metadata": {**found.metadata, "b": "2"}}
    )
    found = store.get(server.uuid)
    assert (found.name, found.metadata, found.generation) == ("new", {"a": "1", "b": "2"}, 1)
    assert found == replace(changed, updated_at=found.updated_at)
    assert found.updated_at == server.updated_at  # the janitor counts from the last step of the task
    idle = store.advance(found, "fail build")
    store.change_details(idle.uuid, lambda _: {"description": "spare"})
    assert store.get(idle.uuid).updated_at > server.updated_at
    with pytest.raises(ValueError, match="host"):
        store.change_details(server.uuid, lambda _: {"host": "b"})


def test_no_entry_is_lost_when_many_add_one_at_once(store, new):
    server = new()

    def add(key):
        store.change_details(server.uuid, lambda found: {"metadata": {**found.metadata, key: "x"}})

    threads = [threading.Thread(target=add, args=(f"k{number}",)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(store.get(server.uuid).metadata) == [f"k{number}" for number in range(6)]


def test_a_deleted_server_keeps_its_details(store, new):
    server = store.advance(store.advance(new(), "delete"), "finish delete")
    with pytest.raises(UnknownName):
        store.change_details(server.uuid, lambda _: {"name": "other"})


def test_a_deleted_server_is_found_by_uuid_only(store, new):
    server = store.advance(new(), "delete")
    store.advance(server, "finish delete")
    assert store.resolve(server.uuid).vm_state == "deleted"
    with pytest.raises(UnknownName):
        store.resolve(server.name)
    assert server.uuid not in {each.uuid for each in store.list_page(limit=None)}


def test_a_name_that_two_servers_have_is_ambiguous(store, new):
    server = new()
    store.create([Server(str(uuid.uuid4()), server.name, None)])
    with pytest.raises(UnknownName, match="several"):
        store.resolve(server.name)
    assert store.resolve(server.uuid) == server


def test_servers_of_other_projects_are_not_found(store, new):
    with pytest.raises(UnknownName):
        store.resolve(new().uuid, project_id="other")


def test_a_server_that_moves_belongs_to_both_hosts(store, new):
    server = store.advance(store.advance(new(), "start build", host="from", node="from"), "finish build")
    move = Migration(str(uuid.uuid4()), server.uuid, "resize", "pre-migrating", "from", "from", "to", "to")
    task = TaskData(action="resize", vm_state="active", migration_uuid=move.uuid)
    server = store.advance(server, "resize", task=task, also=store.create_migration(move))
    assert [each.uuid for host in ("from", "to") for each in store.list_on(host)] == [server.uuid] * 2
    store.advance(server, "undo resize", migration_status="error")
    assert store.list_on("to") == []
    assert [each.status for each in store.list_migrations(server.uuid)] == ["error"]


def test_a_stalled_task_is_found_by_the_databases_clock(current, store, new, kind):
    server = new()
    wrong = ServerStore(current, HourAhead())
    if kind != "sqlite":  # whose clock is that of the process
        assert server.uuid not in {each.uuid for each in wrong.list_unfinished(60)}
    assert server.uuid not in {each.uuid for each in store.list_unfinished(60)}
    with writing(current) as connection:
        old = servers.c.uuid == server.uuid
        connection.execute(update(servers).where(old).values(updated_at=server.updated_at - timedelta(seconds=61)))
    assert server.uuid in {each.uuid for each in store.list_unfinished(60)}


def test_records_are_stamped_by_the_databases_clock(current, store, kind):
    wrong = ServerStore(current, HourAhead())
    server = Server(str(uuid.uuid4()), "stamped", None)
    wrong.create([server])
    ahead = store.get(server.uuid).created_at - SystemClock().now()
    assert (ahead > timedelta(minutes=50)) == (kind == "sqlite")


def test_deleted_servers_are_pruned_when_they_are_old(store, new):
    server = store.advance(store.advance(new(), "delete"), "finish delete")
    assert store.prune_deleted(3600) == 0
    assert store.prune_deleted(-1) >= 1
    with pytest.raises(UnknownName):
        store.get(server.uuid)
