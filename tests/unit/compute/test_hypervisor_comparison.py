# SPDX-License-Identifier: Apache-2.0
"""What runs on the hypervisor and what the records say: unknown guests are left alone, what vanished is told."""

import pytest
import structlog.testing

from roost.compute.drivers.fake import FakeGuest
from roost.errors import HypervisorError
from roost.model.resources import move_of


def state(server):
    return server.vm_state, server.task_state


@pytest.fixture
def logged():
    with structlog.testing.capture_logs() as lines:
        yield lambda event: [line for line in lines if line["event"] == event]


# --- unknown guests ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("is_own", "why"), [(False, "Roost did not define it"), (True, "its server is not in the database")]
)
def test_a_stranger_is_reported_once_and_left_alone(agents, logged, is_own, why):
    agents.hypervisors.put("a", FakeGuest("stranger", "db", is_own=is_own))
    for _ in range(3):
        agents.agents["a"].compare()
    assert agents.guests("a") == {"stranger": "running"}
    assert agents.agents["a"].unknown_guests == 1
    (line,) = logged("unknown guest: left alone")
    assert (line["guest"], line["reason"]) == ("stranger", why)


def test_a_stranger_with_the_uuid_of_a_server_that_is_gone_is_left_alone(agents):
    server = agents.build("a")
    agents.begin(server, "delete")
    agents.resume(server)
    agents.hypervisors.put("a", FakeGuest(server.uuid, "db", is_own=False))
    agents.agents["a"].compare()
    assert agents.guests("a") == {server.uuid: "running"}


def test_a_stranger_that_left_is_not_counted_any_more(agents):
    agents.hypervisors.put("a", FakeGuest("stranger", "db", is_own=False))
    agents.agents["a"].compare()
    agents.hypervisors.remove("a", "stranger")
    agents.agents["a"].compare()
    assert agents.agents["a"].unknown_guests == 0


# --- left over ---------------------------------------------------------------------------------------


def test_the_guest_of_a_deleted_server_is_removed(agents, logged):
    server = agents.build("a")
    agents.begin(server, "delete")
    agents.resume(server)
    agents.hypervisors.put("a", FakeGuest(server.uuid, "web"))
    agents.agents["a"].compare()
    assert agents.places(server) == []
    assert [line["reason"] for line in logged("left-over guest removed")] == ["it is deleted"]


def test_the_guest_of_a_server_that_is_elsewhere_is_removed(agents, logged):
    server = agents.build("b")
    agents.hypervisors.put("a", FakeGuest(server.uuid, "web"))
    agents.agents["a"].compare()
    assert agents.places(server) == ["b"]
    assert [line["reason"] for line in logged("left-over guest removed")] == ["it is on b"]


def test_a_guest_that_moves_is_not_touched_on_either_host(agents):
    server = agents.build("a")
    agents.begin_move(server, "live-migrate", "live-migration", "b")
    agents.hypervisors.put("b", FakeGuest(server.uuid, "web"))
    for agent in agents.agents.values():
        agent.compare()
    assert agents.places(server) == ["a", "b"]


def test_a_left_over_guest_that_cannot_be_removed_does_not_stop_the_comparison(agents, monkeypatch, logged):
    left, vanished = agents.build("b"), agents.build("a")
    agents.hypervisors.put("a", FakeGuest(left.uuid, "web"))
    agents.hypervisors.remove("a", vanished.uuid)

    def fail(uuid):
        raise HypervisorError("it hangs")

    monkeypatch.setattr(agents.agents["a"].real_driver, "destroy", fail)
    agents.agents["a"].compare()
    assert [line["reason"] for line in logged("guest not removed")] == ["it hangs"]
    assert agents.store.get(vanished.uuid).vm_state == "stopped"


def test_a_server_whose_build_was_given_up_leaves_no_guest(agents):
    server = agents.create("a")
    server = agents.store.advance(server, "start build", host="a", node="a")
    agents.hypervisors.put("a", FakeGuest(server.uuid, "web"))
    agents.store.advance(server, "reschedule build", task=server.task.__class__(), host=None, node=None)
    agents.start()
    agents.recover()
    assert agents.places(server) == []


# --- vanished ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("is_gone", "what"), [(True, "is gone from"), (False, "is shut off on")])
def test_a_server_without_a_running_guest_is_stopped_and_has_a_fault(agents, is_gone, what):
    server = agents.build("a")
    if is_gone:
        agents.hypervisors.remove("a", server.uuid)
    else:
        agents.agents["a"].real_driver.power_off(server.uuid)
    agents.agents["a"].compare()
    server = agents.store.get(server.uuid)
    assert (state(server), server.host) == (("stopped", None), "a")
    (fault,) = agents.store.read_faults(server.uuid)
    assert fault.message == f"The guest of the server {what} the hypervisor, though nothing here stopped it"
    assert agents.held(server) == ({"a": 1024}, {})


def test_a_server_that_is_being_stopped_has_not_vanished(agents):
    server = agents.build("a")
    agents.begin(server, "stop")
    agents.agents["a"].real_driver.power_off(server.uuid)
    agents.agents["a"].compare()
    assert agents.store.read_faults(server.uuid) == []
    assert state(agents.resume(server)) == ("stopped", None)


def test_a_server_deleted_during_the_comparison_is_not_told_as_vanished(agents, monkeypatch):
    server, driver = agents.build("a"), agents.agents["a"].real_driver
    guests = driver.list_guests

    def delete_before():
        if agents.store.get(server.uuid).vm_state == "active":
            agents.begin(server, "delete")
            agents.resume(server)
        return guests()

    monkeypatch.setattr(driver, "list_guests", delete_before)
    agents.agents["a"].compare()
    assert state(agents.store.get(server.uuid)) == ("deleted", None)
    assert agents.store.read_faults(server.uuid) == []


def test_the_power_state_of_a_stopped_server_is_recorded_as_the_hypervisor_has_it(agents):
    server = agents.build("a")
    agents.begin(server, "stop")
    server = agents.resume(server)
    agents.agents["a"].real_driver.power_on(server.uuid)
    agents.agents["a"].compare()
    found = agents.store.get(server.uuid)
    assert (state(found), found.power_state) == (("stopped", None), "running")
    assert found.generation == server.generation


# --- the ledger --------------------------------------------------------------------------------------


def test_a_move_that_has_ended_is_ended_in_the_ledger_too(agents):
    server = agents.build("a")
    moving = agents.begin_move(server, "live-migrate", "live-migration", "b")
    agents.hypervisors.move(server.uuid, "a", "b")
    agents.store.advance(moving, "finish live migration", host="b", node="b", migration_status="completed")
    assert agents.held(server) == ({"b": 1024}, {"a": 1024})
    agents.agents["b"].compare()
    assert agents.held(server) == ({"b": 1024}, {})


def test_a_resized_server_keeps_what_it_holds_until_it_is_confirmed(agents):
    server = agents.build("a")
    agents.begin_move(server, "resize", "migration", "b")
    server = agents.resume(server)
    for agent in agents.agents.values():
        agent.compare()
    assert agents.ledger.has_allocations(move_of(server.uuid))
    assert agents.places(server) == ["a", "b"]
