# SPDX-License-Identifier: Apache-2.0
"""Requests that the replica cannot answer, with the real placement: children, pools, groups, dedicated CPUs."""

import json
import uuid
from datetime import UTC, datetime

import pytest
from tests.nova_cloud.small_cloud import SmallCloud, node_uuid

from roost import Flavor, NoValidHost, RequestSpec
from roost.messages.objects.selections import LATEST
from roost.model.numa import derive_topology
from roost.model.request import Destination
from roost.nova.claims import OwnClaims, PlacementGranter
from roost.nova.placement.candidates import CandidateReader
from roost.nova.source import NovaSource
from roost.questions.explain import list_rejections
from roost.scheduler.all_options import read_options
from roost.scheduler.build import build_pipeline
from roost.scheduler.claiming import ClaimLoop
from roost.scheduler.cloud import as_objects
from roost.scheduler.options import SchedulerOptions
from roost.scheduler.prefilters import PrefilterOptions
from roost.scheduler.replica import HostManager

ROOM = {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 8192}, "DISK_GB": {"total": 100}}
GPU = {"VGPU": {"total": 1}}


class MixedCloud(SmallCloud):
    """nova's databases in memory, with the hosts a, b and c; the real placement, in which a test makes providers."""

    def __init__(self, placement):
        super().__init__()
        self.placement, now = placement, datetime.now(UTC)
        self.now = now
        for host in ("a", "b", "c"):
            self.cell.put_service(host, self.cell.all.services[host].service, now)
        own = OwnClaims()
        self.source = NovaSource(self.api, self.open_cell, placement.reader, own, lambda: now, 60)
        self.replica = HostManager(self.source, SchedulerOptions(), lambda: now, lambda: 0.0)
        candidates = CandidateReader(placement.client, placement.reader, PrefilterOptions())
        find_pair = self.source.find_pair
        parts = placement.writer, SmallGroups(), own, candidates, self.journal, find_pair
        self.granter = PlacementGranter(*parts, lambda: now)
        self.loop = ClaimLoop(self.replica, build_pipeline(read_options()), self.granter)

    def add(self, host, inventories=None, **more):
        return self.placement.add(ROOM if inventories is None else inventories, new=node_uuid(host), **more)

    def read(self):
        self.placement.reader.read_all()
        self.replica.load()

    def place(self, count=1, alternates=0, **extra_specs):
        flavor = Flavor(
            2, 1024, 10, extra_specs={name.replace("__", ":"): each for name, each in extra_specs.items()}
        )
        self.uuids = [str(uuid.uuid4()) for _ in range(count)]
        self.spec = RequestSpec(flavor=flavor, num_instances=count, project_id="p", user_id="u")
        self.placed = self.loop.select(self.spec, self.uuids, alternates)
        return [each.host for each in self.placed.decision.selections]

    def held(self, number=0):
        return self.placement.held(self.uuids[number])


class SmallGroups:
    """An API database without server groups."""

    def read_groups(self, uuids):
        return {}


@pytest.fixture
def nova(cloud):
    return MixedCloud(cloud)


def test_a_gpu_is_taken_from_the_child_that_has_it(nova):
    nova.add("a")
    gpu = nova.placement.add(GPU, parent=nova.add("b"))
    nova.read()
    assert nova.place(resources__VGPU="1") == ["b"]
    assert nova.held() == {node_uuid("b"): {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 10}, gpu: {"VGPU": 1}}


def test_a_request_without_a_gpu_asks_for_no_candidates(nova):
    nova.placement.add(GPU, parent=nova.add("a"))
    nova.read()
    nova.placement.calls.clear()
    assert nova.place() == ["a"]
    assert not nova.placement.calls["GET", "/allocation_candidates"]


def test_several_instances_share_what_the_providers_have(nova):
    for host in ("a", "b"):
        nova.placement.add(GPU, parent=nova.add(host))
    nova.read()
    with pytest.raises(NoValidHost):
        nova.place(3, resources__VGPU="1")
    assert not nova.held()
    assert sorted(nova.place(2, resources__VGPU="1")) == ["a", "b"]


