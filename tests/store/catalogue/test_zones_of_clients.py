# SPDX-License-Identifier: Apache-2.0
"""Availability zones as clients see them."""

from datetime import timedelta

from tests.store.fleets import HOST, NOW, bring
from tests.store.statements import counted_statements

from roost.records.aggregates import add_host_to_aggregate, create_aggregate
from roost.records.service_catalogue import LivenessAndZones
from roost.records.services import save_service_heartbeat, set_service_flags
from roost.records.zone_catalogue import list_zones

OPTIONS = LivenessAndZones(60, "nova", "internal")


def fill(store):
    bring(store, {"hosts": [{"host": host, **HOST} for host in ("a", "b", "c")]})
    save_service_heartbeat(store, "m", "nova-conductor", "conductor", NOW)
    north = create_aggregate(store, "n", "north", NOW)
    for host in ("b", "a"):
        add_host_to_aggregate(store, north.id, host, NOW, "nova")


def listed(store):
    found = list_zones(store, NOW, OPTIONS)
    return {zone.name: (zone.is_available, [each.host for each in zone.services]) for zone in found}


def test_a_zone_has_the_services_of_its_hosts(store):
    fill(store)
    assert listed(store) == {"internal": (True, ["m"]), "north": (True, ["a", "b"]), "nova": (True, ["c"])}


def test_a_zone_is_available_while_one_of_its_services_is_enabled(store):
    fill(store)
    set_service_flags(store, "a", disabled=True)
    assert listed(store)["north"] == (True, ["b"])
    set_service_flags(store, "b", disabled=True)
    assert listed(store)["north"] == (False, [])


def test_a_zone_whose_services_are_down_is_available(store):
    fill(store)
    (internal, *_) = list_zones(store, NOW + timedelta(hours=1), OPTIONS)
    assert (internal.is_available, [each.is_up for each in internal.services]) == (True, [False])


def test_zones_take_three_statements(store):
    fill(store)
    assert counted_statements(store, lambda: listed(store)) == 3
