# SPDX-License-Identifier: Apache-2.0
"""RequestSpec in and out: every field, of new and of old versions, and how its mistakes are named."""

import pytest

from roost.errors import FieldError
from roost.messages.objects.request import (
    MOST_INSTANCES,
    hints_and_zone_from_object,
    request_from_object,
    request_to_object,
    request_to_short_object,
)
from roost.model import Destination, Flavor, Image, RequestSpec, Retry, ServerGroup
from roost.model.fields import MOST_LISTED
from roost.model.kinds import LONGEST_TEXT
from roost.model.numa import InstanceCell, InstanceTopology
from roost.model.pci import PciRequest
from roost.model.request import (
    Limits,
    NetworkMetadata,
    NetworkRequest,
    NumaLimits,
    RequestGroup,
    RequestLevelParams,
    SecurityGroup,
)


def uuid(number):
    return f"00000000-0000-4000-8000-{number:012d}"


# --- everything at once ------------------------------------------------------------------------------


def test_a_request_with_everything_is_understood(recorded):
    spec = request_from_object(recorded("request_spec.full"))
    assert spec.flavor == Flavor(4, 4096, 20, 1, 512, "numa", 7, "f7", {"hw:cpu_policy": "dedicated"})
    assert (spec.project_id, spec.user_id, spec.availability_zone, spec.num_instances) == ("p", "u", "az1", 1)
    assert (spec.ignore_hosts, spec.force_hosts, spec.force_nodes, spec.is_bfv) == (("h1",), ("h2",), ("n2",), True)
    assert spec.scheduler_hints == {"group": (uuid(6),), "different_host": (uuid(13), uuid(14))}
    assert spec.retry == Retry(2, [["h1", "n1"]])
    assert spec.limits == Limits(8, 4096, 100, NumaLimits(16.0, 1.5))
    assert spec.network_metadata == NetworkMetadata(["physnet1"], True)
    assert spec.requested_networks == (NetworkRequest(network_id=uuid(18), tag="t"),)
    assert (spec.root_required, spec.root_forbidden) == ({"CUSTOM_ROOT"}, {"COMPUTE_STATUS_DISABLED"})
    assert (spec.same_subtree, spec.id) == ((("_a", "_b"),), 9)


def test_its_hints_and_zone_are_read_alone(recorded):
    spec = request_from_object(recorded("request_spec.full"))
    assert hints_and_zone_from_object(recorded("request_spec.full")) == (spec.scheduler_hints, "az1")


def test_a_request_without_hints_and_zone_has_none():
    assert hints_and_zone_from_object(request_to_object(RequestSpec(flavor=Flavor(1, 1)))) == ({}, None)


def test_its_image_is_understood(recorded):
    image = request_from_object(recorded("request_spec.full")).image
    assert (image.id, image.name, image.disk_format, image.min_ram, image.min_disk) == (uuid(1), "img", "qcow2", 1, 2)
    assert image.properties.hw_numa_cpus == (frozenset({0, 1}), frozenset({2, 3}))
    assert (image.properties.hw_numa_mem, image.traits_required) == ((2048, 2048), {"CUSTOM_A"})
    assert (image.hw_qemu_guest_agent, image.img_hv_requested_version) == (True, ">=6.0, <7")
    assert (image.visibility, image.owner, image.created_at) == ("public", "o", "2026-01-02T03:04:05Z")


def test_its_group_is_understood(recorded):
    group = request_from_object(recorded("request_spec.full")).instance_group
    rules = {"max_server_per_host": 2}
    assert group == ServerGroup("anti-affinity", "g", uuid(6), [uuid(7)], ["h3"], rules)
    assert (group.project_id, group.user_id, group.id, group.policies) == ("p", "u", 1, ["anti-affinity"])


def test_its_topology_is_understood(recorded):
    topology = request_from_object(recorded("request_spec.full")).numa_topology
    same = {"cpuset": frozenset(), "memory": 2048, "pagesize": 2048}
    same |= {"cpu_policy": "dedicated", "cpu_thread_policy": "prefer"}
    pinned = InstanceCell(
        0, pcpuset=frozenset({0, 1}), cpu_pinning=((0, 4), (1, 5)), cpuset_reserved=frozenset({6}), **same
    )
    assert topology == InstanceTopology((pinned, InstanceCell(1, pcpuset=frozenset({2, 3}), **same)), "share")


def test_its_devices_are_understood(recorded):
    card = {"vendor_id": "8086", "product_id": "154c", "dev_type": "type-VF"}
    network = {"physical_network": "physnet1", "remote_managed": "False"}
    assert request_from_object(recorded("request_spec.full")).pci_requests == (
        PciRequest(1, (card,), "preferred", "nic", uuid(3)),
        PciRequest(1, (network,), request_id=uuid(4), requester_id=uuid(5), is_from_port=True),
    )


