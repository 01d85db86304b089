# SPDX-License-Identifier: Apache-2.0
"""What a scheduler decides is in the database afterwards, with the state of the fleet that it was decided from."""

import json
from contextlib import suppress

import pytest
from sqlalchemy import func, select
from tests.flow.cloud import CONTEXT, UUID, request, state_of
from tests.flow.whole_cloud import WholeCloud

from roost.client.rpc_client import RpcClient
from roost.errors import BadInput, RemoteNoValidHost, UnknownName
from roost.library import Scheduler
from roost.messages.context import RequestContext
from roost.messages.options import RpcOptions
from roost.model import ServerGroup
from roost.model.json_records import to_json
from roost.questions.past_decision import PastDecision, fleet_seen_by
from roost.records.decisions import DecisionStore, RecordedState
from roost.records.services import set_service_flags
from roost.scheduler.all_options import read_options
from roost.scheduler.full_scan import FullScanEngine
from roost.store.schema.history import decisions

BY_RAM = {"filter_scheduler": {"weight_classes": ["RAMWeigher"]}}
HOSTS = {"a": {}, "b": {"total_usable_ram_mb": 16384}, "c": {"total_usable_ram_mb": 8192}}


@pytest.fixture
def cloud(make_cloud):
    made = make_cloud(HOSTS, BY_RAM)
    made.service()
    return made


def recorded(cloud, **filters):
    """The decisions, the earliest first."""
    for service in cloud.services:
        service._cloud.recorder.flush()
    store = DecisionStore(cloud.engine, cloud.clock.now())
    return [store.get(row.id) for row in reversed(store.list_decisions(**filters))]


def select_hosts(cloud, spec, *uuids):
    return cloud.client().select_destinations(CONTEXT, spec, list(uuids), True, True)


def test_a_placement_is_recorded_as_it_was_made(cloud):
    select_hosts(cloud, request(project_id="blue"), UUID % 1, UUID % 2)
    (record,) = recorded(cloud)
    assert record.decision.summary == "2 of 2 placed on a, a"
    assert [each.instance_uuid for each in record.decision.selections] == [UUID % 1, UUID % 2]
    assert [each.host for each in record.decision.best] == ["a", "b", "c"]
    assert record.decision.best[0].scores["RAMWeigher"].raw == 32768
    assert (record.request_id, record.project_id, record.rounds) == ("req-1", "blue", 1)
    assert recorded(cloud, server_uuid=UUID % 2) == [record]


def test_a_failure_is_recorded_with_what_the_hosts_lacked(cloud):
    with pytest.raises(RemoteNoValidHost):
        select_hosts(cloud, request(10**6), UUID % 1)
    (record,) = recorded(cloud, is_placed=False)
    assert record.decision.summary == "0 of 3 hosts fit: 3 ram (needs 1000000 MiB, most free 32768)"
    assert recorded(cloud, server_uuid=UUID % 1) == [record]


def test_the_state_of_each_decision_is_that_of_its_moment(cloud):
    loop, states = cloud.services[0].manager.claims, []
    observe = loop._observe

    def observe_and_keep(table, spec):
        states.append(state_of(table))
        return observe(table, spec)

    loop._observe = observe_and_keep
    for number in range(12):
        select_hosts(cloud, request(1000 + number), UUID % number)
        cloud.clock.seconds += 1.0  # the replica is refreshed
    cloud.bring(
        {"hosts": [{"host": "d", "vcpus_total": 9, "total_usable_ram_mb": 99999, "total_usable_disk_gb": 99}]}
    )
    cloud.clock.seconds += 1.0
    select_hosts(cloud, request(), UUID % 50)
    records = recorded(cloud)
    store = DecisionStore(cloud.engine, cloud.clock.now())
    assert [state_of(store.read_state(each).restore()) for each in records] == states
    assert records[-1].decision.selections[0].host == "d"


def test_moves_and_repeats_are_recorded_too(cloud):
    select_hosts(cloud, request(), UUID % 1)
    select_hosts(cloud, request(), UUID % 1)
    select_hosts(cloud, request(ignore_hosts=("a",)), UUID % 1)
    kept, moved = recorded(cloud, server_uuid=UUID % 1)[1:]
    assert kept.decision.summary == "1 of 1 placed on a"
    assert kept.decision.steps == ()
    assert moved.decision.summary == "1 of 1 placed on b"
    assert moved.request.ignore_hosts == ("a",)


def test_a_group_is_recorded_with_its_members_as_they_were(cloud):
    group = ServerGroup(uuid=UUID % 90, name="apart", policy="anti-affinity")
    for number in range(2):
        select_hosts(cloud, request(instance_group=group), UUID % number)
    first, second = recorded(cloud)
    assert first.request.instance_group.hosts == ()
    assert second.request.instance_group.hosts == ("a",)


def test_a_dry_run_is_not_recorded(cloud):
    cloud.client().plan_destinations(CONTEXT, request(), [UUID % 1])
    assert recorded(cloud) == []


def test_nothing_is_recorded_where_the_option_says_so(make_cloud):
    made = make_cloud(HOSTS, {**BY_RAM, "roost": {"record_decisions": False}})
    assert made.service()._cloud.recorder is None
    select_hosts(made, request(), UUID % 1)
    with made.engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(decisions)) == 0


def test_what_waits_is_written_when_the_scheduler_stops(cloud):
    select_hosts(cloud, request(), UUID % 1)
    cloud.services[0].stop(is_hurried=False)
    cloud.services.clear()
    assert [each.summary for each in DecisionStore(cloud.engine, cloud.clock.now()).list_decisions()] == [
        "1 of 1 placed on a"
    ]


