import pytest

from roost.errors import BadInput, UnknownName
from roost.hosts import HostView
from roost.model.remedy import AggregateChange, HostChange, OptionChange, RequestChange
from roost.questions.what_if import changed_fleet, changed_options, with_hosts_like
from roost.sources.fleet_file import Fleet

FLEET = Fleet.load(
    {
        "hosts": [
            {"host": "n[1-4]", "vcpus_total": 8, "total_usable_ram_mb": 4096, "total_usable_disk_gb": 50},
            {
                "host": "busy",
                "vcpus_total": 8,
                "vcpus_used": 6,
                "total_usable_ram_mb": 4096,
                "reserved_ram_mb": 96,
                "free_ram_mb": 100,
                "total_usable_disk_gb": 50,
                "num_io_ops": 3,
                "stats": {"io_workload": 3, "num_vm_active": 1, "rack": "r1"},
                "service": {"disabled": True},
                "uuid": "11111111-1111-1111-1111-111111111111",
                "instances": ["a"],
                "numa": {
                    "cells": [
                        {
                            "id": 0,
                            "cpuset": [0, 1],
                            "pcpuset": [0, 1],
                            "memory": 2048,
                            "memory_usage": 512,
                            "cpu_usage": 1,
                            "pinned_cpus": [1],
                            "mempages": [{"size_kb": 4, "total": 100, "used": 30}],
                        }
                    ]
                },
            },
            {"host": "metal", "node": "m1", "vcpus_total": 8},
            {"host": "metal", "node": "m2", "vcpus_total": 8},
        ],
        "aggregates": [
            {"name": "north", "hosts": ["n[1-3]", "busy"], "metadata": {"availability_zone": "az-1"}},
            {"name": "empty", "hosts": [], "metadata": {"x": "1"}},
        ],
        "options": {"filter_scheduler": {"host_subset_size": 2}},
    },
    keeps_records=True,
)


def column(fleet, name):
    return {node: getattr(HostView(fleet.table, row), name) for row, (_, node) in enumerate(fleet.table.names)}


def view(fleet, name):
    return HostView(fleet.table, fleet.table.find_row((name, name)))


def test_only_the_named_host_changes_and_the_given_fleet_not_at_all():
    found = changed_fleet(FLEET, [HostChange("n2", "free_ram_mb", 7), HostChange("n2", "num_io_ops", 5)])
    assert column(found, "free_ram_mb") == column(FLEET, "free_ram_mb") | {"n2": 7}
    assert column(found, "num_io_ops") == column(FLEET, "num_io_ops") | {"n2": 5}
    assert column(FLEET, "free_ram_mb")["n2"] == 4096
    assert found.options is FLEET.options


def test_hosts_with_the_same_change_stay_one_run():
    value = 7
    found = changed_fleet(FLEET, [HostChange(f"n{number}", "free_ram_mb", value) for number in (1, 2, 4)])
    assert len(found.runs) == len(FLEET.runs) + 1


def test_the_name_of_a_host_stands_for_all_its_nodes_and_that_of_a_node_for_itself():
    found = changed_fleet(FLEET, [HostChange("metal", "num_io_ops", 2), HostChange("m2", "num_io_ops", 9)])
    assert column(found, "num_io_ops") == column(FLEET, "num_io_ops") | {"m1": 2, "m2": 9}


def test_no_change_is_the_fleet_itself():
    assert changed_fleet(FLEET, [RequestChange("availability_zone", None), OptionChange("a", "b", 1)]) is FLEET


def test_metadata_of_an_aggregate_changes_for_all_its_hosts_and_among_the_known_ones():
    found = changed_fleet(FLEET, [AggregateChange("north", "availability_zone", "az-9")])
    assert found.zones() == {"az-9"}
    zones = {name: [each.availability_zone for each in own] for name, own in column(found, "aggregates").items()}
    assert zones == {"n1": ["az-9"], "n2": ["az-9"], "n3": ["az-9"], "busy": ["az-9"], "n4": [], "m1": [], "m2": []}
    assert [each.name for each in found.table.known_aggregates] == ["north", "empty"]


def test_a_metadata_key_is_taken_out():
    assert changed_fleet(FLEET, [AggregateChange("north", "availability_zone", None)]).zones() == set()


def test_a_host_moves_into_an_aggregate_that_had_none():
    found = changed_fleet(FLEET, [HostChange("n4", "aggregates", ["empty"]), AggregateChange("empty", "x", "2")])
    assert [each.metadata for each in column(found, "aggregates")["n4"]] == [{"x": "2"}]


def test_options_are_collected_by_section():
    changes = [OptionChange("a", "b", 1), OptionChange("a", "c", 2), HostChange("n1", "num_io_ops", 1)]
    assert changed_options(changes) == {"a": {"b": 1, "c": 2}}


def test_more_hosts_like_one_are_empty_enabled_and_in_its_aggregates():
    found = with_hosts_like(FLEET, "busy", 2)
    assert len(found.table) == len(FLEET.table) + 2
    host = view(found, "busy-copy-1")
    assert (host.vcpus_used, host.free_ram_mb, host.free_disk_mb, host.num_io_ops) == (0, 4000, 50 * 1024, 0)
    assert (host.num_instances, dict(host.instances), host.is_disabled) == (0, {}, False)
    assert dict(host.stats) == {"rack": "r1"}
    assert [each.name for each in host.aggregates] == ["north"]
    assert getattr(host, "allocated:MEMORY_MB") == 0
    (cell,) = host.numa.cells
    assert (cell.memory_usage, cell.cpu_usage, cell.pinned_cpus, cell.mempages[0].used) == (0, 0, frozenset(), 0)
    assert host.uuid != view(FLEET, "busy").uuid


def test_names_of_more_hosts_do_not_clash():
    once = with_hosts_like(FLEET, "n1", 2)
    names = {host for host, _ in with_hosts_like(once, "n1", 2).table.names}
    assert {f"n1-copy-{number}" for number in (1, 2, 3, 4)} <= names


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (HostChange("bussy", "free_ram_mb", 1), r"unknown host 'bussy' \(did you mean busy\?\)"),
        (HostChange("n1", "free_ram", 1), "n1: 'free_ram' is no field of a host"),
        (HostChange("n1", "vcpus_used", -1), "n1.vcpus_used: -1"),
        (AggregateChange("nort", "a", "b"), r"unknown aggregate 'nort' \(did you mean north\?\)"),
    ],
)
def test_unknown_names_and_bad_values_are_refused(change, error):
    with pytest.raises(BadInput, match=error):
        changed_fleet(FLEET, [change])


def test_a_fleet_without_host_records_cannot_be_changed():
    fleet = Fleet.load({"hosts": [{"host": "a"}]})
    with pytest.raises(ValueError, match="keeps_records"):
        changed_fleet(fleet, [HostChange("a", "num_io_ops", 1)])
    with pytest.raises(ValueError, match="keeps_records"):
        with_hosts_like(fleet, "a", 1)


def test_an_unknown_host_cannot_be_copied():
    with pytest.raises(UnknownName, match="unknown host 'n9'"):
        with_hosts_like(FLEET, "n9", 1)