def test_its_destination_and_groups_are_understood(recorded):
    spec = request_from_object(recorded("request_spec.full"))
    aggregates = (f"{uuid(9)},{uuid(10)}", uuid(11))
    assert spec.requested_destination == Destination("h2", "n2", "cell1", True, aggregates, {uuid(12)}, uuid(8))
    (group,) = spec.requested_resources
    assert group == RequestGroup(
        resources={"CUSTOM_FPGA": 1, "NET_BW_EGR_KILOBIT_PER_SEC": 1000},
        required_traits={"CUSTOM_A"},
        forbidden_traits={"CUSTOM_B"},
        aggregates=[[uuid(9)], [uuid(10), uuid(11)]],
        forbidden_aggregates={uuid(12)},
        requester_id=uuid(5),
        provider_uuids=[uuid(16)],
        in_tree=uuid(17),
    )


@pytest.mark.parametrize("name", ["request_spec.full", "request_spec.bare"])
def test_it_goes_out_as_it_came_but_for_the_addresses_of_cells(recorded, unchanged, name):
    primitive = unchanged(recorded(name))
    if destination := primitive["nova_object.data"].get("requested_destination"):
        cell = destination["nova_object.data"]["cell"]["nova_object.data"]
        for secret in ("database_connection", "transport_url", "disabled"):
            cell.pop(secret)
    assert request_to_object(request_from_object(primitive)) == primitive


def test_a_request_of_our_own_comes_back_equal():
    spec = RequestSpec(
        flavor=Flavor(2, 512, extra_specs={"a": "b"}),
        image=Image(id="i", properties={"hw_numa_cpus.0": "0-3", "os_type": "linux"}),
        instance_uuid="i1",
        scheduler_hints={"group": ["g"], "none": []},
        instance_group=ServerGroup("soft-affinity", members=["i2"]),
        requested_destination=Destination(host="h1", cell="cell1", forbidden_aggregates=["a1"]),
        retry=Retry(hosts=[["h1", None]]),
        limits=Limits(vcpu=4),
        numa_topology=InstanceTopology((InstanceCell(0, frozenset({0}), frozenset(), 512),)),
        pci_requests=(PciRequest(2, ({"vendor_id": "8086"},), alias_name="a"),),
        requested_resources=(RequestGroup({"VGPU": 1}, requester_id="port1"),),
        request_level_params=RequestLevelParams(root_required=["CUSTOM_A"]),
        security_groups=(SecurityGroup("default"),),
        requested_networks=(NetworkRequest(port_id="p"),),
        network_metadata=NetworkMetadata(tunneled=True),
    )
    again = request_from_object(request_to_object(spec))
    assert again == spec.changed(
        requested_destination=again.requested_destination  # it has a uuid for the cell now
    )
    assert again.requested_destination.cell == "cell1"


@pytest.mark.parametrize("name", ["request_spec.full", "request_spec.bare"])
def test_a_short_object_is_read_as_an_equal_request_with_what_roost_does_not_hold(recorded, name):
    spec = request_from_object(recorded(name))
    read = request_from_object(request_to_short_object(spec))
    assert (read, read.sent.others) == (spec, spec.sent.others)


def test_a_short_object_has_only_what_is_asked():
    spec = RequestSpec(flavor=Flavor(0, 0), num_instances=2)
    assert set(request_to_short_object(spec)["nova_object.data"]) == {"flavor", "num_instances"}
    assert request_from_object(request_to_short_object(spec)) == spec


def test_what_was_changed_on_the_way_goes_out_changed(request_of):
    spec = request_from_object(request_of(num_instances=1, ignore_hosts=None))
    data = request_to_object(spec.for_instance("i7").changed(force_hosts=("h1",)))["nova_object.data"]
    assert set(data) == {"flavor", "num_instances", "ignore_hosts", "instance_uuid", "force_hosts"}
    assert (data["instance_uuid"], data["force_hosts"], data["ignore_hosts"]) == ("i7", ["h1"], None)


# --- null, absent, empty -----------------------------------------------------------------------------


def test_only_the_flavor_is_needed(request_of):
    assert request_from_object(request_of()) == RequestSpec(flavor=Flavor(1, 512))


NULLS = (
    *("image", "num_instances", "instance_uuid", "project_id", "user_id", "availability_zone", "scheduler_hints"),
    *("instance_group", "ignore_hosts", "force_hosts", "force_nodes", "requested_destination", "retry", "is_bfv"),
    *("numa_topology", "pci_requests", "requested_resources", "request_level_params", "network_metadata", "limits"),
    *("security_groups", "requested_networks", "id"),
)


