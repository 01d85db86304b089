# SPDX-License-Identifier: Apache-2.0
"""What clients write on a server - addresses, host name, disk configuration - is kept and shown, or refused (D29)."""

import pytest
from tests.api.cloud import wait_for
from tests.api.servers import IMAGE, refusal, running_server, shown, wait_until, wanted_server

HOSTNAME, DISK = "OS-EXT-SRV-ATTR:hostname", "OS-DCF:diskConfig"
WRITTEN = {"accessIPv4": "192.0.2.7", "accessIPv6": "2001:db8::7", DISK: "AUTO", "hostname": "front"}
CHANGED = {"accessIPv4": "192.0.2.8", "accessIPv6": "2001:db8::8", DISK: "MANUAL", "hostname": "back.example.org"}


def written(server):
    """What of a shown server a client wrote, by the keys of a body."""
    return {key: server[HOSTNAME if key == "hostname" else key] for key in WRITTEN}


def act(client, server, key, value):
    answer = client.post(f"/servers/{server['id']}/action", {key: value})
    assert answer.status_code in (202, 204), answer.text
    return answer


def test_what_is_written_at_the_creation_is_kept_and_shown(member):
    """D29."""
    with running_server(member, **WRITTEN) as server:
        assert written(shown(member, server["id"])) == WRITTEN
        listed = member.get("/servers/detail", params={"name": server["name"]}).json()["servers"]
        assert [written(each) for each in listed] == [WRITTEN]


def test_it_is_changed_by_an_update(member):
    """D29."""
    with running_server(member, **WRITTEN) as server:
        path = f"/servers/{server['id']}"
        assert written(member.put(path, {"server": CHANGED}).json()["server"]) == CHANGED
        assert written(shown(member, server["id"])) == CHANGED
        member.put(path, {"server": {"accessIPv4": "", "accessIPv6": ""}})
        assert written(shown(member, server["id"])) == CHANGED | {"accessIPv4": "", "accessIPv6": ""}


def test_it_is_changed_by_a_rebuild_and_else_outlives_it(member):
    """D29."""
    with running_server(member, imageRef=IMAGE, **WRITTEN) as server:
        act(member, server, "rebuild", {"imageRef": IMAGE})
        assert written(wait_until(member, server["id"], "ACTIVE")) == WRITTEN
        answer = act(member, server, "rebuild", {"imageRef": IMAGE, **CHANGED}).json()["server"]
        assert written(answer) == CHANGED
        assert written(wait_until(member, server["id"], "ACTIVE")) == CHANGED


@pytest.mark.parametrize(("given", "then"), [({}, "AUTO"), ({DISK: "MANUAL"}, "MANUAL"), ({DISK: "AUTO"}, "AUTO")])
def test_the_disk_configuration_outlives_a_resize_unless_that_changes_it(member, given, then):
    """D29."""
    with running_server(member, **{DISK: "AUTO"}) as server:
        act(member, server, "resize", {"flavorRef": "web", **given})
        assert wait_until(member, server["id"], "VERIFY_RESIZE")[DISK] == then
        act(member, server, "confirmResize", None)
        assert wait_until(member, server["id"], "ACTIVE")[DISK] == then


def test_nothing_is_written_by_a_rebuild_that_is_refused(member):
    with running_server(member, imageRef=IMAGE) as server:
        act(member, server, "shelve", None)
        wait_until(member, server["id"], "SHELVED_OFFLOADED")
        wanted = {"imageRef": IMAGE, "name": "renamed", "metadata": {"a": "b"}, **WRITTEN}
        assert refusal(member.post(f"/servers/{server['id']}/action", {"rebuild": wanted}))[0] == 409
        after = shown(member, server["id"])
        assert (after["name"], after["metadata"], after["accessIPv4"]) == (server["name"], {}, "")


def test_no_rebuild_begins_with_details_that_cannot_be(member):
    with running_server(member, imageRef=IMAGE) as server:
        wanted = {"imageRef": IMAGE, "description": "two\nlines"}
        assert refusal(member.post(f"/servers/{server['id']}/action", {"rebuild": wanted}))[0] == 400
        assert shown(member, server["id"])["OS-EXT-STS:task_state"] is None


