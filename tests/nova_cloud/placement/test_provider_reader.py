# SPDX-License-Identifier: Apache-2.0
"""The snapshot of the real placement's providers: what is in it, when it is read again, and what does not undo it."""

import threading
import uuid

import pytest
from tests.nova_cloud.placement.cloud import HOST

from roost.errors import PlacementUnavailable
from roost.hosts.record import Inventory
from roost.nova.placement import providers
from roost.nova.placement.allocations import AllocationWriter
from roost.nova.placement.providers import ProviderReader

DETAILS = [("GET", "/resource_providers/{uuid}/inventories")]


def test_a_provider_has_units_use_and_traits(cloud):
    host = cloud.add(HOST, traits=["HW_CPU_X86_AVX"])
    cloud.writer.claim([cloud.request(host, VCPU=3)])
    cloud.reader.read_all()
    provider = cloud.reader.providers[host]
    assert provider.name == f"host-{host}"
    assert provider.inventories["VCPU"] == Inventory(8, allocation_ratio=2.0, max_unit=2**31 - 1)
    assert provider.inventories["MEMORY_MB"].reserved == 100
    assert provider.used == {"VCPU": 3, "MEMORY_MB": 0}
    assert provider.traits == {"HW_CPU_X86_AVX"}
    assert not provider.is_assumed_full


def test_a_full_provider_counts_as_full_until_room_is_freed(cloud):
    """Freed room does not move the generation."""
    host = cloud.add(traits=["HW_CPU_X86_AVX"])
    grant = AllocationWriter(cloud.direct, ProviderReader(cloud.direct)).claim([cloud.request(host, VCPU=16)])
    cloud.reader.read_all()
    provider = cloud.reader.providers[host]
    assert provider.is_assumed_full
    assert provider.used == {"VCPU": 16, "MEMORY_MB": 900}
    assert provider.traits == {"HW_CPU_X86_AVX"}
    cloud.direct.delete(f"/allocations/{grant.requests[0].consumer_uuid}")
    cloud.reader.read_all()
    assert cloud.reader.providers[host].used == {"VCPU": 0, "MEMORY_MB": 0}


@pytest.mark.parametrize(
    "inventories",
    [
        {"PCPU": {"total": 4}},
        {"VCPU": {"total": 4, "reserved": 4}, "PCPU": {"total": 4}},
        {"VCPU": {"total": 8, "min_unit": 3, "step_size": 2}},
        {"CUSTOM_BAREMETAL_GOLD": {"total": 1}, "CUSTOM_OTHER": {"total": 1}},
    ],
)
def test_room_is_found_for_every_kind_of_host(cloud, inventories):
    if "CUSTOM_OTHER" in inventories:
        for name in inventories:
            cloud.direct.put(f"/resource_classes/{name}", None)
    host = cloud.add(inventories)
    cloud.reader.read_all()
    provider = cloud.reader.providers[host]
    assert not provider.is_assumed_full
    assert provider.used == dict.fromkeys(inventories, 0)


def test_classes_of_children_and_of_sharing_providers_are_known_and_they_are_no_hosts(cloud):
    aggregate = str(uuid.uuid4())
    root = cloud.add(aggregates=[aggregate])
    assert not cloud.reader.is_complete
    cloud.reader.read_all()
    assert cloud.reader.is_complete
    assert cloud.reader.other_classes == frozenset()
    cloud.add({"VGPU": {"total": 4}}, parent=root)
    cloud.add({"DISK_GB": {"total": 1}}, traits=["MISC_SHARES_VIA_AGGREGATE"], aggregates=[aggregate])
    cloud.reader.read_all()
    assert cloud.reader.other_classes == {"VGPU", "DISK_GB"}
    assert cloud.reader.providers.keys() == {root}


def test_details_are_read_again_only_where_the_generation_moved(cloud):
    host, _ = cloud.add(), cloud.add()
    cloud.reader.read_all()
    cloud.calls.clear()
    cloud.reader.read_all()
    assert not any(cloud.calls[each] for each in DETAILS)
    cloud.set_inventories(host, {"VCPU": {"total": 5}})
    cloud.reader.read_all()
    assert [cloud.calls[each] for each in DETAILS] == [1]
    assert cloud.reader.providers[host].inventories["VCPU"].total == 5


def test_an_own_claim_does_not_make_details_be_read_again(cloud):
    host = cloud.add()
    cloud.reader.read_all()
    cloud.writer.claim([cloud.request(host, VCPU=1), cloud.request(host, VCPU=1)])
    cloud.calls.clear()
    cloud.reader.read_all()
    assert not any(cloud.calls[each] for each in DETAILS)


def test_an_inventory_that_changed_beside_an_own_claim_is_read(cloud):
    host = cloud.add()
    cloud.reader.read_all()
    cloud.set_inventories(host, {"VCPU": {"total": 5}})
    cloud.writer.claim([cloud.request(host, VCPU=1)])
    assert cloud.reader.providers[host].inventories["VCPU"].total == 5


