# SPDX-License-Identifier: Apache-2.0
"""Which column holds what a record says."""

import json
from uuid import UUID, uuid5

from roost.hosts import HostRecord, Instance, Inventory
from roost.hosts.guests import topology_json
from roost.hosts.numa_cells import host_topology_from_json
from roost.hosts.pci import pools_from_json
from roost.hosts.record import default_node_uuid
from roost.records.node_rows import (
    instance_details,
    inventory_rows,
    listed_allocations,
    node_row,
    unlisted_amounts,
    unlisted_uuid,
    uuid_of_node,
)

SIZE = {"vcpus_total": 8, "total_usable_ram_mb": 16384, "total_usable_disk_gb": 100}
INSTANCE = Instance("u1", "p1", 7, {"os_distro": "debian"}, {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 0})


def test_free_disk_is_whole_gibibytes_rounded_down():
    assert node_row(HostRecord("a", **SIZE, free_disk_mb=2047))["free_disk_gb"] == 1
    assert node_row(HostRecord("a", **SIZE, free_disk_mb=-1))["free_disk_gb"] == -1
    assert node_row(HostRecord("a", **SIZE, free_disk_mb=-1))["local_gb_used"] == 101


def test_amounts_that_nobody_gave_follow_from_the_instances():
    row = node_row(HostRecord("a", **SIZE, instances=(INSTANCE,)))
    assert (row["vcpus_used"], row["free_ram_mb"], row["memory_mb_used"], row["running_vms"]) == (2, 15360, 1024, 1)


def test_counters_of_the_record_win_over_those_of_the_agent():
    stats = {"num_instances": "5", "io_workload": 3}
    assert node_row(HostRecord("a", stats=stats))["running_vms"] == 5
    row = node_row(HostRecord("a", stats=stats, num_instances=2, num_io_ops=0))
    assert (row["running_vms"], row["current_workload"]) == (2, 0)


def test_what_nova_has_no_column_for_is_an_attribute_unless_it_is_the_default():
    assert node_row(HostRecord("a"))["attributes"] is None
    record = HostRecord(
        "a", trust_level="trusted", failed_builds=0, allocation_candidates=({"mappings": {"r": ["p"]}},)
    )
    assert json.loads(node_row(record)["attributes"]) == {
        "trust_level": "trusted",
        "failed_builds": 0,
        "allocation_candidates": [{"mappings": {"r": ["p"]}}],
    }


def test_no_metrics_at_all_is_not_an_empty_list():
    assert node_row(HostRecord("a", metrics=None))["metrics"] is None
    assert node_row(HostRecord("a", metrics=()))["metrics"] == "[]"


def test_devices_and_cells_are_written_as_a_file_has_them():
    pools = [{"vendor_id": "1", "product_id": "2", "count": 3, "numa_node": None, "tags": ["a"]}]
    cells = {"cells": [{"id": 0, "memory": 512, "cpuset": [0, 1], "siblings": [[0, 1]], "socket": 0}]}
    record = HostRecord("a", pci_pools=pools_from_json(pools), numa=host_topology_from_json(cells))
    row = node_row(record)
    assert pools_from_json(json.loads(row["pci_stats"])) == record.pci_pools
    assert host_topology_from_json(json.loads(row["numa_topology"])) == record.numa
    assert topology_json(record.numa)["cells"][0]["socket"] == 0
    assert topology_json(None) is None


def test_every_inventory_has_a_row():
    rows = inventory_rows(HostRecord("a", **SIZE, reserved_ram_mb=512, resources={"PGPU": Inventory(4, 1, 2.0)}))
    assert set(rows) == {"VCPU", "MEMORY_MB", "DISK_GB", "PGPU"}
    assert (rows["MEMORY_MB"]["total"], rows["MEMORY_MB"]["reserved"]) == (16384, 512)
    assert rows["PGPU"] == {
        "total": 4,
        "reserved": 1,
        "allocation_ratio": 2.0,
        "min_unit": 1,
        "max_unit": None,
        "step_size": 1,
    }


def test_who_holds_what():
    record = HostRecord("a", **SIZE, vcpus_used=5, free_ram_mb=16384, instances=(INSTANCE, Instance("u2")))
    assert listed_allocations(record) == {"u1": {"VCPU": 2, "MEMORY_MB": 1024}}
    assert unlisted_amounts(record) == {"VCPU": 3}


def test_of_an_instance_that_is_listed_twice_the_last_word_counts():
    record = HostRecord("a", **SIZE, instances=(INSTANCE, Instance("u1", resources={"VCPU": 1})))
    assert listed_allocations(record) == {"u1": {"VCPU": 1}}
    assert unlisted_amounts(record) == {"VCPU": 2, "MEMORY_MB": 1024}


def test_details_have_no_empty_parts_and_name_the_flavor_by_its_row():
    assert instance_details(Instance("u"), {}) == {}
    assert instance_details(INSTANCE, {7: 70}) == {"flavor_id": 70, "image_props": {"os_distro": "debian"}}
    assert instance_details(INSTANCE, {8: 80})["flavor_id"] == 7


def test_unlisted_use_belongs_to_the_node():
    node = "5f3b1c0a-9b1e-4ad2-8d37-8f0d5a1b2c3d"
    assert unlisted_uuid(node) == str(uuid5(UUID(node), "unlisted"))
    assert unlisted_uuid("no uuid") != unlisted_uuid("another")
    assert len(unlisted_uuid("no uuid")) == 36


def test_a_node_without_a_uuid_gets_the_one_of_its_names():
    assert uuid_of_node(HostRecord("a-[1-2]"), "a-1", "a-1") == default_node_uuid("a-1", "a-1")
    assert uuid_of_node(HostRecord("a", uuid="own"), "a", "a") == "own"
