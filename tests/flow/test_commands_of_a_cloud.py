# SPDX-License-Identifier: Apache-2.0
"""The commands for servers and hosts on a real cloud in one process: conductor, scheduler, agents, SQLite."""

import json

import pytest
from sqlalchemy import select
from tests.flow.whole_cloud import WholeCloud

from roost.cli.main import main
from roost.client.rpc_client import RpcClient
from roost.errors import HypervisorError
from roost.messages.context import RequestContext
from roost.messages.options import RpcOptions
from roost.records.fleet_import import import_fleet
from roost.sources.fleet_file import Fleet
from roost.store.schema.fleet import allocations, services
from roost.store.schema.servers import migrations, servers

LARGE = {"name": "large", "vcpus": 2, "memory_mb": 4096, "root_gb": 1}


@pytest.fixture
def cloud(tmp_path):
    made = WholeCloud(tmp_path)
    import_fleet(made.engine, Fleet.load({"flavors": [LARGE]}, keeps_records=True), made.clock.now())
    yield made
    made.close()


@pytest.fixture
def roost(cloud, capsys, monkeypatch):
    """Run a command on the cloud: (exit code, stdout as JSON, stderr)."""

    def open_client(settings, files, project, cloud_name):
        context = RequestContext.new("req-1", "admin", project or "admin", is_admin=True)
        return RpcClient(cloud.transport, RpcOptions(), context)

    monkeypatch.setattr("roost.client.rpc_client.open_client", open_client)

    def run(*arguments):
        code = main([*arguments, "-f", "json"], cloud.clock)
        printed = capsys.readouterr()
        return code, json.loads(printed.out) if printed.out else "", printed.err

    return run


def rows_of(cloud):
    """All that a change of a server writes, without times."""
    with cloud.engine.connect() as connection:
        return {
            "servers": sorted(connection.execute(select(servers.c.uuid, servers.c.generation, servers.c.host)).all()),
            "allocations": sorted(map(tuple, connection.execute(select(allocations)).all()), key=str),
            "migrations": sorted(connection.execute(select(migrations.c.uuid, migrations.c.status)).all()),
            "services": sorted(connection.execute(select(services.c.host, services.c.disabled)).all(), key=str),
        }


def one(roost, *arguments):
    """The only server that a command is about, after it succeeded."""
    code, found, problem = roost("server", *arguments)
    assert (code, problem) == (0, "")
    assert len(found) == 1
    return found[0]


def test_a_server_goes_through_its_whole_life(roost):
    web = one(roost, "create", "life", "--flavor", "small", "--image", "cirros")
    assert web["status"] == "ACTIVE"
    first = web["host"]
    assert one(roost, "list", "--name", "life")["id"] == web["id"]
    assert one(roost, "stop", "life")["status"] == "SHUTOFF"
    assert one(roost, "start", "life")["status"] == "ACTIVE"
    resized = one(roost, "resize", "life", "--flavor", "large")
    assert resized["status"] == "VERIFY_RESIZE"
    assert one(roost, "revert", "life")["host"] == first
    assert one(roost, "resize", "life", "--flavor", "large")["status"] == "VERIFY_RESIZE"
    large = one(roost, "confirm", "life")
    assert (large["status"], large["flavor"]["name"]) == ("ACTIVE", "large")
    moved = one(roost, "migrate", "life", "--live")
    assert moved["host"] != large["host"]
    assert one(roost, "migrate", "life", "--host", large["host"])["status"] == "VERIFY_RESIZE"
    assert one(roost, "confirm", "life")["host"] == large["host"]
    assert one(roost, "shelve", "life")["status"] == "SHELVED_OFFLOADED"
    assert one(roost, "unshelve", "life")["status"] == "ACTIVE"
    assert one(roost, "rebuild", "life", "--image", "cirros")["status"] == "ACTIVE"
    assert one(roost, "delete", "life")["status"] == "DELETED"
    assert roost("server", "list", "--name", "life") == (0, [], "")


def test_a_server_without_a_host_ends_in_error_with_the_summary(roost):
    code, found, problem = roost("server", "create", "much", "--flavor", "huge")
    assert code == 1
    assert found[0]["status"] == "ERROR"
    assert problem.startswith("roost: server much: No valid host was found.")
    assert "0 of 3 hosts fit" in problem
    assert one(roost, "delete", "much")["status"] == "DELETED"


