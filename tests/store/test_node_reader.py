# SPDX-License-Identifier: Apache-2.0
"""Rows become host records: spec/hosts.md 2.1 and 3.2, and how a fleet lies in the store."""

import datetime

import pytest
from sqlalchemy import event
from tests.store.writers import NOW, REPORTED, SMALL, Writer, uuid_like

from roost.hosts import HostRecord, HostTable, Instance, Inventory
from roost.hosts.numa_cells import host_topology_from_json
from roost.hosts.pci import pools_from_json
from roost.hosts.updates import set_usage
from roost.model import Flavor, Service
from roost.records.aggregates import read_aggregates
from roost.records.node_reader import ReadWarnings, read_nodes
from roost.records.outages import HeartbeatRule
from roost.scheduler.own_source import read_usage
from roost.store import statements as bulk

SECOND = datetime.timedelta(seconds=1)
CELLS = {"cells": [{"id": 0, "memory": 4096, "cpuset": [0, 1], "pcpuset": [2]}]}
POOLS = [{"vendor_id": "10de", "product_id": "1eb8", "count": 2, "numa_node": None}]


@pytest.fixture
def writer(transaction):
    return Writer(transaction)


def read(writer, ids=None, **more):
    found = read_nodes(writer.connection, ids, rule=HeartbeatRule(NOW, 60), **more)
    return {node.record.nodename: node.record for node in found}


def one(writer, **more):
    (record,) = read(writer, **more).values()
    return record


# --- the node itself ---------------------------------------------------------------------------------


def test_everything_that_a_node_says_is_in_its_record(writer):
    writer.service("h1", disabled=True, disabled_reason="disk")
    zone = writer.aggregate("zone", ["h1"], availability_zone="az1")
    node_id = writer.node(
        "h1",
        "n1",
        uuid="u1",
        cell="cell2",
        traits=["CUSTOM_A", "CUSTOM_B"],
        resources={"VCPU": 16, "CUSTOM_FPGA": {"total": 4, "reserved": 1, "max_unit": 2, "step_size": 2}},
        vcpus_used=3,
        free_ram_mb=1000,
        free_disk_gb=40,
        local_gb_used=450,
        running_vms=7,
        current_workload=5,
        cpu_allocation_ratio=2.5,
        ram_allocation_ratio=1.5,
        disk_allocation_ratio=0.5,
        hypervisor_version=8002000,
        host_ip="10.0.0.1",
        cpu_info='{"arch": "x86_64"}',
        supported_instances=[["x86_64", "kvm", "hvm"]],
        stats={"failed_builds": "2"},
        metrics=[{"name": "cpu.percent", "value": 43}],
        numa_topology=CELLS,
        pci_stats=POOLS,
        attributes={"trust_level": "trusted", "allocation_candidates": [{"mappings": {"a": ["b"]}}]},
    )
    writer.instance(node_id, "i1", {"VCPU": 2, "CUSTOM_FPGA": 1}, details={"flavor_id": 9})
    expected = HostRecord(
        host="h1",
        node="n1",
        uuid="u1",
        cell="cell2",
        total_usable_ram_mb=32768,
        free_ram_mb=1000,
        total_usable_disk_gb=500,
        free_disk_mb=40 * 1024,
        disk_mb_used=450 * 1024,
        vcpus_total=16,
        vcpus_used=5,
        cpu_allocation_ratio=2.5,
        ram_allocation_ratio=1.5,
        disk_allocation_ratio=0.5,
        num_instances=8,
        num_io_ops=5,
        hypervisor_type="QEMU",
        hypervisor_version=8002000,
        host_ip="10.0.0.1",
        supported_instances=(("x86_64", "kvm", "hvm"),),
        cpu_info='{"arch": "x86_64"}',
        stats={"failed_builds": "2"},
        metrics=({"name": "cpu.percent", "value": 43},),
        service=Service(disabled=True, disabled_reason="disk", up=True),
        aggregates=tuple(read_aggregates(writer.connection, [zone])),
        instances=(Instance("i1", "p1", 9, resources={"VCPU": 2, "CUSTOM_FPGA": 1}),),
        traits=frozenset({"CUSTOM_A", "CUSTOM_B"}),
        trust_level="trusted",
        resources={"VCPU": Inventory(16), "CUSTOM_FPGA": Inventory(4, 1, max_unit=2, step_size=2)},
        pci_pools=pools_from_json(POOLS),
        numa=host_topology_from_json(CELLS),
        allocation_candidates=({"mappings": {"a": ["b"]}},),
        allocations={"VCPU": 2, "CUSTOM_FPGA": 1},
    )
    assert one(writer) == expected


