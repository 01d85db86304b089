# SPDX-License-Identifier: Apache-2.0
"""A whole cloud in one process: it boots servers, keeps them over a restart, and survives the loss of a host."""

import io
import random
import re
import shutil
import threading

import pytest
from rich.console import Console
from sqlalchemy import text

from roost.client.rpc_client import RpcClient
from roost.clock import SystemClock
from roost.errors import BadInput, DatabaseFull, MessageError, SchemaError, UnknownName
from roost.messages.context import RequestContext
from roost.messages.loopback import LoopbackTransport, find_dev_cloud
from roost.messages.options import RpcOptions
from roost.store import schema_upgrade
from roost.store.schema_upgrade import check
from roost.trial import demonstration
from roost.trial import dev_cloud as cloud_module
from roost.trial.demonstration import Demonstration, Scene
from roost.trial.dev_cloud import DevCloud
from roost.trial.state import StateDirectory

HOSTS = 10
CONTEXT = RequestContext.new("req-test", "admin", "admin", is_admin=True)
PATIENCE = threading.Event()
"""Never set: what a test waits with."""


def make(state, hosts=HOSTS):
    return DevCloud(state, hosts, clock=SystemClock(), randomness=random.Random(1), usual_hosts=HOSTS)


def wait_for(condition, what):
    for _ in range(600):
        found = condition()
        if found:
            return found
        PATIENCE.wait(0.02)
    raise AssertionError(f"waited in vain for {what}")


def settled(client, name):
    """The server, once nothing is being done to it."""

    def look():
        server = client.get_server(name)
        return server if server["task_state"] is None else None

    return wait_for(look, f"{name} to be settled")


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    with StateDirectory.open(tmp_path_factory.mktemp("dev") / "s") as found:
        yield found


@pytest.fixture
def running(state):
    cloud = make(state)
    cloud.start()
    yield cloud
    cloud.stop()


@pytest.fixture
def client(running):
    """A client in another process, as far as the cloud can tell."""
    return RpcClient(LoopbackTransport(find_dev_cloud(running.state.path)), RpcOptions(), CONTEXT)


def test_servers_boot_and_outlive_a_restart_and_a_client_of_another_process_sees_them(state):
    first = make(state)
    first.start()
    first.client.create_servers({"name": "keeper", "flavor": "small"})
    booted = settled(first.client, "keeper")
    assert booted["status"] == "ACTIVE", booted
    first.stop()
    assert find_dev_cloud(state.path) is None

    again = make(state, hosts=None)
    assert not again.is_new
    again.start()
    client = RpcClient(LoopbackTransport(find_dev_cloud(state.path)), RpcOptions(), CONTEXT)
    kept = client.get_server("keeper")
    assert (kept["status"], kept["host"]) == ("ACTIVE", booted["host"])
    assert kept["id"] in again.hypervisors.guests_on(kept["host"])
    assert len(client.list_hosts()) == HOSTS
    again.stop()


def test_mistakes_of_a_client_are_its_own_errors(client):
    with pytest.raises(UnknownName, match="nobody"):
        client.get_server("nobody")
    with pytest.raises(BadInput, match="gigantic"):
        client.create_servers({"name": "a", "flavor": "gigantic"})


def test_one_host_is_down_and_one_is_disabled_from_the_start(running, client):
    hosts = {each["host"]: each for each in client.list_hosts()}
    assert {name for name, each in hosts.items() if each["state"] == "down"} == {running.fleet.down}
    assert {name for name, each in hosts.items() if each["status"] == "disabled"} == {running.fleet.disabled}


def test_another_number_of_hosts_than_before_is_refused(state):
    make(state).engine.dispose()
    with pytest.raises(BadInput, match=f"has {HOSTS} hosts, not 20"):
        make(state, hosts=20)


def test_clients_of_the_socket_reach_no_method_between_services(running):
    socket = LoopbackTransport(find_dev_cloud(running.state.path))
    with pytest.raises(MessageError, match=r"build_instances.*cannot be called over this socket"):
        socket.call("conductor", "build_instances", "1.0", {"server_uuid": "a", "generation": 1}, CONTEXT, 5.0)


def test_each_service_counts_its_own_methods(running):
    counted = {name: each.render().decode() for name, each in running.metrics.items()}
    for service, method in (
        ("scheduler", "select_destinations"),
        ("conductor", "create_servers"),
        ("compute", "build_and_run_instance"),
    ):
        having = {name for name, text in counted.items() if f'method="{method}"' in text}
        assert having == {service}


def test_transport_and_database_are_closed_after_all_services_have_stopped(tmp_path, monkeypatch):
    with StateDirectory.open(tmp_path / "s") as state:
        cloud = make(state)
        cloud.start()
        ended = []

        def record(owner, method, name):
            original = getattr(owner, method)
            monkeypatch.setattr(owner, method, lambda *given: (original(*given), ended.append(name)))

        for service in cloud.services:
            record(service, "stop", "service")
        record(cloud.transport, "close", "transport")
        record(cloud.engine, "dispose", "engine")
        cloud.stop()
    assert ended.count("service") == 4
    assert ended[-2:] == ["transport", "engine"]


# --- the demonstration -------------------------------------------------------------------------------


