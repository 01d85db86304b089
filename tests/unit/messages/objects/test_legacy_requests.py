# SPDX-License-Identifier: Apache-2.0
"""Requests in the dicts of releases before Mitaka, plain or with objects in them, and that ours go there and back."""

import pytest

from roost.errors import FieldError
from roost.messages.objects.request import request_from_object
from roost.messages.objects.to_objects import request_from_dicts
from roost.model import Destination, Flavor, Image, RequestSpec, Retry, ServerGroup
from roost.model.numa import InstanceCell, InstanceTopology
from roost.model.pci import PciRequest
from roost.model.request import Limits, NumaLimits

FLAVOR = {"vcpus": 2, "memory_mb": 512, "root_gb": 20, "ephemeral_gb": 0, "swap": 0, "name": "m1", "id": 5}
PLAIN = {"instance_type": FLAVOR}


def taken(properties=None, **request):
    return request_from_dicts(PLAIN | request, properties)


def test_only_the_flavor_is_needed():
    assert taken() == RequestSpec(flavor=Flavor(2, 512, 20, name="m1", id=5))


def test_the_flavor_may_be_among_the_filter_properties():
    assert request_from_dicts({}, PLAIN) == taken()


def test_both_dicts_may_be_objects_inside(recorded):
    full = recorded("legacy.full")
    spec = request_from_dicts(full["request_spec"], full["filter_properties"])
    same = request_from_object(recorded("request_spec.full"))
    for name in ("flavor", "image", "numa_topology", "pci_requests", "retry", "limits", "requested_destination"):
        assert getattr(spec, name) == getattr(same, name), name
    for name in ("project_id", "user_id", "availability_zone", "instance_uuid", "num_instances", "scheduler_hints"):
        assert getattr(spec, name) == getattr(same, name), name
    assert (spec.ignore_hosts, spec.force_hosts, spec.force_nodes) == (("h1",), ("h2",), ("n2",))
    group = same.instance_group
    assert spec.instance_group == ServerGroup(group.policy, "", group.uuid, group.members, group.hosts)


def test_a_bare_request_of_todays_nova(recorded):
    bare = recorded("legacy.bare")
    spec = request_from_dicts(bare["request_spec"], bare["filter_properties"])
    assert spec == request_from_object(recorded("request_spec.bare"))


# --- request_spec ------------------------------------------------------------------------------------


def test_what_the_instance_says():
    instance = {"uuid": "i1", "project_id": "p", "user_id": "u", "availability_zone": "az", "vm_state": "building"}
    spec = taken(instance_properties=instance | {"system_metadata": {"a": "b"}, "memory_mb": 1}, num_instances=3)
    assert (spec.instance_uuid, spec.project_id, spec.user_id, spec.availability_zone) == ("i1", "p", "u", "az")
    assert (spec.num_instances, spec.memory_mb) == (3, 512)


def test_the_uuids_of_icehouse_count_the_instances():
    spec = taken(instance_uuids=["i1", "i2"], num_instances=5, block_device_mapping=[{}], security_group=["default"])
    assert (spec.num_instances, spec.instance_uuid) == (2, "i1")


@pytest.mark.parametrize("image", [None, {}, "", "an id", 5, []])
def test_what_is_no_image_is_none(image):
    assert taken(image=image).image is None


def test_an_image_under_its_older_names():
    image = {"id": "i", "name": "debian", "min_ram": "64", "properties": {"architecture": "amd64", "own": "x"}}
    assert taken(image=image).image == Image("i", "debian", {"hw_architecture": "x86_64"}, min_ram=64)


def test_a_topology_of_juno():
    cells = [{"id": 0, "cpus": "0-1", "mem": {"total": 256}}, {"id": 1, "cpus": "2", "mem": {"total": 256}}]
    cpus = frozenset({0, 1}), frozenset({2})
    expected = tuple(InstanceCell(at, each, frozenset(), 256) for at, each in enumerate(cpus))
    assert taken(instance_properties={"numa_topology": {"cells": cells}}).numa_topology == InstanceTopology(expected)


@pytest.mark.parametrize("wrap", [lambda each: each, lambda each: {"requests": each, "instance_uuid": "i1"}])
def test_devices_as_plain_dicts(wrap):
    devices = [{"count": 1, "spec": [{"vendor_id": "8086"}], "alias_name": "nic"}]
    expected = (PciRequest(1, ({"vendor_id": "8086"},), alias_name="nic"),)
    assert taken(instance_properties={"pci_requests": wrap(devices)}).pci_requests == expected
    assert taken({"pci_requests": wrap(devices)}).pci_requests == expected


# --- filter_properties -------------------------------------------------------------------------------


@pytest.mark.parametrize("retry", [None, {}])
def test_no_retry(retry):
    assert taken({"retry": retry}).retry is None


def test_a_retry_with_its_last_error():
    retry = {"num_attempts": 2, "hosts": [["h1", "n1"], ["h2", None]], "exc": ["..."], "exc_reason": "full"}
    assert taken({"retry": retry}).retry == Retry(2, [["h1", "n1"], ["h2", ""]])


