# SPDX-License-Identifier: Apache-2.0
"""Builds, deletions, shelving: what servers and hosts are afterwards, also after failures and doubled messages."""

from dataclasses import replace

import pytest

from roost.errors import HypervisorError
from roost.hosts.guests import Guest
from roost.ledger.claim import claim_for
from roost.model.numa import InstanceCell


def fail(*args, **kwargs):
    raise HypervisorError("no memory left")


def state(server):
    return server.vm_state, server.task_state


# --- build -------------------------------------------------------------------------------------------


def test_a_server_is_built_where_the_scheduler_said(agents):
    server = agents.resume(agents.create("a"))
    assert state(server) == ("active", None)
    assert (server.host, server.node, server.availability_zone, server.power_state) == ("a", "a", "north", "running")
    assert server.launched_at == agents.clock.now()
    assert agents.guests("a") == {server.uuid: "running"}


def test_a_doubled_message_builds_once(agents, monkeypatch):
    server = agents.create("a")
    spawned = []
    driver = agents.agents["a"].real_driver
    spawn = driver.spawn
    monkeypatch.setattr(driver, "spawn", lambda guest, on=True: (spawned.append(guest.uuid), spawn(guest, on)))
    for _ in range(3):
        agents.send("a", "build_and_run_instance", server)
    assert spawned == [server.uuid]


def test_a_message_for_another_host_is_ignored(agents):
    server = agents.create("a")
    agents.send("b", "build_and_run_instance", server)
    assert agents.store.get(server.uuid).generation == server.generation


def test_a_message_doubled_during_the_build_is_ignored(agents, monkeypatch):
    server = agents.create("a")
    driver = agents.agents["a"].real_driver
    spawned = []

    def spawn(guest, powered_on=True):
        spawned.append(guest.uuid)
        agents.send("a", "build_and_run_instance", server)
        agents.resume(server)

    monkeypatch.setattr(driver, "spawn", spawn)
    assert state(agents.resume(server)) == ("active", None)
    assert spawned == [server.uuid]


def test_a_failed_build_goes_back_to_a_conductor_with_its_reason(agents, monkeypatch):
    server = agents.create("a")
    monkeypatch.setattr(agents.agents["a"].real_driver, "spawn", fail)
    server = agents.resume(server)
    assert state(server) == ("building", "scheduling")
    assert (server.host, server.node, server.task.target) == (None, None, None)
    assert [tuple(each) for each in server.task.attempts] == [("a", "a", "no memory left")]
    assert agents.conductor.messages == [("build_instances", server.uuid, server.generation)]
    assert agents.held(server) == ({}, {})
    assert agents.agents["a"].tracker.failed_builds == 1


def test_a_server_that_the_ledger_does_not_know_is_not_built(agents):
    server = agents.create("a")
    agents.ledger.release([server.uuid])
    server = agents.resume(server)
    assert server.task.attempts[0].reason == "the ledger has booked nothing here for the server"
    assert agents.guests("a") == {}


def test_a_host_with_less_room_than_the_scheduler_thought_sends_the_server_on(agents, monkeypatch):
    before = agents.build("a")
    server = agents.create("a")
    task = replace(server.task, target=agents.selection("a", {"memory_mb": 2000}))
    server = agents.resume(agents.store.advance(server, "assign", task=task))
    assert server.task.attempts[0].reason == "Free memory 464.00 MB < requested 1024 MB"
    assert (agents.guests("a"), agents.held(server)) == ({before.uuid: "running"}, ({}, {}))


def test_the_hypervisor_gets_the_cpus_that_the_ledger_has_booked(make_agents, monkeypatch):
    agents, spawned = make_agents(numa_cells=2), []
    driver = agents.agents["a"].real_driver
    monkeypatch.setattr(driver, "spawn", lambda guest, powered_on: spawned.append(guest.placement))
    server = agents.create()
    cell = InstanceCell(1, frozenset({0}), frozenset(), 1024)
    guest = Guest((cell,), (), server.uuid)
    agents.ledger.claim([claim_for(server.spec, agents.node_uuid("a"), guest)])
    agents.resume(agents.assign(server, "a"))
    assert [placement.cells for placement in spawned] == [(cell,)]


