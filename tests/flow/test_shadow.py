# SPDX-License-Identifier: Apache-2.0
"""Shadow mode beside a live scheduler of Roost's own cloud: both on one transport, and one database."""

import json
import time

import pytest
from sqlalchemy import func, select
from tests.flow.cloud import UUID, hosts_of, request, state_of

from roost.errors import NoValidHost, OptionError, RemoteFailure, RemoteNoValidHost, RpcUnreachable
from roost.messages.context import RequestContext
from roost.messages.objects.request import request_to_object
from roost.model import ServerGroup
from roost.nova.shadow.service import ShadowService
from roost.store.schema.fleet import allocations, consumers, services

HOSTS = {"h1": {}, "h2": {"total_usable_ram_mb": 65536}, "h3": {"total_usable_ram_mb": 65536}}
NOTIFIED = {"notifications": {"notification_format": "versioned", "versioned_notifications_topics": "roost_shadow"}}


@pytest.fixture
def shadowed(make_cloud, tmp_path):
    """A cloud with a scheduler in shadow mode, which the test may put a live one beside."""
    file = tmp_path / "shadow.jsonl"
    cloud = make_cloud(HOSTS, {**NOTIFIED, "roost": {"shadow_report": str(file)}})
    cloud.shadow, cloud.file = cloud.service(ShadowService), file
    return cloud


def noted(cloud, count):
    """The records, as soon as there are so many."""
    give_up = time.monotonic() + 20
    while len(lines := cloud.file.read_text().splitlines()) < count:
        assert time.monotonic() < give_up, lines
        time.sleep(0.01)
    return [json.loads(line) for line in lines]


def ask(cloud, topic, uuid, **more):
    spec = request(instance_uuid=uuid, **more)
    args = {"spec_obj": request_to_object(spec), "instance_uuids": [uuid], "return_objects": True}
    args["return_alternates"] = True
    cloud.clock.seconds += 1
    context = RequestContext.new(f"req-{uuid}", "ann", "blue")
    return cloud.transport.call(topic, "select_destinations", "4.5", args, context, timeout=30)


def rows_in(cloud, *tables):
    with cloud.engine.connect() as connection:
        return [connection.scalar(select(func.count()).select_from(table)) for table in tables]


def test_requests_of_the_live_scheduler_are_compared(shadowed):
    shadowed.service()
    for number in range(1, 6):
        ask(shadowed, "scheduler", UUID % number)
    found = noted(shadowed, 5)
    assert [(each["verdict"], each["instance"]) for each in found] == [("same", UUID % n) for n in range(1, 6)]
    assert {each["source"] for each in found} == {"notification"}
    assert all(each["roost_host"] == each["nova_host"] and each["roost_weight"] is not None for each in found)
    assert found[0]["ties"] == ["h2", "h3"]
    assert rows_in(shadowed, consumers) == [5]  # those of the live scheduler


def test_another_choice_of_the_live_scheduler_is_explained(shadowed):
    live = shadowed.service()
    original = live.manager.claims.chooser.place
    live.manager.claims.chooser.place = lambda table, spec, uuids, **more: original(
        table, spec.changed(ignore_hosts=("h2", "h3")), uuids, **more
    )
    ask(shadowed, "scheduler", UUID % 1)
    (found,) = noted(shadowed, 1)
    assert (found["verdict"], found["roost_host"], found["nova_host"]) == ("other", "h2", "h1")
    assert found["nova_weight"] < found["roost_weight"]
    assert found["why"].startswith("Roost weighs nova's host")


def test_a_request_is_not_answered_from_the_live_claim(shadowed):
    shadowed.service()
    held_back = []
    shadowed.shadow._listener._on_notification = held_back.append
    ask(shadowed, "scheduler", UUID % 1)
    shadowed.clock.seconds += 0.5
    for each in held_back:
        shadowed.shadow._live.take(each)
    (found,) = noted(shadowed, 1)
    assert (found["verdict"], found["why"]) == (
        *("unknown", "not comparable: too late: the instance is on h2 already"),
    )


