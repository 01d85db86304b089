# SPDX-License-Identifier: Apache-2.0
"""Shadow mode in a nova cloud: the real placement sees reads only, and the replica is as it was before."""

import dataclasses
import json
import random
from pathlib import Path

import pytest
from tests.flow.cloud import TurnedClock, state_of
from tests.nova_cloud.small_cloud import HOSTS, SmallCloud, node_uuid

from roost.errors import BadInput
from roost.messages.context import RequestContext
from roost.messages.interface import Notification
from roost.model import Flavor, RequestSpec, ServerGroup
from roost.nova.claims import OwnClaims, PlacementGranter
from roost.nova.placement.allocations import AllocationWriter
from roost.nova.placement.candidates import CandidateReader
from roost.nova.placement.providers import ProviderReader
from roost.nova.shadow.comparison import Journal
from roost.nova.shadow.service import ShadowManager
from roost.nova.source import NovaSource
from roost.scheduler.all_options import read_options
from roost.scheduler.drivers import find_driver
from roost.scheduler.options import SchedulerOptions, ServiceOptions
from roost.scheduler.prefilters import PrefilterOptions
from roost.scheduler.replica import HostManager
from roost.services.metrics import Metrics

ROOM = {name: {"total": total} for name, total in {"VCPU": 8, "MEMORY_MB": 8192, "DISK_GB": 100}.items()}
RECORDED = Path(__file__).parents[2] / "wire/recorded"
UUID = "6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e%02d"
WRITES = ("POST", "PUT", "DELETE")


class PlacedCloud(SmallCloud):
    """The small cloud with a real placement, and the part of a `Cloud` that shadow mode needs."""

    def __init__(self, placement):
        super().__init__()
        own, self.stored = OwnClaims(), {}
        self.api.read_groups = lambda uuids: {}
        self.source = NovaSource(self.api, self.open_cell, placement.reader, own, lambda: self.now, 60)
        self.replica = HostManager(self.source, SchedulerOptions(), lambda: self.now, lambda: 0.0)
        candidates = CandidateReader(placement.client, placement.reader, PrefilterOptions())
        parts = placement.writer, self.api, own, candidates, self.journal, self.source.find_pair
        self.granter = PlacementGranter(*parts, lambda: self.now)

    def read_request_spec(self, uuid):
        if uuid not in self.stored:
            raise BadInput(f"nova's API database has no request of the instance {uuid}")
        return self.stored[uuid]


@pytest.fixture
def shadow(cloud):
    """A manager in shadow mode whose three hosts are in the real placement."""
    for host in HOSTS:
        cloud.direct.post("/resource_providers", {"name": host, "uuid": node_uuid(host)})
        cloud.put(node_uuid(host), "inventories", inventories=ROOM)
    placed = PlacedCloud(cloud)
    cloud.reader.read_all()
    placed.replica.load()
    settings, clock = read_options(), TurnedClock()
    driver = find_driver(settings.fill(ServiceOptions).driver)(settings, placed.replica)
    metrics = Metrics(clock=clock)
    manager = ShadowManager(driver, placed, Journal("", metrics), metrics, clock, random.Random(1))
    manager.placed = placed
    return manager


def request(**more):
    return RequestSpec(flavor=Flavor(1, 512, root_gb=1), project_id="p", user_id="u", **more)


def writes_seen(cloud):
    return [(each.method, each.path) for each in cloud.proxy.seen if each.method in WRITES]


def test_placement_sees_no_write_and_the_table_stays_as_it_is(cloud, shadow):
    context, before = RequestContext.new("req-1"), state_of(shadow.replica.table)
    for number in range(1, 11):
        uuid = UUID % number
        decided = shadow.place(context, request(instance_uuid=uuid), [uuid], alternates=2).decision
        assert decided.selections[0].host == "a"
    group = ServerGroup("anti-affinity", "apart", "")
    shadow.place(context, request(num_instances=3, instance_group=group), [UUID % n for n in range(1, 4)])
    assert writes_seen(cloud) == []
    assert [cloud.used(node_uuid(host)) for host in HOSTS] == [dict.fromkeys(ROOM, 0)] * 3
    assert state_of(shadow.replica.table) == before
    shadow.replica.refresh()
    assert state_of(shadow.replica.table) == before


def test_a_host_that_became_full_since_placement_was_read_is_not_chosen(cloud, shadow):
    for host in ("a", "b"):  # another scheduler takes all of it; the snapshot of providers does not know
        AllocationWriter(cloud.direct, ProviderReader(cloud.direct)).claim(
            [cloud.request(node_uuid(host), MEMORY_MB=8000)]
        )
    trial = shadow._try_out(RequestContext.new("req-1"), request(instance_uuid=UUID % 1), [UUID % 1]).trial
    assert (trial.host, trial.review.ties()) == ("c", ["c"])
    assert trial.review.why_not("a").startswith("capacity ram: ")


