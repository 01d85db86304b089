# SPDX-License-Identifier: Apache-2.0
"""The table of hosts and its three changes; consuming as in spec/hosts.md 2.4 and 3.7."""

import pytest

from roost.errors import BadInput
from roost.hosts import HostRecord, HostTable, Instance, Inventory
from roost.testing import make_hosts, make_records, make_spec

GPU = "CUSTOM_GPU"
FLAVOR = {"memory_mb": 2048, "root_gb": 20, "ephemeral_gb": 10, "vcpus": 2}


def usage(table, row=0):
    """What nova counts on one host."""
    names = ("free_ram_mb", "free_disk_mb", "vcpus_used", "num_instances", "num_io_ops")
    return tuple(int(table.numbers[name][row]) for name in names)


def allocated(table, row=0):
    """What is allocated on one host, per class."""
    return {name: int(table.numbers[f"allocated:{name}"][row]) for name in table.resource_classes()}


def contents(table):
    """Everything the table says, to compare before and after."""
    rows = range(len(table))
    numbers = {name: column.tolist() for name, column in table.numbers.items()}
    values = {name: [column.at(row) for row in rows] for name, column in table.encoded.items()}
    return numbers | values | {"instances": [dict(table.instances.get(row, {})) for row in rows]}


def changed_columns(before, after):
    return {name for name in after if before.get(name) != after[name]}


def worked_host(**more):
    """The host of the worked example."""
    columns = {
        "total_usable_ram_mb": 8192,
        "free_ram_mb": 4096,
        "total_usable_disk_gb": 200,
        "free_disk_mb": 102400,
        "vcpus_total": 16,
        "vcpus_used": 4,
        "num_instances": 3,
        "num_io_ops": 0,
    }
    return make_hosts(1, **(columns | more))


# --- rows --------------------------------------------------------------------------------------------


def test_rows_are_sorted_by_host_and_node():
    table = make_hosts(host=["b", "a", "b"], node=["n1", "n1", "n0"])
    assert table.names == [("a", "n1"), ("b", "n0"), ("b", "n1")]


def test_everything_moves_with_its_row_when_rows_are_sorted():
    table = make_hosts(
        host=["b", "a"],
        uuid=["uuid-b", "uuid-a"],
        free_ram_mb=[2, 1],
        hypervisor_type=["Xen", "QEMU"],
        instances=[["i-b"], ["i-a"]],
        resources=[{GPU: Inventory(2)}, {}],
    )
    seen = [(each.host, each.uuid, each.free_ram_mb, each.hypervisor_type, list(each.instances)) for each in table]
    assert seen == [("a", "uuid-a", 1, "QEMU", ["i-a"]), ("b", "uuid-b", 2, "Xen", ["i-b"])]
    assert table.numbers[f"limit:{GPU}"].tolist() == [0.0, 2.0]
    assert [table.rows_of_instance(uuid) for uuid in ("i-a", "i-b")] == [(0,), (1,)]


def test_the_same_host_and_node_twice_is_refused():
    with pytest.raises(BadInput, match="host a, node n1 is there twice"):
        make_hosts(host=["a", "b", "a"], node=["n1", "n1", "n1"])


def test_a_node_named_like_its_host_is_the_host_without_node():
    with pytest.raises(BadInput, match="twice"):
        make_hosts(host=["a", "a"], node=["", "a"])


@pytest.mark.parametrize(("pair", "row"), [(("a", "a"), 0), (("b", "b"), 1), (("b", "x"), None), (("z", "z"), None)])
def test_a_row_is_found_by_host_and_node(pair, row):
    assert make_hosts(host=["b", "a"]).find_row(pair) == row


def test_a_table_may_be_empty():
    table = HostTable.of([])
    assert (len(table), list(table), table.find_row(("a", "a"))) == (0, [], None)


def test_runs_of_equal_hosts_make_one_row_each():
    record = HostRecord("", free_ram_mb=512, hypervisor_type="Xen")
    table = HostTable.of_runs([(record, [("b", "b"), ("a", "a")])])
    assert [(each.host, each.free_ram_mb, each.hypervisor_type) for each in table] == [
        ("a", 512, "Xen"),
        ("b", 512, "Xen"),
    ]


# --- consume and release -----------------------------------------------------------------------------


def test_the_worked_example_of_consuming():
    table = worked_host()
    table.consume(0, make_spec(**FLAVOR))
    assert usage(table) == (2048, 71680, 6, 4, 1)


def test_swap_is_not_subtracted_from_free_disk():
    table = worked_host()
    table.consume(0, make_spec(**FLAVOR, swap=4096))
    assert table.free_disk_mb.tolist() == [71680]


