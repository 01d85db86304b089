# SPDX-License-Identifier: Apache-2.0
"""`roost snapshot save`, and --from on the commands that read."""

import gzip
import json

import pytest
import yaml
from tests.unit.sources.snapshots import FLEET, SERVER, UUID, packed, snapshot

SIZE = ("--vcpus", 1, "--ram", 512)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "x.snap"
    path.write_bytes(snapshot().to_bytes())
    return path


def test_a_live_cloud_is_saved_and_read_without_it(cloud, roost, tmp_path):
    cloud.conductor.add("web")
    done = cloud("snapshot", "save", "cloud.snap", "-f", "json")
    assert done.code == 0
    assert {"hosts": 2, "flavors": 1, "servers": 1, "file": "cloud.snap"}.items() <= done.record.items()
    assert done.record["bytes"] == (tmp_path / "cloud.snap").stat().st_size
    assert roost("server", "list", "--from", "cloud.snap", "-f", "value", "-c", "name").out == "web\n"
    assert roost("place", "--from", "cloud.snap", *SIZE, "-f", "json").record["selections"][0]["host"] == "a"


def test_what_is_placed_on_the_live_cloud_is_not_claimed(cloud):
    assert cloud("place", *SIZE, "-f", "json").record["selections"][0]["host"] == "a"
    assert [name for name, _ in cloud.conductor.calls] == ["get_snapshot"]


def test_without_a_cloud_it_says_so(roost):
    roost("snapshot", "save", "x").assert_refused("no cloud is known here", "roost dev", code=4)


def test_an_answer_that_is_no_snapshot_is_refused(cloud):
    cloud.conductor.get_snapshot = lambda context: {"snapshot": "?"}
    cloud("snapshot", "save", "x").assert_refused("is no snapshot", code=3)


def test_a_fleet_file_is_saved_with_its_options_and_those_of_config_files(roost, fleet, tmp_path):
    fleet.write_text(f"{fleet.read_text()}options:\n  filter_scheduler: {{ram_weight_multiplier: -1.0}}\n")
    (tmp_path / "nova.conf").write_text("[scheduler]\nmax_attempts = 7\n")
    done = roost("snapshot", "save", "x.snap", "--fleet", fleet, "--config-file", "nova.conf", "-f", "json")
    assert (done.code, done.record["hosts"]) == (0, 5)
    document = json.loads(gzip.decompress((tmp_path / "x.snap").read_bytes()))
    assert document["options"]["filter_scheduler"]["ram_weight_multiplier"] == -1.0
    assert document["options"]["scheduler"]["max_attempts"] == 7
    wanted = ("--flavor", "small", "--availability-zone", "north", "-f", "json")
    one = roost("place", "--from", "x.snap", *wanted).record
    other = roost("place", "--fleet", fleet, *wanted, "--alternates", 6).record
    assert one["selections"][0]["alternates"] == other["selections"][0]["alternates"]
    assert one["selections"][0]["scores"] == other["selections"][0]["scores"]


def test_instances_of_a_fleet_file_are_servers(roost, tmp_path):
    (tmp_path / "fleet.json").write_text(json.dumps(FLEET))
    assert roost("snapshot", "save", "x.snap", "--fleet", "fleet.json").code == 0
    (server,) = roost("server", "list", "--from", "x.snap", "-f", "json").record
    assert (server["id"], server["host"], server["status"]) == (UUID, "b", "UNKNOWN")


@pytest.mark.parametrize("arguments", [(), ("--fleet", "missing.yaml")])
def test_a_snapshot_that_cannot_be_taken_leaves_the_file_alone(roost, tmp_path, arguments):
    (tmp_path / "x.snap").write_text("old")
    assert roost("snapshot", "save", "x.snap", *arguments).code in (2, 4)
    assert (tmp_path / "x.snap").read_text() == "old"


def test_a_file_that_cannot_be_written_is_one_line(roost, fleet):
    roost("snapshot", "save", "no/folder", "--fleet", fleet).assert_refused("no/folder: No such file or directory")