def test_the_demonstration_boots_fails_and_evacuates(tmp_path, monkeypatch):
    monkeypatch.setattr(cloud_module, "REPORT_SECONDS", 1)
    monkeypatch.setattr(cloud_module, "DOWN_SECONDS", 2)
    with StateDirectory.open(tmp_path / "s") as state:
        cloud = make(state, 10)
        cloud.start()
        out = Console(record=True, width=200, file=open("/dev/null", "w"))  # noqa: SIM115
        try:
            Demonstration(cloud, out, threading.Event()).run()
            servers = {each["name"]: each for each in cloud.client.list_servers({})}
            out.file.close()
        finally:
            cloud.stop()
    shown = out.export_text()
    assert {name for name, each in servers.items() if each["status"] != "ACTIVE"} == {"giant"}
    assert len({servers[f"quorum-{at}"]["host"] for at in (1, 2, 3)}) == 3
    assert "0 of 10 hosts fit" in shown
    assert "counts as down" in shown
    assert "was on " in shown
    rows = [
        line.split() for line in shown.splitlines() if re.match(r"  (web|db|quorum|train)-\d +ACTIVE +(?!on )", line)
    ]
    assert len(rows) == 10
    assert all(re.search(r"\d\.\d\d$", row[-1]) or row[-2:] == ["only", "host"] for row in rows), rows


def test_a_demonstration_that_is_stopped_does_nothing_more(running):
    stop = threading.Event()
    stop.set()
    before = len(running.client.list_servers({}))
    Demonstration(running, Console(quiet=True), stop).run()
    assert len(running.client.list_servers({})) == before


def demonstrate(cloud, monkeypatch, *scenes):
    """Run the demonstration with these scenes; returns how many steps failed, and what was shown."""
    monkeypatch.setattr(demonstration, "SCENES", scenes)
    out = Console(record=True, width=300, file=io.StringIO())
    return Demonstration(cloud, out, threading.Event()).run(), out.export_text()


def test_a_scene_that_fails_says_so_and_the_next_one_is_shown(tmp_path, monkeypatch):
    """D39"""
    monkeypatch.setattr(Demonstration, "_lose_a_host", lambda _: None)
    scenes = Scene("A flavor that a client deleted.", "lost", "gone"), Scene("It goes on.", "next", "small")
    with StateDirectory.open(tmp_path / "s") as state:
        cloud = make(state)
        cloud.start()
        try:
            failed, shown = demonstrate(cloud, monkeypatch, *scenes)
            following = cloud.client.get_server("next")
        finally:
            cloud.stop()
    assert failed == 1
    assert re.search(r"This step failed: .*gone.*\n.*the cloud goes on", shown)
    assert following["status"] == "ACTIVE"


def test_servers_that_a_client_uses_are_left_to_it_and_the_others_are_evacuated(tmp_path, monkeypatch):
    """D39: as a host dies, a client stops one of its servers and deletes another."""
    monkeypatch.setattr(cloud_module, "REPORT_SECONDS", 1)
    monkeypatch.setattr(cloud_module, "DOWN_SECONDS", 2)
    with StateDirectory.open(tmp_path / "s") as state:
        cloud = make(state, 10)
        cloud.start()
        kill_host = cloud.kill_host

        def kill_and_use(host):
            kill_host(host)
            cloud.client.stop_server("busy-1")
            cloud.client.delete_server("busy-2")

        monkeypatch.setattr(cloud, "kill_host", kill_and_use)
        try:
            cloud.client.create_servers({"name": "busy", "flavor": "small", "count": 2, "host": "b-01"})
            assert {settled(cloud.client, f"busy-{at}")["host"] for at in (1, 2)} == {"b-01"}
            scene = Scene("All on one host.", "web", "web", 2, zone="zone-b:b-01")
            failed, shown = demonstrate(cloud, monkeypatch, scene)
            web = [cloud.client.get_server(f"web-{at}") for at in (1, 2)]
        finally:
            cloud.stop()
    assert failed == 1
    assert re.search(r"busy-1: .*powering-off", shown)
    assert "This step failed: " in shown
    assert all(each["status"] == "ACTIVE" and each["host"] != "b-01" for each in web)


# --- state that cannot be used -----------------------------------------------------------------------


def test_state_of_an_older_version_is_upgraded(tmp_path, monkeypatch):
    folder = tmp_path / "revisions"
    shutil.copytree(schema_upgrade.REVISIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    with StateDirectory.open(tmp_path / "s") as state:
        make(state).engine.dispose()
        head = sorted(each.name for each in folder.glob("r[0-9]*"))[-1][1:5]
        (folder / "r9000_next.py").write_text(
            f'revision = "9000"\ndown_revision = "{head}"\ndef upgrade():\n    pass\n'
        )
        monkeypatch.setattr(schema_upgrade, "REVISIONS", folder)
        cloud = make(state)
        assert check(cloud.engine).revision == "9000"
        cloud.engine.dispose()


def test_state_of_a_newer_version_is_refused_and_left_alone(tmp_path):
    with StateDirectory.open(tmp_path / "s") as state:
        cloud = make(state)
        with cloud.engine.begin() as connection:
            connection.execute(text("update roost_version set version_num = '9000'"))
        cloud.engine.dispose()
        with pytest.raises(
            SchemaError, match=r"made by a newer Roost.*or begin anew: roost dev --fresh --state-dir /"
        ):
            make(state)
        assert state.read_facts()["hosts"] == HOSTS


def test_a_disk_that_is_full_during_the_set_up_leaves_nothing_half_done(tmp_path, monkeypatch):
    def full(*_):
        raise DatabaseFull("database is full", "make room")

    with StateDirectory.open(tmp_path / "s") as state:
        with monkeypatch.context() as patched:
            patched.setattr(cloud_module, "import_fleet", full)
            with pytest.raises(DatabaseFull):
                make(state)
        cloud = make(state)
        assert cloud.is_new
        cloud.engine.dispose()
