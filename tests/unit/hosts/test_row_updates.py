# SPDX-License-Identifier: Apache-2.0
"""Small changes write exactly what changed to the log."""

from dataclasses import replace

import pytest

from roost.hosts import Instance, Inventory
from roost.hosts.updates import Usage, set_aggregates, set_instances, set_service, set_usage
from roost.model import Aggregate, Service
from roost.testing import make_hosts, make_records, make_spec

USED = Usage(
    free_ram_mb=100,
    free_disk_mb=2048,
    disk_mb_used=1024,
    vcpus_used=2,
    num_instances=1,
    num_io_ops=3,
    allocated={"VCPU": 2, "MEMORY_MB": 10},
)


@pytest.fixture
def table():
    table = make_hosts(2, instances=[["i1"], []])
    set_usage(table, 0, USED)
    return table


def noted(table, version):
    return [(row, set(columns)) for row, columns in table.changes.rows_since(version).items()]


@pytest.mark.parametrize(
    ("changed", "column"),
    [
        ({"free_ram_mb": 99}, "free_ram_mb"),
        ({"free_disk_mb": -1}, "free_disk_mb"),
        ({"disk_mb_used": 9}, "disk_mb_used"),
        ({"vcpus_used": 9}, "vcpus_used"),
        ({"num_instances": 9}, "num_instances"),
        ({"num_io_ops": 9}, "num_io_ops"),
        ({"allocated": {"VCPU": 2, "MEMORY_MB": 11}}, "allocated:MEMORY_MB"),
        ({"allocated": {"MEMORY_MB": 10}}, "allocated:VCPU"),
        ({"added": [Instance("i2")]}, "instances"),
        ({"added": [Instance("i1", "another project")]}, "instances"),
        ({"removed": ["i1"]}, "instances"),
    ],
)
def test_exactly_what_changed_is_noted(table, changed, column):
    version = table.changes.version
    assert set_usage(table, 0, replace(USED, **changed))
    assert noted(table, version) == [(0, {column})]


def test_what_is_the_same_is_not_noted(table):
    version = table.changes.version
    same = replace(USED, added=[Instance("i1")], removed=["never there"])
    assert not set_usage(table, 0, same)
    assert table.changes.version == version


def test_a_class_that_no_host_reported_is_left_out(table):
    assert not set_usage(table, 0, replace(USED, allocated={**USED.allocated, "CUSTOM_NEW": 4}))
    assert "allocated:CUSTOM_NEW" not in table.numbers


def test_usage_does_not_reach_a_copy():
    table = make_hosts(2, resources=[{"VGPU": Inventory(2)}, {"VGPU": Inventory(2)}])
    twin = table.copy()
    set_usage(table, 0, USED)
    assert twin.disk_mb_used.tolist() == [0, 0]
    assert table.disk_mb_used.tolist() == [1024, 0]


def test_a_bare_metal_node_is_what_the_store_says_and_not_what_it_was_before():
    table = make_hosts(1, hypervisor_type="ironic", total_usable_ram_mb=2048, free_ram_mb=512)
    taken = table.consume(0, make_spec())
    set_usage(table, 0, USED)
    table.release(0, taken)
    assert table.free_ram_mb.tolist() == [2048]


def test_who_comes_and_goes_without_a_figure(table):
    version = table.changes.version
    assert set_instances(table, 1, [Instance("i2")], [])
    assert not set_instances(table, 1, [Instance("i2")], ["i1"])
    assert noted(table, version) == [(1, {"instances"})]
    assert table.rows_of_instance("i2") == (1,)


def test_an_instance_that_was_held_twice_and_left_is_not_there_once():
    table, spec = make_hosts(1), make_spec(instance_uuid="i1")
    table.consume(0, spec)
    table.consume(0, spec)
    set_instances(table, 0, [], ["i1"])
    set_instances(table, 0, [Instance("i1")], [])
    table.release(0, spec)
    assert table.rows_of_instance("i1") == ()


@pytest.mark.parametrize(
    ("service", "columns"),
    [
        (Service(up=True), {"service"}),
        (Service(up=False), {"service", "is_up"}),
        (Service(up=True, forced_down=True), {"service", "is_up"}),
        (Service(up=True, disabled=True), {"service", "is_disabled"}),
        (Service(), None),
    ],
)
def test_a_service_is_up_and_enabled_as_it_says(service, columns):
    table = make_hosts(2)
    assert set_service(table, 1, service) == (columns is not None)
    assert noted(table, 0) == ([(1, columns)] if columns else [])
    assert table.is_up[1] == (service.up is not False and not service.forced_down)
    assert table.is_disabled[1] == service.disabled


def test_aggregates_of_a_row():
    table, fast = make_hosts(2), Aggregate("fast", id=1)
    assert set_aggregates(table, 1, (fast,))
    assert not set_aggregates(table, 1, (fast,))
    assert noted(table, 0) == [(1, {"aggregates"})]
    assert table.changes.aggregates_version == 1


def test_a_uuid_that_changed_does_not_reach_a_copy():
    table = make_hosts(1, uuid="u1")
    twin = table.copy()
    (record,) = make_records(1, uuid="u2")
    generation = table.generation
    table.update(0, record)
    assert (table.uuids, twin.uuids) == ({0: "u2"}, {0: "u1"})
    assert table.generation > generation