def test_servers_are_listed_filtered_and_shown(roost, file):
    listed = roost("server", "list", "--from", file, "-f", "json").record
    assert [each["id"] for each in listed] == [UUID]
    assert listed[0]["migrations"] == []
    assert roost("server", "list", "--from", file, "--host", "a", "-f", "json").record == []
    assert (
        len(roost("server", "list", "--from", file, "--status", "error", "--name", "web", "-f", "json").record) == 1
    )
    assert roost("server", "show", "web", "--from", file, "-f", "json").record == SERVER
    assert roost("server", "show", UUID, "--from", file, "-f", "json").record == SERVER
    roost("server", "show", "wob", "--from", file).assert_refused("there is no server 'wob'")


def test_a_name_of_several_servers_is_ambiguous(roost, tmp_path):
    twin = SERVER | {"id": UUID.replace("6a0b", "6a0c")}
    (tmp_path / "x.snap").write_bytes(snapshot(servers=[SERVER, twin]).to_bytes())
    roost("server", "show", "web", "--from", "x.snap").assert_refused("several servers are named 'web'", "uuid")


def test_hosts_are_listed_and_shown(roost, file):
    hosts = roost("host", "list", "--from", file, "-f", "json").record
    assert [(each["host"], each["availability_zone"], each["servers"]) for each in hosts] == [
        ("a", "north", 0),
        ("b", "nova", 1),
    ]
    assert {"vcpus_used": 2, "memory_mb_used": 2048, "disk_gb_used": 20, "state": "up"}.items() <= hosts[1].items()
    assert hosts[1]["updated_at"] == "2026-11-15T11:59:56+00:00"
    assert roost("host", "show", "b", "--from", file, "-f", "json").record == hosts[1]
    roost("host", "show", "c", "--from", file).assert_refused("Compute host c could not be found.")


def test_flavors_and_images_are_listed(roost, file):
    assert roost("flavor", "list", "--from", file, "-f", "value").out == "small small 2 2048 20\n"
    assert roost("image", "list", "--from", file, "-f", "value").out == "debian image-1\n"


def test_its_fleet_is_exported_as_it_was_saved(roost, file, tmp_path):
    assert yaml.safe_load(roost("fleet", "export", "--from", file).out) == FLEET
    assert roost("fleet", "export", "out.json", "--from", file).code == 0
    assert json.loads((tmp_path / "out.json").read_text()) == FLEET


@pytest.mark.parametrize(
    "command",
    [
        ("place", *SIZE),
        ("server", "list"),
        ("host", "list"),
        ("flavor", "list"),
        ("image", "list"),
        ("fleet", "export"),
    ],
)
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"hosts: []\n", ("x.snap: no snapshot", "--fleet")),
        (packed()[:100], ("x.snap: the file ends too early",)),
        (packed(roost_snapshot=2), ("schema 2",)),
    ],
    ids=["a fleet file", "truncated", "newer"],
)
def test_a_file_that_is_no_snapshot_is_one_line(roost, tmp_path, command, content, words):
    (tmp_path / "x.snap").write_bytes(content)
    roost(*command, "--from", "x.snap").assert_refused(*words)


def test_options_with_code_are_one_line(roost, tmp_path):
    (tmp_path / "x.snap").write_bytes(packed(options={"filter_scheduler": {"available_filters": ["os.system"]}}))
    for command in (("place", *SIZE), ("host", "list")):
        roost(*command, "--from", "x.snap").assert_refused("x.snap: [filter_scheduler]", "may not name code")


def test_a_plugin_that_is_not_here_is_named_with_the_remedy(roost, tmp_path):
    (tmp_path / "x.snap").write_bytes(packed(options={"filter_scheduler": {"enabled_filters": ["RackFilter"]}}))
    done = roost("place", "--from", "x.snap", *SIZE)
    done.assert_refused("unknown filter RackFilter", "--config-file", "available_filters")


@pytest.mark.parametrize("command", [("server", "create", "x"), ("server", "delete", "x"), ("host", "enable", "a")])
def test_a_command_that_changes_something_does_not_take_it(roost, file, command):
    roost(*command, "--from", file).assert_refused("unknown argument --from")