def test_swap_is_allocated_all_the_same():
    table = worked_host(free_disk_mb=None)
    table.consume(0, make_spec(**FLAVOR, swap=1025))
    assert allocated(table)["DISK_GB"] == 32


def test_a_volume_booted_root_disk_is_subtracted_but_not_allocated():
    table = worked_host(free_disk_mb=None)
    table.consume(0, make_spec(**FLAVOR, is_bfv=True))
    assert (table.free_disk_mb.tolist(), allocated(table)["DISK_GB"]) == ([204800 - 30720], 10)


def test_free_memory_may_become_negative():
    table = worked_host(free_ram_mb=1024)
    table.consume(0, make_spec(**FLAVOR))
    assert table.free_ram_mb.tolist() == [-1024]


def test_only_the_chosen_row_changes():
    table = make_hosts(3, free_ram_mb=4096)
    table.consume(1, make_spec(memory_mb=512))
    assert table.free_ram_mb.tolist() == [4096, 3584, 4096]


def test_every_class_asked_is_allocated():
    table = worked_host(resources={GPU: Inventory(4)}, free_ram_mb=None, vcpus_used=0, free_disk_mb=None)
    table.consume(0, make_spec(**FLAVOR, extra_specs={f"resources:{GPU}": "3"}))
    assert allocated(table) == {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 30, GPU: 3}


def test_an_instance_with_a_uuid_is_on_the_host():
    table = worked_host()
    table.consume(0, make_spec(instance_uuid="i1", project_id="p1", id=7, memory_mb=512))
    (host,) = table
    instance = host.instances["i1"]
    assert (instance.project_id, instance.flavor_id, instance.resources["MEMORY_MB"]) == ("p1", 7, 512)


def test_releasing_undoes_consuming_exactly():
    table = worked_host(resources={GPU: Inventory(4)}, instances=[("i0",)])
    spec = make_spec(**FLAVOR, swap=1, instance_uuid="i1", id=7, extra_specs={f"resources:{GPU}": "3"})
    before = contents(table)
    table.consume(0, spec)
    table.release(0, spec)
    assert contents(table) == before


def test_releasing_one_of_two_leaves_the_other():
    table = worked_host()
    small, large = make_spec(memory_mb=100, instance_uuid="i1"), make_spec(memory_mb=300, instance_uuid="i2")
    table.consume(0, small)
    table.consume(0, large)
    table.release(0, small)
    assert (table.free_ram_mb.tolist(), list(table.instances[0])) == ([3796], ["i2"])


def test_an_instance_that_is_checked_where_it_runs_is_still_there_afterwards():
    table = worked_host(instances=[("i1",)])
    before = contents(table)
    rebuild = make_spec(**FLAVOR, instance_uuid="i1", scheduler_hints={"_nova_check_type": ["rebuild"]})
    table.release(0, table.consume(0, rebuild))
    assert contents(table) == before
    assert list(table.instances[0]) == ["i1"]


def test_an_instance_resized_on_its_host_stays_until_it_holds_nothing_there():
    table = worked_host()
    small, large = (make_spec(vcpus=vcpus, memory_mb=512, instance_uuid="i1") for vcpus in (1, 2))
    first, second = table.consume(0, small), table.consume(0, large)
    table.release(0, first)
    assert list(table.instances[0]) == ["i1"]
    table.release(0, second)
    assert list(table.instances[0]) == []


# --- bare metal --------------------------------------------------------------------------------------


def bare_metal(**more):
    return worked_host(hypervisor_type="ironic", resources={GPU: Inventory(1)}, **more)


def test_a_bare_metal_node_goes_as_a_whole():
    table = bare_metal(free_ram_mb=8192, vcpus_used=0, free_disk_mb=204800, cpu_allocation_ratio=1.0)
    table.consume(0, make_spec(vcpus=1, memory_mb=1))
    assert usage(table)[:3] == (0, 0, 16)
    assert allocated(table) == {"VCPU": 16, "MEMORY_MB": 8192, "DISK_GB": 200, GPU: 1}


def test_a_bare_metal_node_counts_no_instances_and_operations():
    table = bare_metal(num_instances=0)
    table.consume(0, make_spec())
    assert usage(table)[3:] == (0, 0)


@pytest.mark.parametrize("free_ram_mb", [8192, 4096, 0])
def test_releasing_a_bare_metal_node_undoes_consuming_exactly(free_ram_mb):
    table = bare_metal(free_ram_mb=free_ram_mb)
    before = contents(table)
    spec = make_spec(instance_uuid="i1")
    table.consume(0, spec)
    table.release(0, spec)
    assert contents(table) == before


def test_a_bare_metal_node_that_was_taken_before_is_free_after_its_release():
    table = bare_metal(free_ram_mb=0, free_disk_mb=0, vcpus_used=16, cpu_allocation_ratio=1.0)
    table.release(0, make_spec())
    assert usage(table)[:3] == (8192, 204800, 0)
    assert set(allocated(table).values()) == {0}


