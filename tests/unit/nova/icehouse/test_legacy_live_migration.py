# SPDX-License-Identifier: Apache-2.0
"""live_migration of Icehouse: spec/conductor-and-compute.md 1.5, spec/drivers-and-rpc.md 2.2 and 2.3."""

import json
from dataclasses import replace

import pytest
from sqlalchemy import select
from tests.unit.nova.icehouse.legacy_cloud import ASKED_BY, ONE, TWO, Cloud, request_spec

from roost.errors import FieldError, RpcUnreachable
from roost.hosts.guests import guest_from_text
from roost.messages.dispatcher import WireFailure, nova_failure
from roost.nova.icehouse.outcomes import request_for
from roost.store.schema.fleet import guest_allocations

HOSTS = {"a": {"free_ram_mb": 30000}, "b": {"free_ram_mb": 20000}, "c": {"free_ram_mb": 10000}}


@pytest.fixture
def make(tmp_path):
    made = []

    def make_cloud(task_state="migrating", hosts=HOSTS, **options):
        made.append(Cloud(tmp_path, hosts, **options))
        cloud = made[-1]
        cloud.older.run_instance(ASKED_BY, request_spec(ONE), filter_properties={"force_hosts": ["a"]})
        cloud.add_servers(ONE, host="a", vm_state="active", task_state=task_state)
        cloud.notifications.clear()
        return cloud

    yield make_cloud
    for cloud in made:
        cloud.close()


def instance(**more):
    sizes = {"memory_mb": 2048, "vcpus": 2, "root_gb": 10, "ephemeral_gb": 0}
    return {"uuid": ONE, "host": "a", "node": "a", "vm_state": "active", "power_state": 1, **sizes, **more}


def migrate(cloud, dest=None, **more):
    cloud.older.live_migration(ASKED_BY, instance(**more), dest, True, False)


def refused(cloud, dest=None, **more):
    """The name of the error, which must say why."""
    with pytest.raises(WireFailure) as raised:
        migrate(cloud, dest, **more)
    assert str(raised.value)
    assert type(raised.value).__module__ == "nova.exception"
    assert cloud.told("live_migration") == []
    return type(raised.value).__name__


def unsuitable(name="MigrationPreCheckError"):
    return nova_failure(name, "there is no room for its disks", reason="there is no room for its disks")


# --- a destination that is looked for ----------------------------------------------------------------------


def test_the_source_is_told_to_move_it_to_the_best_host(make):
    cloud = make()
    migrate(cloud)
    ((host, args),) = cloud.told("live_migration")
    assert host == "a"
    assert (args["dest"], args["block_migration"]) == ("b", True)
    assert args["migrate_data"] == {"checked_by": "b"}
    assert args["instance"]["uuid"] == ONE
    assert cloud.state(ONE) == ("active", "migrating")
    assert cloud.holders(ONE) == {ONE: ["b"]}


def test_the_destination_is_asked_first(make):
    cloud = make()
    migrate(cloud)
    ((host, args),) = cloud.told("check_can_live_migrate_destination")
    assert host == "b"
    assert (args["instance"]["uuid"], args["block_migration"], args["disk_over_commit"]) == (ONE, True, False)


@pytest.mark.parametrize("objection", ["MigrationPreCheckError", "InvalidCPUInfo", "InvalidSharedStorage"])
def test_a_host_that_objects_is_left_and_the_next_one_is_asked(make, objection):
    cloud = make()
    cloud.agents["b"].objection = unsuitable(objection)
    migrate(cloud)
    ((_, args),) = cloud.told("live_migration")
    assert args["dest"] == "c"
    assert cloud.holders(ONE) == {ONE: ["c"]}
    assert cloud.vcpus_taken() == {"a": 2, "b": 0, "c": 2}


def test_a_host_with_another_hypervisor_is_not_even_asked(make):
    cloud = make(hosts=HOSTS | {"b": {"free_ram_mb": 20000, "hypervisor_type": "xen"}})
    migrate(cloud)
    assert [host for host, _ in cloud.told("check_can_live_migrate_destination")] == ["c"]


