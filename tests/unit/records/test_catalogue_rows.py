# SPDX-License-Identifier: Apache-2.0
"""Flavors, images and groups as rows, and back as the entries of a file."""

import json

import pytest

from roost.model import Flavor, Image, ServerGroup
from roost.model.image import parse_properties
from roost.model.json_records import from_json
from roost.records.catalogue import (
    flavor_entry,
    flavor_row,
    group_entry,
    group_row,
    image_entry,
    image_row,
    raw_properties,
)


def test_a_flavor_is_known_by_its_name_where_it_has_nothing_else():
    flavor = Flavor(2, 1024, 10, swap=512)
    assert flavor_row("small", flavor, None)["flavorid"] == "small"
    assert flavor_row("small", flavor, "stored")["flavorid"] == "stored"
    assert flavor_row("small", Flavor(2, 1024, flavorid="own"), "stored")["flavorid"] == "own"


def test_a_flavor_comes_back():
    row = flavor_row("small", Flavor(2, 1024, 10, swap=512), None) | {"id": 3, "name": "small"}
    entry = {"name": "small", "id": 3, "vcpus": 2, "memory_mb": 1024, "root_gb": 10, "swap": 512}
    assert flavor_entry(row, {}) == entry
    assert flavor_entry(row | {"flavorid": "f"}, {"a": "b"}) == entry | {"flavorid": "f", "extra_specs": {"a": "b"}}


def test_an_image_comes_back():
    image = Image(None, "debian", parse_properties({"os_distro": "debian"}), min_ram=512, size=10)
    row = image_row("debian", image) | {"id": "id-1"}
    row["properties"] = json.loads(row["properties"])
    entry = image_entry(row, has_own_id=False)
    assert entry == {"name": "debian", "min_ram": 512, "size": 10, "properties": {"os_distro": "debian"}}
    assert from_json(Image, entry) == image
    assert image_entry(row, has_own_id=True)["id"] == "id-1"


@pytest.mark.parametrize(
    "properties",
    [
        {
            "hw_numa_nodes": 2,
            "hw_numa_cpus.0": "0-1,4",
            "hw_numa_cpus.1": "2,3",
            "hw_numa_mem.0": 512,
            "hw_numa_mem.1": 1,
        },
        {"trait:CUSTOM_A": "required", "hw_boot_menu": "yes", "hw_architecture": "amd64"},
        {"img_hv_requested_version": ">=6.0, <7", "hypervisor_type": "KVM", "vmware_adaptertype": "lsiLogic"},
        {"img_mappings": [{"device": "sda", "virtual": {"x": [1]}}], "hw_mem_page_size": "large"},
    ],
)
def test_properties_can_be_read_again(properties):
    taken = parse_properties(properties)
    assert parse_properties(json.loads(json.dumps(raw_properties(taken)))) == taken


def test_a_group_comes_back():
    group = ServerGroup("anti-affinity", "g", "u", ("m1",), ("h",), {"max_server_per_host": "3"})
    row = group_row("g", group) | {"uuid": "u"}
    assert (row["policy"], row["max_server_per_host"]) == ("anti-affinity", 3)
    rules = {"max_server_per_host": 3}
    entry = {"name": "g", "policy": "anti-affinity", "uuid": "u", "rules": rules, "members": ["m1"]}
    assert group_entry(row, ["m1"], has_own_uuid=True) == entry
    bare = group_row("g", ServerGroup(None)) | {"uuid": "u"}
    assert group_entry(bare, [], has_own_uuid=False) == {"name": "g", "policy": None}