def test_after_a_report_a_bare_metal_node_is_released_to_all_it_has():
    table = bare_metal(free_ram_mb=4096)
    table.consume(0, make_spec())
    taken = {"total_usable_ram_mb": 8192, "free_ram_mb": 0, "hypervisor_type": "ironic"}
    table.update(0, report(**taken))
    table.release(0, make_spec())
    assert table.free_ram_mb.tolist() == [8192]


def test_a_copy_of_the_table_can_release_what_the_original_consumed():
    table = bare_metal(free_ram_mb=4096)
    before = contents(table)
    table.consume(0, make_spec())
    twin = table.copy()
    twin.release(0, make_spec())
    assert contents(twin) == before


# --- update ------------------------------------------------------------------------------------------


def report(**more):
    (record,) = make_records(1, **more)
    return record


def test_a_report_replaces_what_was_known():
    table = make_hosts(2, free_ram_mb=1024, hypervisor_type="QEMU", traits=[{"A"}, {"A"}])
    table.update(1, report(host="host2", free_ram_mb=512, hypervisor_type="Xen", traits={"B"}))
    seen = [(each.free_ram_mb, each.hypervisor_type, each.traits) for each in table]
    assert seen == [(1024, "QEMU", frozenset({"A"})), (512, "Xen", frozenset({"B"}))]


def test_after_a_report_the_row_is_as_a_table_made_from_it():
    table = make_hosts(1, free_ram_mb=7, instances=[(Instance("i1", flavor_id=1), Instance("i2", flavor_id=2))])
    new = report(free_ram_mb=5, traits={"A"}, instances=[(Instance("i1", flavor_id=3),)], host_ip="192.0.2.1")
    table.update(0, new)
    assert contents(table) == contents(HostTable.of([new]))


def test_a_report_overrides_what_was_consumed():
    table = worked_host()
    table.consume(0, make_spec(**FLAVOR))
    table.update(0, report(free_ram_mb=100))
    assert table.free_ram_mb.tolist() == [100]


def test_a_report_replaces_the_instances():
    table = make_hosts(1, instances=[("i1", "i2")])
    table.update(0, report(instances=[("i2", "i3")]))
    assert sorted(table.instances[0]) == ["i2", "i3"]
    assert [table.rows_of_instance(uuid) for uuid in ("i1", "i2", "i3")] == [(), (0,), (0,)]


def test_a_new_resource_class_appears_by_a_report():
    table = make_hosts(2)
    table.update(1, report(host="host2", resources={GPU: Inventory(4, min_unit=2)}))
    assert table.numbers[f"limit:{GPU}"].tolist() == [0.0, 4.0]
    assert table.numbers[f"min_unit:{GPU}"].tolist() == [1.0, 2.0]
    assert GPU in table.granular_classes


def test_a_flavor_that_was_placed_before_takes_of_a_class_that_appeared_since():
    table, spec = make_hosts(2), make_spec(extra_specs={f"resources:{GPU}": "1"})
    table.consume(1, spec)
    table.update(1, report(host="host2", resources={GPU: Inventory(4)}))
    table.consume(1, spec)
    assert table.numbers[f"allocated:{GPU}"].tolist() == [0.0, 1.0]


def test_single_numbers_are_those_of_the_column_also_after_it_was_replaced():
    table = make_hosts(2, failed_builds=0)
    assert table.buffers["failed_builds"].tolist() == [0.0, 0.0]
    table.update(1, report(host="host2", failed_builds=3))
    assert table.buffers["failed_builds"].tolist() == table.numbers["failed_builds"].tolist() == [0.0, 3.0]


def test_a_resource_class_that_is_no_longer_reported_is_gone():
    table = make_hosts(1, resources={GPU: Inventory(4)})
    table.update(0, report())
    assert table.numbers[f"limit:{GPU}"].tolist() == [0.0]


def test_a_report_may_take_a_host_out_of_service():
    table = make_hosts(1)
    table.update(0, report(service={"disabled": True, "forced_down": True}))
    assert (table.is_disabled.tolist(), table.is_up.tolist()) == ([True], [False])


# --- the log of changes ------------------------------------------------------------------------------


@pytest.mark.parametrize("hypervisor_type", ["QEMU", "ironic"])
@pytest.mark.parametrize("act", ["consume", "release"])
def test_every_column_that_changed_is_in_the_log(act, hypervisor_type):
    table = worked_host(hypervisor_type=hypervisor_type, resources={GPU: Inventory(1)})
    spec = make_spec(**FLAVOR, swap=1, instance_uuid="i1", id=7, extra_specs={"resources:CUSTOM_NONE": "1"})
    if act == "release":
        table.consume(0, spec)
    before, version = contents(table), table.changes.version
    getattr(table, act)(0, spec)
    assert table.changes.version == version + 1
    ((row, columns),) = table.changes.rows_since(version).items()
    assert row == 0
    assert changed_columns(before, contents(table)) <= columns