def test_a_second_request_for_an_instance_is_a_move(shadowed):
    shadowed.service()
    ask(shadowed, "scheduler", UUID % 1)
    noted(shadowed, 1)  # notifications are handled beside each other: those of the two could change places
    ask(shadowed, "scheduler", UUID % 1, ignore_hosts=("h2",))
    assert sorted(each["verdict"] for each in noted(shadowed, 2)) == ["move", "same"]


def test_the_shadow_topic_is_answered_and_nothing_is_claimed(shadowed):
    before, services_before = state_of(shadowed.shadow.replica.table), rows_in(shadowed, services)
    for number in range(1, 21):
        selection = ask(shadowed, "scheduler_shadow", UUID % number)[0][0]["nova_object.data"]
        assert selection["service_host"] == "h2"  # again and again: nothing was taken
        assert json.loads(selection["allocation_request"])["allocations"]
    assert rows_in(shadowed, allocations, consumers) == [0, 0]
    assert rows_in(shadowed, services) == services_before  # no heartbeat of its own
    assert state_of(shadowed.shadow.replica.table) == before
    found = noted(shadowed, 20)
    assert {(each["verdict"], each["source"], each["nova_host"]) for each in found} == {("decided", "topic", None)}
    assert not shadowed.notifications


def test_a_request_without_a_host_on_the_shadow_topic(shadowed):
    with pytest.raises(RemoteNoValidHost):
        ask(shadowed, "scheduler_shadow", UUID % 1, memory_mb=10**6)
    (found,) = noted(shadowed, 1)
    assert (found["verdict"], found["roost_host"]) == ("decided", None)
    assert found["why"].startswith("0 of 3 hosts fit")


def test_several_instances_and_groups_are_given_back(shadowed):
    manager, context = shadowed.shadow.manager, RequestContext.new("req-1")
    before = state_of(shadowed.shadow.replica.table)
    group = ServerGroup("anti-affinity", "apart", UUID % 99)
    spread = request(instance_group=group, num_instances=3)
    uuids = [UUID % number for number in range(1, 4)]
    assert sorted(hosts_of(manager.place(context, spread, uuids))) == ["h1", "h2", "h3"]
    with pytest.raises(NoValidHost):
        manager.place(context, spread.changed(num_instances=4), [*uuids, UUID % 4])
    assert len(hosts_of(manager.place(context, request(num_instances=5), None))) == 5
    assert state_of(shadowed.shadow.replica.table) == before
    assert rows_in(shadowed, allocations, consumers) == [0, 0]


def test_it_takes_no_request_from_the_live_scheduler(shadowed):
    with pytest.raises(RpcUnreachable, match="no service serves the topic scheduler"):
        ask(shadowed, "scheduler", UUID % 1)


def test_only_requests_are_served_on_the_shadow_topic(shadowed):
    args, context = {"host_name": "h1", "instance_uuid": UUID % 1}, RequestContext.new("req-1")
    with pytest.raises(RemoteFailure, match=r"NoSuchMethod: .* delete_instance_info"):
        shadowed.transport.call("scheduler_shadow", "delete_instance_info", "4.2", args, context, timeout=30)


def test_its_topic_is_not_the_live_one(make_cloud):
    cloud = make_cloud(HOSTS, {"roost": {"shadow_topic": "scheduler"}})
    with pytest.raises(OptionError, match=r"\[roost\] shadow_topic = scheduler is the topic of the live scheduler"):
        cloud.service(ShadowService)


def test_it_is_ready_once_notifications_reach_it(shadowed):
    assert shadowed.shadow.unready() == []
    shadowed.shadow._listener.stop()
    assert shadowed.shadow.unready() == ["notifications do not reach it: the broker is away"]


def test_a_reload_keeps_shadow_mode(shadowed):
    shadowed.shadow.reload()
    ask(shadowed, "scheduler_shadow", UUID % 1)
    (found,) = noted(shadowed, 1)
    assert found["ties"] == ["h2", "h3"]
    assert rows_in(shadowed, allocations) == [0]
