# SPDX-License-Identifier: Apache-2.0
"""run_instance and the small methods of Icehouse: spec/drivers-and-rpc.md 2.3, behaviour by behaviour."""

import json
import logging

import pytest
from tests.unit.nova.icehouse.legacy_cloud import (
    ASKED_BY,
    FLAVOR,
    ONE,
    THREE,
    TWO,
    Cloud,
    StandingClock,
    request_spec,
)

from roost.errors import ClaimRejected, DatabaseUnreachable, FieldError, Refusal, RpcUnreachable
from roost.messages.dispatcher import WireFailure
from roost.nova.icehouse import outcomes
from roost.nova.icehouse.methods import LegacyMethods
from roost.nova.icehouse.outcomes import with_fields, without_secrets
from roost.scheduler.manager import make_endpoints

ROOM_FOR_ONE = {"vcpus": 2}
SECRET = "s3cr3t-of-the-admin"


@pytest.fixture
def make(tmp_path):
    made = []

    def make_cloud(hosts=None, **options):
        made.append(Cloud(tmp_path, hosts or {"a": {"free_ram_mb": 30000}, "b": {"free_ram_mb": 20000}}, **options))
        return made[-1]

    yield make_cloud
    for cloud in made:
        cloud.close()


def run(cloud, *uuids, properties=None, spec=None, **more):
    cloud.older.run_instance(ASKED_BY, spec or request_spec(*uuids), filter_properties=properties or {}, **more)


def test_each_instance_is_built_by_its_host(make):
    cloud = make({"a": ROOM_FOR_ONE, "b": ROOM_FOR_ONE})
    run(cloud, ONE, TWO)
    told = cloud.told("run_instance")
    assert sorted(host for host, _ in told) == ["a", "b"]
    assert {args["instance"]["uuid"] for _, args in told} == {ONE, TWO}
    assert all(args["node"] == host for host, args in told)
    assert cloud.holders(ONE, TWO) == {args["instance"]["uuid"]: [host] for host, args in told}


def test_the_host_is_told_all_that_the_caller_said(make):
    cloud = make()
    networks, files = [["net", None, None]], [["/etc/motd", "aGVsbG8="]]
    run(
        cloud,
        ONE,
        admin_password=SECRET,
        injected_files=files,
        requested_networks=networks,
        is_first_time=False,
        legacy_bdm_in_spec=False,
    )
    ((_, args),) = cloud.told("run_instance")
    assert args["admin_password"] == SECRET
    assert args["injected_files"] == files
    assert args["requested_networks"] == networks
    assert args["is_first_time"] is False
    assert args["legacy_bdm_in_spec"] is False


def test_launch_index_counts_the_instances_of_a_request(make):
    cloud = make()
    run(cloud, ONE, TWO, THREE)
    by_uuid = {args["instance"]["uuid"]: args for _, args in cloud.told("run_instance")}
    assert [by_uuid[uuid]["instance"]["launch_index"] for uuid in (ONE, TWO, THREE)] == [0, 1, 2]
    spec = by_uuid[TWO]["request_spec"]
    assert spec["instance_properties"]["launch_index"] == 1


def test_instances_beyond_the_room_fail_and_the_others_are_built(make):
    cloud = make({"a": ROOM_FOR_ONE, "b": ROOM_FOR_ONE})
    cloud.add_servers(ONE, TWO, THREE, vm_state="building", task_state="scheduling")
    run(cloud, ONE, TWO, THREE)
    assert {args["instance"]["uuid"] for _, args in cloud.told("run_instance")} == {ONE, TWO}
    assert cloud.state(ONE) == ("building", "scheduling")
    assert cloud.state(THREE) == ("error", None)
    assert set(cloud.holders(ONE, TWO, THREE)) == {ONE, TWO}


def test_without_any_host_all_fail_and_the_caller_hears_nothing(make):
    cloud = make({"a": {"vcpus": 1}})
    cloud.add_servers(ONE, TWO, vm_state="building", task_state="scheduling")
    run(cloud, ONE, TWO)
    assert cloud.told("run_instance") == []
    assert cloud.state(ONE) == cloud.state(TWO) == ("error", None)
    assert cloud.holders(ONE, TWO) == {}