@pytest.mark.parametrize("limits", [None, {}])
def test_no_limits(limits):
    assert taken({"limits": limits}).limits is None


def test_limits_lose_their_fractions():
    ratios = {"cpu_allocation_ratio": 2, "ram_allocation_ratio": 1.5}
    limits = taken({"limits": {"vcpu": 8.5, "memory_mb": 100, "numa_topology": ratios}}).limits
    assert limits == Limits(vcpu=8, memory_mb=100, numa_topology=NumaLimits(2.0, 1.5))


def test_hints_are_wrapped_into_lists():
    hints = {"a": "x", "b": ["y", "z"], "c": None}
    assert taken({"scheduler_hints": hints}).scheduler_hints == {"a": ("x",), "b": ("y", "z")}


def test_a_group_is_put_together_from_its_members():
    told = {"group_hosts": ["h1"], "group_policies": ["affinity"], "group_members": ["i2"], "group_uuid": "g"}
    expected = ServerGroup("affinity", uuid="g", members=["i2"], hosts=["h1"])
    assert taken(told | {"group_updated": True}).instance_group == expected
    assert taken(told | {"group_updated": False}).instance_group is None
    assert taken(told).instance_group is None


def test_a_whole_group_goes_before_its_members(envelope):
    whole = envelope("InstanceGroup", policy="affinity", uuid="g2")
    told = {"group_updated": True, "group_policies": ["anti-affinity"], "instance_group": whole}
    assert taken(told).instance_group == ServerGroup("affinity", uuid="g2")


@pytest.mark.parametrize("names", [None, [], ["h1"]])
def test_named_hosts(names):
    spec = taken({"ignore_hosts": names, "force_hosts": names, "force_nodes": names})
    expected = None if names is None else tuple(names)
    assert (spec.ignore_hosts, spec.force_hosts, spec.force_nodes) == (expected, expected, expected)


def test_the_options_file_of_older_schedulers():
    assert taken({"config_options": {"a": {"b": [1]}}}).config_options == {"a": {"b": [1]}}


# --- mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_spec", "properties", "message"),
    [
        (None, None, "request_spec.instance_type: is missing"),
        ([], {}, "request_spec: [] is not a mapping"),
        (PLAIN, "x", "filter_properties: 'x' is not a mapping"),
        ({"instance_type": {"vcpus": 1}}, {}, "request_spec.instance_type.memory_mb: is missing"),
        ({"instance_type": 5}, {}, "request_spec.instance_type: 5 is not a mapping"),
        (PLAIN | {"num_instances": "x"}, {}, "request_spec.num_instances: 'x' is not a whole number"),
        (PLAIN | {"instance_uuids": "i1"}, {}, "request_spec.instance_uuids: 'i1' is not a list"),
        (PLAIN | {"image": {"min_ram": "x"}}, {}, "request_spec.image.min_ram: 'x' is not a whole number"),
        (PLAIN, {"retry": [1]}, "filter_properties.retry: [1] is not a mapping"),
        (PLAIN, {"force_hosts": "h1"}, "filter_properties.force_hosts: 'h1' is not a list"),
        (PLAIN, {"group_updated": True, "group_policies": ["x"]}, "filter_properties.policy: 'x' is no policy"),
    ],
)
def test_a_mistake_is_named_with_its_path(request_spec, properties, message):
    with pytest.raises(FieldError) as error:
        request_from_dicts(request_spec, properties)
    assert str(error.value).startswith(message)


# --- there and back ----------------------------------------------------------------------------------

FULL = RequestSpec(
    flavor=Flavor(2, 512, 20, name="m1", id=5, extra_specs={"a": "b"}),
    image=Image("i", "debian", {"os_type": "linux", "hw_numa_cpus.0": "0-1"}, disk_format="qcow2", min_ram=64),
    num_instances=2,
    instance_uuid="i1",
    project_id="p",
    user_id="u",
    availability_zone="az",
    scheduler_hints={"group": ["g"], "different_host": ["i2", "i3"]},
    instance_group=ServerGroup("anti-affinity", uuid="g", members=["i2"], hosts=["h1"]),
    ignore_hosts=["h9"],
    force_hosts=["h8"],
    force_nodes=["n8"],
    requested_destination=Destination(host="h8", node="n8", aggregates=["a1,a2"]),
    retry=Retry(2, [["h1", "n1"], ["h2", ""]]),
    limits=Limits(vcpu=8, numa_topology=NumaLimits(2.0, 1.5)),
    numa_topology=InstanceTopology((InstanceCell(0, frozenset({0, 1}), frozenset(), 512),)),
    pci_requests=(PciRequest(1, ({"vendor_id": "8086"},), alias_name="nic"),),
)


@pytest.mark.parametrize(
    "spec", [FULL, RequestSpec(flavor=FULL.flavor), RequestSpec(flavor=FULL.flavor, image=FULL.image)]
)
def test_our_own_requests_go_there_and_back(spec):
    dicts = spec.to_legacy_request_spec_dict(), spec.to_legacy_filter_properties_dict()
    assert request_from_dicts(*dicts) == spec
