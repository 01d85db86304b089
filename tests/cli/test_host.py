# SPDX-License-Identifier: Apache-2.0
"""`roost host ...`, `roost flavor list` and `roost image list` against a conductor in memory."""

import pytest


def test_hosts_are_listed_with_what_is_used(cloud):
    done = cloud("host", "list", "-f", "value", "-c", "host", "-c", "state", "-c", "vcpus used", "-c", "vcpus")
    assert (done.code, done.out) == (0, "a up 0 16\nb up 0 16\n")
    assert "Hypervisor" not in cloud("host", "list").out
    assert "Hypervisor" in cloud("host", "list", "--long").out


def test_a_host_is_shown_field_by_field(cloud):
    assert "state,up\n" in cloud("host", "show", "a", "-f", "csv").out
    assert cloud("host", "show", "a", "-f", "json").record["host"] == "a"


def test_hosts_are_disabled_with_a_reason_and_enabled_again(cloud):
    done = cloud("host", "disable", "a", "b", "--reason", "new memory")
    assert done.code == 0
    assert done.out.count("new memory") == 2
    assert [each["status"] for each in cloud.conductor.hosts.values()] == ["disabled", "disabled"]
    assert cloud("host", "enable", "a", "b").code == 0
    assert [each["status"] for each in cloud.conductor.hosts.values()] == ["enabled", "enabled"]


def test_a_dead_host_is_forced_down_until_it_is_enabled(cloud):
    cloud("host", "disable", "a", "--reason", "fire", "--forced-down")
    assert cloud.conductor.hosts["a"]["state"] == "down"
    cloud("host", "enable", "a")
    assert cloud.conductor.hosts["a"]["state"] == "up"


def test_a_dry_run_changes_no_host(cloud):
    done = cloud("host", "disable", "a", "--reason", "x", "--dry-run")
    assert done.code == 0
    assert "dry run: nothing was changed" in done.out
    assert cloud.conductor.hosts["a"]["status"] == "enabled"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "z"), ("there is no host z",)),
        (("show",), ("HOST",)),
        (("disable", "a"), ("--reason",)),
        (("disable", "a", "--reason", ""), ("--reason", "empty")),
        (("disable", "a", "--reason", " "), ("--reason", "empty")),
        (("disable", "--reason", "x"), ("HOST",)),
        (("disable", "a", "z", "--reason", "x"), ("there is no host z",)),
        (("enable", "z"), ("there is no host z",)),
        (("enable", "a", "--reason", "x"), ("--reason",)),
    ],
)
def test_wrong_input_is_one_line(cloud, arguments, words):
    cloud("host", *arguments).assert_refused(*words)
    assert cloud.conductor.hosts["a"]["status"] == "enabled"


def test_flavors_and_images_are_listed(cloud):
    assert cloud("flavor", "list", "-f", "value").out == "huge 2 64 65536 20\nsmall 1 2 2048 20\n"
    assert cloud("image", "list", "-f", "value").out == "debian 8f1c\n"
