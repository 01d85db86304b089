# SPDX-License-Identifier: Apache-2.0
"""The published schema and the loader agree: what one takes, the other takes."""

import copy

import jsonschema
import pytest

from roost import Fleet
from roost.errors import BadInput
from roost.sources.fields import HOST_FIELDS, SECTIONS, fleet_schema

VALIDATOR = jsonschema.Draft202012Validator(fleet_schema())

FULL_HOST = {
    "host": "a",
    "node": "n",
    "uuid": "u",
    "cell": "cell1",
    "total_usable_ram_mb": 100,
    "free_ram_mb": -5,
    "total_usable_disk_gb": 10,
    "free_disk_mb": 500,
    "disk_mb_used": 600,
    "vcpus_total": 4,
    "vcpus_used": 1,
    "cpu_allocation_ratio": 4.0,
    "ram_allocation_ratio": 1,
    "disk_allocation_ratio": 1.5,
    "reserved_vcpus": 1,
    "reserved_ram_mb": 1,
    "reserved_disk_gb": 1,
    "num_instances": 3,
    "num_io_ops": 1,
    "failed_builds": 0,
    "hypervisor_type": "QEMU",
    "hypervisor_version": 8002000,
    "host_ip": None,
    "supported_instances": [["x86_64", "kvm", "hvm"]],
    "cpu_info": {"features": ["avx"]},
    "cpu_info_is_dict": True,
    "stats": {"num_instances": "3", "x": [1, {"y": None}]},
    "metrics": [{"name": "cpu.frequency", "value": 3.5}],
    "service": {"disabled": False, "disabled_reason": None, "forced_down": False, "seconds_since_seen": 3},
    "aggregates": [{"name": "x", "metadata": {"a": 1, "b": True, "c": "d"}, "id": 7}],
    "instances": ["i1", {"uuid": "i2", "project_id": "p", "flavor_id": 3, "resources": {"VCPU": 1}}],
    "migrations": [{"uuid": "m1", "instance": "i3", "resources": {"VCPU": 1}}, {"uuid": "m2", "resources": {}}],
    "traits": ["HW_CPU_X86_AVX2", "CUSTOM_X"],
    "trust_level": "trusted",
    "resources": {"VGPU": {"total": 4, "reserved": 1, "max_unit": None}, "CUSTOM_X": {"total": 1}},
    "allocations": {"VCPU": 3, "CUSTOM_X": 1},
    "pci_pools": [{"vendor_id": "8086", "product_id": "1520", "count": 2, "numa_node": None, "tag": "x"}],
    "numa": {
        "cells": [
            {
                "id": 0,
                "cpuset": [0, 1],
                "memory": 10,
                "siblings": [[0, 1]],
                "mempages": [{"size_kb": 4, "total": 3}],
                "socket": 0,
            }
        ]
    },
    "allocation_candidates": [{"mappings": {"": ["x"]}}],
}
FULL = {
    "hosts": [FULL_HOST, {"host": "n[1-3]"}, {"host": "z", "metrics": None, "numa": None, "pci_pools": None}],
    "aggregates": [{"name": "north", "metadata": {"availability_zone": "north"}, "hosts": ["n[1-3]"]}],
    "flavors": [{"name": "s", "vcpus": 1, "memory_mb": 1, "root_gb": 1, "extra_specs": {"a": "b", "n": 1}, "id": 3}],
    "images": [{"name": "i", "properties": {"hw_architecture": "x86_64"}, "min_ram": 1, "size": None}],
    "server_groups": [
        {"name": "g", "policy": "anti-affinity", "rules": {"max_server_per_host": 2}, "members": ["x"]}
    ],
    "options": {"filter_scheduler": {"enabled_filters": ["ComputeFilter"], "host_subset_size": 2}},
}


def is_valid(document):
    return VALIDATOR.is_valid(document)


def is_loaded(document):
    try:
        Fleet.load(document)
    except BadInput:
        return False
    return True


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(fleet_schema())


def test_every_section_and_every_field_of_a_host_is_in_it():
    properties = fleet_schema()["properties"]
    assert tuple(properties) == SECTIONS
    fields = properties["hosts"]["items"]["properties"]
    assert list(fields) == list(HOST_FIELDS)
    assert all(fields[name]["description"] for name in HOST_FIELDS)


def test_the_full_example_has_every_field():
    assert FULL_HOST.keys() == HOST_FIELDS.keys()


