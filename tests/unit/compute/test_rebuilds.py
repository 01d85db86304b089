# SPDX-License-Identifier: Apache-2.0
"""Rebuilds with another image, and evacuations from a dead host."""

import pytest
from tests.unit.compute.agents import SMALL

from roost.errors import HypervisorError
from roost.messages.objects.flavor_image_group import image_to_object
from roost.model import Image


def fail(*args, **kwargs):
    raise HypervisorError("no memory left")


def state(server):
    return server.vm_state, server.task_state


def rebuild(agents, server, image=None):
    target, data = agents.selection(server.host), image_to_object(image)
    agents.begin(server, "rebuild", action="rebuild", target=target, image=data)
    return agents.resume(server)


def evacuate(agents, server):
    agents.begin_move(server, "rebuild", "evacuation", "b")
    return agents.resume(server)


def test_a_rebuilt_server_has_its_new_image(agents, monkeypatch):
    server, spawned = agents.build("a", image=Image(id="old")), []
    monkeypatch.setattr(
        agents.agents["a"].real_driver, "spawn", lambda guest, powered_on: spawned.append(guest.image)
    )
    server = rebuild(agents, server, Image(id="new", properties={"os_distro": "debian"}))
    assert (state(server), server.spec.image.id, server.image_id) == (("active", None), "new", "new")
    assert spawned == [{"os_distro": "debian"}]
    assert agents.held(server) == ({"a": 1024}, {})


def test_a_rebuild_without_an_image_keeps_it(agents):
    server = rebuild(agents, agents.build("a", image=Image(id="old")))
    assert (server.spec.image.id, agents.guests("a")) == ("old", {server.uuid: "running"})


def test_a_failed_rebuild_is_an_error_on_its_host(agents, monkeypatch):
    server = agents.build("a")
    monkeypatch.setattr(agents.agents["a"].real_driver, "spawn", fail)
    server = rebuild(agents, server)
    assert (state(server), server.host, agents.held(server)) == (("error", None), "a", ({"a": 1024}, {}))
    assert agents.store.read_faults(server.uuid)[0].details == "a: no memory left"


@pytest.mark.parametrize(("is_off", "power_state"), [(False, "running"), (True, "shutdown")])
def test_an_evacuated_server_is_on_its_new_host(agents, is_off, power_state):
    server = agents.build("a")
    if is_off:
        agents.begin(server, "stop")
        server = agents.resume(server)
    before = server.vm_state
    server = evacuate(agents, server)
    assert (state(server), server.host, server.spec.flavor) == ((before, None), "b", SMALL)
    assert agents.guests("b") == {server.uuid: power_state}
    assert (agents.held(server), agents.status_of_move(server)) == (({"b": 1024}, {}), "done")


def test_a_host_that_came_back_during_an_evacuation_removes_its_guest_at_the_end(agents, monkeypatch):
    server, driver = agents.build("a"), agents.agents["b"].real_driver
    spawn = driver.spawn

    def return_meanwhile(guest, powered_on=True):
        agents.agents["a"].recover()
        assert agents.places(server) == ["a"]  # the evacuation may fail yet
        spawn(guest, powered_on)

    monkeypatch.setattr(driver, "spawn", return_meanwhile)
    assert agents.places(evacuate(agents, server)) == ["b"]


def test_a_host_that_comes_back_removes_the_guests_that_were_evacuated(agents):
    server = agents.build("a")
    agents.rpc_servers[0].stop()
    server = evacuate(agents, server)
    assert agents.places(server) == ["a", "b"]
    agents.start()
    agents.recover()
    assert agents.places(server) == ["b"]


def test_a_failed_evacuation_is_an_error_that_keeps_its_host(agents, monkeypatch):
    server = agents.build("a")
    monkeypatch.setattr(agents.agents["b"].real_driver, "spawn", fail)
    server = evacuate(agents, server)
    assert (state(server), server.host, agents.held(server)) == (("error", None), "a", ({"a": 1024}, {}))
    assert (agents.status_of_move(server), agents.guests("b")) == ("error", {})
