# SPDX-License-Identifier: Apache-2.0
"""The messages of a scheduler, from every release: what is understood, what is answered, what is told to others."""

import json
from pathlib import Path

import pytest
from tests.flow.cloud import CONTEXT, UUID, request

from roost.errors import RemoteFailure, RemoteNoValidHost, UnsupportedVersion
from roost.messages.context import CallerPatience, RequestContext
from roost.messages.objects.aggregates_instances import aggregate_to_object
from roost.messages.objects.request import request_to_object
from roost.model import Aggregate
from roost.model.resources import move_of

WIRE = Path(__file__).parents[1] / "wire"
BY_RAM = {"filter_scheduler": {"weight_classes": ["RAMWeigher"]}}
HOSTS = {"a": {}, "b": {"total_usable_ram_mb": 16384}, "c": {"total_usable_ram_mb": 8192}}


def captured(name):
    return json.loads((WIRE / f"{name}.json").read_text())


def with_options(**sections):
    return {**BY_RAM, **sections}


@pytest.fixture
def cloud(make_cloud):
    made = make_cloud(HOSTS, BY_RAM)
    made.service()
    return made


# --- select_destinations ---


def test_novas_own_message_is_answered_with_selections_and_alternates(cloud):
    message = captured("select_destinations")
    context = RequestContext.from_dict(message["context"])
    answer = cloud.transport.call("scheduler", "select_destinations", "4.5", message["args"], context, timeout=30)
    hosts = [[each["nova_object.data"]["service_host"] for each in one] for one in answer]
    assert hosts == [["a", "b", "c"], ["a", "b", "c"]]
    first = answer[0][0]
    assert first["nova_object.name"] == "Selection"
    assert first["nova_object.version"] == "1.1"
    data = first["nova_object.data"]
    assert data["availability_zone"] == "nova"
    allocation = json.loads(data["allocation_request"])["allocations"]
    assert allocation == {data["compute_node_uuid"]: {"resources": {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 20}}}
    assert cloud.held(*message["args"]["instance_uuids"]) == {
        uuid: ["a"] for uuid in message["args"]["instance_uuids"]
    }


def test_nothing_is_claimed_for_a_caller_that_has_given_up(cloud):
    manager, uuid = cloud.services[0].manager, UUID % 1
    made = cloud.clock.now().isoformat()
    arguments = {"spec_obj": request_to_object(request()), "instance_uuids": [uuid], "return_objects": True}
    cloud.clock.seconds += 61
    late = RequestContext.from_dict({"timestamp": made, "request_id": "req-late"}, CallerPatience(60, 3600.0))
    with pytest.raises(Exception, match="has waited longer than its caller does"):
        manager.select_destinations(late, **arguments)
    assert cloud.held(uuid) == {}
    slow_sender = RequestContext.from_dict({"timestamp": made}, CallerPatience(60, 2.0))
    manager.select_destinations(slow_sender, **arguments)
    assert uuid in cloud.held(uuid)


def test_after_an_answer_the_fleet_is_looked_at_for_the_next_request(cloud, monkeypatch):
    replica, looks = cloud.services[0].manager.replica, []
    refresh = replica.refresh

    def noted_refresh(also=()):
        looks.append(cloud.clock.seconds)
        return refresh(also=also)

    monkeypatch.setattr(replica, "refresh", noted_refresh)
    for number, seconds in enumerate((0.0, 0.3, 0.4)):
        cloud.clock.seconds += seconds
        cloud.send("select_destinations", spec_obj=request_to_object(request()), instance_uuids=[UUID % number])
    assert looks == pytest.approx([1000.3, 1000.7]), "after the second, so the third found what was 0.4 s old"