def test_what_a_node_does_not_say_is_the_default(writer):
    writer.host("h1", running_vms=None, current_workload=None, stats={"num_instances": "4", "io_workload": "2"})
    record = one(writer)
    default = HostRecord("h1")
    for name in ("cpu_allocation_ratio", "ram_allocation_ratio", "trust_level", "allocation_candidates", "cell"):
        assert getattr(record, name) == getattr(default, name)
    table = HostTable.of([record])
    assert (table.num_instances[0], table.num_io_ops[0]) == (4, 2)
    assert record.metrics is None


def test_a_node_that_has_not_reported_is_there_with_nothing(writer):
    node_id = writer.host("h1", free_disk_gb=None, traits=["CUSTOM_A"], stats={"num_instances": 5})
    writer.instance(node_id, "i1")
    record = one(writer)
    table = HostTable.of([record])
    amounts = ("total_usable_ram_mb", "free_ram_mb", "total_usable_disk_gb", "free_disk_mb", "disk_mb_used")
    for name in (*amounts, "vcpus_total", "vcpus_used", "num_instances", "num_io_ops", "allocated:VCPU"):
        assert table.numbers[name][0] == 0, name
    assert record.hypervisor_type is None
    assert [each.uuid for each in record.instances] == ["i1"]
    assert record.service.up


@pytest.mark.parametrize(
    ("least", "free_gb", "is_noted"), [(None, 40, False), (30, 30, False), (-7, -7, False), (45, 40, True)]
)
def test_the_smaller_figure_of_free_disk_counts_and_a_larger_one_is_told(writer, least, free_gb, is_noted):
    writer.host("h1", free_disk_gb=40, disk_available_least=least)
    notes = ReadWarnings()
    assert one(writer, notes=notes).free_disk_mb == 1024 * free_gb
    assert notes.with_more_disk == (["h1"] if is_noted else [])


def test_bare_metal_as_its_own_host_manager_sees_it(writer):
    node_id = writer.host(
        "h1",
        hypervisor_type="ironic",
        free_disk_gb=40,
        disk_available_least=10,
        current_workload=3,
        stats={"cpu_arch": "x86_64"},
        metrics=[{"name": "a", "value": 1}],
        numa_topology=CELLS,
        pci_stats=POOLS,
    )
    writer.instance(node_id, "i1")
    usual, whole = one(writer), one(writer, bare_metal=True)
    assert (usual.free_disk_mb, whole.free_disk_mb) == (10 * 1024, 30 * 1024)
    assert usual.instances
    assert usual.numa
    seen = whole.instances, whole.num_instances, whole.num_io_ops, whole.metrics, whole.numa, whole.pci_pools
    assert seen == ((), 0, 0, (), None, ())
    assert whole.stats == {"cpu_arch": "x86_64"}
    assert whole.allocations["VCPU"] == 1


def test_other_nodes_are_no_bare_metal(writer):
    node_id = writer.host("h1", free_disk_gb=40, disk_available_least=10)
    writer.instance(node_id, "i1")
    assert one(writer, bare_metal=True) == one(writer)


# --- its service -------------------------------------------------------------------------------------


def test_a_node_without_a_service_is_left_out_and_told(writer):
    writer.node("lonely")
    writer.host("h1")
    notes = ReadWarnings()
    assert list(read(writer, notes=notes)) == ["h1"]
    assert notes.without_service == ["lonely"]


def test_a_service_of_another_kind_does_not_count(writer):
    writer.node("h1")
    writer.service("h1", binary="nova-scheduler")
    assert not read(writer)


