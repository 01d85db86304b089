# SPDX-License-Identifier: Apache-2.0
"""Headroom of small fleets with known answers."""

from dataclasses import replace

import pytest

from roost import BadInput, Fleet, NoValidHost, RequestSpec, Scheduler, ServerGroup
from roost.errors import UnknownName
from roost.filters.base import HostFilter
from roost.model import Flavor

HOST = {"vcpus_total": 8, "total_usable_ram_mb": 8192, "total_usable_disk_gb": 100, "cpu_allocation_ratio": 1.0}
TWO = Flavor(2, 2048, root_gb=10)
TWO_SPEC = RequestSpec(TWO)
APART = RequestSpec(TWO, instance_group=ServerGroup("anti-affinity", "apart"))


def scheduler(*hosts, filters=None, **sections):
    named = [{"host": f"h{number}", **HOST, **host} for number, host in enumerate(hosts, start=1)]
    options = {"filter_scheduler": {"enabled_filters": filters}} if filters else {}
    return Scheduler(Fleet.load({"hosts": named, **sections}), options)


def counts(headroom):
    return {each.host: each.fits for each in headroom.placed}


def ran_out(headroom):
    return {each.name: each.ran_out_on for each in headroom.shortages if each.ran_out_on}


def rejected(headroom):
    return {each.name: each.hosts for each in headroom.shortages if each.hosts}


def test_each_host_takes_what_its_scarcest_amount_allows():
    headroom = scheduler({}, {"total_usable_ram_mb": 5000}, {"total_usable_disk_gb": 11}).headroom(TWO_SPEC)
    assert counts(headroom) == {"h1": 4, "h2": 2, "h3": 1}
    assert (headroom.fits, headroom.hosts, headroom.hosts_used, headroom.is_complete) == (7, 3, 3, True)


def test_ratios_count_in_the_sum_but_not_for_one_server():
    fleet = scheduler({"cpu_allocation_ratio": 4.0, "total_usable_ram_mb": 80000, "total_usable_disk_gb": 1000})
    assert fleet.headroom(RequestSpec(Flavor(8, 1024))).fits == 4
    assert fleet.headroom(RequestSpec(Flavor(9, 1024))).fits == 0


def test_a_step_size_that_is_not_asked_for_fits_nowhere_although_dividing_says_three():
    fleet = scheduler({"resources": {"CUSTOM_LICENCE": {"total": 6, "step_size": 4}}})
    licensed = Flavor(1, 256, extra_specs={"resources:CUSTOM_LICENCE": "2"})
    assert fleet.headroom(RequestSpec(licensed)).fits == 0
    assert fleet.headroom(RequestSpec(Flavor(1, 256, extra_specs={"resources:CUSTOM_LICENCE": "4"}))).fits == 1


def test_pinned_cpus_of_two_numa_cells_fit_per_cell_although_dividing_says_two():
    cells = [
        {"id": at, "cpuset": cpus, "pcpuset": cpus, "memory": 4096} for at, cpus in enumerate(([0, 1, 2], [3, 4, 5]))
    ]
    numa = {"vcpus_total": 6, "numa": {"cells": cells}, "resources": {"PCPU": {"total": 6}}}
    pinned = {"hw:cpu_policy": "dedicated"}
    assert scheduler(numa).headroom(RequestSpec(Flavor(2, 512, extra_specs=pinned))).fits == 2  # not 3
    assert scheduler(numa).headroom(RequestSpec(Flavor(4, 512, extra_specs=pinned))).fits == 0


def test_pci_devices_run_out():
    gpu = {"vendor_id": "10de", "product_id": "1eb8"}
    fleet = scheduler(
        {"pci_pools": [{**gpu, "count": 3}]},
        {},
        options={"pci": {"alias": ['{"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"}']}},
    )
    headroom = fleet.headroom(RequestSpec(Flavor(1, 256, extra_specs={"pci_passthrough:alias": "gpu:2"})))
    assert counts(headroom) == {"h1": 1}
    assert ran_out(headroom) == {"PciPassthroughFilter": 1}
    assert rejected(headroom) == {"PciPassthroughFilter": 2}


def test_a_bare_metal_node_is_one_server_whatever_its_size():
    nodes = [{"hypervisor_type": "ironic", "node": f"n{at}", "cpu_allocation_ratio": 1.0} for at in range(3)]
    assert scheduler(*nodes).headroom(TWO_SPEC).fits == 3


