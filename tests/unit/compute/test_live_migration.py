# SPDX-License-Identifier: Apache-2.0
"""Live migration: the guest moves, or stays; an interrupted one is finished or undone by where the guest is."""

import pytest
from tests.unit.compute.agents import CONTEXT

from roost.compute.drivers.base import GuestSpec
from roost.errors import HypervisorError, RpcError


def state(server):
    return server.vm_state, server.task_state


def migrate(agents, server):
    agents.begin_move(server, "live-migrate", "live-migration", "b")
    return agents.resume(server)


def call(agents, host, method, **args):
    return agents.transport.call(f"compute.{host}", method, "1.0", args, CONTEXT, 1.0)


def test_a_server_runs_on_its_target_afterwards(agents):
    server = migrate(agents, agents.build("a"))
    assert (state(server), server.host, agents.places(server)) == (("active", None), "b", ["b"])
    assert (agents.held(server), agents.status_of_move(server)) == (({"b": 1024}, {}), "completed")
    assert [list(each.tracker.tracked()) for each in agents.agents.values()] == [[], [server.uuid]]


def test_a_migration_that_fails_leaves_the_server_where_it_was(make_agents):
    agents = make_agents(move_failure_rate=1.0)
    server = migrate(agents, agents.build("a"))
    assert (state(server), server.host, agents.places(server)) == (("active", None), "a", ["a"])
    assert (agents.held(server), agents.status_of_move(server)) == (({"a": 1024}, {}), "error")
    assert "cannot be migrated" in agents.store.read_faults(server.uuid)[0].details
    assert agents.agents["b"].tracker.tracked() == {}


def test_a_target_that_does_not_answer_leaves_the_server_where_it_was(agents):
    server = agents.build("a")
    agents.rpc_servers[1].stop()
    server = migrate(agents, server)
    assert (state(server), server.host, agents.held(server)) == (("active", None), "a", ({"a": 1024}, {}))


def test_a_guest_is_not_moved_to_a_target_that_holds_nothing_for_it(agents):
    server = agents.build("a")
    agents.begin_move(server, "live-migrate", "live-migration", "b")
    agents.ledger.release([server.uuid])
    server = agents.resume(server)
    assert (state(server), server.host, agents.places(server)) == (("active", None), "a", ["a"])
    assert "booked nothing on the target" in agents.store.read_faults(server.uuid)[0].details


def test_a_migration_whose_guest_arrived_all_the_same_is_finished(agents, monkeypatch):
    driver = agents.agents["a"].real_driver
    move = driver.live_migrate

    def lose_connection(guest, target):
        move(guest, target)
        raise HypervisorError("connection lost")

    monkeypatch.setattr(driver, "live_migrate", lose_connection)
    server = migrate(agents, agents.build("a"))
    assert (state(server), server.host, agents.held(server)) == (("active", None), "b", ({"b": 1024}, {}))


def test_a_guest_that_is_on_neither_host_is_an_error(agents, monkeypatch):
    driver = agents.agents["a"].real_driver

    def lose_guest(guest, target):
        agents.hypervisors.remove("a", guest.uuid)
        raise HypervisorError("it crashed")

    monkeypatch.setattr(driver, "live_migrate", lose_guest)
    server = migrate(agents, agents.build("a"))
    assert (state(server), server.host) == (("error", None), "a")
    assert agents.store.read_faults(server.uuid)[0].details == "a: it crashed; the guest is on neither host"


def test_an_agent_that_is_restarted_waits_for_a_target_that_does_not_answer(agents):
    server = agents.build("a")
    agents.begin_move(server, "live-migrate", "live-migration", "b")
    agents.hypervisors.move(server.uuid, "a", "b")
    agents.start()
    agents.rpc_servers[1].stop()
    agents.agents["a"].recover()
    assert agents.store.get(server.uuid).task_state == "migrating"
    agents.rpc_servers[1].start()
    server = agents.resume(server)
    assert (state(server), server.host) == (("active", None), "b")


