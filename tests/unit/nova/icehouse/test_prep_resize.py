# SPDX-License-Identifier: Apache-2.0
"""prep_resize of Icehouse and Juno: spec/drivers-and-rpc.md 2.3."""

import pytest
from tests.unit.nova.icehouse.legacy_cloud import ASKED_BY, FLAVOR, ONE, Cloud, request_spec

from roost.errors import FieldError, RpcUnreachable

LARGE = FLAVOR | {"id": 2, "flavorid": "l", "name": "large", "vcpus": 6, "memory_mb": 8192}
HOSTS = {"a": {"free_ram_mb": 30000}, "b": {"free_ram_mb": 20000}, "c": {"free_ram_mb": 10000}}


@pytest.fixture
def make(tmp_path):
    made = []

    def make_cloud(hosts=HOSTS, **options):
        made.append(Cloud(tmp_path, hosts, **options))
        cloud = made[-1]
        cloud.older.run_instance(ASKED_BY, request_spec(ONE), filter_properties={"force_hosts": ["a"]})
        cloud.add_servers(ONE, host="a", vm_state="active", task_state="resize_prep")
        cloud.notifications.clear()
        return cloud

    yield make_cloud
    for cloud in made:
        cloud.close()


def instance(**more):
    return {"uuid": ONE, "host": "a", "node": "a", "vm_state": "active", "memory_mb": 2048, **more}


def resize(cloud, properties=None, spec=None, flavor=LARGE, reservations=(), **more):
    cloud.older.prep_resize(
        ASKED_BY,
        instance(**more),
        flavor,
        {"id": "i"},
        spec or request_spec(ONE, flavor=flavor),
        {"ignore_hosts": ["a"]} | (properties or {}),
        list(reservations),
    )


def test_the_chosen_host_is_told_to_prepare(make):
    cloud = make()
    resize(cloud, reservations=["r1"])
    ((host, args),) = cloud.told("prep_resize")
    assert (host, args["node"]) == ("b", "b")
    assert args["instance"]["uuid"] == ONE
    assert args["instance_type"] == LARGE
    assert args["image"] == {"id": "i"}
    assert args["reservations"] == ["r1"]
    assert args["request_spec"]["num_instances"] == 1
    assert args["filter_properties"]["retry"] == {"num_attempts": 1, "hosts": [["b", "b"]]}
    assert "limits" in args["filter_properties"]


def test_the_target_is_claimed_and_the_source_is_kept(make):
    cloud = make()
    resize(cloud)
    assert cloud.holders(ONE) == {ONE: ["b"]}
    assert cloud.vcpus_taken() == {"a": 2, "b": 6, "c": 0}


def test_without_a_host_it_stays_as_it_was_and_the_caller_hears_nothing(make):
    cloud = make()
    resize(cloud, flavor=LARGE | {"vcpus": 64}, vm_state="stopped", reservations=["r1", "r2"])
    assert cloud.told("prep_resize") == []
    assert cloud.state(ONE) == ("stopped", None)
    assert cloud.holders(ONE) == {ONE: ["a"]}
    (error,) = cloud.notifications
    assert (error.priority, error.event_type) == ("ERROR", "scheduler.prep_resize")
    assert (error.payload["state"], error.payload["method"]) == ("stopped", "prep_resize")
    assert error.payload["reason"] == "No valid host was found. There are not enough hosts available."


def test_an_instance_that_names_no_state_is_active(make):
    cloud = make()
    resize(cloud, flavor=LARGE | {"vcpus": 64}, vm_state=None)
    assert cloud.state(ONE) == ("active", None)


def test_any_other_error_puts_it_into_the_state_error_and_is_raised(make):
    cloud = make()
    with pytest.raises(FieldError):
        resize(cloud, flavor=LARGE | {"vcpus": "many"})
    assert cloud.state(ONE) == ("error", None)
    assert cloud.events("ERROR") == ["scheduler.prep_resize"]


def test_a_target_that_could_not_be_told_is_given_back(make):
    cloud = make()

    def lose_the_broker(*args):
        raise RpcUnreachable("the broker is away")

    cloud.transport.cast = lose_the_broker
    with pytest.raises(RpcUnreachable):
        resize(cloud)
    assert cloud.holders(ONE) == {ONE: ["a"]}


def test_a_target_that_failed_is_left_and_another_one_is_tried(make):
    cloud = make(enabled_filters=("RetryFilter",))
    resize(cloud)
    ((_, args),) = cloud.told("prep_resize")
    resize(cloud, args["filter_properties"] | {"ignore_hosts": ["a"]})
    assert [host for host, _ in cloud.told("prep_resize")] == ["b", "c"]
    assert cloud.holders(ONE) == {ONE: ["c"]}
    assert cloud.vcpus_taken() == {"a": 2, "b": 0, "c": 6}


def test_a_second_try_that_fails_leaves_it_where_it_was(make):
    cloud = make(enabled_filters=("RetryFilter",))
    resize(cloud)
    ((_, args),) = cloud.told("prep_resize")
    resize(cloud, args["filter_properties"] | {"ignore_hosts": ["a", "c"]})
    assert len(cloud.told("prep_resize")) == 1
    assert cloud.holders(ONE) == {ONE: ["a"]}


def test_after_too_many_attempts_it_stays_as_it_was(make):
    cloud = make(max_attempts=2)
    resize(cloud, {"retry": {"num_attempts": 2, "hosts": []}})
    assert cloud.state(ONE) == ("active", None)
    assert "Exceeded max scheduling attempts 2" in cloud.notifications[-1].payload["reason"]


def test_a_request_that_names_no_instance_is_about_the_one_to_resize(make):
    cloud = make()
    spec = request_spec(ONE, flavor=LARGE)
    del spec["instance_uuids"], spec["instance_type"]
    resize(cloud, spec=spec)
    ((_, args),) = cloud.told("prep_resize")
    assert args["request_spec"]["instance_uuids"] == [ONE]
    assert args["request_spec"]["instance_type"] == LARGE


@pytest.mark.parametrize("broken", [None, "text", {}, {"uuid": 7}])
def test_an_instance_that_is_none_is_a_clear_error(make, broken):
    with pytest.raises(FieldError, match="instance"):
        make().older.prep_resize(ASKED_BY, broken, LARGE, {}, request_spec(ONE), {}, [])