@pytest.mark.parametrize(
    ("name", "hostname"),
    [
        ("Web Server_1.example", "web-server-1-example"),
        ("Bücher", "bucher"),
        ("-漢字-", "server"),
        ("x" * 62 + "-y", "x" * 62),
    ],
)
def test_a_host_name_is_made_of_the_name_where_none_is_given(member, name, hostname):
    """D29: the name itself, blanks and all, was shown as host name."""
    with running_server(member, name=name) as server:
        assert server[HOSTNAME] == hostname
        member.put(f"/servers/{server['id']}", {"server": {"name": "renamed"}})
        assert shown(member, server["id"])[HOSTNAME] == hostname


def test_several_servers_have_numbered_host_names_and_indexes(admin):
    """D29."""
    body = wanted_server(hostname="node", min_count=2, max_count=2, return_reservation_id=True)
    made = admin.post("/servers", {"server": body}).json()
    found = admin.get("/servers/detail", params=made | {"sort_key": "display_name", "sort_dir": "asc"}).json()[
        "servers"
    ]
    assert [each[HOSTNAME] for each in found] == ["node-1", "node-2"]
    assert [each["OS-EXT-SRV-ATTR:launch_index"] for each in found] == [0, 1]
    for each in found:
        admin.delete(f"/servers/{each['id']}")
        wait_for(lambda path=f"/servers/{each['id']}": admin.get(path).status_code == 404, "the deletion")


def test_addresses_are_kept_in_their_shortest_form(member):
    with running_server(member, accessIPv6="2001:0DB8:0000::0007") as server:
        assert server["accessIPv6"] == "2001:db8::7"


WRONG = [
    ({"accessIPv4": "1.1.1.1.1.1"}, "IPv4", 100),
    ({"accessIPv4": "::1"}, "IPv4", 100),
    ({"accessIPv4": 1}, "accessIPv4", 100),
    ({"accessIPv4": None}, "accessIPv4", 100),
    ({"accessIPv6": "192.0.2.7"}, "IPv6", 100),
    ({"accessIPv6": "fe80::1%eth0"}, "IPv6", 100),
    ({DISK: "auto"}, DISK, 100),
    ({"hostname": "x"}, "hostname", 100),
    ({"hostname": "-front"}, "hostname", 100),
    ({"hostname": "front door"}, "hostname", 100),
    ({"hostname": "front.example.org"}, "hostname", 93),
    ({"hostname": "x" * 64}, "hostname", 93),
    ({"hostname": "front"}, "'hostname' was unexpected", 89),
]


@pytest.mark.parametrize(("details", "text", "minor"), WRONG)
def test_what_cannot_be_is_refused_at_every_door(member, cloud, details, text, minor):
    """D29: nonsense was taken, and dropped."""
    version = f"compute 2.{minor}"
    answers = [member.post("/servers", {"server": wanted_server(**details)}, version=version)]
    with running_server(member, imageRef=IMAGE) as server:
        path = f"/servers/{server['id']}"
        answers.append(member.put(path, {"server": details}, version=version))
        rebuild = {"rebuild": {"imageRef": IMAGE, **details}}
        answers.append(member.post(f"{path}/action", rebuild, version=version))
        for answer in answers:
            status, message = refusal(answer)
            assert (status, text in message) == (400, True), message
        assert shown(member, server["id"])["OS-EXT-STS:task_state"] is None


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"os:scheduler_hints": {"a": "b"}, "OS-SCH-HNT:scheduler_hints": {"c": "d"}}, "give either"),
        ({"disk": {"delete_on_termination": False}}, "deleted with its server"),
        ({"disk": {"volume_size": 20}}, "volume_size"),
        ({"disk": {"disk_bus": "scsi"}}, "disk_bus"),
        ({"disk": {"no_device": True}}, "local boot disk"),
        ({"disk": {"colour": "red"}}, "colour"),
    ],
)
def test_what_would_be_lost_is_refused(member, more, text):
    disk = more.pop("disk", None)
    boot = {"uuid": IMAGE, "boot_index": 0, "source_type": "image", "destination_type": "local"}
    devices = {} if disk is None else {"imageRef": IMAGE, "block_device_mapping_v2": [boot | disk]}
    status, message = refusal(member.post("/servers", {"server": wanted_server(**devices), **more}))
    assert (status, text in message) == (400, True), message


def test_ephemeral_disks_are_not_preserved(member):
    with running_server(member, imageRef=IMAGE) as server:
        wanted = {"rebuild": {"imageRef": IMAGE, "preserve_ephemeral": True}}
        status, message = refusal(member.post(f"/servers/{server['id']}/action", wanted))
        assert (status, "preserve_ephemeral" in message) == (400, True)