def test_no_dry_run_changes_anything(roost, cloud):
    web = one(roost, "create", "plan", "--flavor", "small")
    before = rows_of(cloud)
    for verb in (
        *(("stop",), ("resize", "--flavor", "large"), ("migrate",), ("migrate", "--live"), ("shelve",), ("rebuild",)),
        ("delete",),
    ):
        code, planned, problem = roost("server", verb[0], "plan", *verb[1:], "--dry-run")
        assert (code, problem) == (0, ""), verb
        assert [each["server"] for each in planned["plan"]] == [web["id"]]
    code, planned, _ = roost("server", "create", "other", "--flavor", "small", "--count", "2", "--dry-run")
    assert (code, len(planned["plan"])) == (0, 2)
    assert all(each["host"] in cloud.hosts for each in planned["plan"])
    assert roost("host", "disable", cloud.hosts[0], "--reason", "x", "--dry-run")[0] == 0
    assert rows_of(cloud) == before
    code, out, problem = roost("server", "create", "much", "--flavor", "huge", "--dry-run")
    assert (code, [each["host"] for each in out["plan"]]) == (1, [None])
    assert "0 of 3 hosts fit" in out["plan"][0]["summary"]
    assert "0 of 3 hosts fit" in problem
    code, out, problem = roost("server", "start", "plan", "--dry-run")
    assert (code, out, problem.count("\n")) == (2, "", 1)
    assert rows_of(cloud) == before
    one(roost, "delete", "plan")


def test_a_dead_host_is_forced_down_and_its_servers_evacuated(roost, cloud):
    web = one(roost, "create", "phoenix", "--flavor", "small")
    code, out, problem = roost("server", "evacuate", "phoenix")
    assert (code, out, problem.count("\n")) == (2, "", 1)
    code, hosts, _ = roost("host", "disable", web["host"], "--reason", "no power", "--forced-down")
    assert (code, hosts[0]["state"], hosts[0]["disabled_reason"]) == (0, "down", "no power")
    cloud.hypervisors.remove(web["host"], web["id"])
    assert one(roost, "evacuate", "--from", web["host"])["host"] != web["host"]
    code, hosts, _ = roost("host", "enable", web["host"])
    assert (code, hosts[0]["state"], hosts[0]["status"]) == (0, "up", "enabled")
    one(roost, "delete", "phoenix")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("server", "show", "nothing"), ("nothing",)),
        (("server", "create", "x", "--flavor", "nothing"), ("nothing",)),
        (("server", "create", "x", "--flavor", "small", "--image", "nothing"), ("nothing",)),
        (("server", "create", "x", "--flavor", "small", "--group", "nothing"), ("nothing",)),
        (("server", "create", "x", "--flavor", "small", "--host", "nothing"), ("nothing",)),
        (("server", "create", "", "--flavor", "small"), ("name",)),
        (("server", "create", "a\x1b[31mb", "--flavor", "small"), ("name",)),
        (("server", "create", "x" * 300, "--flavor", "small"), ("name",)),
        (("server", "create", "x", "--flavor", "small", "--count", "1000000"), ("count",)),
        (("server", "create", "x", "--flavor", "small", "--project", "p" * 300), ("project_id",)),
        (("host", "disable", "a", "--reason", "x" * 300), ("reason",)),
        (("host", "disable", "a", "--reason", "a\nb"), ("reason",)),
        (("host", "show", "nothing"), ("nothing",)),
        (("host", "enable", "nothing"), ("nothing",)),
    ],
)
def test_wrong_input_is_one_line_and_changes_nothing(roost, cloud, arguments, words):
    before = rows_of(cloud)
    code, out, problem = roost(*arguments)
    assert (code, out, problem.count("\n")) == (2, "", 1), problem
    assert all(word in problem for word in words), problem
    assert rows_of(cloud) == before


def test_catalogue_and_hosts_are_listed(roost, cloud):
    assert [each["name"] for each in roost("flavor", "list")[1]] == ["huge", "large", "small"]
    assert [each["name"] for each in roost("image", "list")[1]] == ["cirros", "windows"]
    assert [each["host"] for each in roost("host", "list")[1]] == list(cloud.hosts)
    assert roost("host", "show", cloud.hosts[0])[1]["state"] == "up"


def test_a_move_that_was_undone_says_why(roost, cloud):
    web = one(roost, "create", "stay", "--flavor", "small")

    def refuse(*args, **more):
        raise HypervisorError("the guest does not converge")

    cloud.agents[web["host"]].real_driver.live_migrate = refuse
    code, found, problem = roost("server", "migrate", "stay", "--live")
    assert (code, found[0]["status"], found[0]["host"]) == (1, "ACTIVE", web["host"])
    first = problem.splitlines()[0]  # what follows is the log of the agent, which is in this process
    assert first.startswith("roost: server stay: ")
    assert "the guest does not converge" in first