def test_a_guest_that_has_left_waits_for_a_target_that_does_not_answer(agents):
    """The database was away when the guest had arrived. An error here would have the target remove the guest."""
    server = agents.build("a")
    agents.begin_move(server, "live-migrate", "live-migration", "b")
    agents.hypervisors.move(server.uuid, "a", "b")
    agents.rpc_servers[1].stop()
    server = agents.resume(server)
    assert (state(server), server.host) == (("active", "migrating"), "a")
    agents.rpc_servers[1].start()
    server = agents.resume(server)
    assert (state(server), server.host, agents.places(server)) == (("active", None), "b", ["b"])


def test_a_paused_copy_that_an_interrupted_migration_left_here_is_removed(agents):
    """The guest runs on the target: undoing the move would end the only one that runs."""
    server = agents.build("a")
    agents.begin_move(server, "live-migrate", "live-migration", "b")
    source, target = (agents.agents[host].real_driver for host in "ab")
    source.power_off(server.uuid)
    target.spawn(GuestSpec(server.uuid, server.name, 1, 1024))
    agents.recover()
    server = agents.store.get(server.uuid)
    assert (state(server), server.host, agents.places(server)) == (("active", None), "b", ["b"])


def test_a_paused_copy_is_not_migrated_once_more_when_the_message_comes_again(agents, monkeypatch):
    server, moved = agents.build("a"), []
    agents.begin_move(server, "live-migrate", "live-migration", "b")
    source, target = (agents.agents[host].real_driver for host in "ab")
    source.power_off(server.uuid)
    target.spawn(GuestSpec(server.uuid, server.name, 1, 1024))
    monkeypatch.setattr(source, "live_migrate", lambda guest, target: moved.append(guest))
    server = agents.resume(server)
    assert (moved, server.host, agents.places(server)) == ([], "b", ["b"])


def test_a_guest_that_was_shut_off_after_it_arrived_is_kept(agents):
    server = agents.build("a")
    agents.begin_move(server, "live-migrate", "live-migration", "b")
    agents.hypervisors.move(server.uuid, "a", "b")
    agents.agents["b"].real_driver.power_off(server.uuid)
    server = agents.resume(server)
    assert (state(server), server.host, agents.guests("b")) == (("active", None), "b", {server.uuid: "shutdown"})


def test_an_agent_that_was_killed_before_the_guest_moved_undoes_the_migration(agents):
    server = agents.build("a")
    agents.begin_move(server, "live-migrate", "live-migration", "b")
    agents.start()
    agents.recover()
    server = agents.store.get(server.uuid)
    assert (state(server), server.host, agents.places(server)) == (("active", None), "a", ["a"])
    assert agents.held(server) == ({"a": 1024}, {})


def test_a_server_deleted_during_its_migration_leaves_nothing_on_either_host(agents, monkeypatch):
    driver, server = agents.agents["a"].real_driver, agents.build("a")
    move = driver.live_migrate

    def delete_meanwhile(guest, target):
        move(guest, target)
        agents.store.advance(agents.store.get(server.uuid), "delete")
        agents.resume(server)  # the message waits for the migration

    monkeypatch.setattr(driver, "live_migrate", delete_meanwhile)
    server = migrate(agents, server)
    assert (state(server), agents.places(server), agents.held(server)) == (("deleted", None), [], ({}, {}))


def test_a_destination_says_how_it_is_reached(agents):
    source = call(agents, "a", "get_migration_address")
    answer = call(agents, "b", "check_can_live_migrate_destination", server_uuid="s", source=source)
    assert answer["target"] == call(agents, "b", "get_migration_address")


def test_a_destination_counts_a_server_that_is_on_its_way(agents):
    server = agents.build("a")
    moving = agents.begin_move(server, "live-migrate", "live-migration", "b")
    source = call(agents, "a", "get_migration_address")
    call(agents, "b", "check_can_live_migrate_destination", server_uuid=moving.uuid, source=source)
    assert list(agents.agents["b"].tracker.tracked()) == [server.uuid]


def test_a_destination_of_another_kind_refuses(agents):
    with pytest.raises(RpcError, match="no live migration from or to"):
        call(agents, "b", "check_can_live_migrate_destination", server_uuid="s", source={"type": "libvirt"})


def test_an_agent_says_whether_it_has_a_guest(agents):
    server = agents.build("a")
    assert [call(agents, host, "runs_guest", server_uuid=server.uuid) for host in "ab"] == [True, False]
