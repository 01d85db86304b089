# SPDX-License-Identifier: Apache-2.0
"""plan_destinations: the answer of select_destinations, and everything is as it was before."""

import pytest
from tests.flow.cloud import CONTEXT, UUID, request, state_of

from roost.errors import RemoteFailure, RemoteNoValidHost
from roost.messages.context import RequestContext
from roost.model import ServerGroup
from roost.model.resources import move_of

BY_RAM = {"filter_scheduler": {"weight_classes": ["RAMWeigher"]}}
HOSTS = {"a": {}, "b": {"total_usable_ram_mb": 16384}, "c": {"total_usable_ram_mb": 8192}}
ASKS = RequestContext.new("req-2", "ann", "blue", roost_summary=True)


@pytest.fixture
def cloud(make_cloud):
    made = make_cloud(HOSTS, BY_RAM)
    made.service()
    return made


def hosts_of(selections):
    return [[each.host for each in one] for one in selections]


def test_a_plan_names_the_hosts_that_the_request_gets_afterwards(cloud):
    uuids = [UUID % 1, UUID % 2]
    plan = cloud.client().plan_destinations(CONTEXT, request(12000), uuids)
    assert hosts_of(plan.selections)[0][0] == "a"
    assert plan.summary == "2 of 2 placed on a, a"
    got = cloud.client().select_destinations(CONTEXT, request(12000), uuids, True, True)
    assert hosts_of(got) == hosts_of(plan.selections)


def test_a_plan_claims_nothing_and_leaves_the_table_as_it_was(cloud):
    loop = cloud.services[0].manager.claims
    loop.refresh()
    before = state_of(loop.replica.table)
    for _ in range(3):
        plan = cloud.client().plan_destinations(CONTEXT, request(20000), [UUID % 1])
        assert plan.selections[0][0].host == "a"
    assert cloud.held(UUID % 1) == {}
    assert state_of(loop.replica.table) == before
    assert cloud.notifications == []


@pytest.mark.parametrize(("wanted", "host"), [({"ignore_hosts": ("a",)}, "b"), ({"force_hosts": ("a",)}, "a")])
def test_a_plan_of_a_move_leaves_the_server_where_it_is(cloud, wanted, host):
    client, uuid, loop = cloud.client(), UUID % 1, cloud.services[0].manager.claims
    client.select_destinations(CONTEXT, request(), [uuid], True)
    loop.replica.refresh(also={("a", "a")})  # as the store has it, and not as it was consumed
    before = state_of(loop.replica.table)
    plan = client.plan_destinations(CONTEXT, request(4096, **wanted), [uuid])
    assert plan.selections[0][0].host == host
    assert cloud.held(uuid, move_of(uuid)) == {uuid: ["a"]}
    loop.refresh()
    assert state_of(loop.replica.table) == before


def test_a_plan_keeps_the_rules_of_a_strict_group(cloud):
    group = ServerGroup(policy="anti-affinity", uuid=UUID % 90)
    client = cloud.client()
    client.select_destinations(CONTEXT, request(instance_group=group), [UUID % 1], True)
    for _ in range(2):
        plan = client.plan_destinations(CONTEXT, request(instance_group=group), [UUID % 2])
        assert plan.selections[0][0].host == "b"


def test_a_plan_without_a_host_says_why(cloud):
    with pytest.raises(RemoteNoValidHost) as caught:
        cloud.client().plan_destinations(CONTEXT, request(40000), [UUID % 1])
    assert caught.value.message.startswith("No valid host was found.")
    assert caught.value.summary.startswith("0 of 3 hosts fit: 3 ")


def test_a_wrong_request_is_refused_as_select_destinations_refuses_it(cloud):
    with pytest.raises(RemoteFailure, match="names an instance twice"):
        cloud.client().plan_destinations(CONTEXT, request(), [UUID % 1, UUID % 1])


def test_a_refusal_has_its_summary_only_for_a_caller_that_asks_for_it(cloud):
    for context, summary in ((CONTEXT, ""), (ASKS, "0 of 3 hosts fit: 3 ")):
        with pytest.raises(RemoteNoValidHost) as caught:
            cloud.client().select_destinations(context, request(40000), [UUID % 1], True)
        assert caught.value.summary.startswith(summary)
        assert bool(caught.value.summary) == bool(summary)
