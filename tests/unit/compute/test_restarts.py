# SPDX-License-Identifier: Apache-2.0
"""An agent is killed after each thing it does: its successor ends what it began, and nothing is left over."""

from datetime import timedelta

import pytest
from tests.unit.compute.agents import LARGE, Killed, KillSwitch

from roost.errors import HypervisorError
from roost.ledger.audit import find_abandoned, heal
from roost.ledger.claim import claim_for


def build(agents):
    return agents.create("a")


def delete(agents):
    return agents.begin(agents.build("a"), "delete")


def stop(agents):
    return agents.begin(agents.build("a"), "stop")


def shelve(agents):
    return agents.begin(agents.build("a"), "shelve")


def unshelve(agents):
    server = agents.resume(agents.begin(agents.build("a"), "shelve"))
    agents.begin(server, "unshelve", action="unshelve")
    agents.ledger.claim([claim_for(server.spec, agents.node_uuid("b"))])
    return agents.assign(agents.store.get(server.uuid), "b")


def resize(agents, target="b"):
    return agents.begin_move(agents.build("a"), "resize", "resize", target, LARGE)


def resize_on_one_host(agents):
    return resize(agents, "a")


def confirm(agents):
    return agents.store.advance(agents.resume(resize(agents)), "confirm resize")


def revert(agents):
    return agents.store.advance(agents.resume(resize(agents)), "revert resize")


def revert_on_one_host(agents):
    return agents.store.advance(agents.resume(resize_on_one_host(agents)), "revert resize")


def delete_resized(agents):
    return agents.store.advance(agents.resume(resize(agents)), "delete")


def evacuate(agents):
    return agents.begin_move(agents.build("a"), "rebuild", "evacuation", "b")


def rebuild(agents):
    server = agents.build("a")
    return agents.begin(server, "rebuild", action="rebuild", target=agents.selection("a"))


def migrate_live(agents):
    return agents.begin_move(agents.build("a"), "live-migrate", "live-migration", "b")


ENDS = {
    build: ("active", {"a": "running"}, ({"a": 1024}, {})),
    delete: ("deleted", {}, ({}, {})),
    stop: ("stopped", {"a": "shutdown"}, ({"a": 1024}, {})),
    shelve: ("shelved_offloaded", {}, ({}, {})),
    unshelve: ("active", {"b": "running"}, ({"b": 1024}, {})),
    resize: ("resized", {"a": "shutdown", "b": "running"}, ({"b": 4096}, {"a": 1024})),
    resize_on_one_host: ("resized", {"a": "running"}, ({"a": 4096}, {"a": 1024})),
    confirm: ("active", {"b": "running"}, ({"b": 4096}, {})),
    revert: ("active", {"a": "running"}, ({"a": 1024}, {})),
    revert_on_one_host: ("active", {"a": "running"}, ({"a": 1024}, {})),
    delete_resized: ("deleted", {}, ({}, {})),
    evacuate: ("active", {"b": "running"}, ({"b": 1024}, {})),
    rebuild: ("active", {"a": "running"}, ({"a": 1024}, {})),
    migrate_live: ("active", {"b": "running"}, ({"b": 1024}, {})),
}
"""Operation -> state, guests and allocations when it has ended."""
UNDONE = ("active", {"a": "running"}, ({"a": 1024}, {}))


@pytest.mark.parametrize("operation", ENDS, ids=lambda each: each.__name__)
def test_what_a_killed_agent_began_is_ended_by_its_successor(make_agents, operation):
    agents = make_agents(vcpus=1000, memory_mb=1_000_000)
    ends = (ENDS[operation], UNDONE) if operation is migrate_live else (ENDS[operation],)
    calls = count_calls(agents, operation)
    assert calls > 1
    for number in range(calls):
        server = operation(agents)
        agents.start(KillSwitch(number))
        with pytest.raises(Killed):
            agents.resume(server)
        agents.start()
        agents.recover()
        agents.recover()  # a host that was evacuated, or only took part, looks again later
        clean_up(agents)
        assert outcome(agents, server) in ends, number


def clean_up(agents):
    """What conductors do periodically: release what is held for no server."""
    with agents.engine.connect() as connection:
        findings = find_abandoned(connection, agents.clock.now() + timedelta(seconds=1))
    heal(agents.engine, findings, agents.ledger)


def count_calls(agents, operation):
    """How many things the agents do for an operation."""
    server, switch = operation(agents), KillSwitch()
    agents.start(switch)
    agents.resume(server)
    agents.start()
    return switch.calls


def outcome(agents, server):
    server = agents.store.get(server.uuid)
    guests = {host: agents.guests(host)[server.uuid] for host in agents.places(server)}
    assert server.task_state is None
    return server.vm_state, guests, agents.held(server)


def test_an_agent_killed_after_a_failed_build_leaves_no_guest(agents, monkeypatch):
    server = agents.create("a")
    switch = KillSwitch(2)  # start build, claim, reschedule build
    agents.start(switch)
    driver = agents.agents["a"].real_driver
    spawn = driver.spawn

    def fail_late(guest, powered_on=True):
        switch.calls -= 1
        spawn(guest, powered_on)
        raise HypervisorError("no answer")

    monkeypatch.setattr(driver, "spawn", fail_late)
    with pytest.raises(Killed):
        agents.resume(server)
    assert agents.places(server) == ["a"]
    agents.start()
    agents.recover()
    assert agents.places(server) == []
    assert agents.store.get(server.uuid).task.tried == (("a", "a"),)
