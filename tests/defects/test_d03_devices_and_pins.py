# SPDX-License-Identifier: Apache-2.0
"""D3: PCI devices, pinned CPUs and pages are in the ledger: given out as often as there are, free when released."""

import json
from dataclasses import replace

import pytest
from sqlalchemy import select
from tests.flow.cloud import CONTEXT, UUID, Cloud, hosts_of

from roost import Flavor, NoValidHost, RequestSpec
from roost.hosts.guests import guest_from_text
from roost.hosts.pci import pools_from_json
from roost.ledger.audit import audit
from roost.model.request import Destination
from roost.records.fleet_export import export_fleet
from roost.records.node_reader import read_nodes
from roost.records.outages import HeartbeatRule
from roost.records.reports import delete_node, save_report
from roost.records.services import set_service_flags
from roost.store.schema.fleet import compute_nodes, guest_allocations

ALIAS = json.dumps({"name": "gpu", "vendor_id": "10de", "product_id": "1eb8", "device_type": "type-PCI"})
OPTIONS = {"pci": {"alias": [ALIAS]}, "filter_scheduler": {"weight_classes": ["RAMWeigher"]}}


def gpus(count, node=None):
    return [{"vendor_id": "10de", "product_id": "1eb8", "count": count, "numa_node": node, "dev_type": "type-PCI"}]


def numa(cpus=4, cells=1, pages=()):
    def cell(number):
        first = number * cpus
        own = {"id": number, "cpuset": [], "pcpuset": [*range(first, first + cpus)], "memory": 16384}
        return own | {"siblings": [], "mempages": [{"size_kb": 4, "total": 4194304}, *pages]}

    return {"cells": [cell(number) for number in range(cells)]}


def gpu_request(count=1):
    specs = {"pci_passthrough:alias": f"gpu:{count}"}
    return RequestSpec(flavor=Flavor(1, 1024, root_gb=1, extra_specs=specs))


def pinned_request(vcpus=2, **specs):
    return RequestSpec(flavor=Flavor(vcpus, 1024, root_gb=1, extra_specs={"hw:cpu_policy": "dedicated", **specs}))


@pytest.fixture
def make_cloud(tmp_path):
    made = []

    def make(hosts):
        made.append(Cloud(tmp_path, hosts, OPTIONS))
        return made[-1]

    yield make
    for each in made:
        each.close()


def place_all(schedulers, spec, wanted):
    """Uuids that were placed, the schedulers asked in turn."""
    placed = []
    for number in range(wanted):
        try:
            schedulers[number % len(schedulers)].claims.select(spec, [UUID % (10 + number)])
            placed.append(UUID % (10 + number))
        except NoValidHost:
            pass
    return placed


def booked(cloud):
    with cloud.engine.connect() as connection:
        texts = connection.execute(select(guest_allocations.c.consumer_uuid, guest_allocations.c.guest)).all()
    return {uuid: guest_from_text(json.dumps(guest)) for uuid, guest in texts}


def pinned_cpus(cloud):
    """Every pinned CPU, as often as it is booked."""
    found = [cpu for guest in booked(cloud).values() for cell in guest.cells for _, cpu in cell.cpu_pinning]
    return sorted(found)


def record_of(cloud, host="a"):
    with cloud.engine.connect() as connection:
        nodes = read_nodes(connection, None, rule=HeartbeatRule(cloud.clock.now(), 60))
        return next(node.record for node in nodes if node.record.host == host)


def free_gpus(cloud, host="a"):
    return sum(pool.count for pool in record_of(cloud, host).pci_pools)


def test_d3_two_schedulers_give_out_each_gpu_once(make_cloud):
    cloud = make_cloud({"a": {"pci_pools": gpus(1)}})
    assert len(place_all([cloud.manager(), cloud.manager()], gpu_request(), 2)) == 1
    assert free_gpus(cloud) == 0


def test_d3_pinned_cpus_are_given_out_once_also_after_the_row_was_read_again(make_cloud):
    cloud = make_cloud({"a": {"numa": numa()}})
    scheduler, placed = cloud.manager(), 0
    for number in range(4):
        try:
            scheduler.claims.select(pinned_request(), [UUID % (10 + number)])
            placed += 1
        except NoValidHost:
            pass
        for disabled in (True, False):
            set_service_flags(cloud.engine, "a", disabled=disabled)
        cloud.clock.seconds += 5
    assert placed == 2
    assert pinned_cpus(cloud) == [0, 1, 2, 3]


def test_d3_a_released_gpu_can_be_claimed_again_by_every_scheduler(make_cloud):
    cloud = make_cloud({"a": {"pci_pools": gpus(1)}})
    one, two = cloud.manager(), cloud.manager()
    (first,) = place_all([one], gpu_request(), 1)
    with pytest.raises(NoValidHost):
        two.claims.select(gpu_request(), [UUID % 2])
    cloud.ledger.release([first])
    cloud.clock.seconds += 5
    assert hosts_of(two.claims.select(gpu_request(), [UUID % 2])) == ["a"]
    assert booked(cloud).keys() == {UUID % 2}


