# SPDX-License-Identifier: Apache-2.0
import uuid

import pytest

from roost.records.services import save_service_heartbeat


@pytest.fixture
def zone(cloud, admin):
    """Name of a new zone, and of the host in it."""
    name, host = f"zone-{uuid.uuid4()}", f"host-{uuid.uuid4()}"
    save_service_heartbeat(cloud.dev.engine, host, "nova-compute", "compute", cloud.dev.clock.now())
    aggregate = admin.post("/os-aggregates", {"aggregate": {"name": name, "availability_zone": name}}).json()
    address = f"/os-aggregates/{aggregate['aggregate']['id']}/action"
    assert admin.post(address, {"add_host": {"host": host}}).status_code == 200
    return name, host


def zones(client, path=""):
    answer = client.get(f"/os-availability-zone{path}", version=None)
    assert answer.status_code == 200, answer.text
    return {each["zoneName"]: each for each in answer.json()["availabilityZoneInfo"]}


def test_members_see_names_and_states_of_zones_other_than_the_internal_one(member, zone):
    found = zones(member)
    assert found[zone[0]] == {"zoneName": zone[0], "zoneState": {"available": True}, "hosts": None}
    assert "internal" not in found
    assert member.get("/os-availability-zone/detail").status_code == 403


def test_administrators_see_hosts_with_their_services(admin, zone):
    name, host = zone
    found = zones(admin, "/detail")
    service = found[name]["hosts"][host]["nova-compute"]
    assert service == {"active": True, "available": True, "updated_at": service["updated_at"]}
    internal = {binary for services in found["internal"]["hosts"].values() for binary in services}
    assert {"nova-scheduler", "nova-conductor"} <= internal
    assert "nova-osapi_compute" not in internal


def test_a_zone_whose_services_are_disabled_is_not_available_and_comes_last(admin, zone):
    name, host = zone
    named = {"host": host, "binary": "nova-compute"}
    assert admin.put("/os-services/disable", named, version="compute 2.1").status_code == 200
    for path in ("", "/detail"):
        found = zones(admin, path)
        assert found[name] == {"zoneName": name, "zoneState": {"available": False}, "hosts": None}
        states = [each["zoneState"]["available"] for each in found.values()]
        assert states == sorted(states, reverse=True)
