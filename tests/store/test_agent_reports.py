# SPDX-License-Identifier: Apache-2.0
"""What agents and operators say of hosts that are in the store."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.store.fleets import (
    INSTANCE,
    LATER,
    NOW,
    UUID,
    bring,
    changes_since,
    check_sums,
    claim,
    count_changes,
    document,
    one,
    one_host,
    read,
    tables,
    wipe,
)

from roost.errors import BadInput, UnknownName
from roost.hosts import HostRecord, Inventory
from roost.hosts.record import default_node_uuid
from roost.records.reports import LARGEST_EXACT, delete_node, save_report
from roost.records.services import save_heartbeats, set_service_flags
from roost.store.change_log import AGGREGATES, NODES, SERVICES, Change
from roost.store.schema.fleet import (
    aggregate_hosts,
    aggregates,
    allocations,
    compute_nodes,
    consumers,
    inventories,
    node_traits,
    services,
)

REPORT = HostRecord(
    "a",
    vcpus_total=8,
    vcpus_used=2,
    total_usable_ram_mb=16384,
    free_ram_mb=8192,
    total_usable_disk_gb=100,
    free_disk_mb=51200,
    traits=frozenset({"CUSTOM_A"}),
    resources={"PGPU": Inventory(4)},
)


@pytest.fixture
def store(current):
    yield current
    wipe(current)


def node(engine, host="a"):
    return one(engine, compute_nodes, host=host)


# --- reports -----------------------------------------------------------------------------------------


def test_a_first_report_makes_node_and_service(store):
    save_report(store, REPORT, NOW)
    row = node(store)
    assert (row.uuid, row.vcpus, row.vcpus_used, row.free_disk_gb) == (default_node_uuid("a", "a"), 8, 2, 50)
    service = one(store, services, host="a")
    assert (service.is_static, service.last_seen_up, service.report_count) == (False, NOW, 1)
    assert changes_since(store) == {Change(NODES, str(row.id)), Change(SERVICES, "a")}
    assert [trait for _, trait in read(store, node_traits)] == ["CUSTOM_A"]
    assert len(read(store, inventories)) == 4


def test_an_equal_report_is_no_change(store):
    save_report(store, REPORT, NOW)
    before, known = tables(store), count_changes(store)
    save_report(store, REPORT, LATER)
    after = tables(store)
    assert {name for name in after if after[name] != before[name]} == {"services"}
    assert changes_since(store, known) == set()
    assert one(store, services, host="a").last_seen_up == LATER


def test_another_report_is_one_change(store):
    save_report(store, REPORT, NOW)
    known = count_changes(store)
    save_report(store, replace(REPORT, vcpus_total=16, traits=frozenset(), resources={}), LATER)
    row = node(store)
    assert (row.vcpus, row.updated_at) == (16, LATER)
    assert read(store, node_traits) == []
    assert changes_since(store, known) == {Change(NODES, str(row.id))}


def test_a_report_takes_over_a_static_host_and_touches_nobody_on_it(store):
    bring(store, one_host(instances=[INSTANCE], vcpus_used=3))
    held, known = read(store, allocations), count_changes(store)
    save_report(store, REPORT, LATER)
    assert read(store, allocations) == held
    service = one(store, services, host="a")
    assert (service.is_static, service.last_seen_up) == (False, LATER)
    assert {each.subject for each in changes_since(store, known)} == {NODES, SERVICES}
    check_sums(store)


def test_a_node_that_shrinks_below_what_is_used_is_accepted(store):
    bring(store, one_host(instances=[INSTANCE]))
    save_report(store, replace(REPORT, vcpus_total=1, free_ram_mb=-100, free_disk_mb=-1), LATER)
    table = inventories
    vcpus = one(store, table, node_id=node(store).id, resource_class="VCPU")
    assert (vcpus.total, vcpus.used) == (1, 2)
    assert (node(store).free_ram_mb, node(store).free_disk_gb) == (-100, -1)


def test_disk_that_may_really_be_written(store):
    save_report(store, REPORT, NOW, disk_available_least=-3)
    assert node(store).disk_available_least == -3


def test_a_bare_metal_node_reports_like_any_other(store):
    for name in ("n1", "n2"):
        save_report(store, replace(REPORT, node=name, hypervisor_type="ironic"), NOW)
    names = read(store, compute_nodes, compute_nodes.c.hypervisor_hostname)
    assert names == [("n1",), ("n2",)]
    assert len(read(store, services)) == 1


BAD = [
    ({"vcpus_total": -1}, "vcpus_total: -1 is negative"),
    ({"total_usable_ram_mb": -5}, "total_usable_ram_mb: -5 is negative"),
    ({"total_usable_disk_gb": -5, "free_disk_mb": -6000}, "total_usable_disk_gb: -5 is negative"),
    ({"vcpus_used": -1}, "vcpus_used: -1 is negative"),
    ({"vcpus_used": 80_001}, "vcpus_used: 80001 is absurd for 8 CPUs"),
    ({"num_instances": -1}, "num_instances: -1 is negative"),
    ({"vcpus_total": LARGEST_EXACT + 1}, "vcpus_total: 9007199254740993 is more than anything has"),
    ({"free_ram_mb": -LARGEST_EXACT - 1}, "free_ram_mb: -9007199254740993 is less than"),
    ({"free_ram_mb": 16385}, "free_ram_mb: 16385 is more than there is (16384)"),
    ({"free_disk_mb": 102_401}, "free_disk_mb: 102401 is more than there is (102400)"),
    ({"cpu_allocation_ratio": float("nan")}, "cpu_allocation_ratio: nan is no finite number"),
    ({"ram_allocation_ratio": float("inf")}, "ram_allocation_ratio: inf is no finite number"),
    ({"disk_allocation_ratio": 0.0}, "disk_allocation_ratio: 0.0 is not above 0"),
    ({"disk_allocation_ratio": -1.0}, "disk_allocation_ratio: -1.0 is not above 0"),
    ({"vcpus_total": 1.5}, "vcpus_total: 1.5 is not a whole number"),
    ({"reserved_ram_mb": 16385}, "MEMORY_MB.reserved: 16385 is more than there is (16384)"),
    ({"resources": {"PGPU": Inventory(-1)}}, "PGPU.total: -1 is negative"),
    ({"resources": {"PGPU": Inventory(1, step_size=0)}}, "PGPU.step_size: 0 is less than 1"),
    ({"resources": {"PGPU": Inventory(1, allocation_ratio=float("nan"))}}, "PGPU.allocation_ratio: nan"),
    ({"hypervisor_type": "x" * 256}, "hypervisor_type"),
    ({"host_ip": "\0"}, "host_ip"),
]


@pytest.mark.parametrize(("said", "words"), BAD)
def test_a_report_that_cannot_be_true_is_not_taken(store, said, words):
    save_report(store, REPORT, NOW)
    before = tables(store)
    with pytest.raises(BadInput) as caught:
        save_report(store, replace(REPORT, **said), LATER)
    assert "host a" in str(caught.value)
    assert words in str(caught.value)
    assert tables(store) == before


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (replace(REPORT, uuid=UUID % 1), ("its uuid is", f"not {UUID % 1}", "delete the old node first")),
        (replace(REPORT, host="b", uuid=default_node_uuid("a", "a")), ("host b", "belongs to host a")),
    ],
)
def test_a_node_keeps_its_uuid_and_has_it_alone(store, report, words):
    save_report(store, REPORT, NOW)
    before = tables(store)
    with pytest.raises(BadInput) as caught:
        save_report(store, report, LATER)
    assert all(word in str(caught.value) for word in words)
    assert tables(store) == before


def test_a_report_may_leave_out_the_uuid_or_repeat_it(store):
    save_report(store, replace(REPORT, uuid=UUID % 1), NOW)
    save_report(store, REPORT, NOW)
    save_report(store, replace(REPORT, uuid=UUID % 1), NOW)
    assert node(store).uuid == UUID % 1


# --- heartbeats --------------------------------------------------------------------------------------


def test_a_heartbeat_is_no_change(store):
    save_report(store, REPORT, NOW)
    known = count_changes(store)
    save_heartbeats(store, ["a"], LATER)
    service = one(store, services, host="a")
    assert (service.last_seen_up, service.report_count) == (LATER, 2)
    assert changes_since(store, known) == set()


def test_the_first_heartbeat_of_a_static_host_is_one(store):
    bring(store, one_host())
    known = count_changes(store)
    save_heartbeats(store, ["a"], LATER)
    assert changes_since(store, known) == {Change(SERVICES, "a")}
    assert one(store, services, host="a").is_static is False


# --- operators ---------------------------------------------------------------------------------------


def test_a_host_is_disabled_with_a_reason_and_enabled_without(store):
    bring(store, one_host())
    known = count_changes(store)
    set_service_flags(store, "a", disabled=True, disabled_reason="fan")
    row = one(store, services, host="a")
    assert (row.disabled, row.disabled_reason, row.forced_down) == (True, "fan", False)
    set_service_flags(store, "a", disabled=True)
    set_service_flags(store, "a", disabled=False)
    row = one(store, services, host="a")
    assert (row.disabled, row.disabled_reason) == (False, None)
    assert count_changes(store) == known + 2


def test_a_host_is_forced_down(store):
    bring(store, one_host())
    set_service_flags(store, "a", forced_down=True)
    assert one(store, services, host="a").forced_down is True


def test_a_service_that_is_not_there(store):
    bring(store, one_host())
    with pytest.raises(UnknownName, match="'b'"):
        set_service_flags(store, "b", disabled=True)
    with pytest.raises(BadInput, match="not disabled"):
        set_service_flags(store, "a", disabled_reason="fan")


def test_a_node_goes_with_its_unlisted_use_and_its_static_service(store):
    bring(store, document())
    number, known = node(store, "b").id, count_changes(store)
    delete_node(store, "b")
    assert [host for (host,) in read(store, services, services.c.host)] == ["a", "metal"]
    north = one(store, aggregates, name="north").id
    wanted = {Change(NODES, str(number)), Change(SERVICES, "b"), Change(AGGREGATES, str(north))}
    assert changes_since(store, known) == wanted
    assert [host for _, host in read(store, aggregate_hosts)] == ["a"]
    assert {kind for (kind,) in read(store, consumers, consumers.c.kind)} == {"instance"}
    check_sums(store)


def test_the_service_stays_with_another_node_or_an_agent(store):
    bring(store, document())
    delete_node(store, "metal", "n1")
    assert one(store, services, host="metal").is_static
    save_report(store, replace(REPORT, host="agent"), NOW)
    delete_node(store, "agent")
    assert one(store, services, host="agent").last_seen_up == NOW


def test_a_node_that_somebody_holds_cannot_be_deleted(store):
    bring(store, one_host())
    claim(store, UUID % 1, "a", {"VCPU": 1})
    before = tables(store)
    with pytest.raises(BadInput, match=UUID % 1):
        delete_node(store, "a")
    assert tables(store) == before
    with pytest.raises(UnknownName, match="did you mean"):
        delete_node(store, "aa")


def test_times_ahead_of_ours_are_taken_as_they_are(store):
    save_heartbeats(store, ["a"], NOW + timedelta(days=1))
    assert one(store, services, host="a").last_seen_up == NOW + timedelta(days=1)
