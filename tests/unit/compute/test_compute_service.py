# SPDX-License-Identifier: Apache-2.0
"""The service of agents: reports, heartbeats, readiness, what it resumes at its start, and its stop."""

import random
import threading

import pytest
from tests.unit.compute.agents import Agents, TurnedClock

from roost.compute.drivers.fake import FakeDriver, FakeGuest
from roost.compute.process import NEVER_SECONDS, ComputeService
from roost.errors import HypervisorError
from roost.records.services import read_hosts_up
from roost.scheduler.all_options import read_options
from roost.services.metrics import Metrics

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

    def make(**options):
        drivers = {
            host: FakeDriver(host, cloud.hypervisors, cloud.fake_options, cloud.clock, random.Random(1))
            for host in cloud.hosts
        }
        settings = read_options(explicit={"DEFAULT": options})
        parts = settings, cloud.engine, cloud.transport, drivers
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
    assert service.unready() == ["it has not started yet"]
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


def test_tasks_that_were_begun_after_the_start_are_not_taken_for_interrupted_ones(cloud, make_service, monkeypatch):
    """The hypervisor of one host fails at the first comparison. A live migration that begins then is not undone."""
    service = make_service()
    driver = service.agents["a"].driver
    listed = driver.list_guests
    monkeypatch.setattr(driver, "list_guests", fail)
    with pytest.raises(OSError, match="socket"):
        service.compare()
    monkeypatch.setattr(driver, "list_guests", listed)
    server = cloud.begin(run_on(cloud, "a"), "live-migrate", target=cloud.selection("b"), source=("a", "a"))
    service.compare()
    assert cloud.store.get(server.uuid).generation == server.generation


def test_an_agent_that_fails_does_not_keep_another_from_what_it_left_behind(cloud, make_service, monkeypatch):
    server, service = cloud.create("b"), make_service()
    monkeypatch.setattr(service.agents["a"].driver, "list_guests", fail)
    with pytest.raises(OSError, match="socket"):
        service.compare()
    assert cloud.store.get(server.uuid).vm_state == "active"


def test_guests_that_were_left_behind_are_removed_though_power_states_are_not_compared(cloud, make_service):
    service = make_service(sync_power_state_interval=-1)
    seconds = {task.name: task._seconds() for task in service._make_tasks()}
    assert (seconds["compare power states"], seconds["resume and compare"]) == (NEVER_SECONDS, 600)


def test_cleaning_up_leaves_power_states_alone(cloud, make_service):
    service = make_service()
    service.compare()
    server, elsewhere = run_on(cloud, "a"), run_on(cloud, "b")
    cloud.hypervisors.remove("a", server.uuid)
    cloud.hypervisors.move(elsewhere.uuid, "b", "a")
    service.compare()
    assert (cloud.places(elsewhere), cloud.store.get(server.uuid).vm_state) == ([], "active")
    service.check_power_states()
    assert cloud.store.get(server.uuid).vm_state == "stopped"


def test_hypervisors_are_compared_after_a_silence_that_let_them_count_as_down(cloud, make_service):
    service = make_service()
    service.compare()
    server = run_on(cloud, "b")
    cloud.hypervisors.move(server.uuid, "b", "a")
    service._clock.seconds = 59
    service.send_heartbeat()
    service._compare_after_silence()
    assert cloud.places(server) == ["a"]
    service._clock.seconds = 59 + 61
    service.send_heartbeat()
    service._compare_after_silence()
    assert cloud.places(server) == []


def run_on(cloud, host):
    """A server that runs on a host, whose agent is not asked."""
    server = cloud.store.advance(cloud.create(host), "start build", host=host, node=host)
    cloud.hypervisors.put(host, FakeGuest(server.uuid, "web"))
    return cloud.store.advance(server, "finish build")


def fail(*args):
    raise OSError("socket closed")


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
