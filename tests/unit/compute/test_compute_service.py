# SPDX-License-Identifier: Apache-2.0
"""The service of agents: reports, heartbeats, readiness, what it resumes at its start, and its stop."""

import random
import threading

import pytest
from tests.unit.compute.agents import Agents, TurnedClock

from roost.all_options import read_options
from roost.compute.drivers.fake import FakeDriver, FakeGuest
from roost.compute.service import ComputeService
from roost.errors import HypervisorError
from roost.inventory import read_hosts_up
from roost.observe.metrics import Metrics

LONG_SECONDS = 10


@pytest.fixture
def cloud(tmp_path):
    """Records, ledger and transport of two hosts whose agents have ended."""
    cloud = Agents(tmp_path)
    for server in cloud.rpc_servers:
        server.stop()
    yield cloud
    cloud.close()


@pytest.fixture
def make_service(cloud):
    made = []

    def make():
        drivers = {
            host: FakeDriver(host, cloud.hypervisors, cloud.fake_options, cloud.clock, random.Random(1))
            for host in cloud.hosts
        }
        parts = read_options(), cloud.engine, cloud.transport, drivers
        made.append(ComputeService(*parts, clock=StillClock(), randomness=random.Random(1), metrics=Metrics()))
        return made[-1]

    yield make
    for service in made:
        service.stop(is_hurried=False)


class StillClock(TurnedClock):
    """Time does not pass: a periodic task runs once, and then waits to be stopped."""

    def wait(self, event, seconds):
        return event.wait(LONG_SECONDS)


def wait_until(is_true):
    done = threading.Event()
    for _ in range(1000):
        if is_true():
            return
        done.wait(0.01)
    pytest.fail("it takes too long")


def test_its_hosts_are_up_when_it_is_ready(cloud, make_service):
    service = make_service()
    assert service.unready() == ["its hosts are not reported yet"]
    service.start()
    assert service.unready() == []
    assert read_hosts_up(cloud.engine, "compute", cloud.clock.now(), 60.0) == ["a", "b"]


def test_it_takes_messages_for_each_of_its_hosts(cloud, make_service):
    make_service().start()
    assert [cloud.build(host).host for host in cloud.hosts] == ["a", "b"]


def test_it_goes_on_with_what_its_agents_left_behind(cloud, make_service):
    server = cloud.create("b")
    make_service().start()
    wait_until(lambda: cloud.store.get(server.uuid).vm_state == "active")
    assert cloud.places(server) == ["b"]


def test_unknown_guests_are_counted(cloud, make_service):
    cloud.hypervisors.put("a", FakeGuest("stranger", "db", is_own=False))
    service = make_service()
    service.compare()
    assert "roost_unknown_guests 1.0" in service._metrics.render().decode()


def test_a_host_whose_agent_is_dropped_gets_no_messages(cloud, make_service):
    service = make_service()
    service.start()
    service.drop_agent("a")
    server = cloud.resume(cloud.create("a"))
    assert server.task_state == "scheduling"
    assert cloud.build("b").vm_state == "active"


def test_a_hypervisor_that_fails_does_not_keep_others_from_being_reported(make_service, monkeypatch):
    service = make_service()
    service.start()
    reported = []

    def fail():
        raise HypervisorError("it hangs")

    monkeypatch.setattr(service.agents["a"].driver, "describe", fail)
    monkeypatch.setattr(service.agents["b"].reporter, "report", lambda: reported.append("b"))
    with pytest.raises(HypervisorError):
        service.report()
    assert reported == ["b"]


def test_it_is_not_ready_while_it_stops_and_takes_nothing_afterwards(cloud, make_service):
    service = make_service()
    service.start()
    service.stop(is_hurried=False)
    assert service.unready() == ["it is stopping"]
    assert cloud.resume(cloud.create("a")).task_state == "scheduling"