@pytest.mark.parametrize("name", NULLS)
def test_null_is_as_good_as_absent(request_of, name):
    assert request_from_object(request_of(**{name: None})) == request_from_object(request_of())


@pytest.mark.parametrize("name", ["ignore_hosts", "force_hosts", "force_nodes"])
def test_no_names_is_not_the_same_as_an_empty_list_of_names(request_of, name):
    spec = request_from_object(request_of(**{name: []}))
    assert getattr(spec, name) == ()
    assert request_to_object(spec)["nova_object.data"][name] == []


def test_unknown_fields_are_ignored(request_of, flavor):
    newer = request_of(flavor=flavor(colour="red"), shape={"deep": [1, {"deeper": None}]})
    newer["nova_object.version"] = "1.99"
    assert request_from_object(newer) == RequestSpec(flavor=Flavor(1, 512))


# --- fields of older and newer versions --------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("g1", ("g1",)),
        (["g1", "g2"], ("g1", "g2")),
        ([], ()),
        (5, ("5",)),
        (["1", 2], ("1", "2")),
        ([""], ("",)),
    ],
)
def test_hints_are_lists_of_texts(request_of, given, taken):
    assert request_from_object(request_of(scheduler_hints={"a": given})).scheduler_hints == {"a": taken}


def test_a_hint_without_a_value_is_no_hint(request_of):
    assert request_from_object(request_of(scheduler_hints={"a": None})).scheduler_hints == {}


@pytest.mark.parametrize(
    ("data", "policy"),
    [
        ({"policy": "affinity"}, "affinity"),
        ({"policies": ["anti-affinity"]}, "anti-affinity"),
        ({"policy": None, "policies": ["soft-affinity"]}, "soft-affinity"),
        ({"policies": []}, None),
        ({"policies": None}, None),
    ],
)
def test_the_policy_of_a_group_is_found_in_both_forms(request_of, envelope, data, policy):
    spec = request_from_object(request_of(instance_group=envelope("InstanceGroup", uuid="g", **data)))
    assert spec.instance_group == ServerGroup(policy, uuid="g")


@pytest.mark.parametrize("key", ["rules", "_rules"])
def test_the_rules_of_a_group_are_found_under_both_names(request_of, envelope, key):
    group = envelope("InstanceGroup", policy="anti-affinity", **{key: {"max_server_per_host": "3", "new": "x"}})
    assert request_from_object(request_of(instance_group=group)).instance_group.max_server_per_host == 3


def test_before_train_dedicated_cpus_had_no_set_of_their_own(request_of, envelope):
    cell = envelope("InstanceNUMACell", "1.4", id=0, cpuset=[0, 1], memory=512, cpu_policy="dedicated")
    topology = envelope("InstanceNUMATopology", cells=[cell])
    (taken,) = request_from_object(request_of(numa_topology=topology)).numa_topology.cells
    assert (taken.cpuset, taken.pcpuset) == (frozenset(), {0, 1})


def test_a_flavor_without_extra_specs(request_of, flavor):
    assert request_from_object(request_of(flavor=flavor(extra_specs=None, swap=None))).flavor == Flavor(1, 512)


def test_numbers_may_be_written_as_text(request_of, flavor):
    assert request_from_object(request_of(flavor=flavor(memory_mb="2048", swap="512"))).flavor.memory_mb == 2048


def test_a_cell_without_a_name_is_known_by_its_uuid(request_of, envelope):
    cell = envelope("CellMapping", name=None, uuid=uuid(8))
    spec = request_from_object(request_of(requested_destination=envelope("Destination", cell=cell)))
    assert (spec.requested_destination.cell, spec.requested_destination.cell_uuid) == (uuid(8), uuid(8))


def test_security_groups_by_name_and_by_uuid(request_of, envelope):
    groups = [envelope("SecurityGroup", name="default"), envelope("SecurityGroup", uuid="u", description="x")]
    spec = request_from_object(request_of(security_groups=envelope("SecurityGroupList", objects=groups)))
    assert spec.security_groups == (SecurityGroup("default"), SecurityGroup(uuid="u"))


def test_a_null_in_a_device_specification_stays_null(request_of, envelope):
    request = envelope("InstancePCIRequest", count=1, spec=[{"physical_network": None, "tags": ["a"]}])
    spec = request_from_object(request_of(pci_requests=envelope("InstancePCIRequests", requests=[request])))
    assert spec.pci_requests[0].spec == ({"physical_network": None, "tags": ("a",)},)


