# SPDX-License-Identifier: Apache-2.0
"""Nodes as clients see them: what they have, what is used, whether they are up, and which servers are there."""

from dataclasses import astuple
from datetime import timedelta

import pytest
from sqlalchemy import delete, update
from tests.store.fleets import HOST, NOW, UUID, bring, one, write
from tests.store.statements import counted_statements

from roost.errors import BadInput, UnknownName
from roost.hosts import HostRecord
from roost.ledger.claim import Claim
from roost.ledger.ledger import Ledger
from roost.model.resources import Use
from roost.records.hypervisors import HostedServer, get_hypervisor, list_hypervisors, sum_hypervisors
from roost.records.reports import save_report
from roost.records.services import set_service_flags
from roost.store.pages import Page
from roost.store.schema.fleet import compute_nodes, services
from roost.store.schema.servers import servers

REPORT = HostRecord(
    "agent",
    vcpus_total=8,
    total_usable_ram_mb=16384,
    total_usable_disk_gb=100,
    hypervisor_type="QEMU",
    hypervisor_version=8002,
    host_ip="192.0.2.7",
    cpu_info={"arch": "x86_64"},
)


@pytest.fixture
def fleet(store):
    """A store with two hosts, the second with two nodes; two servers are on the first host."""
    running = [{"uuid": UUID % 2, "resources": {"VCPU": 2}}, UUID % 1]
    metal = {"host": "metal", "hypervisor_type": "ironic", **HOST}
    bring(
        store,
        {"hosts": [{"host": "kvm", **HOST, "instances": running}, *({**metal, "node": n} for n in ("N_1", "n2"))]},
    )
    return store


def listed(store, now=NOW, **more):
    return list_hypervisors(store, now, 60, **more)


def names(found):
    return [each.hypervisor_hostname for each in found]


def test_a_node_has_what_its_agent_reports_less_what_is_claimed(store):
    save_report(store, REPORT, NOW)
    node = one(store, compute_nodes, host="agent")
    Ledger(store, now=lambda: NOW).claim(
        [Claim(UUID % 1, node.uuid, {"VCPU": 2, "MEMORY_MB": 1024}, Use(1024, 10, 2))]
    )
    (found,) = listed(store)
    assert (found.id, found.uuid, found.host, found.hypervisor_hostname) == (node.id, node.uuid, "agent", "agent")
    assert (found.vcpus, found.vcpus_used, found.memory_mb, found.memory_mb_used) == (8, 2, 16384, 1024)
    assert (found.free_ram_mb, found.local_gb, found.local_gb_used, found.free_disk_gb) == (15360, 100, 10, 90)
    assert (found.running_vms, found.current_workload, found.disk_available_least) == (1, 0, None)
    assert (found.hypervisor_type, found.hypervisor_version, found.host_ip) == ("QEMU", 8002, "192.0.2.7")
    assert found.cpu_info == {"arch": "x86_64"}


def test_a_node_is_up_and_enabled_as_its_service_is(store):
    save_report(store, REPORT, NOW)
    service = one(store, services, host="agent")
    (found,) = listed(store)
    assert (found.service_id, found.service_uuid, found.disabled, found.is_up) == (
        service.id,
        service.uuid,
        False,
        True,
    )
    assert [each.is_up for each in listed(store, NOW + timedelta(seconds=61))] == [False]
    set_service_flags(store, "agent", disabled=True, disabled_reason="fan", forced_down=True)
    (found,) = listed(store)
    assert (found.disabled, found.disabled_reason, found.forced_down, found.is_up) == (True, "fan", True, False)


def test_a_node_that_has_not_reported_has_nothing(fleet):
    write(fleet, update(compute_nodes).values(free_disk_gb=None, free_ram_mb=None, running_vms=None))
    assert {(each.free_disk_gb, each.free_ram_mb, each.running_vms) for each in listed(fleet)} == {(0, 0, 0)}


def test_a_node_without_a_service_is_left_out(fleet):
    write(fleet, delete(services).where(services.c.host == "kvm"))
    assert names(listed(fleet)) == ["N_1", "n2"]


def test_a_node_is_found_by_its_id_and_by_its_uuid(fleet):
    found = listed(fleet)[0]
    assert get_hypervisor(fleet, found.id, NOW, 60) == found
    assert get_hypervisor(fleet, found.uuid.upper(), NOW, 60) == found
    for unknown in (0, 2**63, "kvm"):
        with pytest.raises(UnknownName, match=f"Hypervisor with ID '{unknown}' could not be found"):
            get_hypervisor(fleet, unknown, NOW, 60)


def test_a_pattern_is_part_of_a_name(fleet):
    expected = {"n": ["N_1", "n2"], "_": ["N_1"], "%": [], "KVM": ["kvm"]}
    assert {pattern: names(listed(fleet, pattern=pattern)) for pattern in expected} == expected


def test_pages_begin_after_an_id_or_a_uuid(fleet):
    first, second, third = listed(fleet)
    assert listed(fleet, page=Page(limit=1)) == [first]
    assert listed(fleet, page=Page(marker=first.id)) == [second, third]
    assert listed(fleet, page=Page(limit=1, marker=first.uuid)) == [second]
    with pytest.raises(BadInput, match=r"marker \[77\] not found"):
        listed(fleet, page=Page(marker="77"))


def test_servers_are_read_on_request(fleet):
    hosted = (HostedServer(UUID % 1, UUID % 1), HostedServer(UUID % 2, UUID % 2))
    assert {each.host: each.servers for each in listed(fleet, with_servers=True)} == {"kvm": hosted, "metal": ()}
    assert get_hypervisor(fleet, listed(fleet)[0].id, NOW, 60, with_servers=True).servers == hosted
    assert listed(fleet)[0].servers == ()


def test_a_deleted_server_is_on_no_node(fleet):
    write(fleet, update(servers).where(servers.c.uuid == UUID % 1).values(vm_state="deleted"))
    assert [each.uuid for each in listed(fleet, with_servers=True)[0].servers] == [UUID % 2]


def test_totals_are_those_of_enabled_services(fleet):
    set_service_flags(fleet, "kvm", disabled=True)
    totals = sum_hypervisors(fleet)
    assert (totals.count, totals.vcpus, totals.memory_mb, totals.free_disk_gb) == (2, 16, 32768, 200)
    set_service_flags(fleet, "metal", disabled=True)
    assert set(astuple(sum_hypervisors(fleet))) == {0}


def test_the_number_of_statements_does_not_grow_with_the_nodes(fleet):
    one_page = {"page": Page(limit=1), "with_servers": True}
    assert counted_statements(fleet, lambda: listed(fleet, **one_page)) == 3
    assert counted_statements(fleet, lambda: listed(fleet, with_servers=True)) == 3