@pytest.mark.parametrize(
    "document",
    [
        FULL,
        {},
        dict.fromkeys(SECTIONS),
        {"hosts": []},
        {"hosts": [{"host": "a"}]},
        {"aggregates": [{"name": "x", "hosts": []}]},
        {"hosts": [{"host": "a"}], "aggregates": [{"name": "x", "hosts": "a"}]},
        {"hosts": [{"host": "a", "cpu_info": "text"}]},
        {"hosts": [{"host": "a", "vcpus_total": 4.0}]},
        {"hosts": [{"host": "a", "traits": "A"}]},
        {"server_groups": [{"name": "g", "policy": None}]},
        {"server_groups": [{"name": "g", "policy": "affinity", "rules": {"max_server_per_host": "3"}}]},
    ],
)
def test_good_documents_are_taken_by_both(document):
    VALIDATOR.validate(document)
    assert is_loaded(document)


def places(document):
    """A way to every record of the full example that has a fixed set of fields."""
    host = document["hosts"][0]
    return [
        document,
        host,
        host["service"],
        host["metrics"][0],
        host["aggregates"][0],
        host["instances"][1],
        host["resources"]["VGPU"],
        host["numa"],
        host["numa"]["cells"][0],
        host["numa"]["cells"][0]["mempages"][0],
        *(document[section][0] for section in ("aggregates", "flavors", "images", "server_groups")),
        document["server_groups"][0]["rules"],
    ]


@pytest.mark.parametrize("number", range(len(places(FULL))))
def test_an_unknown_field_is_refused_by_both_at_every_level(number):
    document = copy.deepcopy(FULL)
    places(document)[number]["surplus"] = 1
    assert not is_valid(document)
    assert not is_loaded(document)


HUGE = 10**16
BAD_VALUES = {
    "host": [None, "", 5, ["a"]],
    "node": [None, "", 5],
    "vcpus_total": [-1, 1.5, "4", True, None, HUGE, [4]],
    "free_ram_mb": [1.5, "4", True, -HUGE],
    "cpu_allocation_ratio": [-1, "4", True, None, 1e9],
    "hypervisor_version": [-1, "8.2"],
    "supported_instances": [5, ["x"], [["x", "y"]], [["x", "y", 3]]],
    "cpu_info": [5, ["x"]],
    "cpu_info_is_dict": [1, "yes"],
    "stats": [5, ["x"], {"num_instances": "abc"}, {"num_instances": -1}],
    "metrics": [5, [5], [{"name": "x"}], [{"name": "x", "value": "y"}], [{"value": 1}]],
    "service": [5, {"disabled": 1}, {"up": "yes"}, {"seconds_since_seen": "x"}],
    "aggregates": [5, [5], [{}], [{"name": ""}], [{"name": "x", "metadata": {"a": []}}]],
    "instances": [5, [5], [""], [{}], [{"uuid": "x", "resources": {"vcpu": 1}}], [{"uuid": "x", "flavor_id": []}]],
    "traits": [5, [5], ["lower"]],
    "resources": [
        5,
        {"gpu": {"total": 1}},
        {"VGPU": {}},
        {"VGPU": {"total": -1}},
        {"VGPU": {"total": 1, "step_size": 0}},
    ],
    "pci_pools": [
        5,
        [5],
        [{"vendor_id": "1", "product_id": "2"}],
        [{"vendor_id": "1", "product_id": "2", "count": -1}],
    ],
    "numa": [5, {}, {"cells": [{"id": 0}]}, {"cells": [{"id": 0, "memory": -1}]}],
    "allocation_candidates": [5, [5]],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, each) for field, values in BAD_VALUES.items() for each in values]
)
def test_a_bad_value_is_refused_by_both(field, value):
    document = {"hosts": [{"host": "a", field: value}]}
    assert not is_valid(document)
    assert not is_loaded(document)


@pytest.mark.parametrize(
    "document",
    [
        [],
        {"hosts": {}},
        {"hosts": [{}]},
        {"aggregates": [{"metadata": {}}]},
        {"flavors": [{"name": "s", "vcpus": 1}]},
        {"flavors": [{"name": "s", "vcpus": -1, "memory_mb": 1}]},
        {"flavors": [{"name": "s", "vcpus": 1, "memory_mb": 1, "id": []}]},
        {"images": [{"name": "s", "min_ram": -1}]},
        {"images": [{"name": "s", "properties": 5}]},
        {"server_groups": [{"name": "s"}]},
        {"server_groups": [{"name": "s", "policy": "together"}]},
        {"server_groups": [{"name": "s", "policy": "affinity", "uuid": []}]},
        {"options": []},
        {"options": {"filter_scheduler": 5}},
    ],
)
def test_a_bad_document_is_refused_by_both(document):
    assert not is_valid(document)
    assert not is_loaded(document) if isinstance(document, dict) else True
