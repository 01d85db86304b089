# SPDX-License-Identifier: Apache-2.0
"""Requests, in the spelling of today and in that of nova's older filter_properties."""

import copy
import dataclasses
import pickle

import pytest

from roost.errors import FieldError
from roost.model import Destination, Flavor, Image, RequestSpec, Retry, ServerGroup
from roost.testing import make_spec

FLAVOR = Flavor(
    vcpus=2, memory_mb=2048, root_gb=20, ephemeral_gb=1, swap=512, name="c2.small", id=5, extra_specs={"a": "b"}
)
FULL = RequestSpec(
    flavor=FLAVOR,
    image=Image(id="image-1", name="debian", properties={"os_type": "linux", "os_distro": "debian"}),
    num_instances=2,
    instance_uuid="i1",
    project_id="p1",
    user_id="u1",
    availability_zone="az1",
    scheduler_hints={"group": ["g1"], "different_host": ["i2", "i3"], "empty": []},
    instance_group=ServerGroup("anti-affinity", uuid="g1", members=["i1"], hosts=["h1"]),
    ignore_hosts=["h9"],
    force_hosts=["h8"],
    force_nodes=["n8"],
    retry=Retry(num_attempts=2, hosts=[["h1", "n1"]]),
)


# --- by attribute ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attribute", "value"), [("vcpus", 2), ("memory_mb", 2048), ("root_gb", 20), ("ephemeral_gb", 1), ("swap", 512)]
)
def test_sizes_are_those_of_the_flavor(attribute, value):
    assert getattr(FULL, attribute) == value


def test_a_request_needs_only_a_flavor():
    spec = RequestSpec(flavor=FLAVOR)
    assert (spec.num_instances, spec.image, spec.ignore_hosts, dict(spec.scheduler_hints)) == (1, None, None, {})


@pytest.mark.parametrize("name", ["flavor", "instance_uuid", "instance_group"])
def test_a_field_with_a_value_is_set(name):
    assert name in FULL
    assert FULL.obj_attr_is_set(name)


@pytest.mark.parametrize("name", ["requested_destination", "nosuch"])
def test_a_field_without_a_value_is_not_set(name):
    assert name not in FULL
    assert not FULL.obj_attr_is_set(name)


def test_a_single_name_stands_for_a_list_of_one():
    assert RequestSpec(flavor=FLAVOR, force_hosts="h1").force_hosts == ("h1",)


def test_a_request_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        FULL.num_instances = 3
    with pytest.raises(TypeError):
        FULL.scheduler_hints["group"] = ("g2",)


@pytest.mark.parametrize("duplicate", [copy.copy, dataclasses.replace])
def test_a_copy_is_equal(duplicate):
    assert duplicate(FULL) == FULL


# --- hints (spec/filters.md 1.3) ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hints", "name", "value"),
    [
        pytest.param({}, "group", "default", id="no hints at all"),
        pytest.param({"other": ["x"]}, "group", "default", id="another hint"),
        pytest.param({"group": ["g1"]}, "group", "g1", id="one element: that element"),
        pytest.param({"group": "g1"}, "group", "g1", id="a text: itself"),
        pytest.param({"group": []}, "group", [], id="none: the list"),
        pytest.param({"group": ["g1", "g2"]}, "group", ["g1", "g2"], id="two: the list"),
        pytest.param({"group": [""]}, "group", "", id="an empty text is an element"),
    ],
)
def test_reading_a_hint(hints, name, value):
    assert make_spec(scheduler_hints=hints).get_scheduler_hint(name, "default") == value


def test_a_missing_hint_is_none_by_default():
    assert make_spec().get_scheduler_hint("group") is None


def test_hints_are_kept_as_lists():
    assert make_spec(scheduler_hints={"a": "x", "b": ["y", "z"]}).scheduler_hints == {"a": ("x",), "b": ("y", "z")}


@pytest.mark.parametrize(
    ("hints", "is_rebuild"),
    [
        ({}, False),
        ({"_nova_check_type": ["rebuild"]}, True),
        ({"_nova_check_type": "rebuild"}, True),
        ({"_nova_check_type": ["rebuild", "rebuild"]}, False),
        ({"_nova_check_type": ["Rebuild"]}, False),
        ({"_nova_check_type": []}, False),
        ({"check_type": ["rebuild"]}, False),
    ],
)
def test_a_rebuild_is_exactly_the_one_hint(hints, is_rebuild):
    assert make_spec(scheduler_hints=hints).is_rebuild is is_rebuild


# --- the older spelling (spec/drivers-and-rpc.md 3.3) ------------------------------------------------


def test_the_flavor_is_the_instance_type():
    instance_type = FULL.get("instance_type")
    assert (instance_type["memory_mb"], instance_type["extra_specs"], instance_type["id"]) == (2048, {"a": "b"}, 5)


def test_hints_are_unwrapped():
    assert FULL["scheduler_hints"] == {"group": "g1", "different_host": ["i2", "i3"], "empty": []}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("project_id", "p1"),
        ("os_type", "linux"),
        ("ignore_hosts", ["h9"]),
        ("force_hosts", ["h8"]),
        ("force_nodes", ["n8"]),
        ("retry", {"num_attempts": 2, "hosts": [["h1", "n1"]]}),
        ("limits", {}),
        ("group_updated", True),
        ("group_uuid", "g1"),
        ("group_hosts", {"h1"}),
        ("group_policies", {"anti-affinity"}),
        ("group_members", {"i1"}),
    ],
)
def test_members_of_filter_properties(name, value):
    assert FULL[name] == value
    assert FULL.get(name) == value
    assert name in FULL


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("uuid", "i1"),
        ("project_id", "p1"),
        ("user_id", "u1"),
        ("availability_zone", "az1"),
        ("memory_mb", 2048),
        ("vcpus", 2),
        ("root_gb", 20),
        ("ephemeral_gb", 1),
        ("os_type", "linux"),
        ("image_ref", "image-1"),
    ],
)
def test_properties_of_the_instance(name, value):
    assert FULL["request_spec"]["instance_properties"][name] == value
    assert FULL["instance_properties"][name] == value