@pytest.mark.parametrize(
    ("columns", "is_up"),
    [
        ({"is_static": True}, True),
        ({"last_seen_up": NOW - 60 * SECOND}, True),
        ({"last_seen_up": NOW - 60.000001 * SECOND}, False),
        ({"last_seen_up": NOW + 60 * SECOND}, True),
        ({"last_seen_up": NOW + 61 * SECOND}, False),
        ({"created_at": NOW - 10 * SECOND}, True),
        ({"created_at": NOW - 10 * SECOND, "last_seen_up": NOW - 61 * SECOND}, False),
        ({}, False),
    ],
)
def test_an_agent_is_up_if_it_was_heard_of_within_a_minute(writer, columns, is_up):
    writer.service("h1", **{"is_static": False} | columns)
    writer.node("h1")
    service = one(writer).service
    assert (service.up, service.seconds_since_seen) == (is_up, None)


def test_forced_down_is_an_operators_word_beside_the_agents(writer):
    writer.service("h1", forced_down=True)
    writer.node("h1")
    service = one(writer).service
    assert service == Service(forced_down=True, up=True)
    assert not service.is_up(60)


# --- instances ---------------------------------------------------------------------------------------


def test_who_holds_something_is_there_and_so_is_who_only_says_so(writer):
    first, second = writer.host("h1"), writer.host("h2")
    writer.instance(first, "known", details={"flavor_id": "f1", "image_props": {"os_distro": "debian"}})
    writer.instance(first, "plain")
    writer.server("plain", "h1", flavor={"id": 42})
    writer.server("idle", "h1", flavor={"id": "f2"})
    writer.consumer("described", details={"flavor_id": "f3"})
    writer.server("described", "h2", flavor={"id": "f4"})
    writer.server("nowhere")
    records = read(writer)
    assert {each.uuid: each for each in records["h1"].instances} == {
        "known": Instance("known", "p1", "f1", {"os_distro": "debian"}, SMALL),
        "plain": Instance("plain", "p1", 42, resources=SMALL),
        "idle": Instance("idle", "p2", "f2"),
    }
    assert records["h2"].instances == (Instance("described", "p2", "f3"),)
    assert second


def test_while_it_moves_an_instance_is_on_both_hosts(writer):
    target = writer.host("h2")
    writer.host("h1")
    writer.instance(target, "i1", details={"flavor_id": 1})
    writer.server("i1", "h1")
    records = read(writer)
    assert records["h1"].instances == (Instance("i1", "p2", 1),)
    assert records["h2"].instances == (Instance("i1", "p1", 1, resources=SMALL),)


@pytest.mark.parametrize("sort", ["migration", "unlisted"])
def test_consumers_of_other_kinds_use_something_and_are_no_instances(writer, sort):
    node_id = writer.host("h1")
    writer.instance(node_id, "c1", kind=sort)
    record = one(writer)
    assert record.instances == ()
    assert record.allocations == SMALL


def test_a_server_is_on_its_node_and_not_on_others_of_the_host(writer):
    writer.host("h1", "n1")
    writer.host("h1", "n2")
    writer.server("i1", "h1", "n2")
    assert {name: len(each.instances) for name, each in read(writer).items()} == {"n1": 0, "n2": 1}


# --- some of many ------------------------------------------------------------------------------------


def fill(writer, count):
    """Nodes that differ in everything that is read."""
    ids = []
    for at in range(count):
        ids.append(writer.host(f"h{at}", traits=[f"CUSTOM_{at}"], vcpus=at + 1))
        writer.instance(ids[-1], uuid_like(at))
        writer.server(uuid_like(at), f"h{at}")
        writer.server(f"idle{at}", f"h{at}")
    writer.aggregate("odd", [f"h{at}" for at in range(1, count, 2)])
    return ids


def test_some_nodes_are_read_as_all_are(writer, monkeypatch):
    ids = fill(writer, 7)
    everything = read(writer)
    monkeypatch.setattr(bulk, "MOST_KEYS", 2)
    chosen = [ids[1], ids[2], ids[6], 999_999]
    assert read(writer, chosen) == {name: everything[name] for name in ("h1", "h2", "h6")}
    assert read(writer, []) == {}


def test_as_many_statements_for_many_nodes_as_for_one(writer):
    ids = fill(writer, 9)
    statements = []

    def count(ids):
        statements.clear()
        read(writer, ids)
        return len(statements)

    def note(*arguments):
        statements.append(arguments[2])

    event.listen(writer.connection, "before_cursor_execute", note)
    assert count(ids) == count(ids[:1])
    assert count(None) <= 12
    event.remove(writer.connection, "before_cursor_execute", note)


