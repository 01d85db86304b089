# SPDX-License-Identifier: Apache-2.0
"""spec/hosts.md 2: the attributes of nova's HostState."""

import copy

import pytest

from roost.hosts import Instance
from roost.testing import make_hosts, make_spec

HOST = {
    "host": "h1",
    "node": "n1",
    "uuid": "8e0b9a52-1c5c-4a27-9c0f-3b4d9f6f7a01",
    "cell": "cell7",
    "total_usable_ram_mb": 8192,
    "free_ram_mb": 4096,
    "total_usable_disk_gb": 100,
    "free_disk_mb": 51200,
    "vcpus_total": 16,
    "vcpus_used": 4,
    "cpu_allocation_ratio": 4.0,
    "ram_allocation_ratio": 1.5,
    "disk_allocation_ratio": 1.0,
    "num_instances": 3,
    "num_io_ops": 1,
    "failed_builds": 2,
    "hypervisor_type": "QEMU",
    "hypervisor_version": 8002000,
    "host_ip": "192.0.2.7",
    "cpu_info": '{"arch": "x86_64"}',
    "stats": {"rack": "r4", "num_instances": "3"},
    "metrics": ({"name": "cpu.percent", "value": 43},),
    "supported_instances": [("x86_64", "kvm", "hvm")],
}


def view_with(**more):
    columns = {name: [value] for name, value in (HOST | more).items()}
    (view,) = make_hosts(**columns)
    return view


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("host", "h1"),
        ("nodename", "n1"),
        ("hypervisor_hostname", "n1"),
        ("uuid", "8e0b9a52-1c5c-4a27-9c0f-3b4d9f6f7a01"),
        ("cell_uuid", "cell7"),
        ("total_usable_ram_mb", 8192),
        ("free_ram_mb", 4096),
        ("total_usable_disk_gb", 100),
        ("free_disk_mb", 51200),
        ("disk_mb_used", 51200),
        ("vcpus_total", 16),
        ("vcpus_used", 4),
        ("cpu_allocation_ratio", 4.0),
        ("ram_allocation_ratio", 1.5),
        ("disk_allocation_ratio", 1.0),
        ("num_instances", 3),
        ("num_io_ops", 1),
        ("failed_builds", 2),
        ("hypervisor_type", "QEMU"),
        ("hypervisor_version", 8002000),
        ("host_ip", "192.0.2.7"),
        ("cpu_info", '{"arch": "x86_64"}'),
        ("stats", {"rack": "r4", "num_instances": "3"}),
        ("limits", {}),
        ("aggregates", []),
        ("instances", {}),
    ],
)
def test_attributes_have_novas_names(attribute, value):
    assert getattr(view_with(), attribute) == value


@pytest.mark.parametrize(
    "attribute",
    [
        "total_usable_ram_mb",
        "free_ram_mb",
        "total_usable_disk_gb",
        "free_disk_mb",
        "disk_mb_used",
        "vcpus_total",
        "vcpus_used",
        "num_instances",
        "num_io_ops",
        "failed_builds",
        "hypervisor_version",
    ],
)
def test_whole_numbers_are_python_ints(attribute):
    assert type(getattr(view_with(), attribute)) is int


@pytest.mark.parametrize("attribute", ["cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"])
def test_ratios_are_python_floats(attribute):
    assert type(getattr(view_with(), attribute)) is float


@pytest.mark.parametrize("attribute", ["is_up", "is_disabled", "is_bare_metal"])
def test_truths_are_python_bools(attribute):
    assert type(getattr(view_with(), attribute)) is bool


def test_free_memory_may_be_negative():
    assert view_with(free_ram_mb=-512).free_ram_mb == -512


def test_supported_instances_are_lists_as_plugins_expect_them():
    assert ["x86_64", "kvm", "hvm"] in view_with().supported_instances


def test_a_node_without_name_is_called_like_its_host():
    assert view_with(node="").nodename == "h1"


def test_a_node_without_uuid_gets_the_same_one_every_time():
    assert view_with(uuid="").uuid == view_with(uuid="").uuid
    assert view_with(uuid="").uuid != view_with(uuid="", node="n2").uuid


@pytest.mark.parametrize(
    ("attribute", "stat"), [("num_instances", "num_instances"), ("num_io_ops", "io_workload"), ("failed_builds",) * 2]
)
def test_counters_come_from_stats_as_text_or_number(attribute, stat):
    assert getattr(view_with(**{attribute: None}, stats={stat: "7"}), attribute) == 7


@pytest.mark.parametrize("attribute", ["num_instances", "num_io_ops", "failed_builds"])
def test_counters_missing_from_stats_are_0(attribute):
    assert getattr(view_with(**{attribute: None}, stats={}), attribute) == 0


def test_an_attribute_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="free_ram"):
        _ = view_with().free_ram
    assert getattr(view_with(), "nosuch", "default") == "default"


def test_the_service_is_a_record_with_novas_names():
    service = view_with(service={"disabled": True, "disabled_reason": "moving", "forced_down": True}).service
    assert (service["disabled"], service["disabled_reason"], service["forced_down"]) == (True, "moving", True)


def test_the_service_cannot_be_written_to():
    service = view_with().service
    with pytest.raises(TypeError):
        service["disabled"] = True
    with pytest.raises(TypeError):
        del service["disabled"]


def test_stats_cannot_be_written_to():
    with pytest.raises(TypeError):
        view_with().stats["rack"] = "r5"


def test_aggregates_are_objects_with_metadata():
    (aggregate,) = view_with(aggregates=[{"availability_zone": "az1"}]).aggregates
    assert (aggregate.metadata["availability_zone"], aggregate.availability_zone) == ("az1", "az1")


def test_changing_the_list_of_aggregates_changes_nothing():
    view = view_with(aggregates=[{"ssd": "true"}])
    view.aggregates.clear()
    assert len(view.aggregates) == 1


def test_instances_are_found_by_uuid():
    view = view_with(instances=(Instance("i1", project_id="p1"),))
    assert view.instances["i1"].project_id == "p1"


def test_what_was_consumed_shows_at_once():
    table = make_hosts(1, free_ram_mb=1024)
    (view,) = table.in_the_running()
    table.consume(0, make_spec(memory_mb=512))
    assert view.free_ram_mb == 512


def test_limits_belong_to_one_request():
    table = make_hosts(1)
    (view,) = table.in_the_running()
    view.limits["memory_mb"] = 1024.0
    (later,) = table.in_the_running()
    assert later.limits == {}


def test_the_same_request_sees_the_same_object():
    hosts = make_hosts(2).in_the_running()
    assert next(iter(hosts)) is next(iter(hosts.take([0, 1])))


@pytest.mark.parametrize("words", [repr, str])
def test_the_text_form_is_novas(words):
    assert words(view_with()) == "(h1, n1) ram: 4096MB disk: 51200MB io_ops: 1 instances: 3"


def test_a_view_can_be_copied():
    assert copy.copy(view_with()).free_ram_mb == 4096


def test_aggregate_values_are_split_at_commas():
    view = view_with(aggregates=[{"licences": "rhel, sles"}, {"licences": "rhel"}])
    assert view.aggregate_values("licences") == {"rhel", "sles"}


@pytest.mark.parametrize(("metadata", "least"), [([{"max": "10"}, {"max": "9"}], 9), ([{"max": "x"}], 8), ([], 8)])
def test_aggregate_min_is_the_smallest_number_or_the_default(metadata, least):
    assert view_with(aggregates=metadata).aggregate_min("max", default=8) == least
