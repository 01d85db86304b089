# SPDX-License-Identifier: Apache-2.0
"""Pages of servers and migrations on all databases: filters, order, markers, and the number of statements."""

import itertools
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import delete, event, insert

from roost.clock import SystemClock
from roost.errors import BadInput
from roost.records.listing import SORT_KEYS, MigrationFilters, ServerFilters
from roost.records.server import STATUSES, TASK_STATES, VM_STATES, Fault, Migration, status_of
from roost.records.servers import ServerStore
from roost.store.schema.servers import migrations, server_faults, servers
from roost.store.transactions import writing

START = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(current):
    with writing(current) as connection:
        for each in (server_faults, migrations, servers):
            connection.execute(delete(each))
    return ServerStore(current, SystemClock())


@pytest.fixture
def add(current):
    """Adds servers as rows, a minute apart: name -> uuid."""
    minutes = itertools.count()

    def insert_rows(**rows):
        made = {}
        with writing(current) as connection:
            for name, values in rows.items():
                time = START + timedelta(minutes=next(minutes))
                row = {
                    "uuid": str(uuid.uuid4()),
                    "name": name,
                    "project_id": "p",
                    "vm_state": "active",
                    "generation": 1,
                }
                row |= {"created_at": time, "updated_at": time, **values}
                connection.execute(insert(servers).values(row))
                made[name] = row["uuid"]
        return made

    return insert_rows


@pytest.fixture
def count_statements(current):
    """Runs a call, and counts the statements that it sends."""

    def count(call):
        sent = []

        def note(*args):
            if not args[2].startswith("BEGIN"):
                sent.append(args[2])

        event.listen(current, "before_cursor_execute", note)
        call()
        event.remove(current, "before_cursor_execute", note)
        return len(sent)

    return count


def names(found):
    return [each.name for each in found]


def test_the_newest_servers_come_first_and_deleted_ones_only_where_they_are_wanted(store, add):
    add(old={}, new={}, gone={"vm_state": "deleted"}, odd={"vm_state": None})
    assert names(store.list_page()) == ["odd", "new", "old"]
    assert names(store.list_page(ServerFilters(deleted=True))) == ["gone"]
    assert names(store.list_page(ServerFilters(deleted=None))) == ["odd", "gone", "new", "old"]


def test_each_filter_keeps_what_it_names(store, add):
    flavor = {"flavorid": "2", "name": "small", "vcpus": 1}
    one = {"host": "h", "node": "n", "availability_zone": "north", "project_id": "q", "user_id": "u"}
    one |= {
        "image_id": "i",
        "reservation_id": "r-1",
        "flavor": flavor,
        "task_state": "deleting",
        "vm_state": "stopped",
    }
    uuids = add(one=one | {"metadata": {"tier": "1", "a.b c": "x"}}, two={"flavor": {"name": "tiny", "vcpus": 1}})
    for wanted in (
        {"name": "one"},
        {"uuids": [uuids["one"]]},
        {"host": "h"},
        {"node": "n"},
        {"flavor": "2"},
        {"image": "i"},
        {"availability_zone": "north"},
        {"project_id": "q"},
        {"user_id": "u"},
        {"reservation_id": "r-1"},
        {"vm_states": ["stopped"]},
        {"task_states": ["deleting"]},
        {"changes_before": START},
        {"metadata": {"tier": "1"}},
        {"metadata": {"a.b c": "x", "tier": "1"}},
    ):
        assert names(store.list_page(ServerFilters(**wanted))) == ["one"], wanted
    for wanted in (
        {"flavor": "tiny"},
        {"task_states": [None]},
        {"changes_since": START + timedelta(seconds=1)},
        {"name": "two", "vm_states": ["active"]},
    ):
        assert names(store.list_page(ServerFilters(**wanted))) == ["two"], wanted
    for wanted in ({"flavor": "small"}, {"metadata": {"tier": "2"}}, {"metadata": {'"': "1"}}, {"uuids": []}):
        assert store.list_page(ServerFilters(**wanted)) == [], wanted


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("web", ["WEB-3", "a_web", "web-1"]),
        ("^web", ["WEB-3", "web-1"]),
        ("^web-.$", ["WEB-3", "web-1"]),
        ("_", ["a_web"]),
        ("%", []),
        ("' OR 1=1 --", []),
        (r"\\", []),
        ("[a-d]b?-1$|^DB$", ["db", "web-1"]),
        ("^(web|a)[-_]([0-9]|w)", ["WEB-3", "a_web", "web-1"]),
        ("(b|eb)+-[[:digit:]]$", ["WEB-3", "web-1"]),
        ("^.{5}$", ["WEB-3", "a_web", "web-1"]),
        ("[^a-z]", ["WEB-3", "a_web", "web-1"]),
        ("ä+", []),
    ],
)
def test_names_are_found_by_regular_expressions(store, add, pattern, found):
    add(**{"web-1": {}, "db": {}, "a_web": {}, "WEB-3": {}})
    assert names(store.list_page(ServerFilters(patterns={"name": pattern}))) == found


def test_a_status_in_sql_is_the_status_that_is_shown(store, add):
    pairs = [*itertools.product((*VM_STATES, "limbo", None), (*TASK_STATES, None))]
    add(**{f"s{at}": {"vm_state": vm, "task_state": task} for at, (vm, task) in enumerate(pairs)})
    for status in STATUSES:
        found = store.list_page(ServerFilters(statuses=[status], deleted=None), limit=None)
        expected = {f"s{at}" for at, (vm, task) in enumerate(pairs) if status_of(vm, task) == status}
        assert set(names(found)) == expected, status
    assert store.list_page(ServerFilters(statuses=["BROKEN"])) == []
    both = store.list_page(ServerFilters(statuses=["BUILD", "SHUTOFF"]), limit=None)
    assert {each.vm_state for each in both} == {"building", "stopped"}