def test_a_host_with_an_older_hypervisor_is_not_even_asked(make):
    hosts = {name: columns | {"hypervisor_version": 2} for name, columns in HOSTS.items()}
    hosts["b"]["hypervisor_version"] = 1
    cloud = make(hosts=hosts)
    migrate(cloud)
    assert [host for host, _ in cloud.told("check_can_live_migrate_destination")] == ["c"]


def test_where_all_object_there_is_no_valid_host_and_it_stays_as_it_was(make):
    cloud = make()
    cloud.agents["b"].objection = cloud.agents["c"].objection = unsuitable()
    assert refused(cloud) == "NoValidHost"
    assert cloud.state(ONE) == ("active", None)
    assert cloud.holders(ONE) == {ONE: ["a"]}


@pytest.mark.parametrize(("retries", "asked"), [(0, 1), (1, 2), (-1, 3)])
def test_no_more_hosts_are_tried_than_may_be(make, retries, asked):
    """The example of the spec has retries=1: two hosts are asked, then it ends."""
    cloud = make(hosts=HOSTS | {"d": {"free_ram_mb": 9000}}, migrate_max_retries=retries)
    for name in ("b", "c", "d"):
        cloud.agents[name].objection = unsuitable()
    assert refused(cloud) == "NoValidHost"
    assert len(cloud.told("check_can_live_migrate_destination")) == asked
    reason = cloud.notifications[-1].payload["reason"]
    told = f"Exceeded max scheduling retries {asked} for instance {ONE} during live migration"
    assert (told in reason) == (retries != -1)


def test_a_destination_that_cannot_be_asked_ends_it(make):
    cloud = make()
    cloud.agents["b"].objection = ValueError("a fault in the agent")
    assert refused(cloud) == "MigrationSchedulerRPCError"
    assert cloud.state(ONE) == ("error", None)
    assert cloud.holders(ONE) == {ONE: ["a"]}


# --- a destination that somebody named ---------------------------------------------------------------------


def test_a_named_destination_is_checked_claimed_and_taken(make):
    cloud = make()
    migrate(cloud, "c")
    assert [host for host, _ in cloud.told("check_can_live_migrate_destination")] == ["c"]
    ((host, args),) = cloud.told("live_migration")
    assert (host, args["dest"], args["migrate_data"]) == ("a", "c", {"checked_by": "c"})
    assert cloud.holders(ONE) == {ONE: ["c"]}


def test_a_named_destination_needs_more_memory_than_the_instance(make):
    cloud = make(hosts=HOSTS | {"c": {"free_ram_mb": 2048}})
    assert refused(cloud, "c") == "MigrationPreCheckError"
    reason = cloud.notifications[-1].payload["reason"]
    assert reason == f"Unable to migrate {ONE} to c: Lack of memory(host:2048 <= instance:2048)"
    assert cloud.state(ONE) == ("active", None)


@pytest.mark.parametrize("memory_mb", [0, None])
def test_an_instance_that_names_no_memory_goes_nowhere(make, memory_mb):
    metadata = {"instance_type_memory_mb": "2048", "instance_type_vcpus": "2"}
    assert refused(make(), "c", memory_mb=memory_mb, system_metadata=metadata) == "MigrationPreCheckError"


def test_a_named_destination_without_room_in_the_ledger_is_refused(make):
    cloud = make(hosts=HOSTS | {"c": {"vcpus": 1}})
    assert refused(cloud, "c") == "MigrationPreCheckError"
    assert cloud.holders(ONE) == {ONE: ["a"]}


def test_nothing_moves_to_where_it_is(make):
    cloud = make()
    assert refused(cloud, "a") == "UnableToMigrateToSelf"
    assert cloud.state(ONE) == ("active", None)


