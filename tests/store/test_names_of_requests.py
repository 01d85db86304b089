# SPDX-License-Identifier: Apache-2.0
"""What a conductor looks up, on every database: catalogue, zones, heartbeats, faults of new servers."""

import datetime

import pytest
from sqlalchemy import select

from roost.clock import SystemClock
from roost.errors import UnknownName
from roost.messages.objects.request import request_to_object
from roost.model import Flavor, RequestSpec
from roost.records.aggregates import read_zones
from roost.records.catalogue import find_group, read_flavors, read_images
from roost.records.fleet_import import import_fleet
from roost.records.server import Fault, Server, TaskData
from roost.records.servers import ServerStore
from roost.records.services import save_service_heartbeat, set_service_flags
from roost.sources.fleet_file import Fleet
from roost.store.schema.fleet import services
from roost.store.schema.servers import servers

NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
UUID = "6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e01"
SIZE = {"vcpus_total": 8, "total_usable_ram_mb": 8192, "total_usable_disk_gb": 100}
FLEET = {
    "hosts": [{"host": name, **SIZE} for name in "abc"],
    "aggregates": [
        {"name": "north", "metadata": {"availability_zone": "north"}, "hosts": ["a", "b"]},
        {"name": "empty", "metadata": {"availability_zone": "empty"}},
        {"name": "fast", "metadata": {"ssd": "true"}, "hosts": ["c"]},
    ],
    "flavors": [{"name": "small", "vcpus": 1, "memory_mb": 512, "extra_specs": {"hw:cpu_policy": "shared"}}],
    "images": [{"name": "cirros", "min_ram": 64, "properties": {"os_distro": "cirros"}}],
    "server_groups": [{"name": "apart", "policy": "anti-affinity", "rules": {"max_server_per_host": 2}}],
}


@pytest.fixture
def fleet(current):
    import_fleet(current, Fleet.load(FLEET, keeps_records=True), NOW)
    return current


def test_flavors_images_and_groups_are_found_with_their_ids(fleet):
    (flavor,), (image,) = read_flavors(fleet), read_images(fleet)
    assert (flavor.flavorid, flavor.memory_mb, flavor.extra_specs) == ("small", 512, {"hw:cpu_policy": "shared"})
    assert image.id
    assert (image.name, image.min_ram, image.os_distro) == ("cirros", 64, "cirros")
    group = find_group(fleet, "apart")
    assert (group.policy, group.max_server_per_host) == ("anti-affinity", 2)
    assert find_group(fleet, group.uuid) == group
    with pytest.raises(UnknownName, match="did you mean apart"):
        find_group(fleet, "apartt")


def test_a_zone_is_available_while_one_of_its_hosts_is_enabled(fleet):
    assert read_zones(fleet, "nova") == {"north", "nova"}
    set_service_flags(fleet, "a", disabled=True, now=NOW)
    set_service_flags(fleet, "c", disabled=True, now=NOW)
    assert read_zones(fleet, "nova") == {"north"}


def test_a_heartbeat_may_be_stamped_by_the_database(current):
    store = ServerStore(current, SystemClock())
    for _ in range(2):
        save_service_heartbeat(current, "h", "nova-conductor", "conductor", store.times.stamp())
    with current.connect() as connection:
        row = connection.execute(select(services).where(services.c.binary == "nova-conductor")).one()
        now = store.times.read(connection)
    assert row.report_count == 2
    assert abs((now - row.last_seen_up).total_seconds()) < 60


def test_a_new_server_has_its_flavor_and_its_latest_fault_is_found(current):
    store = ServerStore(current, SystemClock())
    spec = RequestSpec(flavor=Flavor(2, 1024, name="small"), project_id="blue")
    store.create([Server(UUID, "web", None, request_spec=request_to_object(spec), task=TaskData())])
    with current.connect() as connection:
        assert connection.scalar(select(servers.c.flavor))["memory_mb"] == 1024
    assert store.read_latest_faults([UUID]) == {}
    for message in ("first", "second"):
        store.add_fault(UUID, Fault(message))
    assert store.read_latest_faults([UUID])[UUID].message == "second"