@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_pages_together_are_the_whole_list_whatever_it_is_sorted_by(store, add, direction):
    hosts = ["b", None, "a", "b", None, "c"]
    add(**{f"s{at}": {"host": host, "launched_at": START if at % 2 else None} for at, host in enumerate(hosts)})
    for key in SORT_KEYS:
        whole = store.list_page(sort=[(key, direction)])
        paged, marker = [], None
        while page := store.list_page(sort=[(key, direction)], marker=marker, limit=2):
            paged, marker = paged + page, page[-1].uuid
        assert names(paged) == names(whole), key
    by_host = [each.host for each in store.list_page(sort=[("host", direction)])]
    assert by_host == (["a", "b", "b", "c", None, None] if direction == "asc" else [None, None, "c", "b", "b", "a"])


def test_several_sort_keys_count_in_their_order(store, add):
    add(x={"host": "b"}, y={"host": "a"}, z={"host": "b"})
    assert names(store.list_page(sort=[("host", "desc"), ("display_name", "desc")])) == ["z", "x", "y"]


def test_a_marker_that_the_caller_cannot_see_is_unknown(store, add):
    uuids = add(one={"project_id": "q"})
    for marker, wanted in ((str(uuid.uuid4()), ServerFilters()), (uuids["one"], ServerFilters(project_id="p"))):
        with pytest.raises(BadInput, match=rf"marker \[{marker}\] not found"):
            store.list_page(wanted, marker=marker)


def test_use_is_counted_over_the_flavors_of_a_project(store, add):
    add(
        one={"flavor": {"vcpus": 2, "memory_mb": 512}},
        two={"flavor": {"memory_mb": 1024}},
        gone={"flavor": {"vcpus": 9}, "vm_state": "deleted"},
        imported={},
        other={"flavor": {"vcpus": 7}, "project_id": "q"},
    )
    assert store.count_use("p") == (3, 2, 1536)
    assert store.count_use("nobody") == (0, 0, 0)


@pytest.fixture
def moved(store, add, current):
    """Two servers with three migrations: their uuids, the oldest first."""
    uuids = add(one={"user_id": "ann"}, two={"project_id": "q"})
    moves = [
        Migration(str(uuid.uuid4()), uuids["one"], "resize", "finished", "a", "a", "b", "b", old_flavor={"id": 1}),
        Migration(str(uuid.uuid4()), uuids["two"], "live-migration", "error", "b", "b"),
        Migration(str(uuid.uuid4()), uuids["one"], "evacuation", "done", "c", "c", "a", "a"),
    ]
    for at, move in enumerate(moves):
        with writing(current) as connection:
            store.create_migration(move)(connection)
            times = {"updated_at": START + timedelta(minutes=at)}
            connection.execute(migrations.update().where(migrations.c.uuid == move.uuid).values(times))
    return [each.uuid for each in moves], uuids


def test_a_migration_keeps_its_number_its_flavors_and_its_owner(store, moved):
    first = store.list_migration_page()[-1]
    assert (first.old_flavor, first.new_flavor, first.project_id, first.user_id) == ({"id": 1}, None, "p", "ann")
    numbers = [each.id for each in store.list_migration_page()]
    assert numbers == sorted(numbers, reverse=True)


def test_migrations_are_filtered(store, moved):
    (resize, live, evacuation), uuids = moved
    for wanted, found in (
        ({"status": "error"}, [live]),
        ({"host": "b"}, [live, resize]),
        ({"source_compute": "b"}, [live]),
        ({"migration_type": "evacuation"}, [evacuation]),
        ({"server_uuids": [uuids["one"]]}, [evacuation, resize]),
        ({"project_id": "q"}, [live]),
        ({"user_id": "ann"}, [evacuation, resize]),
        ({"changes_since": START + timedelta(minutes=1)}, [evacuation, live]),
        ({"changes_before": START + timedelta(minutes=1)}, [live, resize]),
        ({"server_uuids": []}, []),
    ):
        assert [each.uuid for each in store.list_migration_page(MigrationFilters(**wanted))] == found, wanted


def test_a_page_of_migrations_begins_after_its_marker(store, moved):
    uuids, _ = moved
    assert [each.uuid for each in store.list_migration_page(marker=uuids[2], limit=1)] == [uuids[1]]
    with pytest.raises(BadInput, match=r"marker \[x\] not found"):
        store.list_migration_page(marker="x")


def test_the_number_of_statements_does_not_grow_with_the_rows(store, add, count_statements):
    def add_and_count(number):
        made = add(**{f"s{number}-{at}": {"vm_state": "error"} for at in range(number)})
        uuids = list(made.values())
        store.add_fault(uuids[0], Fault("broken"))
        calls = (
            lambda: store.list_page(marker=uuids[0]),
            lambda: store.read_latest_faults(uuids),
            lambda: store.list_migration_page(MigrationFilters(server_uuids=uuids)),
            lambda: store.count_use("p"),
        )
        return [count_statements(each) for each in calls]

    assert add_and_count(2) == add_and_count(600) == [2, 1, 1, 1]
