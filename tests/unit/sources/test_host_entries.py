# SPDX-License-Identifier: Apache-2.0
"""Hosts of a file become a table: equal ones share a record, and that changes nothing."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost import Fleet
from roost.errors import FieldError
from roost.hosts import HostRecord, HostTable
from roost.sources.fleet_file import parse_hosts

FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "vcpus_total": st.sampled_from([0, 8, 64]),
        "vcpus_used": st.sampled_from([0, 1]),
        "total_usable_ram_mb": st.sampled_from([0, 1024]),
        "free_ram_mb": st.sampled_from([-5, 512]),
        "cpu_allocation_ratio": st.sampled_from([1, 1.0, 2.5]),
        "cell": st.sampled_from(["cell1", "cell2"]),
        "traits": st.sampled_from([["A"], ["A", "B"], []]),
        "service": st.sampled_from([{"disabled": True}, {"up": False}, {}]),
        "stats": st.sampled_from([{}, {"a": 1}, {"a": True}, {"a": "1"}]),
        "resources": st.sampled_from([{}, {"VGPU": {"total": 4}}, {"VGPU": {"total": 4, "min_unit": 2}}]),
        "instances": st.lists(st.uuids().map(str), max_size=2),
        "metrics": st.sampled_from([None, [], [{"name": "cpu.frequency", "value": 1}]]),
    },
)


def runs_of(entries, aggregates=None):
    return parse_hosts(entries, aggregates or {}).runs


def same(one, other):
    assert one.names == other.names
    assert one.numbers.keys() == other.numbers.keys()
    for name, column in one.numbers.items():
        np.testing.assert_array_equal(column, other.numbers[name], err_msg=name)
    for name, column in one.encoded.items():
        rows = range(len(one.names))
        assert [column.at(row) for row in rows] == [other.encoded[name].at(row) for row in rows], name
    assert one.instances == other.instances


@given(st.lists(FIELDS, max_size=12))
def test_a_table_with_shared_records_equals_one_with_a_record_each(hosts):
    entries = [{"host": f"h{at}", **fields} for at, fields in enumerate(hosts)]
    alone = [record for entry in entries for record, _ in runs_of([entry])]
    same(HostTable.of_runs(runs_of(entries)), HostTable.of(alone))


def test_equal_hosts_share_a_record_wherever_they_stand():
    small, large = {"vcpus_total": 1}, {"vcpus_total": 2}
    entries = [{"host": f"h{at}", **kind} for at, kind in enumerate([small, large, small, large, small])]
    found = [[host for host, _ in names] for _, names in runs_of(entries)]
    assert found == [["h0", "h2", "h4"], ["h1", "h3"]]


@pytest.mark.parametrize("field", [{"uuid": "u"}, {"instances": ["i"]}])
def test_what_belongs_to_one_host_is_not_shared(field):
    entries = [{"host": "a", **field}, {"host": "b", **field}]
    assert len(runs_of(entries)) == 2


def test_true_and_one_are_not_mistaken_for_each_other_by_the_memory_of_values():
    entries = [{"host": "a", "stats": {"x": 1}}, {"host": "b", "stats": {"x": True}}]
    values = [record.stats["x"] for record, _ in runs_of(entries)]
    assert [type(value) for value in values] == [int, bool]


def test_a_value_that_was_fine_before_is_still_checked_in_another_type():
    with pytest.raises(FieldError, match=r"hosts\[1\]\.service\.disabled: 1 is not a yes or no"):
        runs_of([{"host": "a", "service": {"disabled": True}}, {"host": "b", "service": {"disabled": 1}}])


def test_hosts_in_different_aggregates_have_records_of_their_own():
    document = {
        "hosts": [{"host": "n[1-4]"}, {"host": "m"}],
        "aggregates": [{"name": "x", "hosts": ["n[2-3]"]}, {"name": "y", "hosts": "m", "metadata": {"k": "v"}}],
    }
    table = Fleet.load(document).table
    found = {view.host: [each.name for each in view.aggregates] for view in table}
    assert found == {"m": ["y"], "n1": [], "n2": ["x"], "n3": ["x"], "n4": []}


def test_a_document_that_is_somebody_elses_is_left_as_it_was():
    document = {"hosts": [{"host": "b", "cpu_info": {"a": [1]}}, {"host": "a"}], "options": {"DEFAULT": {}}}
    before = copy.deepcopy(document)
    Fleet.load(document)
    assert document == before


@pytest.mark.parametrize(
    ("entry", "pairs"),
    [
        ({"host": "a"}, [("a", "a")]),
        ({"host": "a", "node": "n"}, [("a", "n")]),
        ({"host": "a[1-2]"}, [("a1", "a1"), ("a2", "a2")]),
        ({"host": "a", "node": "n[1-2]"}, [("a", "n1"), ("a", "n2")]),
        ({"host": "a[1-2]", "node": "n[7-8]"}, [("a1", "n7"), ("a2", "n8")]),
    ],
)
def test_hosts_and_nodes_go_in_pairs(entry, pairs):
    ((_, found),) = runs_of([entry])
    assert found == pairs


def test_two_nodes_of_one_host_are_two_rows():
    table = HostTable.of_runs(runs_of([{"host": "a", "node": "n1"}, {"host": "a", "node": "n2"}]))
    assert table.names == [("a", "n1"), ("a", "n2")]


@pytest.mark.parametrize(
    ("entry", "given", "found"),
    [
        ({"total_usable_ram_mb": 100}, "free_ram_mb", 100),
        ({"total_usable_ram_mb": 100, "free_ram_mb": -3}, "free_ram_mb", -3),
        ({"total_usable_disk_gb": 2}, "free_disk_mb", 2048),
        ({"vcpus_total": 4}, "vcpus_used", 0),
        ({}, "cpu_allocation_ratio", 4.0),
        ({}, "ram_allocation_ratio", 1.0),
        ({}, "disk_allocation_ratio", 1.0),
        ({"instances": ["x", "y"]}, "num_instances", 2),
        ({"instances": ["x", "y"], "num_instances": 7}, "num_instances", 7),
        ({"stats": {"num_instances": "3", "io_workload": 2}}, "num_io_ops", 2),
        ({"hypervisor_version": None}, "hypervisor_version", 0),
    ],
)
def test_what_is_not_said_has_a_sensible_value(entry, given, found):
    table = HostTable.of_runs(runs_of([{"host": "a", **entry}]))
    assert table.column(given).tolist() == [found]


def test_cpu_info_is_text_for_filters_unless_the_file_says_otherwise():
    kinds = [({}, '{"a": 1}'), ({"cpu_info_is_dict": True}, {"a": 1}), ({"cpu_info_is_dict": False}, '{"a": 1}')]
    for more, seen in kinds:
        ((record, _),) = runs_of([{"host": "a", "cpu_info": {"a": 1}, **more}])
        assert record.cpu_info == seen


def test_a_record_of_a_run_is_an_ordinary_record():
    ((record, _),) = runs_of([{"host": "a", "vcpus_total": 3}])
    assert record == HostRecord(host="a", vcpus_total=3)
