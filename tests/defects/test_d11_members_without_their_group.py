# SPDX-License-Identifier: Apache-2.0
"""D11: a member that the store knows is guarded, whether or not its request names the group."""

import pytest
from sqlalchemy import insert, select
from tests.defects.clouds import INSTANCE, RAM, new_group
from tests.flow.cloud import UUID, hosts_of, request
from tests.store.test_ledger import add_node, claim, new_uuid, used

from roost.errors import ClaimRejected, NoValidHost
from roost.ledger.ledger import Ledger
from roost.model.request import Destination
from roost.store.schema.servers import server_group_members, server_group_slots, server_groups
from roost.store.schema_upgrade import upgrade


def test_d11_a_member_that_moves_without_its_group_in_the_request(make_cloud):
    cloud, group = make_cloud({f"h{at}": {} for at in range(3)}, RAM), new_group()
    loop = cloud.manager().claims
    loop.select(request(instance_group=group, force_hosts=("h0",)), [INSTANCE])
    loop.select(request(instance_group=group, force_hosts=("h1",)), [UUID % 2])
    with pytest.raises(NoValidHost, match=r"1 members of the anti-affinity group .* are there; 1 may be"):
        loop.select(request(requested_destination=Destination(host="h0")), [UUID % 2])
    assert cloud.held(INSTANCE, UUID % 2) == {INSTANCE: ["h0"], UUID % 2: ["h1"]}
    assert loop.refusals == 1


def test_d11_all_closed_hosts_of_the_group_are_out_after_the_first_refusal(make_cloud):
    cloud = make_cloud({f"h{at}": {"total_usable_ram_mb": 32768 if at < 4 else 20000} for at in range(6)}, RAM)
    group = new_group()
    loop = cloud.manager().claims
    for at in range(4):
        loop.select(request(instance_group=group, force_hosts=(f"h{at}",)), [UUID % (at + 1)])
    assert hosts_of(loop.select(request(memory_mb=1024, ignore_hosts=("h3",)), [UUID % 4])) == ["h4"]
    assert loop.refusals == 1


def test_d11_a_member_of_an_affinity_group_stays_with_it(make_cloud):
    cloud, group = make_cloud({f"h{at}": {} for at in range(4)}, RAM), new_group("affinity")
    loop = cloud.manager().claims
    for number in (1, 2):
        loop.select(request(instance_group=group, force_hosts=("h3",)), [UUID % number])
    with pytest.raises(NoValidHost, match=r"the affinity group .* is on host h3"):
        loop.select(request(ignore_hosts=("h3",)), [INSTANCE])
    assert loop.refusals == 1


@pytest.fixture
def engine(databases, kind, opened):
    made = opened(databases.create(kind))
    upgrade(made)
    return made


def add_member(engine, policy, consumer, most=1):
    with engine.begin() as connection:
        row = {"uuid": new_uuid(), "name": "g", "policy": policy, "max_server_per_host": most}
        group_id = connection.execute(insert(server_groups), row).inserted_primary_key[0]
        connection.execute(
            insert(server_group_members), [{"group_id": group_id, "server_uuid": each} for each in consumer]
        )
    return group_id


def test_d11_a_new_consumer_that_is_listed_as_a_member_is_guarded(engine):
    node, book = add_node(engine), Ledger(engine)
    one, two = claim(node), claim(node)
    group_id = add_member(engine, "anti-affinity", [one.consumer_uuid, two.consumer_uuid])
    book.claim([one])
    with pytest.raises(ClaimRejected, match=r"1 members of the anti-affinity group .* are there; 1 may be"):
        book.claim([two])
    assert used(engine, node)["VCPU"] == 2
    with engine.connect() as connection:
        (slot,) = connection.execute(
            select(server_group_slots).where(server_group_slots.c.group_id == group_id)
        ).all()
    assert slot.consumer_uuid == one.consumer_uuid


def test_d11_members_of_soft_groups_are_claimed_as_others_are(engine):
    node, book = add_node(engine), Ledger(engine)
    one, two = claim(node), claim(node)
    add_member(engine, "soft-anti-affinity", [one.consumer_uuid, two.consumer_uuid])
    book.claim([one])
    book.claim([two])
    assert used(engine, node)["VCPU"] == 4
