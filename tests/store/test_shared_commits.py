# SPDX-License-Identifier: Apache-2.0
"""What is written where a consumer holds the same amounts before and after a transaction, and more has changed."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.store.test_ledger import add_node, claim, group, rows_of

from roost.errors import ClaimRejected
from roost.hosts.guests import Guest
from roost.hosts.pci import pools_from_json
from roost.ledger import groups, ledger
from roost.ledger.audit import audit
from roost.ledger.ledger import Ledger
from roost.ledger.operations import ClaimAll, Release
from roost.model.resources import move_of
from roost.scheduler.rounds import plan_claims, read_held
from roost.store.schema.fleet import compute_nodes
from roost.store.schema.servers import server_group_hosts, server_groups

POOLS = [{"vendor_id": "10de", "product_id": "1eb8", "dev_type": "type-PCI", "numa_node": None, "count": 1}]
COUNTS = ("vcpus_used", "memory_mb_used", "free_ram_mb", "local_gb_used", "free_disk_gb", "running_vms", "pci_stats")


@pytest.fixture
def book(current):
    return Ledger(current)


def counts(engine, node):
    (row,) = rows_of(engine, compute_nodes, uuid=node)
    return {name: row[name] for name in COUNTS}


def test_a_merged_claim_is_released_by_the_counts_with_which_it_was_merged(current, book):
    node, other = add_node(current, pci_stats=POOLS, base_pci_stats=POOLS), add_node(current)
    before, large = counts(current, node), claim(node, 4)
    instance = large.consumer_uuid
    migration = move_of(instance)
    book.claim([replace(large, guest=Guest((), pools_from_json(POOLS), instance))])
    book.start_move(migration, claim(node, 1, instance))
    book.claim_and_move(*plan_claims([claim(other, 1, instance)], read_held(book, [instance]), set()))
    assert book.release([instance, migration]) == 2
    assert counts(current, node) == before


def test_two_descriptions_of_a_new_group_in_one_commit(current, book):
    nodes, rule = [add_node(current), add_node(current)], group("anti-affinity")
    rules = rule, rule._replace(name="")
    claims = [ClaimAll((claim(node, 1, group=each),)) for node, each in zip(nodes, rules, strict=True)]
    assert book._commit_group(claims) == [None, None]


def test_devices_that_a_node_reports_in_two_equal_pools(current, book):
    node = add_node(current, pci_stats=POOLS * 2, base_pci_stats=POOLS * 2)
    before, one = counts(current, node), claim(node, 1)
    devices = pools_from_json([POOLS[0] | {"count": 2}])
    book.claim([replace(one, guest=Guest((), devices, one.consumer_uuid))])
    assert counts(current, node)["pci_stats"] == []
    assert not [each for each in audit(current, datetime.now(UTC), 3600) if each.kind == "overbooked"]
    book.release([one.consumer_uuid])
    assert counts(current, node) == before


def test_a_consumer_that_appears_while_another_is_locked(current, book, monkeypatch):
    """Its group was not locked with the others: the transaction is tried again, with the group."""
    node, rule = add_node(current), group("affinity")
    known, new = claim(node, 1), claim(node, 1, group=rule)
    book.claim([known])
    happens = [lambda: Ledger(current).claim([new])]

    def lock_groups(*arguments):
        while happens:
            happens.pop()()
        return groups.lock_groups(*arguments)

    monkeypatch.setattr(ledger, "lock_groups", lock_groups)
    if current.dialect.name == "sqlite":
        happens.pop()()  # one transaction writes at a time
    book.release([known.consumer_uuid, new.consumer_uuid])
    bound = {row["group_id"] for row in rows_of(current, server_group_hosts)}
    assert bound.isdisjoint(row["id"] for row in rows_of(current, server_groups, uuid=rule.uuid))


def test_a_release_and_a_claim_with_a_group_in_one_commit(current, book):
    node, rule = add_node(current), group("anti-affinity")
    one = claim(node, 1)
    book.claim([one])
    again = ClaimAll((replace(one, group=rule),))
    assert book._commit_group([Release((one.consumer_uuid,)), again]) == [1, None]
    with pytest.raises(ClaimRejected, match="members of the anti-affinity group"):
        book.claim([claim(node, 1, group=rule)])
