# SPDX-License-Identifier: Apache-2.0
"""Hosts as operators see them, and the catalogue."""

import pytest
from tests.flow.whole_cloud import USER

from roost.errors import BadInput, UnknownName


def test_a_host_is_shown_with_what_it_has_and_what_is_used(cloud):
    cloud.boot(count=2, host="b")
    host = cloud.client().get_host("b")
    assert (host["state"], host["status"], host["availability_zone"]) == ("up", "enabled", "nova")
    assert (host["servers"], host["vcpus_used"], host["memory_mb_used"]) == (2, 2, 4096)
    assert (host["memory_mb"], host["hypervisor_type"]) == (8704, "fake")
    assert [each["host"] for each in cloud.client().list_hosts()] == ["a", "b", "c"]


def test_a_host_without_heartbeats_is_down(cloud):
    cloud.pass_time(61, silent=["c"])
    assert [each["state"] for each in cloud.client().list_hosts()] == ["up", "up", "down"]


def test_a_disabled_host_gets_no_servers_until_it_is_enabled(cloud):
    client = cloud.client()
    host = client.set_host("a", disabled=True, reason="new disks")
    assert (host["status"], host["disabled_reason"], host["state"]) == ("disabled", "new disks", "up")
    assert cloud.states(*cloud.boot()) == [("ACTIVE", "b")]
    assert client.set_host("a", disabled=False)["disabled_reason"] is None
    cloud.pass_time(1)  # schedulers may answer from a picture that is half a second old
    assert cloud.states(*cloud.boot()) == [("ACTIVE", "a")]


def test_a_dry_run_changes_no_host(cloud):
    (step,) = cloud.client().set_host("a", disabled=True, dry_run=True)["plan"]
    assert (step["host"], step["summary"]) == ("a", "disabled: True")
    assert cloud.client().get_host("a")["status"] == "enabled"


def test_what_is_wrong_with_a_change_of_a_host_is_said(cloud):
    with pytest.raises(UnknownName, match="Compute host aa could not be found"):
        cloud.client().set_host("aa", disabled=True)
    with pytest.raises(BadInput, match="a reason, and it is not disabled"):
        cloud.client().set_host("a", reason="why")


def test_hosts_are_for_admins(cloud):
    for ask in (lambda: cloud.client(USER).list_hosts(), lambda: cloud.client(USER).set_host("a", disabled=True)):
        with pytest.raises(BadInput, match="admin"):
            ask()


def test_flavors_and_images_are_listed(cloud):
    assert [each["name"] for each in cloud.client(USER).list_flavors()] == ["small", "huge"]
    assert [each["name"] for each in cloud.client(USER).list_images()] == ["cirros", "windows"]


@pytest.mark.parametrize("flags", [{"disabled": "no"}, {"forced_down": 1}])
def test_a_flag_is_true_or_false(cloud, flags):
    with pytest.raises(BadInput, match="neither true nor false"):
        cloud.client().set_host("a", **flags)
