# SPDX-License-Identifier: Apache-2.0
"""What an answer about a server has, by microversion and by who asks."""

import hashlib

import pytest
from tests.api.servers import IMAGE, new_group, new_server, running_server, shown, wait_until


@pytest.fixture(scope="module")
def server(cloud):
    """A server of the project `ours`, with an image and a hint."""
    with running_server(
        cloud.client("member"), imageRef=IMAGE, description="for tests", hints={"color": "red"}
    ) as found:
        yield found


ADDED = {
    "compute 2.9": {"locked": False},
    "compute 2.19": {"description": "for tests"},
    "compute 2.26": {"tags": []},
    "compute 2.63": {"trusted_image_certificates": None},
    "compute 2.71": {"server_groups": []},
    "compute 2.73": {"locked_reason": None},
    "compute 2.96": {"pinned_availability_zone": None},
    "compute 2.100": {"scheduler_hints": {"color": ["red"]}},
}


@pytest.mark.parametrize("version", ADDED)
def test_a_key_is_there_from_its_version_on(member, server, version):
    (key,) = ADDED[version]
    assert shown(member, server["id"], version=version)[key] == ADDED[version][key]
    before = f"compute 2.{int(version.rpartition('.')[2]) - 1}"
    assert key not in shown(member, server["id"], version=before)


def test_states_are_shown_in_novas_words_and_numbers(member, server):
    found = shown(member, server["id"], version=None)
    assert (found["status"], found["OS-EXT-STS:vm_state"], found["OS-EXT-STS:task_state"]) == (
        "ACTIVE",
        "active",
        None,
    )
    assert (found["OS-EXT-STS:power_state"], found["progress"], found["addresses"]) == (1, 0, {})
    assert found["OS-EXT-AZ:availability_zone"].startswith("zone-")


def test_the_flavor_is_a_link_before_247_and_its_sizes_since(member, cloud, server):
    link = {"rel": "bookmark", "href": f"{cloud.address}/flavors/small"}
    assert shown(member, server["id"], version="compute 2.46")["flavor"] == {"id": "small", "links": [link]}
    sizes = {"original_name": "small", "vcpus": 2, "ram": 4096, "disk": 20, "ephemeral": 0, "swap": 0}
    assert shown(member, server["id"], version="compute 2.47")["flavor"] == sizes | {"extra_specs": {}}


def test_the_image_has_its_properties_since_298(member, server):
    assert "properties" not in shown(member, server["id"], version="compute 2.97")["image"]
    found = shown(member, server["id"], version="compute 2.98")["image"]
    assert (found["id"], found["properties"]) == (IMAGE, {"os_distro": "debian"})


def test_a_server_without_an_image_has_an_empty_text(member):
    with running_server(member) as server:
        assert server["image"] == ""


def test_members_see_whether_servers_share_a_host_and_not_which(cloud, admin, member, server):
    host = shown(admin, server["id"])["OS-EXT-SRV-ATTR:host"]
    found = shown(member, server["id"])
    assert found["hostId"] == hashlib.sha224(f"{cloud.projects['ours']}{host}".encode()).hexdigest()
    assert "host_status" not in found
    assert [key for key in found if key.startswith("OS-EXT-SRV-ATTR:")] == ["OS-EXT-SRV-ATTR:hostname"]
    assert not [key for key in shown(member, server["id"], version="compute 2.89") if "EXT-SRV-ATTR" in key]


def test_administrators_see_the_host_and_its_state(cloud, admin, server):
    found = shown(admin, server["id"])
    host = found["OS-EXT-SRV-ATTR:host"]
    assert (found["OS-EXT-SRV-ATTR:hypervisor_hostname"], found["host_status"]) == (host, "UP")
    assert "OS-EXT-SRV-ATTR:reservation_id" not in shown(admin, server["id"], version="compute 2.2")
    assert "host_status" not in shown(admin, server["id"], version="compute 2.15")
    cloud.dev.client.set_host(host, disabled=True)
    assert shown(admin, server["id"])["host_status"] == "MAINTENANCE"
    cloud.dev.client.set_host(host, forced_down=True)
    assert shown(admin, server["id"])["host_status"] == "DOWN"
    cloud.dev.client.set_host(host, disabled=False, forced_down=False)


def test_the_reason_of_an_error_is_shown_and_its_details_to_administrators(admin, member):
    body = {"name": "too large for any", "ram": 2**30, "vcpus": 1, "disk": 1}
    flavor = admin.post("/flavors", {"flavor": body}).json()["flavor"]["id"]
    failed = new_server(member, flavorRef=flavor)
    assert (failed["status"], failed["hostId"], failed["fault"]["code"]) == ("ERROR", "", 500)
    assert failed["fault"]["message"].startswith("No valid host was found.")
    assert "details" not in failed["fault"]
    assert "hosts fit" in shown(admin, failed["id"])["fault"]["details"]
    member.delete(f"/servers/{failed['id']}")
    admin.delete(f"/flavors/{flavor}")


def test_a_member_of_a_group_names_it(member, cloud):
    group = new_group(cloud, "ours")
    with running_server(member, hints={"group": group}) as server:
        assert wait_until(member, server["id"], "ACTIVE")["server_groups"] == [group]
