# SPDX-License-Identifier: Apache-2.0
"""D2: a repeated request gets its earlier answer, whatever else is free."""

import pytest
from tests.defects.clouds import INSTANCE, Interrupted
from tests.flow.cloud import UUID, hosts_of, request

from roost.errors import NoValidHost

ONE_PLACE = {"a": {"vcpus_total": 2, "cpu_allocation_ratio": 1.0}}


def test_d2_a_repeat_on_a_full_fleet_is_the_earlier_answer(make_cloud):
    cloud = make_cloud(ONE_PLACE)
    loop = cloud.manager().claims
    loop.select(request(), [INSTANCE])
    cloud.clock.seconds += 5
    assert hosts_of(loop.select(request(), [INSTANCE])) == ["a"]


def test_d2_a_scheduler_that_has_not_heard_of_the_claim_gives_the_earlier_answer(make_cloud):
    cloud = make_cloud(ONE_PLACE)
    one, two = cloud.manager().claims, cloud.manager().claims
    two.refresh()
    one.select(request(), [INSTANCE])
    assert hosts_of(two.select(request(), [INSTANCE])) == ["a"]


def test_d2_a_claim_that_is_made_while_a_host_is_looked_for_is_the_answer(make_cloud):
    cloud = make_cloud(ONE_PLACE)
    one, two = cloud.manager().claims, cloud.manager().claims
    two.refresh()
    two.granter = Interrupted(cloud.ledger, lambda: one.select(request(), [INSTANCE]))
    assert hosts_of(two.select(request(), [INSTANCE])) == ["a"]


def test_d2_instances_of_a_request_that_hold_their_hosts_keep_them(make_cloud):
    cloud = make_cloud({"a": {"vcpus_total": 4, "cpu_allocation_ratio": 1.0}})
    loop = cloud.manager().claims
    loop.select(request(), [UUID % 2])
    assert hosts_of(loop.select(request(), [UUID % 1, UUID % 2])) == ["a", "a"]
    assert cloud.held(UUID % 1, UUID % 2) == {UUID % 1: ["a"], UUID % 2: ["a"]}
    with pytest.raises(NoValidHost):
        loop.select(request(), [UUID % 1, UUID % 2, UUID % 3])
    assert cloud.held(UUID % 1, UUID % 2, UUID % 3) == {UUID % 1: ["a"], UUID % 2: ["a"]}


def test_d2_a_new_instance_costs_no_further_round_trip(make_cloud):
    cloud = make_cloud(ONE_PLACE)
    loop = cloud.manager().claims
    loop.refresh()
    loop.granter.read_holdings = None  # would raise
    assert hosts_of(loop.select(request(), [INSTANCE])) == ["a"]