def test_an_anti_affinity_group_gets_one_server_per_host():
    headroom = scheduler({}, {}, {}).headroom(APART)
    assert counts(headroom) == {"h1": 1, "h2": 1, "h3": 1}
    assert ran_out(headroom) == {"ServerGroupAntiAffinityFilter": 3}


def test_an_affinity_group_fills_the_host_of_its_members_and_no_other():
    member = {"uuid": "7d2f4a0e-6a52-4a1e-8f0c-0b7c1d9e5a33"}
    together = ServerGroup("affinity", "together", members=(member["uuid"],))
    headroom = scheduler({}, {"instances": [member]}).headroom(RequestSpec(TWO, instance_group=together))
    assert counts(headroom) == {"h2": 4}


def test_a_host_that_a_member_is_leaving_takes_no_other_member():
    member = "7d2f4a0e-6a52-4a1e-8f0c-0b7c1d9e5a33"
    move = {"uuid": "0f3c8a55-6c0e-5d1b-9a3b-7a4f0d6c2e11", "instance": member, "resources": {"VCPU": 1}}
    hosts = [{"host": "h1", **HOST, "migrations": [move]}, {"host": "h2", **HOST, "instances": [{"uuid": member}]}]
    fleet = Fleet.load({"hosts": [*hosts, {"host": "h3", **HOST}]}, keeps_records=True)
    apart = ServerGroup("anti-affinity", "apart", members=(member,))
    assert counts(Scheduler(fleet).headroom(RequestSpec(TWO, instance_group=apart))) == {"h3": 1}


def test_members_placed_by_this_scheduler_count_for_its_group():
    fleet = scheduler({}, {})
    (selection,) = fleet.place(APART).selections
    assert counts(fleet.headroom(APART)) == {"h2" if selection.host == "h1" else "h1": 1}


def test_the_scheduler_goes_on_as_if_nothing_had_been_counted():
    fleet = scheduler({}, {})
    before = fleet.table.changes.version
    assert fleet.headroom(TWO_SPEC, loses_a_host=True).fits == 8
    assert fleet.table.changes.version == before
    placed = [fleet.place(TWO_SPEC) for _ in range(8)]
    assert len(placed) == 8
    with pytest.raises(NoValidHost):
        fleet.place(TWO_SPEC)


def test_more_than_eight_fit_on_a_host_as_placed_servers_count_as_built():
    fleet = scheduler({"vcpus_total": 100, "total_usable_ram_mb": 102400}, filters=["IoOpsFilter"])
    assert fleet.headroom(RequestSpec(Flavor(1, 1024))).fits == 100


def test_what_runs_out_is_what_hosts_lack_that_had_room_at_the_start():
    headroom = scheduler({}, {"service": {"disabled": True}}, {"vcpus_used": 8}).headroom(TWO_SPEC)
    assert ran_out(headroom) == {"vcpu": 1, "ram": 1}
    assert rejected(headroom) == {"vcpu": 2, "disabled": 1}
    assert headroom.shortages[0].detail == "needs 2, most free 0"


def test_a_host_that_lacks_two_amounts_counts_for_both_and_once_in_the_sum():
    headroom = scheduler({}, {"total_usable_ram_mb": 4096}).headroom(TWO_SPEC)
    assert ran_out(headroom) == {"ram": 2, "vcpu": 1}
    assert headroom.shortages[0].name == "ram"
    assert sum(each.hosts for each in headroom.shortages) == 2


def test_rejections_in_the_end_are_those_of_the_failing_decision():
    fleet = scheduler({}, {"service": {"up": False}}, {"total_usable_ram_mb": 4096})
    headroom = fleet.headroom(TWO_SPEC)
    for _ in range(headroom.fits):
        fleet.place(TWO_SPEC)
    with pytest.raises(NoValidHost) as failure:
        fleet.place(TWO_SPEC)
    assert rejected(headroom) == failure.value.decision.rejected


ZONES = [
    {"name": "a", "hosts": ["h1", "h2"], "metadata": {"availability_zone": "az1", "rack": "r1"}},
    {"name": "b", "hosts": ["h2"], "metadata": {"rack": "r2"}},
]


def groups(headroom):
    return {each.name: (each.hosts, each.hosts_used, each.fits) for each in headroom.groups}