def test_alternates_say_which_providers_they_take_it_from(nova):
    gpus = {nova.placement.add(GPU, parent=nova.add(host)) for host in ("a", "b")}
    nova.read()
    nova.place(1, 1, resources__VGPU="1")
    ((chosen, other),) = as_objects(nova.placed, nova.spec, "nova", LATEST)
    requests = [json.loads(each["nova_object.data"]["allocation_request"]) for each in (chosen, other)]
    assert [len(each["allocations"]) for each in requests] == [2, 2]
    assert {gpu for each in requests for gpu in each["allocations"]} > gpus
    assert set(requests[0]["mappings"][""]) == requests[0]["allocations"].keys()
    assert nova.held() == {uuid: each["resources"] for uuid, each in requests[0]["allocations"].items()}


def test_disk_comes_from_a_pool_that_hosts_share(nova):
    pool = str(uuid.uuid4())
    shared = {name: each for name, each in ROOM.items() if name != "DISK_GB"}
    nova.add("a", shared, aggregates=[pool])
    disk = nova.placement.add({"DISK_GB": {"total": 15}}, traits=["MISC_SHARES_VIA_AGGREGATE"], aggregates=[pool])
    nova.read()
    assert nova.place() == ["a"]
    assert nova.held()[disk] == {"DISK_GB": 10}
    with pytest.raises(NoValidHost):
        nova.place()


def test_isolated_groups_come_from_different_children(nova):
    root = nova.add("a")
    gpus = {nova.placement.add({"VGPU": {"total": 4}}, parent=root) for _ in range(2)}
    nova.read()
    groups = {"resources1__VGPU": "1", "resources2__VGPU": "1", "group_policy": "isolate"}
    assert nova.place(**groups) == ["a"]
    assert nova.held().keys() == {root, *gpus}
    with pytest.raises(NoValidHost):
        nova.place(**groups, resources3__VGPU="1")


def test_a_flavor_that_placement_does_not_understand_finds_no_host(nova, caplog):
    nova.add("a")
    nova.read()
    with pytest.raises(NoValidHost):
        nova.place(resources1__CUSTOM_NOPE="1")
    assert "placement does not understand" in caplog.text