def test_arguments_that_nobody_knows_are_refused_before_anything_is_done(cloud, caplog):
    args = {"spec_obj": request_to_object(request()), "instance_uuids": [UUID % 1], "colour": "red"}
    with pytest.raises(RemoteFailure, match=r"select_destinations: .*unexpected keyword argument 'colour'"):
        cloud.transport.call("scheduler", "select_destinations", "4.5", args, CONTEXT, timeout=30)
    assert cloud.held(UUID % 1) == {}
    assert [record.exc_info for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == [None]


def test_the_oldest_form_is_answered_with_dicts(make_cloud):
    cloud = make_cloud(
        {"cn1": {}, "cn9": {}, "other": {}}, with_options(filter_scheduler={"enabled_filters": ["RetryFilter"]})
    )
    cloud.service()
    message = captured("select_destinations.legacy-4.0")
    message["args"]["request_spec"]["instance_properties"]["availability_zone"] = None
    answer = cloud.send("select_destinations", message["version"], **message["args"])
    assert answer == [{"host": "other", "nodename": "other", "limits": {}}] * 2


@pytest.mark.parametrize(
    ("version", "extra"),
    [
        ("4.3", {}),
        ("4.4", {"instance_uuids": [UUID % 1]}),
        ("4.5", {"instance_uuids": [UUID % 1]}),
        ("4.5", {"instance_uuids": [UUID % 1], "return_objects": False, "return_alternates": True}),
    ],
)
def test_who_does_not_want_objects_gets_dicts(cloud, version, extra):
    spec = request_to_object(request(instance_uuid=UUID % 1))
    answer = cloud.send("select_destinations", version, spec_obj=spec, **extra)
    assert answer == [{"host": "a", "nodename": "a", "limits": {}}]
    assert cloud.held(UUID % 1) == {UUID % 1: ["a"]}


def test_limits_that_are_set_travel_with_the_answer(make_cloud):
    cloud = make_cloud(
        HOSTS, with_options(filter_scheduler={"enabled_filters": ["RamFilter"], "weight_classes": ["RAMWeigher"]})
    )
    cloud.service()
    answer = cloud.send("select_destinations", "4.3", spec_obj=request_to_object(request(instance_uuid=UUID % 1)))
    assert answer[0]["limits"] == {"memory_mb": 32768.0}


def test_objects_without_alternates(cloud):
    spec = request_to_object(request())
    answer = cloud.send("select_destinations", spec_obj=spec, instance_uuids=[UUID % 1], return_objects=True)
    assert [len(each) for each in answer] == [1]


def test_max_attempts_bounds_the_alternates(make_cloud):
    cloud = make_cloud(HOSTS, with_options(scheduler={"max_attempts": 2}))
    cloud.service()
    answer = cloud.send(
        "select_destinations",
        spec_obj=request_to_object(request()),
        instance_uuids=[UUID % 1],
        return_objects=True,
        return_alternates=True,
    )
    assert [len(each) for each in answer] == [2]


def test_our_client_gets_our_own_objects(cloud):
    ((chosen,),) = cloud.client().select_destinations(CONTEXT, request(), [UUID % 1], return_objects=True)
    assert (chosen.host, chosen.amounts) == ("a", {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 10})


def test_the_zone_of_a_selection_is_that_of_its_aggregate(make_cloud):
    zone = {"name": "z", "metadata": {"availability_zone": "north"}, "hosts": ["a"]}
    cloud = make_cloud(HOSTS, with_options(DEFAULT={"default_availability_zone": "somewhere"}), aggregates=[zone])
    cloud.service()
    client = cloud.client()
    answers = client.select_destinations(CONTEXT, request(), [UUID % 1], return_objects=True, return_alternates=True)
    assert [each.availability_zone for each in answers[0]] == ["north", "somewhere", "somewhere"]


def test_select_hosts_gives_names(cloud):
    message = captured("select_destinations.legacy-4.0")["args"]
    message["request_spec"]["instance_properties"]["availability_zone"] = None
    assert cloud.send("select_hosts", "2.6", **message) == ["a", "a"]


# --- errors ---

LETTERS = "abcdef01-0000-4000-8000-00000000000f"


def with_part(name, kind, **data):
    """A request with such a part."""
    spec = request_to_object(request())
    spec["nova_object.data"][name] = {
        "nova_object.name": kind,
        "nova_object.namespace": "nova",
        "nova_object.version": "1.0",
        "nova_object.data": data,
    }
    return spec


def test_no_valid_host_is_told_in_novas_words(cloud):
    with pytest.raises(RemoteNoValidHost) as caught:
        cloud.client().select_destinations(CONTEXT, request(memory_mb=10**6), [UUID % 1], return_objects=True)
    assert caught.value.name == "NoValidHost"
    assert caught.value.message == "No valid host was found. There are not enough hosts available."
    assert caught.value.reason == "There are not enough hosts available."


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({}, "spec_obj"),
        ({"spec_obj": {"nova_object.name": "RequestSpec"}}, "spec_obj"),
        ({"spec_obj": 7}, "spec_obj"),
        ({"spec_obj": request_to_object(request()), "instance_uuids": "one"}, "instance_uuids"),
        ({"spec_obj": request_to_object(request()), "instance_uuids": [UUID % 1, UUID % 1]}, "twice"),
        ({"spec_obj": request_to_object(request()), "instance_uuids": [LETTERS, LETTERS.upper()]}, "twice"),
        ({"spec_obj": request_to_object(request()), "instance_uuids": [LETTERS, LETTERS.replace("-", "")]}, "twice"),
        ({"spec_obj": with_part("instance_group", "InstanceGroup", uuid="a\0b", policy="affinity")}, "group.uuid"),
        ({"spec_obj": with_part("requested_destination", "Destination", cell="\ud800")}, "cell"),
        ({"spec_obj": request_to_object(request(num_instances=10_001))}, "10000"),
        ({"no_such_argument": 1}, "no_such_argument"),
    ],
)
def test_a_request_that_is_none_is_refused_with_what_is_wrong(cloud, args, said):
    with pytest.raises(RemoteFailure, match=said):
        cloud.send("select_destinations", **args)


