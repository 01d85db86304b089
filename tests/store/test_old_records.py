# SPDX-License-Identifier: Apache-2.0
"""D44: moves and faults of servers that live are removed when they are old, on all databases, unless they matter."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert, select, update

from roost.clock import SystemClock
from roost.records import servers as pruning
from roost.records.server import Fault, Migration, Server
from roost.records.servers import ServerStore
from roost.store.schema.fleet import services
from roost.store.schema.servers import migrations, server_faults, servers
from roost.store.transactions import writing

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
RETENTION = 86400


@pytest.fixture
def store(current):
    return ServerStore(current, SystemClock())


@pytest.fixture
def server(store):
    server = Server(str(uuid.uuid4()), "web", None, project_id="p")
    store.create([server])
    return store.get(server.uuid)


@pytest.fixture
def move(store, server, current):
    """Makes the record of a move; returns its uuid."""

    def make(status="confirmed", updated_at=LONG_AGO, hosts=("gone-1", "gone-2")):
        source, target = hosts
        made = Migration(str(uuid.uuid4()), server.uuid, "migration", status, source, source, target, target)
        with writing(current) as connection:
            store.create_migration(made)(connection)
            if updated_at:
                own = migrations.c.uuid == made.uuid
                connection.execute(update(migrations).where(own).values(updated_at=updated_at))
        return made.uuid

    return make


def left(store, server):
    return {each.uuid for each in store.list_migrations(server.uuid)}


def test_moves_that_ended_long_ago_are_removed_and_no_others(store, server, move):
    move("confirmed"), move("error"), move("done")
    kept = {move("confirmed", updated_at=None), *map(move, ("finished", "migrating", "post-migrating"))}
    assert store.prune_migrations(RETENTION) >= 3
    assert left(store, server) == kept


def test_moves_of_a_host_that_is_down_since_are_kept(store, server, move, current):
    down, up = f"down-{uuid.uuid4()}", f"up-{uuid.uuid4()}"
    with writing(current) as connection:
        for host, seen in ((down, LONG_AGO), (up, datetime.now(UTC) + timedelta(hours=1))):
            agent = {"uuid": str(uuid.uuid4()), "host": host, "binary": "nova-compute", "last_seen_up": seen}
            connection.execute(insert(services).values(agent))
    kept = {move(hosts=(down, up)), move(hosts=(up, down))}
    move(hosts=(up, up))
    store.prune_migrations(RETENTION)
    assert left(store, server) == kept


def test_moves_of_a_deleted_server_go_with_it(store, server, move):
    kept = {move()}
    store.advance(store.advance(server, "delete"), "finish delete")
    store.prune_migrations(RETENTION)
    assert left(store, server) == kept


def test_old_faults_are_removed_but_for_the_latest_of_a_server(store, server, current):
    other = Server(str(uuid.uuid4()), "db", None, project_id="p")
    store.create([other])
    for uuid_ in (server.uuid, other.uuid):
        for message in ("first", "second", "third"):
            store.add_fault(uuid_, Fault(message))
    with writing(current) as connection:
        connection.execute(update(server_faults).values(created_at=LONG_AGO))
    store.add_fault(server.uuid, Fault("new"))
    store.prune_faults(RETENTION)
    assert [each.message for each in store.read_faults(server.uuid)] == ["new"]
    assert [each.message for each in store.read_faults(other.uuid)] == ["third"]


def test_faults_are_kept_for_the_time_of_the_option(store, server):
    for message in ("first", "second"):
        store.add_fault(server.uuid, Fault(message))
    store.prune_faults(RETENTION)
    assert len(store.read_faults(server.uuid)) == 2


def test_many_records_are_removed_in_several_transactions(store, server, move, monkeypatch):
    monkeypatch.setattr(pruning, "MOST_REMOVED", 2)
    for _ in range(5):
        move()
    assert store.prune_migrations(RETENTION) == 5
    assert store.prune_migrations(RETENTION) == 0


def test_nothing_but_the_old_records_is_touched(store, server, move, current):
    move()
    store.prune_migrations(0)
    store.prune_faults(0)
    with current.connect() as connection:
        assert connection.scalar(select(servers.c.generation).where(servers.c.uuid == server.uuid)) == 1