def test_start_scheduled_and_end_are_announced_in_this_order(make):
    cloud = make()
    run(cloud, ONE, TWO)
    scheduled = "scheduler.run_instance.scheduled"
    own = cloud.events("INFO")
    assert own == ["scheduler.run_instance.start", scheduled, scheduled, "scheduler.run_instance.end"]
    start, first = cloud.notifications[0], next(each for each in cloud.notifications if each.event_type == scheduled)
    assert start.payload == {"request_spec": request_spec(ONE, TWO)}
    assert first.payload["instance_id"] == ONE
    assert first.payload["weighted_host"]["host"] == "a"
    assert isinstance(first.payload["weighted_host"]["weight"], float)
    assert first.payload["request_spec"]["instance_properties"]["launch_index"] == 0


def test_a_failure_is_announced_as_an_error_with_its_reason(make):
    cloud = make({"a": ROOM_FOR_ONE})
    run(cloud, ONE, TWO)
    (error,) = [each for each in cloud.notifications if each.priority == "ERROR"]
    assert error.event_type == "scheduler.run_instance"
    assert error.payload == {
        "request_spec": request_spec(ONE, TWO),
        "instance_properties": request_spec(ONE, TWO)["instance_properties"],
        "instance_id": TWO,
        "state": "error",
        "method": "run_instance",
        "reason": "No valid host was found. There are not enough hosts available.",
    }
    assert cloud.events()[-1] == "scheduler.run_instance.end"


def test_its_record_says_that_it_is_nowhere_yet(make):
    cloud = make()
    cloud.add_servers(ONE, host="b", vm_state="building")
    run(cloud, ONE)
    ((_, args),) = cloud.told("run_instance")
    assert (args["instance"]["host"], args["instance"]["node"]) == (None, None)
    assert args["instance"]["scheduled_at"] == "2026-11-15T12:00:00.000000"


def test_an_instance_that_vanishes_meanwhile_is_not_built(make):
    cloud = make()
    cloud.add_servers(ONE, TWO)
    place = cloud.manager.place

    def place_while_somebody_deletes(*args, **more):
        cloud.drop_server(ONE)
        return place(*args, **more)

    cloud.manager.place = place_while_somebody_deletes
    run(cloud, ONE, TWO)
    assert [args["instance"]["uuid"] for _, args in cloud.told("run_instance")] == [TWO]
    assert set(cloud.holders(ONE, TWO)) == {TWO}


def test_an_instance_whose_record_is_elsewhere_is_built(make):
    cloud = make()
    run(cloud, ONE)
    assert len(cloud.told("run_instance")) == 1


def test_host_and_limits_travel_in_the_filter_properties(make):
    cloud = make({"a": {}}, enabled_filters=("RamFilter",))
    run(cloud, ONE, properties={"scheduler_hints": {}})
    ((_, args),) = cloud.told("run_instance")
    assert args["filter_properties"]["retry"] == {"num_attempts": 1, "hosts": [["a", "a"]]}
    assert args["filter_properties"]["limits"]["memory_mb"] == 32768
    assert args["filter_properties"]["scheduler_hints"] == {}


def test_no_instance_counts_the_host_of_another_one_as_tried(make):
    cloud = make({"a": ROOM_FOR_ONE, "b": ROOM_FOR_ONE})
    run(cloud, ONE, TWO)
    for host, args in cloud.told("run_instance"):
        assert args["filter_properties"]["retry"]["hosts"] == [[host, host]]


def test_what_was_tried_before_was_tried_for_the_first_instance(make):
    cloud = make({"a": ROOM_FOR_ONE, "b": ROOM_FOR_ONE})
    run(cloud, ONE, TWO, properties={"retry": {"num_attempts": 1, "hosts": [["z", "z"]]}})
    tried = {args["instance"]["uuid"]: args["filter_properties"]["retry"] for _, args in cloud.told("run_instance")}
    assert tried[ONE] == {"num_attempts": 2, "hosts": [["z", "z"], ["a", "a"]]}
    assert tried[TWO] == {"num_attempts": 2, "hosts": [["b", "b"]]}


def test_a_forced_host_gets_neither_retry_data_nor_limits(make):
    cloud = make()
    run(cloud, ONE, properties={"force_hosts": ["b"]})
    ((host, args),) = cloud.told("run_instance")
    assert host == "b"
    assert args["filter_properties"] == {"force_hosts": ["b"]}