@pytest.mark.parametrize("dest", ["c", "nobody"])
def test_a_named_destination_must_be_up(make, dest):
    cloud = make(hosts=HOSTS | {"c": {"is_up": False}})
    assert refused(cloud, dest) == "ComputeServiceUnavailable"
    assert cloud.state(ONE) == ("active", None)


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        ({"hypervisor_type": "xen"}, "InvalidHypervisorType"),
        ({"hypervisor_version": 1}, "DestinationHypervisorTooOld"),
    ],
)
def test_a_named_destination_has_the_hypervisor_of_the_source(make, columns, name):
    hosts = {host: given | {"hypervisor_version": 2} for host, given in HOSTS.items()}
    hosts["c"] |= columns
    cloud = make(hosts=hosts)
    assert refused(cloud, "c") == name
    assert cloud.state(ONE) == ("active", None)


def test_what_a_named_destination_objects_is_told_under_its_own_name(make):
    cloud = make()
    cloud.agents["c"].objection = unsuitable("InvalidLocalStorage")
    assert refused(cloud, "c") == "InvalidLocalStorage"
    assert cloud.state(ONE) == ("active", None)
    assert cloud.holders(ONE) == {ONE: ["a"]}


def test_what_has_come_back_can_leave_again(make):
    cloud = make()
    for source, target in (("a", "b"), ("b", "a"), ("a", "b")):
        migrate(cloud, target, host=source, node=source)
        assert cloud.holders(ONE) == {ONE: [target]}


def test_the_chance_driver_has_no_say_in_a_named_destination(make):
    cloud = make(driver="chance_scheduler")
    migrate(cloud, "c")
    assert cloud.holders(ONE) == {ONE: ["c"]}


CELL = {"id": 0, "cpuset": [], "pcpuset": [0, 1, 2, 3], "memory": 16384, "siblings": []}
CELL |= {"mempages": [{"size_kb": 4, "total": 4194304}]}
GPU = {"vendor_id": "10de", "product_id": "1eb8", "count": 1, "numa_node": 0, "dev_type": "type-PCI"}
WITH_GUESTS = {
    **{f"{prefix}numa_topology": {"cells": [CELL]} for prefix in ("", "base_")},
    **{f"{prefix}pci_stats": [GPU] for prefix in ("", "base_")},
}
PINNED = {"cells": [{"id": 0, "cpuset": [0, 1], "memory": 2048, "cpu_policy": "dedicated"}]}
GPUS = {"requests": [{"count": 1, "spec": [{"vendor_id": "10de", "product_id": "1eb8"}], "alias_name": "gpu"}]}
GUEST = {"numa_topology": PINNED, "pci_requests": GPUS}


def guests(cloud):
    """Consumer uuid -> pinned CPUs and number of devices that are booked for it."""
    with cloud.engine.connect() as connection:
        rows = connection.execute(select(guest_allocations.c.consumer_uuid, guest_allocations.c.guest)).all()
    found = {uuid: guest_from_text(json.dumps(guest)) for uuid, guest in rows}
    return {
        uuid: (
            sorted(cpu for cell in guest.cells for _, cpu in cell.cpu_pinning),
            sum(pool.count for pool in guest.devices),
        )
        for uuid, guest in found.items()
    }


def test_pinned_cpus_and_devices_of_a_named_destination_are_booked(make):
    cloud = make(hosts=HOSTS | {"c": {**HOSTS["c"], **WITH_GUESTS}})
    migrate(cloud, "c", **GUEST)
    assert guests(cloud) == {ONE: ([0, 1], 1)}
    cloud.manager.claims.refresh()
    (row,) = cloud.manager.replica.table.rows_of_host("c")
    table = cloud.manager.replica.table
    assert table.encoded["numa"].at(row).cells[0].pinned_cpus == {0, 1}
    assert table.encoded["pci_pools"].at(row) == ()


def test_a_named_destination_books_other_cpus_where_another_scheduler_was_faster(make):
    cloud = make(hosts=HOSTS | {"c": {**HOSTS["c"], **WITH_GUESTS}})
    usual, done = cloud.ledger.claim_and_move, []

    def slow(claims, moves):
        if not done:
            done.append(True)
            other = replace(moves[0].claim, consumer_uuid=TWO)
            devices = replace(other.guest, devices=(), instance_uuid=TWO)
            cloud.ledger.claim([replace(other, guest=devices)])
        return usual(claims, moves)

    cloud.ledger.claim_and_move = slow
    migrate(cloud, "c", **GUEST)
    assert guests(cloud) == {ONE: ([2, 3], 1), TWO: ([0, 1], 0)}