def test_messages_that_ask_for_nothing_there_is_are_counted(make_cloud):
    cloud = make_cloud(HOSTS)
    service = cloud.service()
    wrong = (
        ("no_such_method", "4.5", {}),
        ("select_destinations", "9.9", {}),
        ("update_aggregates", "4.5", {"a": 1}),
    )
    for method, version, arguments in wrong:
        with pytest.raises((RemoteFailure, UnsupportedVersion)):
            cloud.send(method, version, **arguments)
    assert b'roost_rpc_requests_total{method="unknown",result="error"} 3.0' in service._metrics.render()


def test_a_wrong_request_is_no_error_of_the_scheduler(make_cloud, caplog):
    options = with_options(filter_scheduler={"enabled_filters": ["JsonFilter"]})
    cloud = make_cloud(HOSTS, options)
    service = cloud.service()
    spec = request_to_object(request(scheduler_hints={"query": "abc"}))
    with pytest.raises(RemoteFailure, match="query"):
        cloud.send("select_destinations", spec_obj=spec, instance_uuids=[UUID % 1])
    assert b'roost_decisions_total{result="error"} 0.0' in service._metrics.render()


def test_what_a_host_reports_wrongly_is_an_error_of_ours(make_cloud):
    cloud = make_cloud(HOSTS, with_options(filter_scheduler={"enabled_filters": ["SimpleCIDRAffinityFilter"]}))
    service = cloud.service()
    spec = request_to_object(request(scheduler_hints={"build_near_host_ip": "10.0.0.1", "cidr": "/24"}))
    with pytest.raises(RemoteFailure, match="is no host address"):
        cloud.send("select_destinations", spec_obj=spec, instance_uuids=[UUID % 1])
    assert b'roost_decisions_total{result="error"} 1.0' in service._metrics.render()


def test_versions_that_are_too_new_or_too_old_are_refused(cloud):
    for version in ("4.6", "5.0", "1.0"):
        with pytest.raises(UnsupportedVersion):
            cloud.send("select_destinations", version, spec_obj=request_to_object(request()))


def test_a_policy_that_nobody_keeps_is_refused(make_cloud):
    group = {"name": "g", "policy": "anti-affinity", "uuid": UUID % 9}
    cloud = make_cloud(
        HOSTS, with_options(filter_scheduler={"enabled_filters": ["ComputeFilter"]}), server_groups=[group]
    )
    cloud.service()
    spec = request_to_object(request())
    spec["nova_object.data"]["instance_group"] = {
        "nova_object.name": "InstanceGroup",
        "nova_object.namespace": "nova",
        "nova_object.version": "1.11",
        "nova_object.data": {"uuid": UUID % 9, "policy": "anti-affinity", "members": [], "hosts": []},
    }
    with pytest.raises(RemoteFailure, match="ServerGroupAntiAffinityFilter"):
        cloud.send("select_destinations", spec_obj=spec, instance_uuids=[UUID % 1])


# --- what agents and the API tell ---


def tell(cloud, name):
    message = captured(name)
    cloud.transport.cast("scheduler", name, "4.2", message["args"], CONTEXT, fanout=True)


def test_aggregates_come_and_go_by_message(make_cloud):
    cloud = make_cloud({"h1": {}, "h2": {}})
    service = cloud.service()
    tell(cloud, "update_aggregates")
    assert [each.aggregates[0].name for each in service.replica.table if each.aggregates] == ["a"]
    tell(cloud, "delete_aggregate")
    assert not any(each.aggregates for each in service.replica.table)


