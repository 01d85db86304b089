# SPDX-License-Identifier: Apache-2.0
"""Resize and cold migration over two agents, and on one host: confirm, revert, failures."""

from dataclasses import replace

import pytest
from tests.unit.compute.agents import LARGE, SMALL

from roost.errors import ClaimRejected, HypervisorError, Refusal


def fail(*args, **kwargs):
    raise HypervisorError("no memory left")


def state(server):
    return server.vm_state, server.task_state


def resize(agents, server, target="b", flavor=LARGE):
    agents.begin_move(server, "resize", "resize", target, flavor)
    return agents.resume(server)


def stop(agents, server):
    agents.begin(server, "stop")
    return agents.resume(server)


def confirm(agents, server):
    agents.store.advance(server, "confirm resize")
    return agents.resume(server)


def revert(agents, server):
    agents.store.advance(server, "revert resize")
    return agents.resume(server)


def test_a_resized_server_runs_on_its_target_and_keeps_its_source(agents):
    server = resize(agents, agents.build("a"))
    assert (state(server), server.host, server.spec.flavor.name) == (("resized", None), "b", "large")
    assert (agents.guests("a"), agents.guests("b")) == ({server.uuid: "shutdown"}, {server.uuid: "running"})
    assert agents.held(server) == ({"b": 4096}, {"a": 1024})
    assert agents.status_of_move(server) == "finished"


def test_a_confirmed_resize_leaves_nothing_on_the_source(agents):
    server = confirm(agents, resize(agents, agents.build("a")))
    assert (state(server), server.host, agents.places(server)) == (("active", None), "b", ["b"])
    assert agents.held(server) == ({"b": 4096}, {})
    assert agents.status_of_move(server) == "confirmed"
    assert [list(each.tracker.tracked()) for each in agents.agents.values()] == [[], [server.uuid]]


def test_a_reverted_resize_is_as_before(agents):
    server = revert(agents, resize(agents, agents.build("a")))
    assert (state(server), server.host, agents.places(server)) == (("active", None), "a", ["a"])
    assert (server.spec.flavor, server.power_state) == (SMALL, "running")
    assert agents.guests("a") == {server.uuid: "running"}
    assert agents.held(server) == ({"a": 1024}, {})
    assert agents.status_of_move(server) == "reverted"


@pytest.mark.parametrize("end", [confirm, revert])
def test_a_stopped_server_is_stopped_after_its_resize(agents, end):
    server = resize(agents, stop(agents, agents.build("a")))
    assert agents.guests("b") == {server.uuid: "shutdown"}
    server = end(agents, server)
    assert (state(server), server.power_state) == (("stopped", None), "shutdown")
    assert agents.guests(server.host) == {server.uuid: "shutdown"}


@pytest.mark.parametrize(("end", "size", "flavor"), [(confirm, 4096, "large"), (revert, 1024, "small")])
def test_a_resize_on_one_host_defines_the_guest_anew(agents, end, size, flavor):
    server = resize(agents, agents.build("a"), target="a")
    assert agents.held(server) == ({"a": 4096}, {"a": 1024})
    assert memory_of_guest(agents, server) == 4096
    server = end(agents, server)
    assert (state(server), server.spec.flavor.name) == (("active", None), flavor)
    assert memory_of_guest(agents, server) == size
    assert agents.held(server) == ({"a": size}, {})


@pytest.mark.parametrize(("end", "size"), [(confirm, 4096), (revert, 1024)])
def test_a_resize_of_a_server_without_disk_on_one_host_ends_in_its_size(agents, end, size):
    server = agents.build("a", flavor=replace(SMALL, root_gb=0))
    server = end(agents, resize(agents, server, "a", replace(LARGE, root_gb=0)))
    assert agents.held(server) == ({"a": size}, {})


def memory_of_guest(agents, server):
    (guest,) = agents.agents["a"].real_driver.list_guests()
    assert (guest.uuid, guest.power_state) == (server.uuid, "running")
    return guest.memory_mb


def test_a_cold_migration_keeps_the_size(agents):
    server = agents.build("a")
    agents.begin_move(server, "resize", "migration", "b")
    server = confirm(agents, agents.resume(server))
    assert (server.host, server.spec.flavor, agents.held(server)) == ("b", SMALL, ({"b": 1024}, {}))


def test_a_target_without_room_goes_back_to_a_conductor(agents, monkeypatch):
    server = agents.build("a")
    agents.begin_move(server, "resize", "resize", "b", LARGE)
    monkeypatch.setattr(agents.agents["b"].tracker._watched, "claim", fail)
    server = agents.resume(server)
    assert (state(server), server.host, server.task.target) == (("active", "resize_prep"), "a", None)
    assert server.task.tried == (("b", "b"),)
    assert agents.held(server) == ({"a": 1024}, {})
    assert agents.conductor.messages == [("migrate_server", server.uuid, server.generation)]
    assert agents.guests("a") == {server.uuid: "running"}


def test_a_refused_resize_goes_on_though_the_ledger_refuses_to_undo_its_claim(agents, monkeypatch):
    server = agents.build("a")
    agents.begin_move(server, "resize", "resize", "b", LARGE)
    monkeypatch.setattr(agents.agents["b"].tracker._watched, "claim", fail)

    def refuse(*args):
        raise ClaimRejected([Refusal("a", "a", "it would split an affinity group")])

    monkeypatch.setattr(agents.ledger, "undo_move", refuse)
    server = agents.resume(server)
    assert agents.conductor.messages == [("migrate_server", server.uuid, server.generation)]