def test_aggregates_bear_the_numbers_of_their_rows(writer):
    first = writer.aggregate("b", ["h2", "h1"], ssd="true")
    second = writer.aggregate("a")
    found = read_aggregates(writer.connection)
    assert [(each.id, each.name, each.hosts, dict(each.metadata)) for each in found] == [
        (first, "b", ("h1", "h2"), {"ssd": "true"}),
        (second, "a", (), {}),
    ]
    assert read_aggregates(writer.connection, [second, 999]) == found[1:]


# --- usage -------------------------------------------------------------------------------------------


def test_the_usage_of_a_node_brings_a_table_to_what_its_record_says(writer):
    ids = fill(writer, 3)
    before = HostTable.of(read(writer).values())
    writer.let_go(ids[0], uuid_like(0))
    writer.drop_server(uuid_like(0))
    writer.instance(ids[0], "moving", kind="migration")
    writer.instance(ids[0], "new", details={"flavor_id": 5})
    writer.move_server("idle1", "h2")
    keys = [(ids[0], uuid_like(0)), (ids[0], "new"), (ids[0], "moving"), (ids[1], "idle1"), (ids[2], "idle1")]
    found = read_usage(writer.connection, keys)
    assert found.unclear == set()
    for node_id, usage in found.usage.items():
        set_usage(before, ids.index(node_id), usage)
    after = HostTable.of(read(writer).values())
    for name, column in after.numbers.items():
        assert before.numbers[name].tolist() == column.tolist(), name
    assert before.instances == after.instances


@pytest.mark.parametrize("column", ["free_disk_gb", "free_ram_mb", "running_vms", "current_workload"])
def test_figures_that_are_not_there_are_left_to_the_whole_record(writer, column):
    node_id = writer.host("h1", **{column: None})
    found = read_usage(writer.connection, [(node_id, "i1")])
    assert (found.usage, found.unclear) == ({}, {node_id})


def test_the_usage_of_a_node_that_is_gone_is_not_there(writer):
    assert read_usage(writer.connection, [(4711, "i1")]) == ({}, set())


def test_usage_of_bare_metal_says_nothing_of_instances(writer):
    node_id = writer.host("h1", hypervisor_type="Ironic", disk_available_least=3)
    writer.instance(node_id, "i1")
    usage = read_usage(writer.connection, [(node_id, "i1")], bare_metal=True).usage[node_id]
    assert (usage.num_instances, list(usage.added), list(usage.removed)) == (0, [], [])
    assert usage.free_disk_mb == 1024 * (REPORTED["free_disk_gb"] - 10)


# --- what plugins read of instances ------------------------------------------------------------------

GPU = Flavor(vcpus=1, memory_mb=512, root_gb=3, name="gpu", flavorid="g", id=9, extra_specs={"acme:gpus": "2"})


def test_an_instance_has_the_flavor_that_was_stored_with_its_claim(writer):
    node_id = writer.host("h1")
    writer.instance(node_id, "i1", details={"flavor_id": 9, "flavor": GPU.to_details(), "use": [512, 3, 1]})
    (instance,) = one(writer).instances
    assert instance.flavor == GPU
    (again,) = read_usage(writer.connection, {(node_id, "i1")}).usage[node_id].added
    assert again == instance


def test_the_record_of_a_server_says_when_it_was_created_and_of_which_flavor(writer):
    node_id = writer.host("h1")
    writer.instance(node_id, "i1")
    writer.server("i1", host="h1", created_at=NOW - SECOND)
    flavor = {"id": 9, "vcpus": 1, "memory_mb": 512, "extra_specs": {"acme:gpus": "2"}}
    writer.server("i2", host="h1", flavor=flavor, created_at=NOW - 2 * SECOND)
    (host,) = HostTable.of([one(writer)])
    found = dict(host.instances)
    assert {uuid: each.created_at for uuid, each in found.items()} == {"i1": NOW - SECOND, "i2": NOW - 2 * SECOND}
    assert (found["i2"].flavor_id, found["i2"].flavor.extra_specs) == (9, {"acme:gpus": "2"})
