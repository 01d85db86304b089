# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.api.cloud import wait_for
from tests.api.servers import IMAGE, new_group, refusal, running_server, shown, wait_until, wanted_server

UNKNOWN = "2f2b1f4e-0000-4000-8000-000000000000"
BOOT_DISK = {"uuid": IMAGE, "boot_index": 0, "source_type": "image", "destination_type": "local"}


def create(client, hints=None, version=None, **more):
    versions = {"version": version} if version else {}
    body = {"server": wanted_server(**more)} | ({"OS-SCH-HNT:scheduler_hints": hints} if hints else {})
    return client.post("/servers", body, **versions)


def test_the_answer_names_the_server_and_where_it_is(member, cloud):
    answer = create(member, imageRef=IMAGE, block_device_mapping_v2=[BOOT_DISK | {"delete_on_termination": True}])
    made = answer.json()["server"]
    assert (answer.status_code, answer.headers["Location"]) == (202, f"{cloud.address}/v2.1/servers/{made['id']}")
    assert set(made) == {"id", "links", "OS-DCF:diskConfig", "adminPass", "security_groups"}
    assert len(made["adminPass"]) >= 12
    found = wait_until(member, made["id"], "ACTIVE")
    assert found["image"]["id"] == IMAGE
    member.delete(f"/servers/{made['id']}")


def test_several_servers_share_a_reservation_and_are_numbered(member):
    made = create(member, name="several", min_count=2, max_count=2, return_reservation_id=True).json()
    assert set(made) == {"reservation_id"}
    found = member.get("/servers", params=made).json()["servers"]
    assert sorted(each["name"] for each in found) == ["several-1", "several-2"]
    for each in found:
        member.delete(f"/servers/{each['id']}")


def test_a_group_keeps_servers_together(member, cloud, admin):
    group = new_group(cloud, "ours")
    with running_server(member, hints={"group": group}) as one, running_server(member, hints={"group": group}) as two:
        hosts = {shown(admin, each["id"])["OS-EXT-SRV-ATTR:host"] for each in (one, two)}
        assert len(hosts) == 1


@pytest.mark.parametrize(
    "where", [{"host": "a-01"}, {"hypervisor_hostname": "a-01"}, {"availability_zone": "zone-a:a-01"}]
)
def test_administrators_name_a_host_and_members_may_not(admin, member, where):
    with running_server(admin, **where) as server:
        assert shown(admin, server["id"])["OS-EXT-SRV-ATTR:host"] == "a-01"
    assert refusal(create(member, **where))[0] == 403


def test_a_zone_is_kept(admin):
    with running_server(admin, availability_zone="zone-b") as server:
        assert (server["OS-EXT-AZ:availability_zone"], server["pinned_availability_zone"]) == ("zone-b", "zone-b")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"name": ""}, "server.name"),
        ({"name": "x" * 256}, "server.name"),
        ({"flavorRef": UNKNOWN}, f"Flavor {UNKNOWN} could not be found."),
        ({"imageRef": UNKNOWN}, UNKNOWN),
        ({"networks": [{"uuid": UNKNOWN}]}, "There are no networks here"),
        ({"networks": None}, "'networks' is a required property"),
        ({"availability_zone": "mars"}, "'mars' is not available"),
        ({"min_count": 3, "max_count": 2}, "min_count must be <= max_count"),
        ({"max_count": 0}, "server.max_count"),
        ({"block_device_mapping_v2": [{"uuid": UNKNOWN, "source_type": "volume"}]}, "there are no volumes here"),
        ({"imageRef": IMAGE, "block_device_mapping_v2": [BOOT_DISK | {"uuid": UNKNOWN}]}, "local boot disk"),
        ({"key_name": "mine"}, "no key pairs"),
        ({"user_data": "IyE="}, "user_data"),
        ({"config_drive": True}, "config_drive"),
        ({"tags": ["a"]}, "tags"),
        ({"security_groups": [{"name": "web"}]}, "security_groups"),
        ({"metadata": {"a": 1}}, "server.metadata"),
        ({"color": "red"}, "server.color"),
        ({"personality": []}, "'personality' was unexpected"),
    ],
)
def test_a_server_that_cannot_be_is_refused(member, more, text):
    status, message = refusal(create(member, **more))
    assert (status, text in message) == (400, True), message


@pytest.mark.parametrize(
    "hints",
    [
        {"group": "no-uuid"},
        {"group": UNKNOWN},
        {"group": [UNKNOWN, UNKNOWN]},
        {"same_host": "x"},
        {"different_host": [UNKNOWN, "x"]},
        {"build_near_host_ip": "1.2.3"},
        {"cidr": "24"},
        {"query": ["="]},
    ],
)
def test_hints_that_cannot_be_are_refused(member, hints):
    assert refusal(create(member, hints))[0] == 400


def test_the_group_of_another_project_is_unknown(member, cloud):
    assert refusal(create(member, {"group": new_group(cloud, "theirs")}))[0] == 400


@pytest.mark.parametrize(
    ("more", "last"),
    [({"description": "x"}, 18), ({"host": "a-01"}, 73), ({"hostname": "front"}, 89), ({"tags": []}, 51)],
)
def test_a_key_is_refused_before_its_version(admin, more, last):
    status, message = refusal(create(admin, version=f"compute 2.{last}", **more))
    assert (status, "was unexpected" in message) == (400, True)


def test_networks_may_be_left_out_before_237(member):
    body = {name: value for name, value in wanted_server().items() if name != "networks"}
    answer = member.post("/servers", {"server": body}, version="compute 2.36")
    assert answer.status_code == 202
    path = f"/servers/{answer.json()['server']['id']}"
    member.delete(path)
    wait_for(lambda: member.get(path).status_code == 404, "the deletion")


def test_flavors_that_are_not_public_are_for_administrators(admin, member):
    body = {"name": "hidden", "ram": 256, "vcpus": 1, "disk": 1, "os-flavor-access:is_public": False}
    flavor = admin.post("/flavors", {"flavor": body}).json()["flavor"]["id"]
    assert refusal(create(member, flavorRef=flavor)) == (400, f"Flavor {flavor} could not be found.")
    with running_server(admin, flavorRef=flavor) as server:
        assert server["flavor"]["original_name"] == "hidden"
    admin.delete(f"/flavors/{flavor}")
