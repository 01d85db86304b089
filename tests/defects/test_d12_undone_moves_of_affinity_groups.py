# SPDX-License-Identifier: Apache-2.0
"""D12: undoing a move never splits an affinity group: no member joins while one moves."""

import pytest
from sqlalchemy import insert
from tests.defects.clouds import INSTANCE, new_group, node_uuids
from tests.flow.cloud import UUID, hosts_of, request
from tests.store.test_ledger import add_node, claim, new_uuid

from roost.errors import ClaimRejected, NoValidHost
from roost.ledger.claim import Claim, StrictGroup
from roost.ledger.ledger import Ledger
from roost.store.schema.servers import server_group_members, server_group_slots, server_groups
from roost.store.schema_upgrade import upgrade

AMOUNTS = {"VCPU": 1}


def test_d12_an_undone_move_keeps_an_affinity_group_together(make_cloud):
    cloud = make_cloud({f"h{at}": {} for at in range(3)})
    ledger, nodes = cloud.ledger, node_uuids(cloud.engine)
    group = StrictGroup(new_uuid(), "affinity")
    ledger.claim([Claim(INSTANCE, nodes["h0"], AMOUNTS, group=group)])
    ledger.start_move(UUID % 91, Claim(INSTANCE, nodes["h1"], AMOUNTS, group=group))
    with pytest.raises(ClaimRejected, match=f"the affinity group {group.uuid} is moving from h0 to h1"):
        ledger.claim([Claim(UUID % 2, nodes["h1"], AMOUNTS, group=group)])
    ledger.undo_move(UUID % 91, INSTANCE)
    ledger.claim([Claim(UUID % 2, nodes["h0"], AMOUNTS, group=group)])
    assert cloud.held(INSTANCE)[INSTANCE] == cloud.held(UUID % 2)[UUID % 2] == ["h0"]


def test_d12_a_request_of_a_new_member_is_refused_in_few_rounds_while_the_group_moves(make_cloud):
    cloud, group = make_cloud({f"h{at}": {} for at in range(3)}), new_group("affinity")
    loop = cloud.manager().claims
    loop.select(request(instance_group=group), [INSTANCE])
    loop.select(request(instance_group=group, ignore_hosts=("h0",)), [INSTANCE])
    with pytest.raises(NoValidHost, match="is moving from h0 to"):
        loop.select(request(instance_group=group), [UUID % 2])
    assert loop.refusals <= 2
    assert hosts_of(loop.select(request(instance_group=group, ignore_hosts=("h0",)), [INSTANCE])) != ["h0"]


@pytest.fixture
def engine(databases, kind, opened):
    made = opened(databases.create(kind))
    upgrade(made)
    return made


def test_d12_members_that_joined_without_the_ledger_keep_a_move_from_being_undone(engine):
    book, source, target, group = (
        Ledger(engine),
        add_node(engine),
        add_node(engine),
        StrictGroup(new_uuid(), "affinity"),
    )
    one, other, move = claim(source, group=group), claim(target), new_uuid()
    book.claim([one])
    book.start_move(move, claim(target, consumer=one.consumer_uuid, group=group))
    book.claim([other])
    with engine.begin() as connection:
        (row,) = connection.execute(server_groups.select()).all()
        connection.execute(insert(server_group_members), {"group_id": row.id, "server_uuid": other.consumer_uuid})
    held = book.read_allocations([one.consumer_uuid, move])
    with pytest.raises(ClaimRejected, match=r"the affinity group .* is on host"):
        book.undo_move(move, one.consumer_uuid)
    assert book.read_allocations([one.consumer_uuid, move]) == held


def test_d12_the_place_of_the_migration_is_a_row_until_the_move_is_finished(engine):
    book, source, target, group = (
        Ledger(engine),
        add_node(engine),
        add_node(engine),
        StrictGroup(new_uuid(), "affinity"),
    )
    one, move = claim(source, group=group), new_uuid()
    book.claim([one])
    book.start_move(move, claim(target, consumer=one.consumer_uuid, group=group))
    with engine.connect() as connection:
        (row,) = connection.execute(server_group_slots.select()).all()
    assert (row.slot, row.consumer_uuid) == (0, move)
    book.finish_move(move)
    with engine.connect() as connection:
        assert connection.execute(server_group_slots.select()).all() == []
    book.claim([claim(target, group=group)])