def test_changes_are_told_once(cloud):
    one, other = cloud.add(), cloud.add()
    cloud.reader.read_all()
    assert {one, other} <= cloud.reader.take_changes().changed
    cloud.reader.read_all()
    assert cloud.reader.take_changes() == (frozenset(), frozenset())
    cloud.writer.claim([cloud.request(one)])
    cloud.direct.delete(f"/resource_providers/{other}")
    cloud.reader.read_all()
    assert cloud.reader.take_changes() == ({one}, {other})


def test_reading_some_sees_what_others_did(cloud):
    host, gone = cloud.add(), cloud.add()
    cloud.reader.read_all()
    AllocationWriter(cloud.direct, ProviderReader(cloud.direct)).claim([cloud.request(host, VCPU=3)])
    cloud.put(host, "traits", traits=["COMPUTE_STATUS_DISABLED"])
    cloud.direct.delete(f"/resource_providers/{gone}")
    new = cloud.add()
    cloud.reader.read_some([host, gone, new])
    found = cloud.reader.providers
    assert found[host].used["VCPU"] == 3
    assert found[host].traits == {"COMPUTE_STATUS_DISABLED"}
    assert found[new].name == f"host-{new}"
    assert gone not in found


def test_reading_some_costs_one_call_each_where_nothing_but_the_use_changed(cloud):
    host = cloud.add()
    cloud.reader.read_all()
    cloud.calls.clear()
    cloud.reader.read_some([host])
    assert cloud.calls == {("GET", "/resource_providers/{uuid}/usages"): 1}


@pytest.mark.parametrize("checks", [True, False])
def test_a_read_that_began_before_an_own_claim_does_not_undo_it(cloud, checks):
    cloud.writer.checks_claims = checks
    host = cloud.add()
    cloud.reader.read_all()
    began, may_end = threading.Event(), threading.Event()
    cloud.proxy.add("GET", "/allocation_candidates", after=lambda: (began.set(), may_end.wait()))
    reading = threading.Thread(target=cloud.reader.read_all)
    reading.start()
    began.wait()
    cloud.writer.claim([cloud.request(host, VCPU=3)])
    may_end.set()
    reading.join()
    assert cloud.reader.providers[host].used["VCPU"] == 3
    cloud.reader.read_all()
    assert cloud.reader.providers[host].used["VCPU"] == 3


def test_a_failed_read_leaves_the_snapshot_and_continues_where_it_stopped(cloud):
    host = cloud.add()
    cloud.proxy.add("GET", "/allocation_candidates", status=503, executes=False)
    with pytest.raises(PlacementUnavailable):
        cloud.reader.read_all()
    assert not cloud.reader.providers
    cloud.calls.clear()
    cloud.reader.read_all()
    assert host in cloud.reader.providers
    assert not any(cloud.calls[each] for each in DETAILS)


def test_a_provider_that_was_found_while_all_were_listed_stays(cloud):
    cloud.add()
    cloud.reader.read_all()
    began, may_end = threading.Event(), threading.Event()
    cloud.proxy.add("GET", "/allocation_candidates", before=lambda: (began.set(), may_end.wait()))
    reading = threading.Thread(target=cloud.reader.read_all)
    reading.start()
    began.wait()
    new = cloud.add()
    cloud.reader.read_some([new])
    may_end.set()
    reading.join()
    assert not cloud.reader.providers[new].is_assumed_full


def test_providers_that_no_query_lists_are_read_one_by_one(cloud, monkeypatch):
    monkeypatch.setattr(providers, "MOST_QUERIES", 1)
    one, other = cloud.add(), cloud.add()
    rare = cloud.add({"PCPU": {"total": 4}}, traits=["HW_CPU_X86_AVX"])
    cloud.writer.claim([cloud.request(rare, PCPU=4)])
    reader = ProviderReader(cloud.client)
    reader.read_all()
    assert reader.providers[rare].used == {"PCPU": 4}
    assert reader.providers[rare].traits == {"HW_CPU_X86_AVX"}
    assert not any(reader.providers[each].is_assumed_full for each in (one, other, rare))


def test_traits_stay_known_while_another_writer_moves_the_generation(cloud):
    """A host with a forbidden trait must not be offered meanwhile."""
    host = cloud.add(traits=["HW_CPU_X86_AVX"])
    cloud.reader.read_all()
    other = AllocationWriter(cloud.direct, ProviderReader(cloud.direct))
    cloud.proxy.add("POST", "/allocations", after=lambda: other.claim([cloud.request(host, VCPU=1)]))
    cloud.writer.claim([cloud.request(host, VCPU=1)])
    assert cloud.reader.providers[host].traits == {"HW_CPU_X86_AVX"}
    cloud.reader.read_all()
    assert cloud.reader.providers[host].traits == {"HW_CPU_X86_AVX"}