def test_every_column_that_a_report_changed_is_in_the_log_and_no_number_that_stayed():
    table = worked_host()
    before = contents(table)
    same = {name: int(table.numbers[name][0]) for name in ("free_disk_mb", "vcpus_used", "num_instances")}
    totals = {"total_usable_ram_mb": 8192, "total_usable_disk_gb": 200, "vcpus_total": 16}
    instances = [(Instance("i1", flavor_id=7),)]
    table.update(0, report(**same, **totals, free_ram_mb=1, hypervisor_type="Xen", instances=instances))
    (columns,) = table.changes.rows_since(0).values()
    assert changed_columns(before, contents(table)) <= columns
    assert not {"free_disk_mb", "vcpus_used", "vcpus_total"} & columns
    assert table.changes.version == 1


def test_a_new_resource_class_is_in_the_log():
    table = make_hosts(1)
    table.update(0, report(resources={GPU: Inventory(4, min_unit=2)}))
    (columns,) = table.changes.rows_since(0).values()
    assert {f"limit:{GPU}", f"max_unit:{GPU}", f"min_unit:{GPU}"} <= columns
    assert table.changes.version == 1


def test_consuming_does_not_touch_what_it_does_not_change():
    table = worked_host()
    table.consume(0, make_spec(**FLAVOR))
    (columns,) = table.changes.rows_since(0).values()
    assert not {"vcpus_total", "aggregates", "is_up", "limit:VCPU"} & columns
    assert table.changes.version == 1


def test_a_resource_class_that_no_host_has_is_not_in_the_log():
    """D23: readers of the log fail at such a column; a GPU may come from a child of the host's provider."""
    table, spec = make_hosts(1), make_spec(extra_specs={f"resources:{GPU}": "1"})
    placed = table.consume(0, spec)
    table.release(0, placed)
    (columns,) = table.changes.rows_since(0).values()
    assert columns <= {*table.numbers, *table.encoded, "instances"}
    table.update(0, report(resources={GPU: Inventory(4)}))  # now a host has some
    table.consume(0, spec)
    assert f"allocated:{GPU}" in table.changes.rows_since(table.changes.version - 1)[0]
    assert allocated(table)[GPU] == 1


def test_each_change_is_a_version():
    table = make_hosts(2)
    spec = make_spec()
    table.consume(1, spec)
    table.release(1, spec)
    assert (list(table.changes.rows_since(1)), table.changes.version) == ([1], 2)
    table.update(0, report(num_io_ops=7))
    table.update(0, report(num_io_ops=7))  # nothing new
    assert (list(table.changes.rows_since(0)), list(table.changes.rows_since(2))) == ([1, 0], [0])
    assert table.changes.version == 3


# --- copy --------------------------------------------------------------------------------------------


def test_what_happens_to_a_copy_does_not_show_in_the_original():
    table = make_hosts(2, free_ram_mb=1024, instances=[["i0"], []], resources={GPU: Inventory(2)})
    before = contents(table)
    twin = table.copy()
    twin.consume(0, make_spec(instance_uuid="i1", extra_specs={f"resources:{GPU}": "1"}))
    twin.update(1, report(host="host2", hypervisor_type="Xen", resources={"CUSTOM_FPGA": Inventory(1, step_size=2)}))
    assert contents(table) == before
    assert table.rows_of_instance("i1") == ()
    assert table.granular_classes == set()
    assert table.changes.version == 0


def test_what_happens_to_the_original_does_not_show_in_a_copy():
    table = make_hosts(1, free_ram_mb=1024)
    twin = table.copy()
    table.consume(0, make_spec(instance_uuid="i1", memory_mb=512))
    assert (twin.free_ram_mb.tolist(), twin.rows_of_instance("i1")) == ([1024], ())


def test_a_flavor_that_the_original_placed_is_taken_from_the_copy():
    table, spec = make_hosts(1, free_ram_mb=1024), make_spec(memory_mb=512)
    table.consume(0, spec)
    twin = table.copy()
    twin.consume(0, spec)
    assert (table.free_ram_mb.tolist(), twin.free_ram_mb.tolist()) == ([512], [0])


def test_a_copy_says_the_same():
    table = make_hosts(host=["b", "a"], instances=[[Instance("i1")], []], traits=[{"A"}, set()])
    assert contents(table.copy()) == contents(table)
    assert table.copy().names == table.names
