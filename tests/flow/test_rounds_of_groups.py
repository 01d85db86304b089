# SPDX-License-Identifier: Apache-2.0
"""Requests with strict groups find a free host in a handful of rounds, whatever the replica has not read yet."""

import uuid

import pytest
from tests.flow.cloud import UUID, hosts_of, request

from roost.messages.context import RequestContext
from roost.model import ServerGroup

RAM = {"filter_scheduler": {"weight_classes": ["RAMWeigher"]}}
MANY = {f"h{number:03d}": {"total_usable_ram_mb": 30000 + number} for number in range(120)}
"""More than the claim loop has rounds; the last one is the best."""


def new_group(policy, **rules):
    return ServerGroup(policy, "g", str(uuid.uuid4()), rules=rules)


@pytest.fixture
def cloud(make_cloud):
    return make_cloud(MANY, RAM)


def test_one_of_two_members_of_an_affinity_group_holds_its_host_already(cloud):
    loop, group = cloud.manager().claims, new_group("affinity")
    loop.select(request(instance_group=group, force_hosts=("h000",)), [UUID % 1])
    placed = loop.select(request(instance_group=group, num_instances=2), [UUID % 1, UUID % 2])
    assert hosts_of(placed) == ["h000", "h000"]
    assert placed.rounds == 1


def test_a_late_message_that_a_member_has_left_does_not_cost_a_round_for_every_host(cloud):
    """The ledger keeps the claim, which is younger than the message; the replica has removed the member."""
    manager, group = cloud.manager(), new_group("affinity")
    late = RequestContext.new("req-1", timestamp=cloud.clock.now().replace(tzinfo=None).isoformat())
    cloud.clock.seconds += 10
    manager.claims.select(request(instance_group=group, force_hosts=("h000",)), [UUID % 1])
    cloud.clock.seconds += 10
    manager.claims.refresh()
    manager.delete_instance_info(late, "h000", UUID % 1)
    assert cloud.held(UUID % 1) == {UUID % 1: ["h000"]}
    placed = manager.claims.select(request(instance_group=group), [UUID % 2])
    assert hosts_of(placed) == ["h000"]
    assert placed.rounds <= 2


def test_a_member_grows_on_its_own_host_while_another_moves_away_from_there(make_cloud):
    cloud = make_cloud({"a": {}, "b": {"total_usable_ram_mb": 3000}}, RAM)
    loop, group = cloud.manager().claims, new_group("anti-affinity", max_server_per_host=2)
    for number in (1, 2):
        loop.select(request(instance_group=group, force_hosts=("a",)), [UUID % number])
    assert hosts_of(loop.select(request(instance_group=group, ignore_hosts=("a",)), [UUID % 2])) == ["b"]
    assert hosts_of(loop.select(request(4096, instance_group=group), [UUID % 1])) == ["a"]