def test_one_aggregate_need_not_be_a_list(cloud):
    aggregate = aggregate_to_object(Aggregate("x", hosts=("a",), id=5))
    cloud.transport.cast("scheduler", "update_aggregates", "4.1", {"aggregates": aggregate}, CONTEXT, fanout=True)
    assert [each.name for each in cloud.services[0].replica.table.known_aggregates] == ["x"]


def test_instances_come_and_go_by_message(make_cloud):
    cloud = make_cloud({"h1": {}})
    replica = cloud.service().replica
    uuid = captured("delete_instance_info")["args"]["instance_uuid"]
    replica.update_instance_info("h1", [])  # the host is known
    tell(cloud, "update_instance_info")
    tell(cloud, "update_instance_info")
    assert list(replica.table.instances.get(0, {})) in ([uuid], [])
    tell(cloud, "delete_instance_info")
    tell(cloud, "sync_instance_info")
    assert not replica.table.instances.get(0)


def leave(cloud, host, uuid):
    args = {"host_name": host, "instance_uuid": uuid}
    cloud.transport.cast("scheduler", "delete_instance_info", "4.2", args, CONTEXT, fanout=True)


def test_an_instance_that_left_its_host_holds_nothing_there(cloud):
    cloud.client().select_destinations(CONTEXT, request(), [UUID % 1], return_objects=True)
    leave(cloud, "b", UUID % 1)
    assert cloud.held(UUID % 1) == {UUID % 1: ["a"]}
    leave(cloud, "a", UUID % 1)
    leave(cloud, "a", UUID % 1)
    assert cloud.held(UUID % 1) == {}


def test_an_instance_that_moved_and_left_holds_its_new_host_alone(cloud):
    client = cloud.client()
    client.select_destinations(CONTEXT, request(), [UUID % 1], return_objects=True)
    client.select_destinations(CONTEXT, request(ignore_hosts=("a",)), [UUID % 1], return_objects=True)
    assert cloud.held(UUID % 1, move_of(UUID % 1)) == {UUID % 1: ["b"], move_of(UUID % 1): ["a"]}
    leave(cloud, "a", UUID % 1)
    assert cloud.held(UUID % 1, move_of(UUID % 1)) == {UUID % 1: ["b"]}


# --- what others hear ---


def test_notifications_in_both_forms_before_and_after(make_cloud):
    cloud = make_cloud(HOSTS, with_options(notifications={"notification_format": "both"}))
    cloud.service()
    cloud.client().select_destinations(CONTEXT, request(), [UUID % 1], return_objects=True)
    seen = [(each.topic, each.event_type) for each in cloud.notifications]
    start, end = "scheduler.select_destinations.start", "scheduler.select_destinations.end"
    assert seen == [
        ("notifications", start),
        ("versioned_notifications", start),
        ("notifications", end),
        ("versioned_notifications", end),
    ]
    old, new = cloud.notifications[:2]
    assert old.publisher_id.startswith("scheduler.")
    assert old.payload["request_spec"]["num_instances"] == 1
    assert new.publisher_id.startswith("nova-scheduler:")
    assert new.payload["nova_object.name"] == "RequestSpecPayload"


def test_a_request_without_a_host_has_no_end(cloud):
    with pytest.raises(RemoteNoValidHost):
        cloud.client().select_destinations(CONTEXT, request(memory_mb=10**6), [UUID % 1], return_objects=True)
    assert [each.event_type for each in cloud.notifications] == ["scheduler.select_destinations.start"]


def test_the_chance_driver_announces_nothing(make_cloud):
    cloud = make_cloud(HOSTS, {"scheduler": {"driver": "chance_scheduler"}})
    cloud.service()
    answer = cloud.send("select_destinations", "4.3", spec_obj=request_to_object(request(instance_uuid=UUID % 1)))
    assert (answer[0]["nodename"], answer[0]["limits"]) == (None, None)
    assert cloud.notifications == []


def test_requests_are_counted(cloud):
    client = cloud.client()
    client.select_destinations(CONTEXT, request(), [UUID % 1], return_objects=True)
    with pytest.raises(RemoteNoValidHost):
        client.select_destinations(CONTEXT, request(memory_mb=10**6), [UUID % 2], return_objects=True)
    lines = cloud.metrics.render().decode().splitlines()
    for line in (
        'roost_decisions_total{result="placed"} 1.0',
        'roost_decisions_total{result="no_valid_host"} 1.0',
        'roost_rpc_requests_total{method="select_destinations",result="ok"} 1.0',
        'roost_rpc_requests_total{method="select_destinations",result="expected_error"} 1.0',
        "roost_instances_placed_total 1.0",
    ):
        assert line in lines
