# SPDX-License-Identifier: Apache-2.0
"""Plugins written for nova in the service: options come from its files, questions are put to its fleet."""

import shutil
from pathlib import Path

import pytest
from tests.flow.cloud import CONTEXT, UUID, request

from roost.model import Flavor, RequestSpec, ServerGroup

PLUGINS = Path(__file__).parents[1] / "compat" / "plugins"
RACKS = [
    {"name": "one", "metadata": {"rack": "r1"}, "hosts": ["a", "b"]},
    {"name": "two", "metadata": {"rack": "r2"}, "hosts": ["c"]},
]


@pytest.fixture
def write(tmp_path):
    """A config file with a plugin beside it."""

    def write_one(plugin, lines=""):
        name = plugin.partition(".")[0]
        shutil.copy(PLUGINS / f"{name}.py", tmp_path)
        file = tmp_path / "nova.conf"
        file.write_text(
            "[filter_scheduler]\navailable_filters = nova.scheduler.filters.all_filters\n"
            f"available_filters = {plugin}\nenabled_filters = {plugin.rpartition('.')[2]}\n{lines}"
        )
        return file

    return write_one


def chosen(cloud, number, **more):
    ((selection,),) = cloud.client().select_destinations(
        CONTEXT, request(**more), [UUID % number], return_objects=True
    )
    return selection.host


def test_options_of_a_plugin_are_read_and_read_again(make_cloud, write):
    file = write("newton_burst_filter.BurstFilter", "[burst]\nenabled = true\nhosts = a, c\n")
    cloud = make_cloud({"a": {}, "b": {}, "c": {}}, files=[file])
    service = cloud.service()
    assert chosen(cloud, 1) == "b"
    file.write_text(file.read_text().replace("hosts = a, c", "hosts = a, b"))
    service.reload()
    assert chosen(cloud, 2) == "c"


def test_a_plugin_finds_groups_and_aggregates_of_the_fleet(make_cloud, write):
    group = {"name": "g", "policy": "legacy", "uuid": UUID % 9, "members": [UUID % 1]}
    file = write("caracal_domain_filter.DomainFilter")
    cloud = make_cloud({"a": {}, "b": {}, "c": {}}, files=[file], aggregates=RACKS, server_groups=[group])
    cloud.service()
    flavor = Flavor(2, 2048, root_gb=10)
    spec = RequestSpec(flavor=flavor, instance_group=ServerGroup("legacy", "g", UUID % 9))
    first, second = (
        cloud.client().select_destinations(CONTEXT, spec, [UUID % number], return_objects=True)[0][0].host
        for number in (1, 2)
    )
    assert (first, second) == ("a", "c")


def older_request(number, instance=None, request=None, properties=None):
    """A message of version 4.0, with more in it than Roost reads."""
    uuid = UUID % number
    flavor = {"vcpus": 1, "memory_mb": 512, "root_gb": 1, "ephemeral_gb": 0, "swap": 0, "rxtx_factor": 2.5}
    return {
        "request_spec": {
            "instance_properties": {"uuid": uuid, "project_id": "blue", **(instance or {})},
            "instance_type": flavor | {"extra_specs": {}},
            "instance_uuids": [uuid],
            "image": {"checksum": "c0ffee"},
            **(request or {}),
        },
        "filter_properties": {"scheduler_hints": {}, **(properties or {})},
    }


def test_what_an_older_message_says_of_the_instance_reaches_plugins(make_cloud, write):
    cloud = make_cloud({"a": {}, "b": {}, "c": {}}, files=[write("havana_home_filter.HomeFilter")], aggregates=RACKS)
    cloud.service()
    chosen = [
        cloud.send("select_destinations", "4.0", **older_request(number, {"host": home}))[0]["host"]
        for number, home in enumerate(("c", "a", "c"), start=1)
    ]
    assert (chosen[0], chosen[1] in ("a", "b"), chosen[2]) == ("c", True, "c")


def test_all_of_an_older_message_reaches_plugins(make_cloud, write):
    cloud = make_cloud({"a": {}}, files=[write("havana_home_filter.NoteFilter")])
    cloud.service()
    instance = {
        "os_type": "linux",
        "metadata": {"note": "mine"},
        "system_metadata": {"image_base": "b1"},
        "vm_state": "active",
    }
    message = older_request(1, instance, {"security_group": ["web"]}, {"same_rack": True})
    assert cloud.send("select_destinations", "4.0", **message)[0]["host"] == "a"
