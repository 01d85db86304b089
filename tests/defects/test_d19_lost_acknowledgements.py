# SPDX-License-Identifier: Apache-2.0
"""D19: where the answer to a commit is lost, operations of the ledger return what that commit did."""

import uuid

import pytest
from tests.store.ack_proxy import AckProxy
from tests.store.test_ledger import add_node, claim, group, used

from roost.ledger.ledger import Ledger
from roost.store.schema_upgrade import upgrade

pytestmark = pytest.mark.parametrize("kind", ["postgresql", "mariadb"])


@pytest.fixture
def cut(opened, databases, kind):
    """A database, a proxy in front of it, and a ledger that reaches it by the proxy."""
    address = databases.create(kind)
    engine = opened(address)
    upgrade(engine)
    port = databases.server(kind).port
    with AckProxy(port) as proxy:
        ledger = Ledger(opened(address.replace(f":{port}/", f":{proxy.port}/")), sleep=lambda seconds: None)
        yield engine, ledger, proxy


def test_d19_a_release_counts_what_the_unacknowledged_commit_released(cut):
    engine, ledger, proxy = cut
    node = add_node(engine)
    claims = [claim(node) for _ in range(3)]
    ledger.claim(claims)
    proxy.lose_next()
    assert ledger.release([each.consumer_uuid for each in claims]) == 3
    assert proxy.lost == 1
    assert used(engine, node)["VCPU"] == 0
    assert ledger.release([each.consumer_uuid for each in claims]) == 0


@pytest.mark.parametrize("ends_well", [True, False])
def test_d19_the_end_of_a_move_says_that_it_was_done(cut, ends_well):
    engine, ledger, proxy = cut
    source, target = add_node(engine), add_node(engine)
    strict, migration = group("anti-affinity"), str(uuid.uuid4())
    moved = claim(source, group=strict)
    ledger.claim([moved])
    ledger.start_move(migration, claim(target, consumer=moved.consumer_uuid, group=strict))
    proxy.lose_next()
    end = ledger.finish_move if ends_well else lambda each: ledger.undo_move(each, moved.consumer_uuid)
    assert end(migration) is True
    assert proxy.lost == 1
    left, held = (source, target) if ends_well else (target, source)
    assert (used(engine, left)["VCPU"], used(engine, held)["VCPU"]) == (0, 2)
    assert end(migration) is False


def test_d19_claims_and_the_start_of_a_move_are_done_once(cut):
    engine, ledger, proxy = cut
    source, target = add_node(engine), add_node(engine)
    first, migration = claim(source), str(uuid.uuid4())
    proxy.lose_next(first.consumer_uuid.encode() if engine.dialect.name == "postgresql" else b"COMMIT")
    ledger.claim([first])
    proxy.lose_next()
    ledger.claim([claim(source), claim(target)])
    proxy.lose_next()
    ledger.start_move(migration, claim(target, consumer=first.consumer_uuid))
    assert proxy.lost == 3
    assert (used(engine, source)["VCPU"], used(engine, target)["VCPU"]) == (4, 4)


def test_d19_several_lost_answers_to_one_release(cut):
    engine, ledger, proxy = cut
    node = add_node(engine)
    one, two = claim(node), claim(node)
    ledger.claim([one, two])
    proxy.loses = lambda request: b"COMMIT" in request and proxy.lost < 3
    assert ledger.release([one.consumer_uuid, two.consumer_uuid]) == 2
    assert proxy.lost == 3