def test_the_granter_of_shadow_mode_writes_nothing_even_if_asked(cloud, shadow):
    granter = shadow._granter
    granter.claim([object()])
    granter.claim_and_move([object()], [object()])
    assert granter.release_on([UUID % 1], [node_uuid("a")]) == 0
    assert (granter.read_holdings([UUID % 1]), granter.read_member_hosts("g").policy) == ({}, "")
    assert writes_seen(cloud) == []


def notified(case, shadow):
    """A recorded start of a boot, and its decision."""
    lines = map(json.loads, (RECORDED / "notifications.jsonl").read_text().splitlines())
    line = next(each for each in lines if (each["case"], each["event_type"][-6:]) == (case, ".start"))
    parts = (line["publisher_id"], line["event_type"], line["payload"], RequestContext.new(line["request_id"]))
    uuid = line["payload"]["nova_object.data"]["instance_uuid"]
    return uuid, lambda is_complete=True: shadow.decide_notified(
        Notification("roost_shadow", "INFO", *parts), line["payload"], is_complete
    )


def test_a_notified_request_is_decided_with_what_nova_has_stored(cloud, shadow):
    uuid, decide = notified("boot", shadow)
    with pytest.raises(BadInput, match=f"nova's API database has no request of the instance {uuid}"):
        decide()
    stored = json.loads((RECORDED / "request_spec.bare.json").read_text())
    stored["nova_object.data"] |= {"instance_uuid": uuid, "is_bfv": True}
    shadow.placed.stored[uuid] = stored
    trial = decide()
    assert (trial.host, trial.instance, shadow._chooser._spec.is_bfv) == ("a", uuid, True)
    assert trial.review.ties() == ["a", "b", "c"]
    decide(is_complete=False)
    assert shadow._chooser._spec.flavor.name == request_name(stored)
    assert writes_seen(cloud) == []


def stored_for(uuid, shadow):
    stored = json.loads((RECORDED / "request_spec.bare.json").read_text())
    stored["nova_object.data"] |= {"instance_uuid": uuid}
    shadow.placed.stored[uuid] = stored


def claim_elsewhere(cloud, host, uuid=None, **amounts):
    """nova, or another scheduler, claims; the snapshot of providers does not know."""
    request = cloud.request(node_uuid(host), **amounts)
    request = dataclasses.replace(request, consumer_uuid=uuid) if uuid else request
    AllocationWriter(cloud.direct, ProviderReader(cloud.direct)).claim([request])


def after_choice(shadow, act):
    """Do this once, between a choice and the read of the chosen provider."""
    select, left = shadow._select, [act]

    def select_and_act(*args):
        answer = select(*args)
        if left:
            left.pop()()
        return answer

    shadow._select = select_and_act


def test_novas_claim_for_the_request_does_not_count_against_the_choice(cloud, shadow):
    uuid, decide = notified("boot", shadow)
    stored_for(uuid, shadow)
    after_choice(shadow, lambda: claim_elsewhere(cloud, "a", uuid, MEMORY_MB=8000))
    trial = decide()
    assert (trial.host, trial.review.ties()) == ("a", ["a", "b", "c"])  # the review is from before the claim, too
    assert writes_seen(cloud) == []


def test_claims_for_other_requests_count(cloud, shadow):
    uuid, decide = notified("boot", shadow)
    stored_for(uuid, shadow)
    after_choice(shadow, lambda: claim_elsewhere(cloud, "a", MEMORY_MB=8000))
    trial = decide()
    assert (trial.host, trial.review.ties()) == ("b", ["b", "c"])


def test_no_host_after_novas_claim_is_too_late(cloud, shadow):
    uuid, decide = notified("boot", shadow)
    stored_for(uuid, shadow)
    for host in HOSTS:
        claim_elsewhere(cloud, host, uuid if host == "c" else None, MEMORY_MB=8000)
    cloud.reader.read_all()
    with pytest.raises(BadInput, match="too late: the live scheduler has claimed for the instance already"):
        decide()


def test_an_instance_that_is_on_a_host_already_is_too_late(cloud, shadow):
    uuid, decide = notified("boot", shadow)
    stored_for(uuid, shadow)
    shadow.replica.table.hosts_of = lambda uuids: ("b",) if uuid in uuids else ()
    with pytest.raises(BadInput, match="too late: the instance is on b already"):
        decide()


def request_name(stored):
    return stored["nova_object.data"]["flavor"]["nova_object.data"].get("name", "")


def test_several_instances_of_one_request_are_decided_together(cloud, shadow):
    uuid, decide = notified("several", shadow)
    shadow.placed.stored[uuid] = json.loads((RECORDED / "request_spec.bare.json").read_text())
    before = state_of(shadow.replica.table)
    trial = decide()
    assert (trial.instances, trial.host) == (4, None)  # apart, on three hosts
    assert trial.summary.startswith("0 of 3 hosts fit instance 4 of 4")
    assert state_of(shadow.replica.table) == before
    assert writes_seen(cloud) == []
