# SPDX-License-Identifier: Apache-2.0
"""`roost flavor`, `image` and `aggregate` over the API: what servers are made of, and where they may be."""

import pytest

from roost.cli.main import main
from roost.client.api_client import ApiCatalogue
from roost.errors import ApiUnavailable


def test_a_flavor_is_made_changed_and_deleted(over_api):
    size = ("--vcpus", "2", "--ram", "512", "--disk", "1", "--swap", "64", "--id", "cat-1")
    made = over_api("flavor", "create", "cat-f", *size, "--property", "hw:cpu_policy=shared", "--private")
    assert {"id": "cat-1", "vcpus": 2, "memory_mb": 512, "root_gb": 1, "swap": 64}.items() <= made.items()
    assert (made["extra_specs"], made["is_public"]) == ({"hw:cpu_policy": "shared"}, False)
    described = over_api("flavor", "set", "cat-f", "--description", "for tests", "--property", "quota:cpu_shares=5")
    assert (described["description"], len(described["extra_specs"])) == ("for tests", 2)
    left = over_api("flavor", "unset", "cat-f", "--property", "quota:cpu_shares")
    assert left == over_api("flavor", "show", "cat-1")
    assert left["extra_specs"] == {"hw:cpu_policy": "shared"}
    assert [each["name"] for each in over_api("flavor", "delete", "cat-f")] == ["cat-f"]
    assert "cat-f" not in [each["name"] for each in over_api("flavor", "list")]


def test_an_image_is_made_changed_and_deleted(over_api):
    made = over_api("image", "create", "cat-i", "--public", "--min-ram", "64", "--property", "hw_architecture=x86_64")
    assert (made["visibility"], made["min_ram"], made["properties"]) == ("public", 64, {"hw_architecture": "x86_64"})
    changed = over_api("image", "set", "cat-i", "--name", "cat-j", "--min-disk", "1", "--property", "a/b~c=d")
    assert changed == over_api("image", "show", made["id"])
    assert (changed["name"], changed["min_disk"], changed["properties"]["a/b~c"]) == ("cat-j", 1, "d")
    over_api("image", "delete", "cat-j")
    assert "cat-j" not in [each["name"] for each in over_api("image", "list")]


def test_an_aggregate_is_made_gets_hosts_and_is_deleted(over_api):
    made = over_api("aggregate", "create", "cat-a", "--property", "rack=r7")
    assert (made["hosts"], made["metadata"]) == ([], {"rack": "r7"})
    assert over_api("aggregate", "add", "host", "cat-a", "ssd-02")["hosts"] == ["ssd-02"]
    changed = over_api("aggregate", "set", "cat-a", "--name", "cat-b", "--property", "tier=gold")
    assert (changed["name"], changed["metadata"]) == ("cat-b", {"rack": "r7", "tier": "gold"})
    assert over_api("aggregate", "unset", "cat-b", "--property", "rack")["metadata"] == {"tier": "gold"}
    assert over_api("aggregate", "show", str(made["id"]))["name"] == "cat-b"
    assert over_api("aggregate", "remove", "host", "cat-b", "ssd-02")["hosts"] == []
    over_api("aggregate", "delete", "cat-b")
    assert "cat-b" not in [each["name"] for each in over_api("aggregate", "list")]


def test_a_zone_is_metadata_of_an_aggregate(over_api):
    made = over_api("aggregate", "create", "cat-z", "--zone", "cat-zone")
    assert (made["availability_zone"], made["metadata"]) == ("cat-zone", {"availability_zone": "cat-zone"})
    assert over_api("aggregate", "set", "cat-z", "--zone", "cat-zone-2")["availability_zone"] == "cat-zone-2"
    over_api("aggregate", "delete", "cat-z")


def test_what_can_be_deleted_is_and_the_rest_is_said(over_api, roost):
    over_api("aggregate", "create", "cat-full")
    over_api("aggregate", "create", "cat-empty")
    over_api("aggregate", "add", "host", "cat-full", "ssd-02")
    code, deleted, problem = roost("aggregate", "delete", "cat-full", "cat-empty", "--os-cloud", "roost")
    assert (code, [each["name"] for each in deleted], problem.count("\n")) == (1, ["cat-empty"], 1)
    over_api("aggregate", "remove", "host", "cat-full", "ssd-02")
    over_api("aggregate", "delete", "cat-full")