def test_an_objection_of_a_named_destination_frees_what_was_booked(make):
    cloud = make(hosts=HOSTS | {"c": {**HOSTS["c"], **WITH_GUESTS}})
    cloud.agents["c"].objection = unsuitable()
    assert refused(cloud, "c", **GUEST) == "MigrationPreCheckError"
    assert guests(cloud) == {}


def test_a_guest_that_does_not_fit_a_named_destination_is_left_to_its_agent(make):
    """Filters are skipped, as for forced hosts: nothing is booked that is not there."""
    cloud = make()
    migrate(cloud, "c", **GUEST)
    assert guests(cloud) == {ONE: ([], 0)}
    assert cloud.holders(ONE) == {ONE: ["c"]}


# --- the source --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power_state", [0, 3, 4, None])
def test_only_what_runs_is_moved_while_it_runs(make, power_state):
    cloud = make()
    assert refused(cloud, power_state=power_state) == "InstanceNotRunning"
    assert cloud.state(ONE) == ("active", None)


def test_the_source_must_be_up(make):
    cloud = make(hosts={"z": {}, **HOSTS, "d": {"is_up": False}})
    assert refused(cloud, host="d", node="d") == "ComputeServiceUnavailable"
    assert refused(cloud, host=None) == "ComputeServiceUnavailable"


def test_a_source_that_could_not_be_told_gives_the_destination_back(make):
    cloud = make()

    def lose_the_broker(*args):
        raise RpcUnreachable("the broker is away")

    cloud.transport.cast = lose_the_broker
    with pytest.raises(WireFailure):
        migrate(cloud)
    assert cloud.state(ONE) == ("error", None)
    assert cloud.holders(ONE) == {ONE: ["a"]}


def test_a_state_is_restored_only_while_it_migrates(make):
    cloud = make(task_state="deleting")
    assert refused(cloud, "a") == "UnableToMigrateToSelf"
    assert cloud.state(ONE) == ("active", "deleting")


def test_an_error_is_announced(make):
    cloud = make()
    refused(cloud, "a")
    (error,) = [each for each in cloud.notifications if each.priority == "ERROR"]
    assert error.event_type == "scheduler.live_migration"
    assert (error.payload["instance_id"], error.payload["state"]) == (ONE, "active")


@pytest.mark.parametrize("broken", [{"instance": None, "dest": None}, {"instance": {"uuid": ONE}, "dest": 7}])
def test_a_message_that_is_none_is_a_clear_error(make, broken):
    with pytest.raises(FieldError):
        make().older.live_migration(ASKED_BY, block_migration=False, disk_over_commit=False, **broken)


# --- what an instance says of itself -----------------------------------------------------------------------


def test_flavor_and_image_are_what_was_noted_with_the_instance():
    noted = {
        "instance_type_id": "5",
        "instance_type_name": "small",
        "instance_type_memory_mb": "512",
        "image_min_ram": "64",
        "image_hw_architecture": "x86_64",
        "image_base_image_ref": "base",
    }
    request = request_for(instance(system_metadata=noted, image_ref="img"))
    assert request["instance_type"] == {
        "id": 5,
        "name": "small",
        "memory_mb": 512,
        "vcpus": 2,
        "root_gb": 10,
        "ephemeral_gb": 0,
    }
    assert request["image"] == {"id": "img", "min_ram": 64, "properties": {"hw_architecture": "x86_64"}}


def test_notes_may_be_rows_too():
    rows = [{"key": "instance_type_vcpus", "value": "4"}, {"id": 1}, "odd"]
    assert request_for(instance(system_metadata=rows))["instance_type"]["vcpus"] == 4


def test_an_instance_that_boots_from_a_volume_has_no_image():
    assert request_for(instance(system_metadata={"image_min_ram": "64"}))["image"] == {}
