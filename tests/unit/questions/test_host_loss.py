# SPDX-License-Identifier: Apache-2.0
"""The loss of a host, on small fleets with known answers."""

import pytest

from roost import Fleet, RequestSpec, Scheduler, ServerGroup
from roost.model import Flavor
from roost.questions import counting

HOST = {"vcpus_total": 8, "total_usable_ram_mb": 8192, "total_usable_disk_gb": 100, "cpu_allocation_ratio": 1.0}
TWO = RequestSpec(Flavor(2, 2048, root_gb=10))
MEDIUM = {"name": "medium", "id": "7", "vcpus": 4, "memory_mb": 4096}


def server(number, vcpus=2, memory_mb=2048, **fields):
    resources = {"VCPU": vcpus, "MEMORY_MB": memory_mb}
    return {"uuid": f"7d2f4a0e-6a52-4a1e-8f0c-{number:012d}", "resources": resources, **fields}


def scheduler(*hosts, **sections):
    named = [{"host": f"h{number}", **HOST, **host} for number, host in enumerate(hosts, start=1)]
    return Scheduler(Fleet.load({"hosts": named, **sections}))


def worst_loss(fleet, spec=TWO):
    return fleet.headroom(spec, loses_a_host=True).worst_loss


def test_the_largest_of_empty_hosts_costs_most():
    worst = worst_loss(scheduler({}, {"vcpus_total": 16, "total_usable_ram_mb": 16384}, {}))
    assert (worst.host, worst.fits, worst.servers, worst.homeless) == ("h2", 8, 0, 0)
    assert (worst.tried, worst.candidates, worst.is_worst_of_all) == (3, 3, True)


LOADED = {
    "vcpus_total": 16,
    "total_usable_ram_mb": 16384,
    "instances": [server(number) for number in range(6)],
}
"""Two more fit, and six servers would have to go elsewhere."""


def test_servers_of_the_lost_host_take_room_on_the_others():
    worst = worst_loss(scheduler({}, LOADED, {}))
    assert (worst.host, worst.servers, worst.fits) == ("h2", 6, 4 + 4 - 6)


def test_a_host_whose_servers_find_no_other_host_is_the_worst():
    large = {"instances": [server(1, vcpus=8, memory_mb=8192), server(2, vcpus=0, memory_mb=1)]}
    fleet = scheduler({**large, "total_usable_ram_mb": 16384}, {"instances": [server(3)]}, {"instances": [server(4)]})
    worst = worst_loss(fleet)
    assert (worst.host, worst.servers, worst.homeless) == ("h1", 1, 1)


def test_a_host_that_is_down_is_lost_already():
    worst = worst_loss(scheduler({"service": {"up": False}, "instances": [server(1)]}, {}))
    assert (worst.host, worst.fits, worst.candidates) == ("h2", 0, 1)


def test_servers_of_a_disabled_host_have_to_be_placed_again_too():
    worst = worst_loss(scheduler({}, {**LOADED, "service": {"disabled": True}}, {}))
    assert (worst.host, worst.servers, worst.fits) == ("h2", 6, 4 + 4 - 6)


def test_a_server_of_which_only_the_flavor_is_known_has_the_size_of_that():
    listed = {"uuid": server(1)["uuid"], "flavor_id": "7"}
    fleet = scheduler(
        {"vcpus_used": 4, "free_ram_mb": 4096, "instances": [listed]}, {"vcpus_total": 4}, flavors=[MEDIUM]
    )
    assert worst_loss(fleet, RequestSpec(Flavor(4, 4096))).fits == 0


def test_a_server_without_flavor_and_size_is_left_out_and_counted():
    worst = worst_loss(scheduler({"instances": [{"uuid": server(1)["uuid"]}]}))
    assert (worst.servers, worst.homeless, worst.unknown_servers) == (0, 0, 1)


def test_use_that_no_listed_server_accounts_for_is_noted():
    assert worst_loss(scheduler({"vcpus_used": 4, "free_ram_mb": 4096})).has_unlisted_use
    assert not worst_loss(scheduler({"instances": [server(1)]})).has_unlisted_use


def test_members_of_an_anti_affinity_group_are_kept_apart_when_they_are_placed_again():
    members = [server(1), server(2), server(3)]
    apart = {"name": "apart", "policy": "anti-affinity", "members": [each["uuid"] for each in members]}
    hosts = [{"instances": [each]} for each in members]
    assert worst_loss(scheduler(*hosts)).homeless == 0
    assert worst_loss(scheduler(*hosts, server_groups=[apart])).homeless == 1
    assert worst_loss(scheduler(*hosts, {}, server_groups=[apart])).homeless == 0


def test_a_server_with_its_root_disk_on_a_volume_needs_none_when_it_is_placed_again():
    flavor = {"name": "diskful", "id": "8", "vcpus": 2, "memory_mb": 2048, "root_gb": 500}
    on_volume = server(1, flavor_id="8")
    on_disk = {**on_volume, "resources": {**on_volume["resources"], "DISK_GB": 500}}
    large = {"total_usable_disk_gb": 1000}
    assert worst_loss(scheduler({**large, "instances": [on_volume]}, {}, flavors=[flavor])).homeless == 0
    assert worst_loss(scheduler({**large, "instances": [on_disk]}, {}, flavors=[flavor])).homeless == 1


@pytest.mark.parametrize(("extra_specs", "homeless"), [({}, 0), ({"trait:CUSTOM_FAST": "required"}, 1)])
def test_a_server_goes_only_where_its_flavor_allows(extra_specs, homeless):
    flavor = {"name": "fast", "id": "9", "vcpus": 2, "memory_mb": 2048, "extra_specs": extra_specs}
    fast = {"traits": ["CUSTOM_FAST"], "instances": [server(1, flavor_id="9")]}
    assert worst_loss(scheduler(fast, {}, flavors=[flavor])).homeless == homeless


def test_where_all_hosts_have_to_be_counted_anew_only_those_with_most_to_lose_are_tried(monkeypatch):
    monkeypatch.setattr(counting, "MOST_RECOUNTED", 2 * (4 + counting._SERVERS_OF_A_HOST))
    apart = RequestSpec(TWO.flavor, instance_group=ServerGroup("anti-affinity", "apart"))
    worst = worst_loss(scheduler({}, {}, {"instances": [server(1)]}, {}), apart)
    assert (worst.host, worst.fits) == ("h3", 3)
    assert (worst.tried, worst.candidates, worst.is_worst_of_all) == (2, 4, False)


def test_without_an_end_to_what_fits_no_loss_is_tried():
    assert scheduler({}, {}).headroom(TWO, most=2, loses_a_host=True).worst_loss is None
