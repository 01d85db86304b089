# SPDX-License-Identifier: Apache-2.0
"""A snapshot of a nova cloud gives the answers of a scheduler that reads the same databases and placement."""

import time
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.nova_cloud.small_cloud import NOON, SmallCloud, node_uuid

from roost.errors import NoValidHost
from roost.hosts import Instance
from roost.hosts.record import Inventory
from roost.library import Scheduler
from roost.model import Aggregate, Flavor, RequestSpec, ServerGroup, Service
from roost.nova.databases.tables import PlacedInstance
from roost.nova.snapshot import snapshot_of_source
from roost.scheduler.all_options import read_options
from roost.scheduler.build import build_pipeline
from roost.scheduler.options import NOVA_FILTERS
from roost.sources.snapshot import Snapshot

SETTINGS = read_options(explicit={"roost": {"cloud": "nova"}, "filter_scheduler": {"ram_weight_multiplier": -1.0}})
SMALL = Flavor(1, 1024, name="small", id=7, flavorid="f7")
RUNNING = Instance(node_uuid("x"), "blue", 7, resources={"VCPU": 1, "MEMORY_MB": 1024}, flavor=SMALL)
GROUPS = [
    ServerGroup("anti-affinity", "apart", node_uuid("g1"), (RUNNING.uuid,)),
    ServerGroup("affinity", "apart", node_uuid("g2"), rules={}),
]


@pytest.fixture
def cloud():
    made = SmallCloud()
    used = {"VCPU": 3, "MEMORY_MB": 3072, "DISK_GB": 5}
    made.providers.put(
        "b", {"VCPU": Inventory(8, 1, 4.0), "MEMORY_MB": Inventory(8192), "DISK_GB": Inventory(90)}, used
    )
    made.cell.all.instances["a"] = (PlacedInstance(RUNNING, "a", "a", "ann", "active", None),)
    made.cell.put_service("c", Service(disabled=True, disabled_reason="fire"), NOON)
    hosts = ("b", "gone")
    made.api.set_aggregates(Aggregate("north", {"availability_zone": "az1"}, hosts, 1, node_uuid("agg")))
    made.api.read_all_groups = lambda: GROUPS
    return made


def snapshot_of(cloud):
    taken = snapshot_of_source(cloud.source, cloud.api, SETTINGS, cloud.now)
    return Snapshot.of_bytes(taken.to_bytes(), "x.snap")


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"availability_zone": "az1"},
        {"availability_zone": "az7"},
        {"flavor": Flavor(7, 1024)},
        {"flavor": Flavor(8, 1024)},
        {"flavor": Flavor(1, 6000)},
        {"flavor": Flavor(1, 1, root_gb=90)},
        {"instance_group": replace(GROUPS[0], hosts=("a",))},
    ],
)
def test_requests_get_the_same_answers(cloud, asked):
    spec = RequestSpec(**{"flavor": SMALL, **asked})
    snapshot = snapshot_of(cloud)
    cloud.replica.load()

    def live():
        return build_pipeline(SETTINGS).place(
            cloud.replica.table, spec, [None], randomness=None, clock=time.perf_counter_ns, alternates=2
        )

    assert answer(lambda: Scheduler(snapshot.fleet).place(spec, 2)) == answer(live)


def answer(place):
    try:
        decision = place()
    except NoValidHost as error:
        return error.message
    (one,) = decision.selections
    return one.host, [each.host for each in one.alternates], [tuple(each)[:4] for each in decision.steps]


def test_a_silent_host_is_down_whenever_it_is_read(cloud):
    cloud.now += timedelta(seconds=61)
    cloud.cell.put_service("b", Service(), cloud.now)
    fleet = snapshot_of(cloud).fleet
    found = {host: record.service for record, pairs in fleet.runs for host, _ in pairs}
    assert {host: service.is_up(60) for host, service in found.items()} == {"a": False, "b": True, "c": False}
    assert (found["c"].disabled, found["c"].disabled_reason) == (True, "fire")


def test_it_has_the_groups_the_flavors_in_use_and_the_instances(cloud):
    snapshot = snapshot_of(cloud)
    fleet = snapshot.fleet
    assert list(fleet.server_groups) == ["apart", node_uuid("g2")]
    assert fleet.server_groups["apart"].members == (RUNNING.uuid,)
    assert fleet.flavor("small").memory_mb == 1024
    assert [(each["id"], each["host"], each["flavor"]["name"]) for each in snapshot.servers] == [
        (RUNNING.uuid, "a", "small")
    ]
    assert fleet.zones() == {"az1"}


def test_its_filters_are_those_that_run_in_a_nova_cloud(cloud):
    assert tuple(snapshot_of(cloud).options["filter_scheduler"]["enabled_filters"]) == NOVA_FILTERS