def test_a_failed_build_releases_only_what_it_held_here(agents, monkeypatch):
    server = agents.create("a")

    def spawn(guest, powered_on=True):
        """A conductor gave up on this host, and chose another."""
        current = agents.store.get(server.uuid)
        agents.ledger.release([server.uuid])
        agents.store.advance(current, "reschedule build", host=None, node=None)
        other = agents.create("b")
        agents.moved = other
        fail()

    monkeypatch.setattr(agents.agents["a"].real_driver, "spawn", spawn)
    agents.resume(server)
    assert agents.conductor.messages == []
    assert agents.held(agents.moved) == ({"b": 1024}, {})


def test_a_build_that_succeeds_ends_the_count_of_failed_ones(agents, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(agents.agents["a"].real_driver, "spawn", fail)
        agents.resume(agents.create("a"))
    agents.build("a")
    assert agents.agents["a"].tracker.failed_builds == 0


def test_a_server_deleted_during_its_build_leaves_nothing(agents, monkeypatch):
    server = agents.create("a")
    driver = agents.agents["a"].real_driver
    spawn = driver.spawn

    def delete_meanwhile(guest, powered_on=True):
        spawn(guest, powered_on)
        agents.begin(agents.store.get(server.uuid), "delete")
        agents.resume(server)  # the message waits for the build

    monkeypatch.setattr(driver, "spawn", delete_meanwhile)
    server = agents.resume(server)
    assert state(server) == ("deleted", None)
    assert (agents.places(server), agents.held(server)) == ([], ({}, {}))
    assert agents.agents["a"].tracker.tracked() == {}


def test_a_server_rescheduled_during_its_build_keeps_its_new_claim(agents, monkeypatch):
    server = agents.create("a")
    driver = agents.agents["a"].real_driver
    spawn = driver.spawn

    def reschedule_meanwhile(guest, powered_on=True):
        spawn(guest, powered_on)
        current = agents.store.get(server.uuid)
        task = current.task.__class__(action="build")
        agents.store.advance(current, "reschedule build", task=task, host=None, node=None)

    monkeypatch.setattr(driver, "spawn", reschedule_meanwhile)
    server = agents.resume(server)
    assert state(server) == ("building", "scheduling")
    assert agents.places(server) == []
    assert agents.held(server) == ({"a": 1024}, {})  # the conductor's business


# --- delete ------------------------------------------------------------------------------------------


def test_a_deleted_server_leaves_nothing(agents):
    server = agents.build("a")
    agents.begin(server, "delete")
    server = agents.resume(server)
    assert state(server) == ("deleted", None)
    assert (server.host, agents.places(server), agents.held(server)) == (None, [], ({}, {}))


def test_a_server_whose_guest_cannot_be_removed_stays_until_it_can(agents, monkeypatch):
    server = agents.build("a")
    agents.begin(server, "delete")
    with monkeypatch.context() as patch:
        patch.setattr(agents.agents["a"].real_driver, "destroy", fail)
        server = agents.resume(server)
    assert state(server) == ("active", "deleting")
    assert agents.held(server) == ({"a": 1024}, {})
    assert state(agents.resume(server)) == ("deleted", None)


# --- start and stop ----------------------------------------------------------------------------------


def test_a_server_stops_and_starts(agents):
    server = agents.build("a")
    agents.begin(server, "stop")
    server = agents.resume(server)
    assert (state(server), server.power_state) == (("stopped", None), "shutdown")
    agents.begin(server, "start")
    server = agents.resume(server)
    assert (state(server), server.power_state) == (("active", None), "running")


@pytest.mark.parametrize(("step", "operation"), [("stop", "power_off"), ("start", "power_on")])
def test_a_power_change_that_fails_leaves_a_fault(agents, monkeypatch, step, operation):
    server = agents.build("a")
    if step == "start":
        agents.begin(server, "stop")
        server = agents.resume(server)
    before = server.vm_state
    monkeypatch.setattr(agents.agents["a"].real_driver, operation, fail)
    agents.begin(server, step)
    server = agents.resume(server)
    assert state(server) == (before, None)
    fault = agents.store.read_faults(server.uuid)[0]
    assert fault.details == "a: no memory left"
    assert "no memory" not in fault.message


# --- shelve and unshelve -----------------------------------------------------------------------------


def test_a_shelved_server_is_on_no_host_and_comes_back_on_another(agents):
    server = agents.build("a")
    agents.begin(server, "shelve")
    server = agents.resume(server)
    assert state(server) == ("shelved_offloaded", None)
    assert (server.host, agents.places(server), agents.held(server)) == (None, [], ({}, {}))
    server = unshelve(agents, server, "b")
    assert (state(server), server.host, agents.places(server)) == (("active", None), "b", ["b"])


def unshelve(agents, server, host):
    agents.begin(server, "unshelve", action="unshelve")
    agents.ledger.claim([claim_for(server.spec, agents.node_uuid(host))])
    return agents.resume(agents.assign(agents.store.get(server.uuid), host))


def test_an_unshelve_that_fails_goes_back_to_a_conductor(agents, monkeypatch):
    server = agents.build("a")
    agents.begin(server, "shelve")
    server = agents.resume(server)
    monkeypatch.setattr(agents.agents["b"].real_driver, "spawn", fail)
    server = unshelve(agents, server, "b")
    assert state(server) == ("shelved_offloaded", "unshelving")
    assert (server.task.target, server.task.tried, agents.held(server)) == (None, (("b", "b"),), ({}, {}))
    assert agents.conductor.messages[-1] == ("unshelve_instance", server.uuid, server.generation)


def test_a_guest_that_cannot_be_removed_for_shelving_is_removed_later(agents, monkeypatch):
    server = agents.build("a")
    agents.begin(server, "shelve")
    with monkeypatch.context() as patch:
        patch.setattr(agents.agents["a"].real_driver, "destroy", fail)
        server = agents.resume(server)
    assert (state(server), server.host, agents.places(server)) == (("shelved_offloaded", None), None, ["a"])
    assert agents.held(server) == ({"a": 1024}, {})  # until a conductor finds that the server needs it no more
    assert agents.store.read_faults(server.uuid)[0].details == "a: no memory left"
    agents.agents["a"].compare()
    assert agents.places(server) == []


def test_a_shelving_that_a_conductor_took_back_leaves_the_guest_running(agents, monkeypatch):
    """The agent was paused until its host counted as down."""
    server = agents.build("a")
    shelving, store = agents.begin(server, "shelve"), agents.agents["a"]._store._watched
    advance = store.advance

    def undo_first(*args, **kwargs):
        monkeypatch.setattr(store, "advance", advance)
        advance(shelving, "fail shelve")
        return advance(*args, **kwargs)

    monkeypatch.setattr(store, "advance", undo_first)
    server = agents.resume(server)
    assert (state(server), agents.guests("a")) == (("active", None), {server.uuid: "running"})
    assert agents.held(server) == ({"a": 1024}, {})


def test_a_server_unshelved_on_its_old_host_at_once_keeps_its_claim(agents, monkeypatch):
    server = agents.build("a")
    agents.begin(server, "shelve")
    driver = agents.agents["a"].real_driver
    get = agents.store.get

    def unshelve_first(uuid):
        monkeypatch.setattr(agents.store, "get", get)
        agents.begin(get(uuid), "unshelve", action="unshelve")
        agents.resume(agents.assign(get(uuid), "a"))  # the message waits for the shelving
        return get(uuid)

    due = get(server.uuid)
    monkeypatch.setattr(agents.store, "get", unshelve_first)
    agents.send("a", "shelve_instance", due)
    server = get(server.uuid)
    assert (state(server), server.host, agents.held(server)) == (("active", None), "a", ({"a": 1024}, {}))
    assert [guest.power_state for guest in driver.list_guests()] == ["running"]
