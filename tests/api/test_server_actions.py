# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.api.servers import IMAGE, manager_of, refusal, running_server, shown, wait_until

from roost.api.compute.server_actions import ACTIONS

UNKNOWN = "2f2b1f4e-0000-4000-8000-000000000000"
BODIES = {
    "resize": {"flavorRef": "web"},
    "os-migrateLive": {"host": None, "block_migration": "auto"},
    "rebuild": {"imageRef": IMAGE},
    "os-resetState": {"state": "active"},
}
"""What actions are told that need to be told something."""
OF_ADMINISTRATORS = ("evacuate", "shelveOffload", "os-resetState")
OF_MANAGERS = ("migrate", "os-migrateLive")


@pytest.fixture(scope="module")
def server(cloud):
    """A server of the project `ours` that runs; no test changes what it is."""
    with running_server(cloud.client("member"), imageRef=IMAGE) as found:
        yield found


def act(client, server, key, value=None, **how):
    return client.post(f"/servers/{server['id']}/action", {key: value}, **how)


def host_of(admin, server):
    return shown(admin, server["id"])["OS-EXT-SRV-ATTR:host"]


# --- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [{}, {"os-stop": None, "os-start": None}, {"explode": None}, {"": None}])
def test_a_body_names_one_action(member, server, body):
    assert refusal(member.post(f"/servers/{server['id']}/action", body))[0] == 400


@pytest.mark.parametrize("key", ACTIONS)
def test_a_reader_may_do_nothing(cloud, server, key):
    assert refusal(act(cloud.client("reader"), server, key, BODIES.get(key)))[0] == 403


@pytest.mark.parametrize("key", [*OF_ADMINISTRATORS, *OF_MANAGERS])
def test_a_member_may_not_do_what_is_for_operators(member, server, key):
    assert refusal(act(member, server, key, BODIES.get(key)))[0] == 403


@pytest.mark.parametrize("key", ACTIONS)
def test_the_server_of_another_project_is_not_found(cloud, server, key):
    status = refusal(act(cloud.client("other"), server, key, BODIES.get(key)))[0]
    assert status == (403 if key in OF_ADMINISTRATORS + OF_MANAGERS else 404)


@pytest.mark.parametrize(
    ("key", "value", "version"),
    [
        ("resize", {}, 100),
        ("resize", None, 100),
        ("resize", {"flavorRef": "small"}, 100),
        ("resize", {"flavorRef": "unknown"}, 100),
        ("resize", {"flavorRef": "web", "host": "a-01"}, 100),
        ("confirmResize", {"now": True}, 100),
        ("migrate", {"host": "unknown"}, 100),
        ("migrate", {"host": "a-01"}, 55),
        ("migrate", "a-01", 100),
        ("os-migrateLive", {"host": None}, 100),
        ("os-migrateLive", {"block_migration": "auto"}, 100),
        ("os-migrateLive", {"host": "unknown", "block_migration": "auto"}, 100),
        ("os-migrateLive", {"host": "a-01", "block_migration": "auto", "force": True}, 68),
        ("os-migrateLive", {"host": "a-01", "block_migration": "auto", "force": True}, 29),
        ("os-migrateLive", {"host": None, "block_migration": False}, 24),
        ("os-migrateLive", {"host": None, "block_migration": False, "disk_over_commit": False}, 25),
        ("evacuate", {}, 100),
        ("evacuate", {}, 13),
        ("evacuate", {"onSharedStorage": False}, 14),
        ("rebuild", {}, 100),
        ("rebuild", {"imageRef": UNKNOWN}, 100),
        ("rebuild", {"imageRef": IMAGE, "user_data": "IyE="}, 100),
        ("rebuild", {"imageRef": IMAGE, "description": "x"}, 18),
        ("os-resetState", {"state": "deleted"}, 100),
    ],
)
def test_an_action_that_cannot_be_is_refused(admin, server, key, value, version):
    assert refusal(act(admin, server, key, value, version=f"compute 2.{version}"))[0] == 400
    assert shown(admin, server["id"])["OS-EXT-STS:task_state"] is None