def test_a_guest_that_cannot_be_powered_off_undoes_the_resize(agents, monkeypatch):
    server = agents.build("a")
    monkeypatch.setattr(agents.agents["a"].real_driver, "power_off", fail)
    server = resize(agents, server)
    assert (state(server), server.host, agents.held(server)) == (("active", None), "a", ({"a": 1024}, {}))
    assert agents.store.read_faults(server.uuid)[0].details == "a: no memory left"
    assert agents.status_of_move(server) == "error"
    assert agents.agents["b"].tracker.tracked() == {}


def test_a_target_that_cannot_start_the_guest_makes_an_error_on_the_source(agents, monkeypatch):
    server = agents.build("a")
    monkeypatch.setattr(agents.agents["b"].real_driver, "spawn", fail)
    server = resize(agents, server)
    assert (state(server), server.host, server.spec.flavor) == (("error", None), "a", SMALL)
    assert (agents.places(server), agents.held(server)) == (["a"], ({"a": 1024}, {}))


def test_an_old_guest_that_cannot_be_removed_does_not_hold_up_the_confirmation(agents, monkeypatch):
    server = resize(agents, agents.build("a"))
    with monkeypatch.context() as patch:
        patch.setattr(agents.agents["a"].real_driver, "destroy", fail)
        server = confirm(agents, server)
    assert (state(server), agents.places(server)) == (("active", None), ["a", "b"])
    agents.agents["a"].compare()
    assert agents.places(server) == ["b"]


def test_a_target_that_keeps_its_guest_makes_an_error_and_nothing_runs_twice(agents, monkeypatch):
    server = resize(agents, agents.build("a"))
    monkeypatch.setattr(agents.agents["b"].real_driver, "destroy", fail)
    server = revert(agents, server)
    assert (state(server), server.host, agents.held(server)) == (("error", None), "b", ({"b": 4096}, {}))
    assert agents.guests("a") in ({}, {server.uuid: "shutdown"})


def test_a_server_stays_resized_while_its_source_is_down(agents):
    """Its guest on the target is the only one that can run."""
    server = resize(agents, agents.build("a"))
    agents.clock.sleep(61)
    agents.send_heartbeats(["b"])
    reverted = revert(agents, server)
    assert (state(reverted), reverted.host, reverted.task) == (("resized", None), "b", server.task)
    assert agents.guests("b") == {server.uuid: "running"}
    assert (agents.held(server), agents.status_of_move(server)) == (({"b": 4096}, {"a": 1024}), "finished")
    assert "old host is down" in agents.store.read_faults(server.uuid)[0].message
    agents.send_heartbeats(["a"])
    reverted = revert(agents, reverted)
    assert (state(reverted), reverted.host, agents.places(server)) == (("active", None), "a", ["a"])


def test_a_revert_whose_guest_is_removed_already_goes_on_though_the_source_is_down(agents):
    server = resize(agents, agents.build("a"))
    agents.agents["b"].real_driver.destroy(server.uuid)
    agents.clock.sleep(61)
    agents.rpc_servers[0].stop()
    server = revert(agents, server)
    assert (state(server), server.host) == (("resized", "resize_reverting"), "a")


def test_a_resize_on_one_host_is_reverted_whatever_its_heartbeats_say(agents):
    server = resize(agents, agents.build("a"), target="a")
    agents.clock.sleep(61)
    assert state(revert(agents, server)) == ("active", None)


def test_a_source_that_cannot_start_its_guest_again_makes_an_error_with_the_old_size(agents, monkeypatch):
    server = resize(agents, agents.build("a"))
    monkeypatch.setattr(agents.agents["a"].real_driver, "spawn", fail)
    server = revert(agents, server)
    assert (state(server), server.host, server.spec.flavor) == (("error", None), "a", SMALL)
    assert agents.held(server) == ({"a": 1024}, {})


@pytest.mark.parametrize("target", ["a", "b"])
def test_a_resized_server_that_is_deleted_leaves_nothing_on_either_host(agents, target):
    server = resize(agents, agents.build("a"), target)
    agents.store.advance(server, "delete")
    server = agents.resume(server)
    assert (state(server), agents.places(server), agents.held(server)) == (("deleted", None), [], ({}, {}))
    assert [each.tracker.tracked() for each in agents.agents.values()] == [{}, {}]
    assert agents.status_of_move(server) == "cancelled"


def test_a_server_deleted_while_it_starts_on_its_target_leaves_nothing(agents, monkeypatch):
    server, driver = agents.build("a"), agents.agents["b"].real_driver
    spawn = driver.spawn

    def delete_meanwhile(guest, powered_on=True):
        spawn(guest, powered_on)
        agents.store.advance(agents.store.get(server.uuid), "delete")
        agents.resume(server)  # on the source: not behind what the target does

    monkeypatch.setattr(driver, "spawn", delete_meanwhile)
    server = resize(agents, server)
    assert (state(server), agents.places(server), agents.held(server)) == (("deleted", None), [], ({}, {}))
    assert [each.tracker.tracked() for each in agents.agents.values()] == [{}, {}]


def test_doubled_messages_of_every_step_move_once(agents):
    server = agents.build("a")
    messages = agents.agents["a"]._handlers  # both agents have the same names
    begun = agents.begin_move(server, "resize", "resize", "b", LARGE)
    for method in messages:
        for host in agents.hosts:
            for generation in range(begun.generation + 1):
                agents.send(host, method, replace(begun, generation=generation))
    server = agents.store.get(server.uuid)
    assert (state(server), server.generation) == (("resized", None), begun.generation + 4)
