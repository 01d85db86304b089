# SPDX-License-Identifier: Apache-2.0
"""The commands of operators over the API: the same records as by messages, in few requests; and errors in a line."""

import json
import uuid

import pytest
import requests
from tests.api.cloud import wait_for

from roost.client.rpc_client import RpcClient
from roost.messages.context import RequestContext
from roost.messages.loopback import LoopbackTransport
from roost.messages.options import RpcOptions

NAME = "commands"
SERVER = f"{NAME}-web"


@pytest.fixture
def by_messages(cloud, roost, monkeypatch):
    """Run a command by messages to the conductor; its record, after it succeeded."""

    def open_client(settings, files, project, cloud_name):
        context = RequestContext.new("req-1", "admin", "admin", is_admin=True)
        return RpcClient(LoopbackTransport(cloud.state.socket), RpcOptions(), context)

    def run(*arguments):
        with monkeypatch.context() as patched:
            patched.setattr("roost.client.rpc_client.open_client", open_client)
            code, record, problem = roost(*arguments)
        assert (code, problem) == (0, "")
        return record

    return run


@pytest.fixture(scope="module")
def server(cloud):
    """The name of a server that is ACTIVE."""
    request = {"name": SERVER, "flavor": "small", "image": "debian-12", "count": 1}
    made = cloud.dev.client.create_servers(request)["servers"][0]["id"]
    wait_for(lambda: cloud.dev.client.get_server(made)["status"] == "ACTIVE", "a server")
    yield SERVER
    cloud.dev.client.delete_server(made)


@pytest.fixture
def count_requests(monkeypatch):
    """Method and path of each request that was sent."""
    sent, send = [], requests.Session.request

    def counted(self, method, url, **more):
        sent.append(f"{method} {url.partition('//')[2].partition('/')[2].partition('?')[0]}")
        return send(self, method, url, **more)

    monkeypatch.setattr(requests.Session, "request", counted)
    return sent


STABLE = {"updated_at"}
"""Keys that heartbeats change."""


def stable(record):
    if isinstance(record, list):
        return [stable(each) for each in record]
    return {key: value for key, value in record.items() if key not in STABLE}


@pytest.mark.parametrize(
    "command",
    [
        ("server", "list", "--name", SERVER),
        ("server", "show", SERVER),
        ("host", "list"),
        ("host", "show", "b-01"),
        ("host", "disable", "b-01", "--reason", "x", "--dry-run"),
        ("flavor", "list"),
        ("image", "list"),
        ("decision", "list", "--server", SERVER),
        ("decision", "show", SERVER),
        ("decision", "why", SERVER),
        ("server", "create", NAME, "--flavor", "small", "--dry-run"),
        ("server", "stop", SERVER, "--dry-run"),
        ("server", "migrate", SERVER, "--dry-run"),
        ("server", "delete", SERVER, "--dry-run"),
    ],
    ids=" ".join,
)
def test_a_command_prints_the_same_record_whichever_way_it_goes(server, over_api, by_messages, command):
    assert stable(over_api(*command)) == stable(by_messages(*command))


@pytest.mark.parametrize(
    ("command", "most"),
    [
        (("server", "list"), ["POST identity/v3/auth/tokens", "GET roost/v1/servers"]),
        (("host", "list"), ["POST identity/v3/auth/tokens", "GET roost/v1/hosts"]),
        (("flavor", "show", "small"), ["POST identity/v3/auth/tokens", "GET v2.1/flavors/detail"]),
        (("aggregate", "list"), ["POST identity/v3/auth/tokens", "GET v2.1/os-aggregates"]),
    ],
    ids=lambda each: " ".join(each),
)
def test_a_reading_command_signs_in_and_asks_once(over_api, count_requests, command, most):
    over_api(*command)
    assert count_requests == most


def test_a_server_lives_over_the_api(over_api):
    (made,) = over_api("server", "create", f"{NAME}-life", "--flavor", "small", "--image", "debian-12")
    assert (made["status"], made["image"]["name"]) == ("ACTIVE", "debian-12")
    life, first = f"{NAME}-life", made["host"]
    assert over_api("server", "stop", life)[0]["status"] == "SHUTOFF"
    assert over_api("server", "start", life)[0]["status"] == "ACTIVE"
    (resized,) = over_api("server", "resize", life, "--flavor", "web")
    assert (resized["status"], resized["flavor"]["name"]) == ("VERIFY_RESIZE", "web")
    assert over_api("server", "revert", life)[0]["host"] == first
    (moved,) = over_api("server", "migrate", life, "--live")
    assert moved["host"] != first
    assert over_api("server", "migrate", life, "--live", "--host", first, "--force")[0]["host"] == first
    assert over_api("server", "migrate", life)[0]["status"] == "VERIFY_RESIZE"
    assert over_api("server", "confirm", life)[0]["status"] == "ACTIVE"
    assert over_api("server", "rebuild", life)[0]["status"] == "ACTIVE"
    assert over_api("server", "shelve", life)[0]["status"] == "SHELVED_OFFLOADED"
    assert over_api("server", "unshelve", life)[0]["status"] == "ACTIVE"
    assert over_api("server", "delete", life)[0]["status"] == "DELETED"


