import pytest

from roost.errors import BadInput
from roost.hosts import HostRecord, Instance, Inventory
from roost.model import Aggregate, Service
from roost.questions.what_if import set_field

HOST = HostRecord("a", vcpus_total=8, total_usable_ram_mb=8192, total_usable_disk_gb=100)
NORTH = Aggregate("north", {"availability_zone": "az-1"})


def changed(record, field, value, known=()):
    return set_field(record, field, value, {each.name: each for each in known})


def test_a_plain_field():
    assert changed(HOST, "num_io_ops", 7).num_io_ops == 7


def test_a_nested_field_leaves_its_neighbours():
    record = HostRecord("a", service=Service(disabled=True, disabled_reason="fans"))
    assert changed(record, "service.disabled", False).service == Service(disabled_reason="fans")


def test_an_inventory_that_was_not_there():
    record = changed(HOST, "resources.VGPU.total", 4)
    assert record.resources == {"VGPU": Inventory(4)}


def test_one_number_of_an_inventory_that_follows_from_other_fields():
    record = changed(HOST, "resources.MEMORY_MB.reserved", 512)
    assert record.resources == {"MEMORY_MB": Inventory(8192, reserved=512, allocation_ratio=1.0)}


def test_cpu_info_stays_text():
    record = HostRecord("a", cpu_info='{"topology": {"cores": 4}}')
    assert changed(record, "cpu_info.topology.cores", 16).cpu_info == '{"topology": {"cores": 16}}'


def test_free_memory_without_reported_allocations_is_read_as_in_a_fleet_file():
    assert changed(HOST, "free_ram_mb", 1024).allocated["MEMORY_MB"] == 7168


@pytest.mark.parametrize(
    ("field", "value", "resource_class", "allocated"),
    [
        ("free_ram_mb", 2048, "MEMORY_MB", 5000 - 2048),
        ("free_disk_mb", 20 * 1024, "DISK_GB", 60 - 20),
        ("vcpus_used", 5, "VCPU", 3 + 5),
        ("free_ram_mb", 9000, "MEMORY_MB", 0),
    ],
)
def test_reported_allocations_follow_the_free_and_used_amounts(field, value, resource_class, allocated):
    record = HostRecord(
        "a",
        vcpus_total=8,
        total_usable_ram_mb=8192,
        total_usable_disk_gb=100,
        free_ram_mb=0,
        free_disk_mb=0,
        allocations={"MEMORY_MB": 5000, "DISK_GB": 60, "VCPU": 3},
    )
    found = changed(record, field, value)
    assert found.allocated[resource_class] == allocated
    assert getattr(found, field) == value


def test_the_use_of_listed_instances_follows_the_free_memory():
    record = HostRecord("a", total_usable_ram_mb=8192, instances=(Instance("x", resources={"MEMORY_MB": 4096}),))
    assert changed(record, "free_ram_mb", 6144).allocated["MEMORY_MB"] == 2048


def test_allocations_are_set_one_by_one():
    record = HostRecord("a", vcpus_total=8, vcpus_used=3, total_usable_ram_mb=4096, free_ram_mb=1024)
    assert changed(record, "allocations.VCPU", 1).allocated == {"VCPU": 1, "MEMORY_MB": 3072, "DISK_GB": 0}


@pytest.mark.parametrize(
    ("field", "value", "free", "expected"),
    [
        ("total_usable_ram_mb", 10240, "free_ram_mb", 1000 + 2048),
        ("reserved_ram_mb", 512, "free_ram_mb", 1000 - 512),
        ("total_usable_disk_gb", 150, "free_disk_mb", 2000 + 50 * 1024),
        ("reserved_disk_gb", 1, "free_disk_mb", 2000 - 1024),
    ],
)
def test_free_amounts_follow_totals_and_reservations(field, value, free, expected):
    record = HostRecord("a", total_usable_ram_mb=8192, free_ram_mb=1000, total_usable_disk_gb=100, free_disk_mb=2000)
    assert getattr(changed(record, field, value), free) == expected
    assert getattr(changed(HOST, field, value), free) is None


def test_instances_that_leave_take_along_what_they_hold():
    two = [Instance(name, resources={"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 10}) for name in "xy"]
    record = HostRecord(
        "a",
        vcpus_total=8,
        vcpus_used=4,
        total_usable_ram_mb=8192,
        free_ram_mb=6144,
        total_usable_disk_gb=100,
        free_disk_mb=80 * 1024,
        num_instances=2,
        instances=tuple(two),
        allocations={"VCPU": 4, "MEMORY_MB": 2048, "DISK_GB": 20},
    )
    found = changed(record, "instances", ["y"])
    assert found.instances == (two[1],)
    assert (found.vcpus_used, found.free_ram_mb, found.free_disk_mb, found.num_instances) == (2, 7168, 90 * 1024, 1)
    assert found.allocated == {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 10}


def test_aggregates_are_named_or_new():
    record = HostRecord("a", aggregates=(Aggregate("south"),))
    found = changed(record, "aggregates", ["north", {"name": "ssd", "metadata": {"ssd": "true"}}], [NORTH])
    assert found.aggregates == (NORTH, Aggregate("ssd", {"ssd": "true"}))


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("free_ram", 1, r"'free_ram' is no field of a host \(did you mean free_ram_mb\?\)"),
        ("host", "b", "host: cannot be changed"),
        ("free_ram_mb", "much", "free_ram_mb: 'much' is not a whole number"),
        ("service.disable", True, r"unknown field 'disable' \(did you mean disabled\?\)"),
        ("traits.x", 1, r"traits.x: has no entries to set one by one \(set the whole field\)"),
        ("reserved_ram_mb", 10000, r"10000 is more than total_usable_ram_mb \(8192\)"),
        ("aggregates", ["nort"], r"unknown aggregate 'nort' \(did you mean north\?\)"),
        ("aggregates", [{"nam": "x"}], "unknown field 'nam'"),
        ("aggregates", 3, "aggregates"),
        ("instances", "x", "instances"),
        ("resources.vgpu.total", 1, "resources.*is no resource class"),
    ],
)
def test_what_a_fleet_file_would_not_hold_is_refused(field, value, error):
    with pytest.raises(BadInput, match=error):
        changed(HOST, field, value, [NORTH])