def test_without_a_name_of_a_cloud_the_roost_dev_of_this_user_is_asked(cloud, roost, monkeypatch):
    monkeypatch.setenv("ROOST_DEV_STATE", str(cloud.state.path))
    monkeypatch.delenv("OS_CLIENT_CONFIG_FILE")
    code, found, problem = roost("aggregate", "show", "zone-a")
    assert (code, problem, found["name"]) == (0, "", "zone-a")
    code, _, problem = roost("server", "create", "x", "--vcpus", "1", "--ram", "1")
    assert (code, "the API of a cloud" in problem) == (2, True)


@pytest.mark.parametrize("name", ["id", "ID"])
def test_the_id_of_what_was_made_is_printed_alone(clouds, capsys, name):
    """D31: `-c` takes the name of a field; all arguments are checked before something is made."""
    for kind, size in (("flavor", "--ram"), ("image", "--min-ram")):
        asked = [kind, "create", f"cat-{name}", size, "64", "--os-cloud", "roost", "-f", "value", "-c"]
        assert main([*asked, "idd"]) == 2
        assert "-c idd: there is no such column (did you mean id?)" in capsys.readouterr().err
        assert main([*asked, name]) == 0  # it is not there yet
        made = capsys.readouterr().out.strip()
        assert main([kind, "delete", made, "--os-cloud", "roost", "-f", "value", "-c", "name"]) == 0
        assert capsys.readouterr().out == f"cat-{name}\n"


@pytest.mark.parametrize(
    ("command", "before"),
    [
        (("flavor", "create", "cat-half", "--property", "a/b=c"), None),
        (("flavor", "set", "cat-f", "--description", "new", "--property", "a/b=c"), ("flavor", "show", "cat-f")),
        (("aggregate", "create", "cat-half", "--property", f"{'k' * 300}=v"), None),
        (("aggregate", "set", "cat-a", "--name", "zone-a", "--property", "x=y"), ("aggregate", "show", "cat-a")),
    ],
    ids=lambda each: " ".join(each)[:20] if each else None,
)
def test_of_a_change_that_is_refused_half_way_nothing_is_left(over_api, roost, command, before):
    """D31: what needs two requests."""
    over_api("flavor", "create", "cat-f", "--description", "old")
    over_api("aggregate", "create", "cat-a", "--property", "rack=r7")
    was = over_api(*before) if before else None
    code, _, problem = roost(*command, "--os-cloud", "roost")
    assert (code, problem.count("\n")) == (2, 1), problem
    assert (over_api(*before) if before else None) == was
    assert "cat-half" not in [each["name"] for each in over_api(command[0], "list")]
    over_api("flavor", "delete", "cat-f")
    over_api("aggregate", "delete", "cat-a")


def test_what_cannot_be_taken_back_is_said(over_api, roost, monkeypatch):
    """D31: exit code 2 would say that nothing was changed."""

    def refuse(self, uuid):
        raise ApiUnavailable("the cloud is away")

    with monkeypatch.context() as patched:
        patched.setattr(ApiCatalogue, "delete_flavor", refuse)
        code, _, problem = roost("flavor", "create", "cat-left", "--property", "a/b=c", "--os-cloud", "roost")
    assert (code, problem.count("\n")) == (1, 1)
    assert "flavor cat-left was made, but not the rest: " in problem
    assert "it stays so: the cloud is away" in problem
    over_api("flavor", "delete", "cat-left")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("flavor", "show", "smal"), "did you mean small?"),
        (("flavor", "set", "small"), "nothing to set"),
        (("flavor", "unset", "small", "--property", "no:such"), "has no property no:such"),
        (("flavor", "create", "small"), "already exists"),
        (("flavor", "create", "x", "--ram", "0"), "--ram"),
        (("image", "set", "debian-12"), "nothing to set"),
        (("image", "show", "nowhere"), "there is no image nowhere"),
        (("aggregate", "set", "zone-a"), "nothing to set"),
        (("aggregate", "add", "host", "zone-a", "nowhere"), "nowhere could not be found"),
        (("aggregate", "delete", "zone-a"), "not empty"),
        (("server-group", "create", "x", "--policy", "affinity", "--max-server-per-host", "2"), "affinity"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else None,
)
def test_wrong_input_is_one_line(roost, command, words):
    code, _, problem = roost(*command, "--os-cloud", "roost")
    assert (code, problem.count("\n")) == (2, 1)
    assert words in problem