def test_a_host_that_failed_is_left_and_another_one_is_tried(make):
    cloud = make(enabled_filters=("RetryFilter",))
    run(cloud, ONE)
    ((first, args),) = cloud.told("run_instance")
    assert (first, cloud.holders(ONE)) == ("a", {ONE: ["a"]})
    retry = args["filter_properties"]["retry"] | {"exc": ["Traceback"], "exc_reason": "no disk"}
    run(cloud, ONE, properties=args["filter_properties"] | {"retry": retry}, is_first_time=False)
    ((_, again),) = [each for each in cloud.told("run_instance") if each[0] == "b"]
    assert again["filter_properties"]["retry"] == {"num_attempts": 2, "hosts": [["a", "a"], ["b", "b"]]}
    assert cloud.holders(ONE) == {ONE: ["b"]}


def test_a_second_try_that_fails_leaves_nothing_claimed(make):
    cloud = make(enabled_filters=("RetryFilter",))
    run(cloud, ONE)
    ((_, args),) = cloud.told("run_instance")

    def lose_the_broker(*args):
        raise RpcUnreachable("the broker is away")

    cloud.transport.cast = lose_the_broker
    with pytest.raises(RpcUnreachable):
        run(cloud, ONE, properties=args["filter_properties"])
    assert cloud.holders(ONE) == {}


def test_a_message_that_comes_twice_books_one_host(make):
    cloud = make()
    run(cloud, ONE)
    run(cloud, ONE)
    assert [host for host, _ in cloud.told("run_instance")] == ["a", "a"]
    assert cloud.holders(ONE) == {ONE: ["a"]}


def test_after_too_many_attempts_it_fails_and_there_is_no_end(make):
    cloud = make(max_attempts=2)
    cloud.add_servers(ONE)
    run(cloud, ONE, properties={"retry": {"num_attempts": 2, "hosts": [["a", "a"]], "exc_reason": "no disk"}})
    assert cloud.state(ONE) == ("error", None)
    assert cloud.events() == ["scheduler.run_instance.start", "scheduler.run_instance"]
    reason = f"Exceeded max scheduling attempts 2 for instance {ONE}. Last exception: no disk"
    assert cloud.notifications[-1].payload["reason"] == f"No valid host was found. {reason}"


def test_where_others_are_faster_again_and_again_there_is_no_host(make):
    cloud = make()
    cloud.add_servers(ONE)

    def refuse(claims):
        raise ClaimRejected([Refusal("a", "a", "full")])

    cloud.ledger.claim = refuse
    run(cloud, ONE)
    assert cloud.state(ONE) == ("error", None)
    assert cloud.notifications[-1].payload["reason"].startswith("No valid host was found. ")


def test_any_other_error_fails_the_instances_and_is_raised(make):
    cloud = make()
    cloud.add_servers(ONE, TWO)
    spec = request_spec(ONE, TWO, flavor=FLAVOR | {"vcpus": "many"})
    with pytest.raises(FieldError, match="vcpus"):
        run(cloud, spec=spec)
    assert cloud.state(ONE) == cloud.state(TWO) == ("error", None)
    assert cloud.events("ERROR") == ["scheduler.run_instance"] * 2


def test_what_a_host_has_been_told_to_build_does_not_fail_with_the_rest(make):
    cloud = make()
    cloud.add_servers(ONE, TWO, vm_state="building")
    cast, sent = cloud.transport.cast, []

    def lose_the_broker_after_one(*args):
        if sent:
            raise RpcUnreachable("the broker is away")
        sent.append(args)
        cast(*args)

    cloud.transport.cast = lose_the_broker_after_one
    with pytest.raises(RpcUnreachable):
        run(cloud, ONE, TWO)
    assert cloud.state(ONE)[0] == "building"
    assert cloud.state(TWO) == ("error", None)
    assert set(cloud.holders(ONE, TWO)) == {ONE}


def test_a_state_that_cannot_be_saved_is_announced_all_the_same(make, monkeypatch):
    cloud = make({"a": {"vcpus": 1}})

    def lose_the_database(*args, **more):
        raise DatabaseUnreachable("nobody answers")

    monkeypatch.setattr(outcomes, "save_server_state", lose_the_database)
    run(cloud, ONE, TWO)
    assert cloud.events("ERROR") == ["scheduler.run_instance"] * 2


