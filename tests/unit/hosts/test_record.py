# SPDX-License-Identifier: Apache-2.0
import pytest

from roost.hosts import HostRecord, Instance, Inventory
from roost.hosts.record import default_node_uuid

TWO = (
    Instance("i1", resources={"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 10}),
    Instance("i2", resources={"VCPU": 1, "MEMORY_MB": 512, "CUSTOM_GPU": 1}),
)


def record(**more):
    columns = {"total_usable_ram_mb": 8192, "total_usable_disk_gb": 100, "vcpus_total": 16}
    return HostRecord("h1", **(columns | more))


def test_all_is_free_where_nothing_is_said():
    host = record()
    assert (host.ram_mb_left, host.disk_mb_left, host.vcpus_taken) == (8192, 102400, 0)


def test_listed_instances_take_what_they_hold():
    host = record(instances=TWO)
    assert (host.ram_mb_left, host.disk_mb_left, host.vcpus_taken) == (8192 - 1536, 90 * 1024, 3)


def test_what_is_reported_wins_over_what_listed_instances_hold():
    host = record(instances=TWO, free_ram_mb=-5, free_disk_mb=7, vcpus_used=9)
    assert (host.ram_mb_left, host.disk_mb_left, host.vcpus_taken) == (-5, 7, 9)


def test_what_is_neither_free_nor_reserved_is_allocated():
    host = record(free_ram_mb=1024, reserved_ram_mb=512, free_disk_mb=10240, reserved_disk_gb=5, vcpus_used=4)
    assert host.allocated == {"VCPU": 4, "MEMORY_MB": 6656, "DISK_GB": 85}


def test_a_part_of_a_gb_that_is_taken_counts_as_a_whole_one():
    assert record(free_disk_mb=102399).allocated["DISK_GB"] == 1


def test_nothing_is_allocated_where_more_is_free_than_there_is():
    assert record(free_ram_mb=9999).allocated["MEMORY_MB"] == 0


def test_at_least_what_listed_instances_hold_is_allocated():
    assert record(instances=TWO, free_ram_mb=8192).allocated["MEMORY_MB"] == 1536


def test_listed_instances_hold_custom_classes_too():
    host = record(instances=TWO, resources={"CUSTOM_GPU": Inventory(4)})
    assert host.allocated["CUSTOM_GPU"] == 1


def test_a_resource_class_may_be_given_in_full():
    host = record(resources={"VCPU": Inventory(16, reserved=2, allocation_ratio=3.0)})
    assert host.inventories["VCPU"].limit == 42.0


@pytest.mark.parametrize(
    ("field", "stats", "count"),
    [(None, {}, 2), (None, {"num_instances": "7"}, 7), (5, {"num_instances": "7"}, 5)],
)
def test_a_counter_is_the_field_else_the_stat_else_what_is_listed(field, stats, count):
    host = record(num_instances=field, stats=stats, instances=TWO)
    assert host.counter("num_instances", "num_instances", len(host.instances)) == count


def test_names_make_a_uuid_that_does_not_depend_on_where_host_ends_and_node_begins():
    assert default_node_uuid("ab", "c") != default_node_uuid("a", "bc")
