# SPDX-License-Identifier: Apache-2.0
"""Which keys an answer about a server has, by microversion, operation and caller: a table of the API's history."""

import pytest
from tests.api.servers import IMAGE, running_server, wait_until, wanted_server

HISTORY = (
    # minor, who sees them, answers that have them, keys
    (1, "all", "list show update rebuild", {"id", "name", "links"}),
    (1, "all", "show update rebuild", {"accessIPv4", "accessIPv6", "addresses", "created", "flavor", "hostId"}),
    (1, "all", "show update rebuild", {"image", "metadata", "progress", "status", "tenant_id", "updated", "user_id"}),
    (1, "all", "show update rebuild create", {"OS-DCF:diskConfig"}),
    (1, "all", "create", {"id", "links", "security_groups"}),
    (1, "all", "rebuild create", {"adminPass"}),
    (1, "all", "show", {"config_drive", "key_name", "security_groups", "os-extended-volumes:volumes_attached"}),
    (1, "all", "show", {"OS-EXT-AZ:availability_zone", "OS-SRV-USG:launched_at", "OS-SRV-USG:terminated_at"}),
    (1, "all", "show", {"OS-EXT-STS:power_state", "OS-EXT-STS:task_state", "OS-EXT-STS:vm_state"}),
    (1, "admin", "show", {f"OS-EXT-SRV-ATTR:{key}" for key in ("host", "hypervisor_hostname", "instance_name")}),
    (3, "admin", "show", {f"OS-EXT-SRV-ATTR:{key}" for key in ("hostname", "reservation_id", "launch_index")}),
    (3, "admin", "show", {f"OS-EXT-SRV-ATTR:{key}" for key in ("kernel_id", "ramdisk_id", "user_data")}),
    (3, "admin", "show", {"OS-EXT-SRV-ATTR:root_device_name"}),
    (9, "all", "show update rebuild", {"locked"}),
    (16, "admin", "show", {"host_status"}),
    (19, "all", "show update rebuild", {"description"}),
    (26, "all", "show update rebuild", {"tags"}),
    (54, "all", "rebuild", {"key_name"}),
    (57, "all", "rebuild", {"user_data"}),
    (63, "all", "show update rebuild", {"trusted_image_certificates"}),
    (71, "all", "show-one update rebuild", {"server_groups"}),
    (73, "all", "show update rebuild", {"locked_reason"}),
    (90, "all", "show update rebuild", {"OS-EXT-SRV-ATTR:hostname"}),
    (96, "all", "show update rebuild", {"pinned_availability_zone"}),
    (100, "all", "show update rebuild", {"scheduler_hints"}),
)
"""What a microversion brought. `show` stands for the list in detail, too; `show-one` does not."""
LIKE_SHOW = 75
"""Since then, the answers to an update and to a rebuild have all that is shown."""
TURNS = (1, 3, 9, 16, 19, 26, 47, 54, 57, 63, 69, 71, 73, 75, 90, 96, 98, 100)
MINORS = sorted({each for turn in TURNS for each in (turn - 1, turn) if each})


def expected(minor, caller, answer):
    """The keys of an answer: list, detail, show, update, rebuild or create."""
    names = {"detail": {"show"}, "show": {"show", "show-one"}}.get(answer, {answer})
    if minor >= LIKE_SHOW and answer in ("update", "rebuild"):
        names = names | {"show", "show-one"}
    return {
        key
        for since, who, answers, keys in HISTORY
        if since <= minor and who in ("all", caller) and names & set(answers.split())
        for key in keys
    }


@pytest.fixture(scope="module")
def servers(cloud):
    """Caller -> a server of its own, with an image."""
    with (
        running_server(cloud.client("admin"), imageRef=IMAGE) as one,
        running_server(cloud.client("member"), imageRef=IMAGE) as other,
    ):
        yield {"admin": one, "member": other}


def of_image(minor):
    return {"id", "links"} | ({"properties"} if minor >= 98 else set())


def of_flavor(minor):
    sizes = {"original_name", "vcpus", "ram", "disk", "ephemeral", "swap", "extra_specs"}
    return sizes if minor >= 47 else {"id", "links"}


@pytest.mark.parametrize("caller", ["admin", "member"])
@pytest.mark.parametrize("minor", MINORS)
def test_an_answer_has_the_keys_of_its_microversion(cloud, servers, caller, minor):
    """D32: updates and rebuilds answered with the keys of a show, and rebuilds without user_data."""
    client, own, version = cloud.client(caller), servers[caller], f"compute 2.{minor}"
    path = f"/servers/{own['id']}"

    def one(method, path, body=None):
        answer = client.request(method, path, body, version=version)
        assert answer.status_code in (200, 202), answer.text
        ((key, found),) = answer.json().items()
        return found[0] if key == "servers" else found

    answers = {
        "list": one("GET", f"/servers?uuid={own['id']}"),
        "detail": one("GET", f"/servers/detail?uuid={own['id']}"),
        "show": one("GET", path),
        "update": one("PUT", path, {"server": {"name": own["name"]}}),
        "rebuild": one("POST", f"{path}/action", {"rebuild": {"imageRef": IMAGE}}),
    }
    assert wait_until(client, own["id"], "ACTIVE")
    for name, found in answers.items():
        assert set(found) == expected(minor, caller, name), name
        if name != "list":
            assert (set(found["image"]), set(found["flavor"])) == (of_image(minor), of_flavor(minor)), name


@pytest.mark.parametrize("minor", [1, 100])
def test_the_answer_to_a_creation_has_the_same_keys_in_all_microversions(member, minor):
    answer = member.post("/servers", {"server": wanted_server()}, version=f"compute 2.{minor}")
    made = answer.json()["server"]
    assert set(made) == expected(minor, "member", "create")
    member.delete(f"/servers/{made['id']}")