def test_claims_that_cannot_be_given_back_do_not_hide_what_went_wrong(make):
    cloud = make()

    def lose_the_database(uuids):
        raise DatabaseUnreachable("nobody answers")

    def lose_the_broker(*args):
        cloud.ledger.release = lose_the_database
        raise RpcUnreachable("the broker is away")

    cloud.transport.cast = lose_the_broker
    with pytest.raises(RpcUnreachable):
        run(cloud, ONE)
    assert cloud.events("ERROR") == ["scheduler.run_instance"]


def test_nobody_is_told_where_there_is_no_notifier(make):
    cloud = make({"a": ROOM_FOR_ONE})
    older = LegacyMethods(cloud.manager, cloud.ledger, cloud.transport, cloud.engine, None, StandingClock())
    older.run_instance(ASKED_BY, request_spec(ONE, TWO))
    assert len(cloud.told("run_instance")) == 1
    assert cloud.notifications == []


def test_with_the_chance_driver_no_node_is_named(make):
    cloud = make(driver="chance_scheduler")
    run(cloud, ONE)
    ((_, args),) = cloud.told("run_instance")
    assert args["node"] is None
    assert args["filter_properties"]["limits"] == {}


@pytest.mark.parametrize(
    "spec",
    [
        None,
        "text",
        {},
        {"instance_uuids": "one"},
        {"instance_uuids": [None]},
        {"instance_uuids": [str(number) for number in range(10_001)]},
        {"instance_uuids": [ONE, ONE], "instance_type": FLAVOR},
        {"instance_uuids": [ONE], "instance_type": FLAVOR, "instance_properties": "text"},
    ],
)
def test_a_request_that_is_none_is_a_clear_error(make, spec):
    with pytest.raises(FieldError):
        make().older.run_instance(ASKED_BY, spec)


def test_passwords_and_files_are_told_to_nobody_but_the_host(make, caplog, capsys):
    caplog.set_level(logging.DEBUG)
    cloud = make({"a": ROOM_FOR_ONE})
    spec = request_spec(ONE, TWO, instance_properties={"admin_pass": SECRET, "injected_files": [SECRET]})
    run(cloud, spec=spec, admin_password=SECRET, injected_files=[["/root", SECRET]])
    assert len(cloud.told("run_instance")) == 1
    assert len(cloud.notifications) > 3
    assert SECRET not in json.dumps([each.payload for each in cloud.notifications])
    assert SECRET not in caplog.text + "".join(capsys.readouterr())


def test_secrets_are_left_out_wherever_they_are():
    assert without_secrets({"a": [{"admin_pass": 1, "b": 2}], "injected_files": 3}) == {"a": [{"b": 2}]}


def test_an_instance_may_be_an_object_too():
    record = {"nova_object.name": "Instance", "nova_object.data": {"uuid": ONE}}
    assert with_fields(record, host=None)["nova_object.data"] == {"uuid": ONE, "host": None}


def test_messages_of_versions_2_and_3_lead_here(make):
    cloud = make()
    cloud.transport.serve("scheduler", "here", make_endpoints(cloud.manager, cloud.older)).start()
    for version in ("2.9", "3.0"):
        args = {"request_spec": request_spec(ONE), "filter_properties": {}}
        cloud.transport.cast("scheduler", "run_instance", version, args, ASKED_BY)
    assert len(cloud.told("run_instance")) == 2


def test_resources_of_a_host_are_shown_per_project(make):
    cloud = make({"a": {}})
    run(cloud, ONE)
    shown = cloud.older.show_host_resources(ASKED_BY, "a")
    assert shown["resource"] == {
        "vcpus": 16,
        "memory_mb": 32768,
        "local_gb": 500,
        "vcpus_used": 2,
        "memory_mb_used": 2048,
        "local_gb_used": 10,
    }
    assert shown["usage"] == {"p1": {"vcpus": 2, "memory_mb": 2048, "root_gb": 10, "ephemeral_gb": 0}}


@pytest.mark.parametrize("host", ["nobody", None, 7])
def test_resources_of_a_host_that_is_not_there_cannot_be_shown(make, host):
    with pytest.raises(WireFailure, match="no compute host") as raised:
        make().older.show_host_resources(ASKED_BY, host)
    assert type(raised.value).__name__ == "ComputeHostNotFound"


def test_there_is_no_back_door_and_no_scheduling_of_volumes(make):
    cloud = make()
    assert cloud.older.get_backdoor_port(ASKED_BY) is None
    with pytest.raises(WireFailure, match="Volumes are not scheduled here"):
        cloud.older.create_volume(ASKED_BY, volume_id="v", snapshot_id=None)
