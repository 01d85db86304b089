# SPDX-License-Identifier: Apache-2.0
"""The outbox of guests left behind, on all databases: written with a step, postponed by one, acknowledged (D43)."""

import uuid
from datetime import UTC, datetime

import pytest
from sqlalchemy import insert, update

from roost.clock import SystemClock
from roost.errors import ServerChanged
from roost.records.server import Server
from roost.records.servers import ServerStore
from roost.store.schema.fleet import services
from roost.store.schema.servers import guest_removals, servers
from roost.store.transactions import writing

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(current):
    return ServerStore(current, SystemClock())


@pytest.fixture
def server(store):
    server = Server(str(uuid.uuid4()), "web", None, project_id="p")
    store.create([server])
    return store.get(server.uuid)


@pytest.fixture
def host():
    return f"host-{uuid.uuid4()}"


def make_due(engine, *hosts):
    """As if the first wait were over."""
    with writing(engine) as connection:
        change = update(guest_removals).where(guest_removals.c.host.in_(hosts))
        connection.execute(change.values(send_after=LONG_AGO))


def due(store, host):
    return [each for each in store.removals.list_due(1000) if each.host == host]


def test_a_step_that_is_refused_leaves_nothing_behind(store, server, host):
    stale = server
    store.advance(server, "start build", host=host, node=host)
    with pytest.raises(ServerChanged):
        store.advance(stale, "reschedule build", left_on=[host])
    assert store.removals.list_on(host) == []


def test_a_removal_is_due_after_a_wait_and_until_it_is_acknowledged(store, server, host, current):
    left = store.advance(server, "reschedule build", left_on=[host, None])
    (removal,) = store.removals.list_on(host)
    assert removal == (server.uuid, host, left.generation, 0)
    assert due(store, host) == []
    make_due(current, host)
    assert due(store, host) == [removal]
    store.removals.acknowledge(server.uuid, host, left.generation)
    assert (due(store, host), store.removals.list_on(host)) == ([], [])


def test_one_of_two_conductors_postpones_a_notice(store, server, host, current):
    store.advance(server, "reschedule build", left_on=[host])
    make_due(current, host)
    (removal,) = due(store, host)
    assert [store.removals.postpone(removal, 20) for _ in range(2)] == [True, False]
    assert due(store, host) == []
    assert store.removals.list_on(host)[0].attempts == 1


def test_an_acknowledgement_that_is_late_does_not_hide_a_guest_that_was_left_since(store, server, host):
    """The agent looked before the server came back, and says so when it has left again."""
    first = store.advance(server, "reschedule build", left_on=[host])
    again = store.advance(first, "reschedule build", left_on=[host])
    store.removals.acknowledge(server.uuid, host, first.generation)
    assert [each.generation for each in store.removals.list_on(host)] == [again.generation]
    store.removals.acknowledge(server.uuid, host, again.generation)
    assert store.removals.list_on(host) == []


def test_a_guest_that_the_hypervisor_keeps_is_noted_once(store, server, host):
    for _ in range(2):
        store.removals.note(server.uuid, host, server.generation)
    assert len(store.removals.list_on(host)) == 1


def test_what_is_left_on_hosts_without_an_agent_is_forgotten(store, server, host, current):
    other = f"{host}-2"
    with writing(current) as connection:
        agent = {"uuid": str(uuid.uuid4()), "host": host, "binary": "nova-compute"}
        connection.execute(insert(services).values(agent))
    store.advance(server, "reschedule build", left_on=[host, other])
    forgotten = {each.host for each in store.removals.drop_of_missing_hosts()}
    assert forgotten & {host, other} == {other}
    assert [each.host for each in store.removals.list_on(host)] == [host]


def test_a_deleted_server_is_kept_until_no_guest_is_left(store, server, host, current):
    begun = store.advance(server, "delete")
    deleted = store.advance(begun, "finish delete", left_on=[host])
    with writing(current) as connection:
        connection.execute(update(servers).where(servers.c.uuid == server.uuid).values(deleted_at=LONG_AGO))
    store.prune_deleted(86400)
    assert store.find([server.uuid])
    store.removals.acknowledge(server.uuid, host, deleted.generation)
    store.prune_deleted(86400)
    assert not store.find([server.uuid])
