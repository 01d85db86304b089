# SPDX-License-Identifier: Apache-2.0
"""Services as clients list and delete them."""

import time
from datetime import timedelta

import pytest
from tests.store.fleets import HOST, NOW, bring, changes_since, claim, count_changes, one, read
from tests.store.statements import counted_statements

from roost.errors import Conflict, UnknownName
from roost.records.aggregates import add_host_to_aggregate, create_aggregate, list_aggregates
from roost.records.service_catalogue import LivenessAndZones, delete_service, get_service, list_services
from roost.records.services import save_service_heartbeat, set_service_flags
from roost.scheduler.options import SchedulerOptions
from roost.scheduler.own_replica import make_host_manager
from roost.store.change_log import AGGREGATES, NODES, SERVICES, Change
from roost.store.schema.fleet import compute_nodes

OPTIONS = LivenessAndZones(60, "nova", "internal")
SERVER = {"uuid": "6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e01"}
METAL = {"host": "metal", "hypervisor_type": "ironic", **HOST}
UNLISTED = {"vcpus_used": 3, "free_ram_mb": 8192, "free_disk_mb": 51200}


@pytest.fixture
def fleet(store):
    """A store with a host that has two nodes, one with a server, one with unlisted use, and a conductor."""
    hosts = [
        {**METAL, "node": "n1"},
        {**METAL, "node": "n2"},
        {"host": "busy", **HOST, "instances": [SERVER]},
        {"host": "used", **HOST, **UNLISTED},
    ]
    bring(store, {"hosts": hosts})
    save_service_heartbeat(store, "c1", "nova-conductor", "conductor", NOW)
    north = create_aggregate(store, "n", "north", NOW)
    add_host_to_aggregate(store, north.id, "used", NOW, "nova")
    return store


def listed(store, now=NOW, **filters):
    return list_services(store, now, OPTIONS, **filters)


def service_of(store, host):
    (found,) = listed(store, host=host)
    return found


def test_services_have_zones_by_their_aggregates(fleet):
    found = {(each.host, each.binary): each.zone for each in listed(fleet)}
    agents = {("metal", "nova-compute"): "nova", ("busy", "nova-compute"): "nova", ("used", "nova-compute"): "north"}
    assert found == agents | {("c1", "nova-conductor"): "internal"}


def test_filters(fleet):
    assert [each.host for each in listed(fleet, binary="nova-conductor")] == ["c1"]
    assert [each.zone for each in listed(fleet, host="used", binary="nova-compute")] == ["north"]
    assert listed(fleet, host="used", binary="nova-conductor") == []


def test_a_service_is_found_by_its_id_and_by_its_uuid(fleet):
    used = service_of(fleet, "used")
    assert get_service(fleet, used.id, NOW, OPTIONS) == used
    assert get_service(fleet, used.uuid.upper(), NOW, OPTIONS) == used
    for unknown in (0, 2**63, "used"):
        with pytest.raises(UnknownName, match=f"Service {unknown} could not be found"):
            get_service(fleet, unknown, NOW, OPTIONS)


def test_it_has_the_flags_that_operators_set(fleet):
    set_service_flags(fleet, "used", disabled=True, disabled_reason="fan", forced_down=True)
    found = service_of(fleet, "used")
    assert (found.disabled, found.disabled_reason, found.forced_down, found.is_up) == (True, "fan", True, False)


def test_it_is_up_until_its_heartbeats_stop(fleet):
    for seconds, is_up in ((60, True), (61, False)):
        (found,) = listed(fleet, NOW + timedelta(seconds=seconds), host="c1")
        assert (found.is_up, found.updated_at) == (is_up, NOW)


def test_the_number_of_statements_does_not_grow_with_the_services(fleet):
    assert counted_statements(fleet, lambda: listed(fleet, host="c1")) == 3
    assert counted_statements(fleet, lambda: listed(fleet)) == 3


def test_a_host_with_a_server_keeps_its_service(fleet):
    with pytest.raises(Conflict, match="hosting instances"):
        delete_service(fleet, service_of(fleet, "busy").uuid)
    assert one(fleet, compute_nodes, host="busy").running_vms == 1


def test_a_host_with_a_claim_keeps_its_service(fleet):
    claim(fleet, "6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e02", "used", {"VCPU": 1})
    with pytest.raises(Conflict, match="hosting instances"):
        delete_service(fleet, service_of(fleet, "used").uuid)


def test_nodes_and_places_in_aggregates_go_with_the_service(fleet):
    node, north, known = (
        one(fleet, compute_nodes, host="used"),
        list_aggregates(fleet)[0],
        count_changes(fleet),
    )
    delete_service(fleet, service_of(fleet, "used").uuid)
    assert listed(fleet, host="used") == []
    assert "used" not in {row[0] for row in read(fleet, compute_nodes, compute_nodes.c.host)}
    assert list_aggregates(fleet)[0].hosts == ()
    expected = {Change(NODES, str(node.id)), Change(SERVICES, "used"), Change(AGGREGATES, str(north.id))}
    assert changes_since(fleet, known) == expected


def test_a_scheduler_sees_that_the_host_is_gone(fleet):
    manager = make_host_manager(fleet, SchedulerOptions(), lambda: NOW, time.monotonic)
    manager.load()
    delete_service(fleet, service_of(fleet, "metal").id)
    manager.refresh()
    assert sorted(view.host for view in manager.table) == ["busy", "used"]


def test_another_service_is_deleted_alone(fleet):
    known = count_changes(fleet)
    delete_service(fleet, service_of(fleet, "c1").uuid)
    assert listed(fleet, binary="nova-conductor") == []
    assert changes_since(fleet, known) == set()