def test_d3_pins_are_there_again_after_a_restart(make_cloud):
    cloud = make_cloud({"a": {"numa": numa(cpus=4)}})
    place_all([cloud.manager()], pinned_request(vcpus=3), 1)
    with pytest.raises(NoValidHost):
        cloud.manager().claims.select(pinned_request(), [UUID % 2])
    assert hosts_of(cloud.manager().claims.select(pinned_request(vcpus=1), [UUID % 3])) == ["a"]
    assert pinned_cpus(cloud) == [0, 1, 2, 3]


def test_d3_huge_pages_and_emulator_threads_are_booked(make_cloud):
    pages = [{"size_kb": 2048, "total": 1024}]
    cloud = make_cloud({"a": {"numa": numa(cpus=6, pages=pages)}})
    spec = pinned_request(**{"hw:mem_page_size": "2048", "hw:emulator_threads_policy": "isolate"})
    assert len(place_all([cloud.manager(), cloud.manager()], spec, 4)) == 2
    (cell,) = record_of(cloud).numa.cells
    assert cell.pinned_cpus == {0, 1, 2, 3, 4, 5}, "two guests of two CPUs and one for its emulator each"
    assert {pool.size_kb: pool.used for pool in cell.mempages}[2048] == 1024


def test_d3_devices_keep_their_numa_affinity(make_cloud):
    pools = [*gpus(1, node=0), *gpus(1, node=1)]
    cloud = make_cloud({"a": {"numa": numa(cpus=2, cells=2), "pci_pools": pools}})
    specs = {
        "hw:cpu_policy": "dedicated",
        "pci_passthrough:alias": "gpu:1",
        "hw:pci_numa_affinity_policy": "required",
    }
    spec = RequestSpec(flavor=Flavor(2, 1024, root_gb=1, extra_specs=specs))
    assert len(place_all([cloud.manager(), cloud.manager()], spec, 4)) == 2
    for guest in booked(cloud).values():
        assert [cell.id for cell in guest.cells] == [pool.numa_node for pool in guest.devices]


def test_d3_a_moving_guest_holds_devices_on_both_hosts_until_it_has_left_one(make_cloud):
    cloud = make_cloud({"a": {"pci_pools": gpus(1)}, "b": {"pci_pools": gpus(1), "total_usable_ram_mb": 30000}})
    scheduler = cloud.manager()
    scheduler.claims.select(gpu_request(), [UUID % 1])
    scheduler.claims.select(replace(gpu_request(), ignore_hosts=("a",)), [UUID % 1])
    assert (free_gpus(cloud, "a"), free_gpus(cloud, "b")) == (0, 0)
    scheduler.delete_instance_info(CONTEXT, "a", UUID % 1)
    assert (free_gpus(cloud, "a"), free_gpus(cloud, "b")) == (1, 0)


def test_d3_a_claim_for_devices_is_refused_as_a_whole(make_cloud):
    cloud = make_cloud({"a": {"pci_pools": gpus(3)}})
    with pytest.raises(NoValidHost):
        cloud.manager().claims.select(replace(gpu_request(2), num_instances=2), [UUID % 1, UUID % 2])
    assert booked(cloud) == {}
    assert free_gpus(cloud) == 3


# --- reports -----------------------------------------------------------------------------------------


def report(cloud, count, *uuids, host="a", made_at=None):
    """The agent reports so many free GPUs, in figures that count these instances."""
    found = record_of(cloud, host)
    instances = tuple(each for each in found.instances if each.uuid in uuids)
    pools = found.pci_pools[:0] if not count else record_with(cloud, count)
    said = replace(found, pci_pools=pools, instances=instances)
    save_report(cloud.engine, said, cloud.clock.now(), made_at=made_at)


def record_with(cloud, count):
    return pools_from_json(gpus(count))


def test_d3_a_report_that_does_not_know_of_a_claim_does_not_free_its_device(make_cloud):
    cloud = make_cloud({"a": {"pci_pools": gpus(2)}})
    place_all([cloud.manager()], gpu_request(), 1)
    report(cloud, 2)
    assert free_gpus(cloud) == 1


def test_d3_a_report_that_counts_a_claim_does_not_count_it_twice(make_cloud):
    cloud = make_cloud({"a": {"pci_pools": gpus(2)}})
    (placed,) = place_all([cloud.manager()], gpu_request(), 1)
    report(cloud, 1, placed)
    assert free_gpus(cloud) == 1
    cloud.ledger.release([placed])
    assert free_gpus(cloud) == 2


