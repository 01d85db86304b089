# SPDX-License-Identifier: Apache-2.0
"""An instance is released alone while its migration holds something: the place in its group stays with that."""

import pytest
from tests.store.test_audit import book, found
from tests.store.test_ledger import add_node, claim, new_uuid

from roost.errors import ClaimRejected
from roost.ledger.claim import StrictGroup
from roost.model.resources import move_of

__all__ = ["book"]


@pytest.fixture
def nodes(current, book):
    return [add_node(current) for _ in range(2)]


def start(book, group, source, target):
    """An instance of one vCPU that gets two, on this node or another: its uuid, and that of its migration."""
    instance = new_uuid()
    book.claim([claim(source, 1, instance, group)])
    book.start_move(move_of(instance), claim(target, 2, instance, group))
    return instance, move_of(instance)


def slot_findings(engine):
    return [each for each in found(engine) if each.kind in ("slot", "binding", "crowded")]


def test_the_slot_of_a_resize_stays_with_the_migration(current, book, nodes):
    group = StrictGroup(new_uuid(), "anti-affinity")
    instance, migration = start(book, group, nodes[0], nodes[0])
    assert book.release([instance]) == 1
    with pytest.raises(ClaimRejected, match="members of the anti-affinity group"):
        book.claim([claim(nodes[0], group=group)])
    assert slot_findings(current) == []
    book.finish_move(migration)
    book.claim([claim(nodes[0], group=group)])


def test_the_instance_gets_the_slot_back(current, book, nodes):
    group = StrictGroup(new_uuid(), "anti-affinity")
    instance, migration = start(book, group, nodes[0], nodes[0])
    book.release([instance])
    assert book.undo_move(migration, instance)
    with pytest.raises(ClaimRejected, match="members of the anti-affinity group"):
        book.claim([claim(nodes[0], group=group)])
    assert slot_findings(current) == []
    assert book.release([instance]) == 1
    book.claim([claim(nodes[0], group=group)])


def test_the_slot_on_the_target_is_free_and_that_on_the_source_is_not(current, book, nodes):
    group = StrictGroup(new_uuid(), "anti-affinity")
    instance, _ = start(book, group, *nodes)
    book.release([instance])
    book.claim([claim(nodes[1], group=group)])
    with pytest.raises(ClaimRejected, match="members of the anti-affinity group"):
        book.claim([claim(nodes[0], group=group)])
    assert slot_findings(current) == []


@pytest.mark.parametrize("target", [0, 1])
def test_an_affinity_group_is_moving_while_its_migration_holds_something(current, book, nodes, target):
    group = StrictGroup(new_uuid(), "affinity")
    instance, migration = start(book, group, nodes[0], nodes[target])
    book.release([instance])
    for node in nodes:
        with pytest.raises(ClaimRejected, match="is moving from"):
            book.claim([claim(node, group=group)])
    assert slot_findings(current) == []
    book.finish_move(migration)
    book.claim([claim(nodes[1], group=group)])


def test_a_group_with_another_member_on_the_host_stays_there(current, book, nodes):
    group = StrictGroup(new_uuid(), "affinity")
    book.claim([claim(nodes[0], group=group)])
    instance, migration = start(book, group, nodes[0], nodes[0])
    book.release([instance])
    book.claim([claim(nodes[0], group=group)])
    with pytest.raises(ClaimRejected, match="is on host"):
        book.claim([claim(nodes[1], group=group)])
    assert slot_findings(current) == []
    book.release([migration])


def test_both_together_free_the_slot(current, book, nodes):
    group = StrictGroup(new_uuid(), "anti-affinity")
    for order in (1, -1):
        pair = start(book, group, nodes[0], nodes[0])
        assert book.release(pair[::order]) == 2
    book.claim([claim(nodes[0], group=group)])
    assert slot_findings(current) == []