def test_the_image_in_the_inner_request():
    image = FULL["request_spec"]["image"]
    assert (image["id"], image["properties"]) == ("image-1", {"os_type": "linux", "os_distro": "debian"})


def test_a_request_without_image_has_an_empty_one():
    assert make_spec()["request_spec"]["image"] == {}


def test_the_inner_request_counts_instances():
    assert (FULL["request_spec"]["num_instances"], FULL["request_spec"]["instance_uuids"]) == (2, ["i1"])


def test_attributes_read_as_items_too():
    assert (FULL["flavor"], FULL["flavor"]["memory_mb"], FULL["num_instances"]) == (FLAVOR, 2048, 2)


def test_an_item_that_does_not_exist_is_a_key_error():
    with pytest.raises(KeyError, match="nosuch"):
        FULL["nosuch"]


@pytest.mark.parametrize("name", ["nosuch", "group_hosts", "retry", "instance_group", "availability_zone"])
def test_what_has_no_value_reads_as_the_default(name):
    assert make_spec().get(name, "default") == "default"


@pytest.mark.parametrize("name", ["group_hosts", "retry", "instance_group"])
def test_what_has_no_value_is_not_there(name):
    assert name not in make_spec()


# --- the request of one instance ---------------------------------------------------------------------


def test_the_request_of_one_instance_bears_its_uuid_in_both_spellings():
    assert FULL["instance_properties"]["uuid"] == "i1"
    other = FULL.for_instance("i2")
    assert (other.instance_uuid, other["instance_properties"]["uuid"]) == ("i2", "i2")
    assert FULL.instance_uuid == "i1"


def test_the_group_of_the_request_grows_with_the_chosen_host():
    grown = FULL.with_group_host("h2")
    assert (grown.instance_group.hosts, grown["group_hosts"]) == (("h1", "h2"), {"h1", "h2"})
    assert FULL.instance_group.hosts == ("h1",)


def test_without_group_there_is_nothing_to_grow():
    spec = make_spec()
    assert spec.with_group_host("h2") is spec


# --- checks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"flavor": {"vcpus": 1}}, "flavor: {'vcpus': 1} is not of the class Flavor"),
        ({"flavor": None}, "flavor: None is not of the class Flavor"),
        ({"image": {"id": "x"}}, "image: {'id': 'x'} is not of the class Image"),
        ({"instance_group": "g1"}, "instance_group: 'g1' is not of the class ServerGroup"),
        ({"requested_destination": "h1"}, "requested_destination: 'h1' is not of the class Destination"),
        ({"retry": {"hosts": []}}, "retry: {'hosts': \\[\\]} is not of the class Retry"),
        ({"num_instances": 0}, "num_instances: 0 is too small"),
        ({"num_instances": 1.5}, "num_instances: 1.5 is not a whole number"),
        ({"num_instances": True}, "num_instances: True is not a whole number"),
        ({"project_id": 5}, "project_id: 5 is not text"),
        ({"ignore_hosts": 5}, "ignore_hosts: 5 is not a list of names"),
        ({"force_hosts": ["h1", 5]}, r"force_hosts\[1\]: 5 is not text"),
        ({"force_nodes": [""]}, r"force_nodes\[0\]: is empty"),
        ({"scheduler_hints": []}, r"scheduler_hints: \[\] is not a mapping"),
        ({"scheduler_hints": {"group": 5}}, "scheduler_hints.group: 5 is no text and no list of texts"),
        ({"scheduler_hints": {"group": [5]}}, "scheduler_hints.group: 5 is not text"),
        ({"is_bfv": "no"}, "is_bfv: 'no' is not a yes or no"),
    ],
)
def test_a_bad_field_is_an_error_that_names_it(fields, message):
    with pytest.raises(FieldError, match=f"^{message}"):
        RequestSpec(**({"flavor": FLAVOR} | fields))


def test_a_whole_number_written_as_a_float_is_an_int():
    assert type(RequestSpec(flavor=FLAVOR, num_instances=2.0).num_instances) is int


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hosts": ["h1"]}, r"hosts\[0\]: 'h1' is no \[host, node\] pair"),
        ({"hosts": [["h1", "n1", "x"]]}, r"hosts\[0\]: .* is no \[host, node\] pair"),
        ({"hosts": [["h1", 1]]}, r"hosts\[0\]\[1\]: 1 is not text"),
        ({"hosts": None}, "hosts: None is not a list"),
        ({"hosts": 5}, "hosts: 5 is not a list"),
        ({"num_attempts": -1}, "num_attempts: -1 is too small"),
    ],
)
def test_a_bad_retry_record_is_an_error(fields, message):
    with pytest.raises(FieldError, match=f"^{message}"):
        Retry(**fields)


def test_a_destination_takes_text():
    with pytest.raises(FieldError, match=r"^host: 5 is not text"):
        Destination(host=5)


def test_a_request_can_be_sent_elsewhere_and_read_as_before():
    spec = make_spec(memory_mb=7)
    assert spec["instance_type"]["memory_mb"] == 7
    assert copy.deepcopy(spec.flavor.vcpus) == 1
    assert pickle.loads(pickle.dumps(Retry(hosts=[("h", "n")]))) == Retry(hosts=[("h", "n")])