def test_zones_share_out_what_fits_and_hosts_without_one_are_in_the_default_zone():
    headroom = scheduler({}, {}, {"total_usable_ram_mb": 1024}, aggregates=ZONES).headroom(TWO_SPEC)
    assert groups(headroom) == {"az1": (2, 2, 8), "nova": (1, 0, 0)}
    assert [each.name for each in headroom.groups[1].shortages if each.hosts] == ["ram"]


def test_hosts_with_several_values_of_a_key_are_a_group_of_their_own_and_those_without_another():
    headroom = scheduler({}, {}, {}, aggregates=ZONES).headroom(TWO_SPEC, "rack")
    assert groups(headroom) == {"(none)": (1, 1, 4), "r1": (1, 1, 4), "r1, r2": (1, 1, 4)}


def test_a_key_that_no_aggregate_has_is_refused_with_the_nearest():
    with pytest.raises(UnknownName, match=r"'rak' \(did you mean rack\?\)"):
        scheduler({}, {}, aggregates=ZONES).headroom(TWO_SPEC, "rak")


def test_a_request_for_one_zone_fits_there_alone():
    headroom = scheduler({}, {}, {}, aggregates=ZONES).headroom(RequestSpec(TWO, availability_zone="az1"))
    assert groups(headroom) == {"az1": (2, 2, 8), "nova": (1, 0, 0)}


def test_counting_stops_at_its_limit_and_says_so():
    headroom = scheduler({}, {}).headroom(TWO_SPEC, most=3)
    assert (headroom.fits, headroom.is_complete) == (3, False)


def test_what_takes_nothing_would_fit_without_end():
    headroom = scheduler({}).headroom(RequestSpec(Flavor(0, 0)), most=50)
    assert (headroom.fits, headroom.is_complete) == (50, False)


def test_a_rebuild_is_refused_as_it_takes_nothing():
    with pytest.raises(BadInput, match="a rebuild takes nothing"):
        scheduler({}).headroom(RequestSpec(TWO, scheduler_hints={"_nova_check_type": ["rebuild"]}))


def test_on_no_hosts_nothing_fits():
    headroom = Scheduler(Fleet.load({"hosts": []})).headroom(TWO_SPEC, loses_a_host=True)
    assert (headroom.fits, headroom.shortages, headroom.groups, headroom.worst_loss) == (0, (), (), None)


def test_progress_is_told_in_instances_and_hosts():
    told = []
    scheduler({}, {}).headroom(TWO_SPEC, loses_a_host=True, progress=lambda *each: told.append(each))
    assert told == [("instances", 0, 8), ("hosts", 0, 2), ("hosts", 1, 2)]


SMALL = Flavor(1, 512, root_gb=5, name="small", id=1, flavorid="1", extra_specs={"a": "b"})


@pytest.mark.parametrize(
    ("other", "filters", "is_alike"),
    [
        ({"name": "tiny", "id": 2, "flavorid": "2"}, None, True),
        ({"vcpus": 2}, None, False),
        ({"swap": 1}, None, False),
        ({"extra_specs": {"a": "c"}}, None, False),
        ({"id": 2}, ["TypeAffinityFilter"], False),
        ({"name": "tiny"}, ["AggregateTypeAffinityFilter"], False),
        ({"id": 2}, ["AggregateTypeAffinityFilter"], True),
    ],
)
def test_flavors_have_the_same_headroom_where_only_their_names_differ_and_no_rule_looks_at_them(
    other, filters, is_alike
):
    key_of = scheduler({}, filters=filters).headroom_key
    keys = [key_of(RequestSpec(each)) for each in (SMALL, replace(SMALL, **other))]
    assert (keys[0] == keys[1]) is is_alike


def test_a_plugin_may_look_at_anything():
    assert scheduler({}, filters=[f"{__name__}.AtMostThree"]).headroom_key(RequestSpec(SMALL)) is None


class AtMostThree(HostFilter):
    """A plugin that looks at the servers of a host."""

    def host_passes(self, host, spec):
        return len(host.instances) < 3


def test_a_plugin_sees_the_servers_that_were_placed_before():
    headroom = scheduler({}, {}, filters=[f"{__name__}.AtMostThree"]).headroom(TWO_SPEC, loses_a_host=True)
    assert counts(headroom) == {"h1": 3, "h2": 3}
    assert headroom.worst_loss.fits == 3