def test_image_properties_that_nobody_knows_are_dropped(request_of, envelope):
    properties = envelope("ImageMetaProps", "1.40", os_distro="debian", my_own="x")
    spec = request_from_object(request_of(image=envelope("ImageMeta", properties=properties)))
    assert spec.image == Image(properties={"os_distro": "debian"})


@pytest.mark.parametrize(("version", "is_refused"), [("1.44", True), ("1.45", False)])
def test_an_image_property_of_a_newer_version_may_have_a_value_that_nobody_knows(
    request_of, envelope, version, is_refused
):
    properties = envelope("ImageMetaProps", version, os_distro="debian", hw_video_model="of tomorrow")
    primitive = request_of(image=envelope("ImageMeta", properties=properties))
    if is_refused:
        with pytest.raises(FieldError, match=r"^spec_obj.image.properties.hw_video_model: 'of tomorrow' is not"):
            request_from_object(primitive)
    else:
        assert request_from_object(primitive).image.properties == {"os_distro": "debian"}


# --- mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"flavor": None}, "spec_obj.flavor: is missing"),
        ({"num_instances": 0}, "spec_obj.num_instances: 0 is too small"),
        ({"num_instances": MOST_INSTANCES + 1}, "spec_obj.num_instances: 10001 is too large"),
        ({"num_instances": True}, "spec_obj.num_instances: True is not a whole number"),
        ({"project_id": ["p"]}, "spec_obj.project_id: ['p'] is not text"),
        ({"project_id": "p" * (LONGEST_TEXT + 1)}, "spec_obj.project_id: is a text of 65537 characters"),
        ({"ignore_hosts": "h1"}, "spec_obj.ignore_hosts: 'h1' is not a list"),
        ({"ignore_hosts": ["h1", None]}, "spec_obj.ignore_hosts[1]: None is not text"),
        ({"ignore_hosts": ["h"] * (MOST_LISTED + 1)}, "spec_obj.ignore_hosts: has 10001 entries"),
        ({"scheduler_hints": ["a"]}, "spec_obj.scheduler_hints: ['a'] is not a mapping"),
        ({"scheduler_hints": {"a": [None]}}, "spec_obj.scheduler_hints.a[0]: has no value"),
        ({"scheduler_hints": {"a": {"b": 1}}}, "spec_obj.scheduler_hints.a[0]: {'b': 1} is not text"),
        ({"is_bfv": "yes"}, "spec_obj.is_bfv: 'yes' is not a yes or no"),
        ({"image": 5}, "spec_obj.image: 5 is not a mapping"),
        (
            {"requested_resources": [{"resources": {"VGPU": -1}}]},
            "spec_obj.requested_resources[0].resources.VGPU: -1",
        ),
        ({"retry": {"hosts": [["h1"]]}}, "spec_obj.retry.hosts[0]: ['h1'] is no [host, node] pair"),
        ({"limits": {"vcpu": "many"}}, "spec_obj.limits.vcpu: 'many' is not a whole number"),
        ({"instance_group": {"policy": "together"}}, "spec_obj.instance_group.policy: 'together' is no policy"),
        ({"numa_topology": {"cells": [{"id": 0}]}}, "spec_obj.numa_topology.cells[0].memory: None is not"),
        ({"numa_topology": {"cells": [{"cpuset": "x"}]}}, "spec_obj.numa_topology.cells[0].cpuset: 'x' is not"),
        ({"pci_requests": {"requests": [{"count": -1}]}}, "spec_obj.pci_requests.requests[0].count: -1 is too small"),
        (
            {"request_level_params": {"root_required": [1.5, {}]}},
            "spec_obj.request_level_params.root_required[1]: {}",
        ),
    ],
)
def test_a_mistake_is_named_with_its_path(request_of, data, message):
    with pytest.raises(FieldError) as error:
        request_from_object(request_of(**data))
    assert str(error.value).startswith(message)


def test_a_mistake_in_the_flavor_is_named_with_its_path(request_of, flavor):
    with pytest.raises(FieldError, match=r"^spec_obj.flavor.memory_mb: 'much' is not a whole number"):
        request_from_object(request_of(flavor=flavor(memory_mb="much")))
    with pytest.raises(FieldError, match=r"^spec_obj.flavor.vcpus: is missing"):
        request_from_object(request_of(flavor={"memory_mb": 5}))


def test_the_object_of_another_field_is_refused(request_of, flavor):
    with pytest.raises(FieldError, match=r"^spec_obj.image: is an object 'nova.Flavor' \(send a nova.ImageMeta\)"):
        request_from_object(request_of(image=flavor()))