def test_d3_a_report_does_not_count_what_was_booked_after_it_was_made(make_cloud):
    cloud = make_cloud({"a": {"pci_pools": gpus(4)}})
    scheduler = cloud.manager()
    scheduler.claims.select(gpu_request(1), [UUID % 1])
    made_at = cloud.clock.now()
    cloud.clock.sleep(1)
    cloud.ledger.release([UUID % 1])
    scheduler.claims.select(gpu_request(2), [UUID % 1])
    report(cloud, 3, UUID % 1, made_at=made_at)
    assert free_gpus(cloud) == 1, "the figures count one device, and the ledger another two"
    report(cloud, 2, UUID % 1, made_at=cloud.clock.now())
    assert free_gpus(cloud) == 2
    cloud.ledger.release([UUID % 1])
    assert free_gpus(cloud) == 4


def test_d3_a_device_that_the_agent_no_longer_has_is_not_free_after_a_release(make_cloud):
    cloud = make_cloud({"a": {"pci_pools": gpus(2)}})
    first, _ = place_all([cloud.manager()], gpu_request(), 2)
    report(cloud, 1)
    assert free_gpus(cloud) == 0
    cloud.ledger.release([first])
    assert free_gpus(cloud) == 0, "one is booked, and there is one"


def test_d3_a_report_on_the_source_of_a_move_counts_the_instance_once(make_cloud):
    cloud = make_cloud({"a": {"pci_pools": gpus(2)}, "b": {"pci_pools": gpus(1), "total_usable_ram_mb": 30000}})
    scheduler = cloud.manager()
    scheduler.claims.select(gpu_request(), [UUID % 1])
    running = record_of(cloud).instances
    scheduler.claims.select(replace(gpu_request(), ignore_hosts=("a",)), [UUID % 1])
    reported = replace(record_of(cloud), pci_pools=record_with(cloud, 1), instances=running)
    save_report(cloud.engine, reported, cloud.clock.now())
    assert free_gpus(cloud) == 1


def test_d3_an_import_keeps_bookings_and_an_export_has_what_is_left(make_cloud):
    cloud = make_cloud({"a": {"pci_pools": gpus(2), "numa": numa()}})
    place_all([cloud.manager()], gpu_request(), 1)
    exported = export_fleet(cloud.engine, cloud.clock.now())
    assert exported["hosts"][0]["pci_pools"][0]["count"] == 1
    for _ in range(2):
        cloud.bring(exported)
        assert free_gpus(cloud) == 1
        assert len(booked(cloud)) == 1


def test_d3_a_node_with_booked_devices_cannot_be_deleted(make_cloud):
    cloud = make_cloud({"a": {"pci_pools": gpus(1)}, "b": {}})
    (placed,) = place_all([cloud.manager()], gpu_request(), 1)
    with pytest.raises(Exception, match="hold something there"):
        delete_node(cloud.engine, "a")
    cloud.ledger.release([placed])
    delete_node(cloud.engine, "a")


# --- audit -------------------------------------------------------------------------------------------


def findings(cloud):
    return [each for each in audit(cloud.engine, cloud.clock.now(), 3600) if each.kind in ("guests", "overbooked")]


def test_d3_the_audit_compares_bookings_with_what_is_left(make_cloud):
    cloud = make_cloud({"a": {"pci_pools": gpus(2), "numa": numa()}})
    place_all([cloud.manager()], gpu_request(), 1)
    place_all([cloud.manager()], pinned_request(), 3)
    assert findings(cloud) == []
    with cloud.engine.begin() as connection:
        connection.execute(compute_nodes.update().values(pci_stats=gpus(2)))
    assert [each.kind for each in findings(cloud)] == ["guests"]


def test_d3_the_audit_names_devices_that_are_booked_beyond_what_is_there(make_cloud):
    cloud = make_cloud({"a": {"pci_pools": gpus(2)}})
    place_all([cloud.manager()], gpu_request(), 2)
    report(cloud, 1)
    (found,) = findings(cloud)
    assert found.kind == "overbooked"
    assert "10de:1eb8" in found.detail


def test_d3_a_destination_that_is_full_says_so(make_cloud):
    cloud = make_cloud({"a": {"pci_pools": gpus(1)}, "b": {"pci_pools": gpus(1)}})
    first = cloud.manager()
    first.claims.select(replace(gpu_request(), requested_destination=Destination(host="a")), [UUID % 1])
    with pytest.raises(NoValidHost, match="PciPassthroughFilter"):
        first.claims.select(replace(gpu_request(), requested_destination=Destination(host="a")), [UUID % 2])


def test_d3_a_resize_to_a_flavor_with_a_device_of_the_same_size_is_no_repeat(make_cloud):
    cloud = make_cloud({"a": {}, "b": {"pci_pools": gpus(1), "total_usable_ram_mb": 30000}})
    scheduler, plain = cloud.manager(), RequestSpec(flavor=Flavor(1, 1024, root_gb=1))
    assert hosts_of(scheduler.claims.select(plain, [UUID % 1])) == ["a"]
    assert hosts_of(scheduler.claims.select(gpu_request(), [UUID % 1])) == ["b"]
    assert hosts_of(scheduler.claims.select(gpu_request(), [UUID % 1])) == ["b"]
    assert free_gpus(cloud, "b") == 0
