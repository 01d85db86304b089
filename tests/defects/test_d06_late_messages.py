# SPDX-License-Identifier: Apache-2.0
"""D6: a late or doubled `delete_instance_info` releases nothing that was claimed since."""

import datetime

import pytest
from tests.defects.clouds import INSTANCE, MIGRATION, RAM, THREE, TWO, all_held, node_uuids
from tests.flow.cloud import CONTEXT, UUID, request

from roost.ledger.claim import Claim
from roost.messages.context import RequestContext


@pytest.fixture
def cloud(make_cloud):
    return make_cloud(TWO, RAM)


def sent_at(cloud, seconds=0):
    """A context whose timestamp is this many seconds from now, in nova's form."""
    time = cloud.clock.now() + datetime.timedelta(seconds=seconds)
    return RequestContext.new("req-1", timestamp=time.replace(tzinfo=None).isoformat())


def test_d6_a_late_delete_instance_info_frees_nothing_new(cloud):
    quick, slow = cloud.service(), cloud.service()
    loop = quick.manager.claims
    loop.select(request(), [INSTANCE])
    loop.select(request(ignore_hosts=("a",)), [INSTANCE])
    quick.manager.delete_instance_info(CONTEXT, "a", INSTANCE)
    loop.select(request(ignore_hosts=("b",)), [INSTANCE])  # back to a
    slow.manager.delete_instance_info(CONTEXT, "a", INSTANCE)  # the same message, received late
    assert "a" in all_held(cloud, INSTANCE), f"it runs on a and holds {cloud.held(INSTANCE)}"


def test_d6_releasing_on_a_host_is_one_step(cloud):
    service = cloud.service()
    service.manager.claims.select(request(), [INSTANCE])
    usual, done = service.manager.claims.granter.release, []

    def release(uuids):
        if not done:
            done.append(cloud.manager().claims.select(request(ignore_hosts=("a",)), [INSTANCE]))
        return usual(uuids)

    service.manager.claims.granter.release = release
    service.manager.delete_instance_info(CONTEXT, "a", INSTANCE)
    if done:
        assert "b" in all_held(cloud, INSTANCE), f"moved to b meanwhile, and holds {cloud.held(INSTANCE)}"


def test_d6_a_claim_younger_than_the_message_stays(cloud):
    service = cloud.service()
    old = sent_at(cloud)
    cloud.clock.seconds += 10
    service.manager.claims.select(request(), [INSTANCE])
    service.manager.delete_instance_info(old, "a", INSTANCE)
    assert cloud.held(INSTANCE) == {INSTANCE: ["a"]}
    service.manager.delete_instance_info(sent_at(cloud, 1), "a", INSTANCE)
    assert cloud.held(INSTANCE) == {}


@pytest.mark.parametrize("timestamp", [None, "", "yesterday", 17, ["now"]])
def test_d6_a_message_without_a_readable_timestamp_counts_as_new(cloud, timestamp):
    service = cloud.service()
    service.manager.claims.select(request(), [INSTANCE])
    service.manager.delete_instance_info(RequestContext.new("req-1", timestamp=timestamp), "a", INSTANCE)
    assert cloud.held(INSTANCE) == {}


def test_d6_the_source_is_released_by_the_message_of_the_request_that_moved_it(cloud):
    """The context is made when the move is asked for, before the target is claimed."""
    service = cloud.service()
    service.manager.claims.select(request(), [INSTANCE])
    cloud.clock.seconds += 10
    asked = sent_at(cloud)
    cloud.clock.seconds += 1
    service.manager.claims.select(request(ignore_hosts=("a",)), [INSTANCE])
    service.manager.delete_instance_info(asked, "a", INSTANCE)
    assert cloud.held(INSTANCE, MIGRATION) == {INSTANCE: ["b"]}


def test_d6_a_source_that_was_given_back_and_moved_again_in_one_request_is_released_by_its_message(cloud):
    service = cloud.service()
    service.manager.claims.select(request(), [INSTANCE])
    cloud.clock.seconds += 10
    asked = sent_at(cloud)
    for _ in range(2):
        cloud.clock.seconds += 1
        service.manager.claims.granter.undo_move(MIGRATION, INSTANCE)
        service.manager.claims.select(request(ignore_hosts=("a",)), [INSTANCE])
    service.manager.delete_instance_info(asked, "a", INSTANCE)
    assert cloud.held(INSTANCE, MIGRATION) == {INSTANCE: ["b"]}


def test_d6_one_of_several_nodes_is_released(make_cloud):
    cloud = make_cloud(THREE, RAM)
    loop, nodes = cloud.manager().claims, node_uuids(cloud.engine)
    loop.select(request(), [INSTANCE])
    loop.select(request(ignore_hosts=("a",)), [INSTANCE])
    loop.select(request(force_hosts=("c",)), [INSTANCE])
    assert cloud.held(INSTANCE, MIGRATION) == {INSTANCE: ["c"], MIGRATION: ["a", "b"]}
    assert cloud.ledger.release_on([INSTANCE, MIGRATION], [nodes["a"]]) == 1
    assert cloud.held(INSTANCE, MIGRATION) == {INSTANCE: ["c"], MIGRATION: ["b"]}
    assert cloud.ledger.release_on([INSTANCE, MIGRATION], [nodes["a"]]) == 0


def test_d6_claims_without_a_time_count_as_old(cloud):
    nodes = node_uuids(cloud.engine)
    cloud.ledger.claim([Claim(UUID % 7, nodes["a"], {"VCPU": 1})])
    with cloud.engine.begin() as connection:
        connection.exec_driver_sql("update consumers set created_at = null, updated_at = null")
    past = cloud.clock.now() - datetime.timedelta(days=1)
    assert cloud.ledger.release_on([UUID % 7], [nodes["a"]], made_before=past) == 1