def test_dedicated_cpus_are_claimed_as_the_host_offers_them(nova):
    nova.add("a", {"PCPU": {"total": 4}, **{name: each for name, each in ROOM.items() if name != "VCPU"}})
    nova.add("b")
    nova.read()
    flavor = Flavor(2, 1024, 10, extra_specs={"hw:cpu_policy": "dedicated"})
    spec = RequestSpec(flavor=flavor, numa_topology=derive_topology(flavor, None))
    found = nova.granter.find_candidates(spec, nova.replica.table, is_last_look=False)
    amounts = {uuid: [dict(each.allocations[uuid]) for each in own] for uuid, own in found.by_node.items()}
    assert amounts == {
        node_uuid("a"): [{"PCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 10}],
        node_uuid("b"): [{"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 10}],
    }


def test_room_that_was_freed_is_found_by_the_last_look(nova):
    nova.add("a")
    filler = str(uuid.uuid4())
    nova.placement.writer.claim([nova.placement.request(node_uuid("a"), filler, VCPU=8)])
    nova.read()
    nova.placement.direct.delete(f"/allocations/{filler}")
    assert nova.replica.table.numbers["allocated:VCPU"].tolist() == [8]
    assert nova.place() == ["a"]


def test_the_refusal_says_what_the_hosts_lack(nova):
    nova.add("a")
    nova.placement.writer.claim([nova.placement.request(node_uuid("a"), VCPU=7)])
    nova.read()
    with pytest.raises(NoValidHost) as caught:
        nova.place()
    assert caught.value.decision.summary == "0 of 1 hosts fit: 1 vcpu (needs 2, most free 1)"


def test_before_all_providers_were_read_placement_is_asked(nova):
    nova.add("a")
    nova.replica.load()
    assert nova.place() == ["a"]
    assert nova.held() == {node_uuid("a"): {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 10}}


def test_placement_is_not_asked_where_only_filters_reject_hosts(nova):
    nova.add("a")
    nova.read()
    nova.placement.calls.clear()
    flavor = Flavor(1, 512, 1, extra_specs={"capabilities:hypervisor_type": "none"})
    with pytest.raises(NoValidHost, match="ComputeCapabilitiesFilter"):
        nova.loop.select(RequestSpec(flavor=flavor), [str(uuid.uuid4())])
    assert not nova.placement.calls["GET", "/allocation_candidates"]


# --- providers that are marked as disabled (D24) ---

DISABLED = ["COMPUTE_STATUS_DISABLED"]
REBUILD = {"_nova_check_type": ["rebuild"]}


def test_a_provider_that_is_marked_as_disabled_takes_no_instance_though_its_service_is_enabled(nova):
    """D24: the mark stays where a host is enabled while its nova-compute is down."""
    nova.add("a", traits=DISABLED)
    nova.add("b")
    nova.read()
    assert nova.place(1, 1) == ["b"]
    assert nova.placed.decision.rejected == {"disabled": 1}


def test_a_request_for_a_host_that_placement_marks_as_disabled_is_refused_with_the_reason(nova):
    """D24: forced or named, as nova refuses both."""
    nova.add("a", traits=DISABLED)
    nova.add("b")
    nova.read()
    for choice in ({"force_hosts": ["a"]}, {"requested_destination": Destination(host="a")}):
        with pytest.raises(NoValidHost) as caught:
            nova.loop.select(RequestSpec(flavor=Flavor(1, 512, 1), **choice), [str(uuid.uuid4())])
        assert caught.value.decision.summary.endswith("1 disabled")


def test_the_mark_counts_until_placement_has_it_no_more(nova):
    """D24: the last look asks placement, which may know better than the replica."""
    nova.add("a", traits=DISABLED)
    nova.read()
    nova.placement.put(node_uuid("a"), "traits", traits=[])
    assert "COMPUTE_STATUS_DISABLED" in nova.replica.table.encoded["traits"].at(0)
    assert nova.place() == ["a"]


def test_the_mark_of_a_child_does_not_disable_its_host(nova):
    """D24: nova forbids the trait on the root provider."""
    nova.placement.add(GPU, parent=nova.add("a"), traits=DISABLED)
    nova.read()
    assert nova.place() == ["a"]
    assert nova.place(resources__VGPU="1") == ["a"]


def test_a_rebuild_stays_on_a_host_that_placement_marks_as_disabled(nova):
    """D24: a rebuild takes nothing, so nova does not ask placement."""
    nova.add("a", traits=DISABLED)
    nova.read()
    spec = RequestSpec(flavor=Flavor(1, 512, 1), scheduler_hints=REBUILD, force_hosts=["a"])
    assert nova.loop.select(spec, [str(uuid.uuid4())]).decision.selections[0].host == "a"


def test_a_request_for_candidates_names_the_mark_of_a_host_without_any(nova):
    """D24: placement offers nothing there, and does not say why."""
    nova.placement.add(GPU, parent=nova.add("a", traits=DISABLED))
    nova.read()
    flavor = Flavor(2, 1024, 10, extra_specs={"resources:VGPU": "1"})
    spec = RequestSpec(flavor=flavor)
    found = nova.granter.find_candidates(spec, nova.replica.table, is_last_look=False)
    spec = spec.changed(candidates=found)
    (rejection,) = list_rejections(nova.loop.chooser, nova.replica.table, spec)
    assert (rejection.name, rejection.reason) == (
        "placement",
        "placement offers no allocation candidate on the host, which has the trait COMPUTE_STATUS_DISABLED",
    )