def test_after_a_reload_decisions_are_recorded_with_the_new_options(cloud):
    (service,) = cloud.services
    select_hosts(cloud, request(), UUID % 1)
    options = {"filter_scheduler": {"weight_classes": ["DiskWeigher"]}}
    service.manager.reload(read_options(explicit=options))
    select_hosts(cloud, request(), UUID % 2)
    store = DecisionStore(cloud.engine, cloud.clock.now())
    records = recorded(cloud)
    weighers = [store.read_state(each).options["filter_scheduler"]["weight_classes"] for each in records]
    assert weighers == [["RAMWeigher"], ["DiskWeigher"]]
    assert [each.decision.weighers for each in records] == [("RAMWeigher",), ("DiskWeigher",)]


# --- what clients are told ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    made = WholeCloud(tmp_path_factory.mktemp("cloud"))
    made.client().create_servers({"name": "web", "flavor": "small"})
    made.client().create_servers({"name": "giant", "flavor": "huge"})
    made.schedulers[0]._cloud.recorder.flush()
    context = RequestContext.new("req-1", "ann", "blue", is_admin=True)
    yield RpcClient(made.transport, RpcOptions(), context)
    made.close()


def test_decisions_are_listed_the_latest_first(client):
    found = client.list_decisions({})
    assert [(each["placed"], each["instances"], each["project_id"]) for each in found] == [
        (False, 1, "blue"),
        (True, 1, "blue"),
    ]
    assert [each["id"] for each in client.list_decisions({"placed": False})] == [found[0]["id"]]
    assert client.list_decisions({"server": "web"}) == [found[1]]
    assert client.list_decisions({"limit": 1}) == found[:1]


def test_a_decision_is_found_by_id_request_and_server(client):
    found = client.list_decisions({})
    by_id = client.get_decision(str(found[0]["id"]))
    assert client.get_decision("giant") == by_id
    assert client.get_decision("req-1") == by_id  # the latest of the request
    assert by_id["data"]["failed_at"] == 0
    assert client.get_decision("web")["id"] == found[1]["id"]


def test_a_decision_is_sent_with_what_restores_its_state(client):
    state = RecordedState(**client.get_decision("giant", with_state=True)["state"])
    assert [host for host, _ in state.restore().names] == ["a", "b", "c"]


@pytest.mark.parametrize("wanted", ["99", "req-none", "nobody", "6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e77"])
def test_what_is_not_recorded_is_told(client, wanted):
    with pytest.raises(UnknownName, match=wanted):
        client.get_decision(wanted)


@pytest.mark.parametrize("filters", [{"colour": "red"}, {"limit": 0}, {"limit": "many"}, {"before": -1}])
def test_wrong_filters_are_refused(client, filters):
    with pytest.raises(BadInput):
        client.list_decisions(filters)


def test_decisions_are_for_admins(client):
    member = RpcClient(client._transport, RpcOptions(), RequestContext.new("req-9", "bob", "blue"))
    for ask in (lambda: member.list_decisions({}), lambda: member.get_decision("web")):
        with pytest.raises(BadInput, match="only an admin"):
            ask()


# --- asked later -------------------------------------------------------------------------------------


def explanations(cloud, records):
    """What `roost decision why` says of each, as JSON data."""
    store = DecisionStore(cloud.engine, cloud.clock.now())
    found = []
    for record in records:
        state = store.read_state(record)
        sent = json.loads(json.dumps({"id": record.id, "data": record.data, "state": state.to_json()}))
        found.append(to_json(PastDecision(sent, Scheduler(fleet_seen_by(sent), engine=FullScanEngine)).explain()))
    return found


def test_a_decision_that_is_asked_about_after_1000_placements_gives_the_answer_of_its_moment(make_cloud):
    size = {"vcpus_total": 64, "total_usable_ram_mb": 65536, "total_usable_disk_gb": 4000}
    hosts = {f"h{number:02}": {**size, "cpu_allocation_ratio": 16.0} for number in range(24)}
    zones = [{"name": "z", "hosts": list(hosts)[:9], "metadata": {"availability_zone": "z"}}]
    made = make_cloud(hosts, aggregates=zones, server_groups=[{"uuid": UUID % 90, "name": "g", "policy": "affinity"}])
    made.service()
    varied = [
        request(70000),
        request(4096, availability_zone="z"),
        request(4096, availability_zone="nowhere"),
        request(4096, ignore_hosts=("h00",)),
        request(60000, vcpus=60),
        request(4096, instance_group=ServerGroup(uuid=UUID % 90, name="g", policy="affinity")),
    ]
    for number, spec in enumerate(varied):
        with suppress(RemoteNoValidHost):
            select_hosts(made, spec, UUID % number)
    asked = recorded(made)
    assert len(asked) == len(varied)
    at_once = explanations(made, asked)
    for batch in range(50):
        uuids = [f"6a0b7c1e-5ef2-4a3e-9d7b-{batch:04d}{number:08d}" for number in range(20)]
        select_hosts(made, request(512, vcpus=1), *uuids)
        made.clock.seconds += 30.0
    set_service_flags(made.engine, "h03", disabled=True, now=made.clock.now())
    with pytest.raises(RemoteNoValidHost):
        select_hosts(made, request(70000), UUID % 80)
    assert len(recorded(made)) == len(varied) + 51
    assert explanations(made, asked) == at_once
    assert explanations(made, recorded(made)[-1:]) != at_once[:1]
