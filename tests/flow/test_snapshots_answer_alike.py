# SPDX-License-Identifier: Apache-2.0
"""Asked on another machine, a snapshot gives the answers of the cloud it was taken of."""

import random
from dataclasses import replace

import pytest
from tests.flow.cloud import UUID, Cloud, hosts_of, request
from tests.flow.test_dry_runs_and_claims import Cases, answer, facts_of, random_records

from roost.errors import BadInput, NoValidHost
from roost.hosts import HostTable
from roost.library import Scheduler
from roost.model import ServerGroup
from roost.records.fleet_export import read_fleet_document
from roost.records.fleet_import import import_fleet
from roost.sources.fleet_file import Fleet
from roost.sources.snapshot import Snapshot, deciding_options
from roost.store.transactions import reading

OPTIONS = {
    "filter_scheduler": {
        "enabled_filters": [
            *("ComputeFilter", "AvailabilityZoneFilter", "ComputeCapabilitiesFilter", "ImagePropertiesFilter"),
            *("ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter", "NUMATopologyFilter"),
            *("PciPassthroughFilter", "NumInstancesFilter", "IoOpsFilter", "DiskFilter", "SameHostFilter"),
            *("DifferentHostFilter", "AggregateInstanceExtraSpecsFilter", "AggregateMultiTenancyIsolation"),
            *("TypeAffinityFilter", "SimpleCIDRAffinityFilter", "JsonFilter"),
        ],
        "ram_weight_multiplier": -1.5,
        "num_instances_weight_multiplier": 0.5,
        "image_props_weight_multiplier": 2.0,
        "max_io_ops_per_host": 6,
    },
    "metrics": {"weight_setting": ["foo=1"], "required": False},
    "DEFAULT": {"service_down_time": 20},
}


def cloud_of(folder, seed):
    cloud = Cloud(folder, {}, OPTIONS)
    records = list(random_records(random.Random(seed)))
    runs = tuple((record, [(record.host, record.nodename)]) for record in records)
    import_fleet(cloud.engine, Fleet(HostTable.of(records), runs=runs), cloud.clock.now())
    return cloud


def snapshot_of(cloud):
    """Written to a file and read again."""
    with reading(cloud.engine) as connection:
        document = read_fleet_document(connection, cloud.clock.now())
    taken = Snapshot(cloud.clock.now(), deciding_options(cloud.settings), document, [])
    return Snapshot.of_bytes(taken.to_bytes(), "x.snap")


def recorded_answer(snapshot, spec):
    try:
        return facts_of(Scheduler(snapshot.fleet).place(spec, 2))
    except (BadInput, NoValidHost) as error:
        return str(error)


@pytest.mark.parametrize("seed", range(8))
def test_random_requests_get_the_same_answers(tmp_path, seed):
    cloud = cloud_of(tmp_path, seed)
    loop = cloud.manager().claims
    loop.refresh()
    cases = Cases(seed, loop)
    for at in range(8):  # with servers that claims brought, not the import
        cases.run(at)
    cloud.clock.seconds += 1
    loop.refresh()
    snapshot = snapshot_of(cloud)
    for at in range(8, 24):
        spec, uuids, kind = cases.make(at)
        if kind == "move":  # a request of an operator's plan is for new servers
            continue
        if spec.instance_group is not None:
            members = loop.granter.read_group_places(spec.instance_group.uuid).members
            spec = replace(spec, instance_group=replace(spec.instance_group, members=tuple(members)))
        live = answer(loop, spec, uuids, is_dry_run=True)
        assert recorded_answer(snapshot, spec) == live, (seed, at)
    cloud.close()


def test_a_host_that_a_member_of_a_group_is_leaving_takes_no_other_member(tmp_path):
    group = {"name": "apart", "policy": "anti-affinity", "uuid": UUID % 90}
    cloud = Cloud(tmp_path, {"a": {}, "b": {"total_usable_ram_mb": 16384}, "c": {"total_usable_ram_mb": 8192}},
                  server_groups=[group])  # fmt: skip
    loop = cloud.manager().claims
    loop.refresh()
    strict = ServerGroup("anti-affinity", uuid=UUID % 90)
    assert hosts_of(loop.select(request(instance_group=strict), [UUID % 1])) == ["a"]
    assert hosts_of(loop.select(request(instance_group=strict, ignore_hosts=("a",)), [UUID % 1])) == ["b"]
    cloud.clock.seconds += 1
    live = hosts_of(loop.select(request(instance_group=strict), [UUID % 2], is_dry_run=True))
    fleet = snapshot_of(cloud).fleet
    assert fleet.server_groups["apart"].members == (UUID % 1,)
    decision = Scheduler(fleet).place(request(instance_group=fleet.server_group("apart")))
    assert [each.host for each in decision.selections] == live == ["c"]
    cloud.close()