@pytest.mark.parametrize("key", ["confirmResize", "revertResize", "unshelve", "shelveOffload", "os-start"])
def test_an_action_in_the_wrong_state_is_refused_in_novas_words(admin, server, key):
    verb = key.removeprefix("os-")
    text = f"Cannot '{verb}' instance {server['id']} while it is in vm_state active"
    status, message = refusal(act(admin, server, key))
    assert (status, message) == (409, text)


# --- what is done ------------------------------------------------------------------------------------


def test_a_server_is_stopped_and_started(member):
    with running_server(member) as server:
        assert act(member, server, "os-stop").status_code == 202
        stopped = wait_until(member, server["id"], "SHUTOFF")
        assert stopped["OS-EXT-STS:power_state"] == 4
        assert act(member, server, "os-start", {}).status_code == 202
        wait_until(member, server["id"], "ACTIVE")


def test_a_server_is_rebuilt_and_renamed(member):
    with running_server(member, imageRef=IMAGE) as server:
        wanted = {"imageRef": IMAGE, "name": "anew", "metadata": {"a": "b"}, "adminPass": "given"}
        answer = act(member, server, "rebuild", wanted)
        found = answer.json()["server"]
        assert (answer.status_code, found["name"], found["metadata"]) == (202, "anew", {"a": "b"})
        assert (found["id"], found["adminPass"]) == (server["id"], "given")
        wait_until(member, server["id"], "ACTIVE")


def test_a_server_is_given_a_state(admin):
    with running_server(admin) as server:
        for state in ("error", "active"):
            assert act(admin, server, "os-resetState", {"state": state}).status_code == 202
            assert shown(admin, server["id"])["status"] == state.upper()


def test_a_host_is_named_for_a_live_migration(admin):
    with running_server(admin, host="a-01") as server:
        wanted = {"host": "a-02", "block_migration": "auto"}
        assert act(admin, server, "os-migrateLive", wanted, version="compute 2.30").status_code == 202
        wait_until(admin, server["id"], "ACTIVE")
        assert host_of(admin, server) == "a-02"


def test_a_shelved_server_comes_back_where_it_is_named(admin):
    places = (
        ({"availability_zone": "zone-b"}, "b-", "zone-b", 77),
        ({"availability_zone": None, "host": "a-01"}, "a-01", None, 91),
    )
    with running_server(admin) as server:
        for wanted, host, zone, since in places:
            assert act(admin, server, "shelve").status_code == 202
            wait_until(admin, server["id"], "SHELVED_OFFLOADED")
            assert refusal(act(admin, server, "unshelve", wanted, version=f"compute 2.{since - 1}"))[0] == 400
            assert act(admin, server, "unshelve", wanted, version=f"compute 2.{since}").status_code == 202
            found = wait_until(admin, server["id"], "ACTIVE")
            assert (host_of(admin, server)[: len(host)], found["pinned_availability_zone"]) == (host, zone)


@pytest.mark.parametrize(("version", "body"), [(13, {"onSharedStorage": False}), (100, None)])
def test_a_server_of_a_host_that_is_down_is_evacuated(cloud, admin, version, body):
    with running_server(admin, host="a-01") as server:
        cloud.dev.client.set_host("a-01", forced_down=True)
        try:
            answer = act(admin, server, "evacuate", body, version=f"compute 2.{version}")
            assert answer.status_code == 200
            assert bool(answer.content and answer.json()["adminPass"]) is (version < 14)
            wait_until(admin, server["id"], "ACTIVE")
            assert host_of(admin, server) != "a-01"
        finally:
            cloud.dev.client.set_host("a-01", forced_down=False)


def test_a_server_whose_host_is_up_is_not_evacuated(admin, server):
    status, message = refusal(act(admin, server, "evacuate", {}))
    assert (status, "is still in use" in message) == (400, True)


def test_the_right_to_migrate_is_not_the_right_to_name_the_host(cloud):
    manager = manager_of(cloud, "ours")
    with running_server(cloud.client("member")) as server:
        assert refusal(act(manager, server, "migrate", {"host": "a-01"}))[0] == 403
        assert refusal(act(manager, server, "os-migrateLive", {"host": "a-01", "block_migration": "auto"}))[0] == 403
        assert act(manager, server, "migrate").status_code == 202
        wait_until(manager, server["id"], "VERIFY_RESIZE")