def test_servers_of_a_group_are_made_in_the_order_of_their_numbers(over_api):
    group = over_api("server-group", "create", f"{NAME}-g", "--policy", "anti-affinity", "--max-server-per-host", "1")
    assert (group["policy"], group["rules"]) == ("anti-affinity", {"max_server_per_host": 1})
    made = over_api("server", "create", f"{NAME}-n", "--flavor", "small", "--count", "2", "--group", f"{NAME}-g")
    assert [each["name"] for each in made] == [f"{NAME}-n-1", f"{NAME}-n-2"]
    assert len({each["host"] for each in made}) == 2
    members = over_api("server-group", "show", f"{NAME}-g")["members"]
    assert sorted(members) == sorted(each["id"] for each in made)
    over_api("server", "delete", *(each["id"] for each in made))
    over_api("server-group", "delete", f"{NAME}-g")
    assert f"{NAME}-g" not in [each["name"] for each in over_api("server-group", "list")]


def test_a_host_is_disabled_and_enabled(over_api):
    (host,) = over_api("host", "disable", "b-02", "--reason", "new memory")
    assert (host["status"], host["disabled_reason"]) == ("disabled", "new memory")
    assert over_api("host", "enable", "b-02")[0]["status"] == "enabled"


def test_capacity_plans_and_snapshots_read_the_cloud_over_the_api(over_api, tmp_path):
    assert over_api("capacity", "--flavor", "small")["fits"] > 0
    plan = tmp_path / "plan.yaml"
    plan.write_text("[{name: web, flavor: small, count: 2}]")
    assert over_api("plan", str(plan))["fits"] is True
    assert over_api("snapshot", "save", str(tmp_path / "snapshot"))["hosts"] == 10


def test_members_see_their_decisions_in_novas_words(over_api, roost):
    over_api("server", "create", f"{NAME}-own", "--flavor", "small", cloud="roost-member")
    (listed, *_) = wait_for(lambda: over_api("decision", "list", cloud="roost-member"), "a decision")
    shown = over_api("decision", "show", f"{NAME}-own", cloud="roost-member")
    assert (listed["placed"], shown["placed"]) == (True, True)
    assert "hosts" not in listed
    code, found, problem = roost("decision", "why", f"{NAME}-own", "--os-cloud", "roost-member")
    assert (code, problem, found) == (0, "", shown)
    over_api("server", "delete", f"{NAME}-own", cloud="roost-member")


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (("server", "list", "--os-cloud", "rost"), 2, "did you mean roost?"),
        (("server", "show", "nowhere", "--os-cloud", "roost"), 2, "nowhere"),
        (("server", "create", "x", "--vcpus", "1", "--ram", "1", "--os-cloud", "roost"), 2, "roost flavor create"),
        (("server", "create", "x", "--flavor", "smal", "--os-cloud", "roost"), 2, "did you mean small?"),
        (
            ("server", "create", "x", "--flavor", "giant", "--host", "a-01", "--dry-run", "--os-cloud", "roost"),
            1,
            "most free",
        ),
        (("host", "list", "--os-cloud", "roost-member"), 2, "roost:hosts"),
        (("flavor", "create", "x", "--os-cloud", "roost-member"), 2, "Policy doesn't allow"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else None,
)
def test_what_an_api_refuses_is_one_line(roost, command, code, words):
    found, _, problem = roost(*command)
    assert (found, problem.count("\n")) == (code, 1)
    assert words in problem


def write_clouds(path, **changes):
    auth = {
        "auth_url": "http://127.0.0.1:1/identity/v3",
        "username": "admin",
        "password": "x",
        "project_name": "admin",
    }
    settings = {"auth": {**auth, **changes}}
    path.write_text(json.dumps({"clouds": {"here": settings}}))


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({}, 4, "http://127.0.0.1:1 cannot be reached"),
        ({"auth_url": None}, 2, "auth_url is missing"),
        ({"password": None}, 2, "password is missing"),
    ],
)
def test_a_cloud_that_cannot_be_asked_is_one_line(roost, tmp_path, monkeypatch, changes, code, words):
    write_clouds(tmp_path / "clouds.yaml", **changes)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    found, _, problem = roost("server", "list", "--os-cloud", "here")
    assert (found, problem.count("\n")) == (code, 1)
    assert words in problem


def test_a_wrong_password_is_one_line_without_it(cloud, roost, tmp_path, monkeypatch):
    secret, nobody = "not-the-password", uuid.uuid4().hex
    address = f"{cloud.address}/identity/v3"
    write_clouds(tmp_path / "clouds.yaml", auth_url=address, username=nobody, password=secret)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    code, _, problem = roost("server", "list", "--os-cloud", "here")
    assert (code, problem.count("\n")) == (2, 1)
    assert "check user, password and project" in problem
    assert secret not in problem
