# SPDX-License-Identifier: Apache-2.0
"""A claim in one statement leaves behind what the long way would, and where it cannot be, nothing at all."""

import random
import threading

import pytest
from sqlalchemy import select
from tests.store.fleets import NOW
from tests.store.test_ledger import add_node, claim, new_uuid, used

from roost.claims import Ledger
from roost.claims import ledger as ledger_module
from roost.claims.at_once import claim_at_once
from roost.claims.claim import StrictGroup
from roost.errors import AlreadyClaimed, ClaimRejected, RoostError
from roost.store import schema
from roost.store.changes import USAGE, usage_key

AT_ONCE = claim_at_once


@pytest.fixture(scope="module", params=["postgresql"])
def kind(request):
    return request.param


def random_node(engine, chance):
    """A node with odd portions, ratios and reservations."""
    totals = {"VCPU": chance.randint(1, 16), "MEMORY_MB": chance.choice([1024, 4096, 16384]), "CUSTOM_X": 4}
    inventory = {
        "reserved": chance.choice([0, 0, 1]),
        "allocation_ratio": chance.choice([0.5, 1.0, 1.0, 4.0]),
        "min_unit": chance.choice([1, 1, 2]),
        "max_unit": chance.choice([None, None, 8, 100000]),
        "step_size": chance.choice([1, 1, 2]),
    }
    kind = chance.choice(["QEMU", "QEMU", None, "ironic", "Ironic"])
    free = chance.choice([16384, None])
    return add_node(engine, totals=totals, inventory=inventory, hypervisor_type=kind, free_ram_mb=free)


def left_behind(engine, node, consumer):
    """All rows that tell of the two, without the numbers that rows are given."""
    with engine.connect() as connection:
        row = connection.execute(select(schema.compute_nodes).where(schema.compute_nodes.c.uuid == node)).one()
        parts = {"node": {**row._mapping, "id": 0, "uuid": "", "host": "", "hypervisor_hostname": ""}}
        for table, column in (
            (schema.inventories, schema.inventories.c.node_id),
            (schema.allocations, schema.allocations.c.node_id),
        ):
            found = connection.execute(select(table).where(column == row.id)).mappings()
            parts[table.name] = sorted(
                str({**each, "node_id": 0, **({"consumer_uuid": ""} if table is schema.allocations else {})})
                for each in found
            )
        known = connection.execute(select(schema.consumers).where(schema.consumers.c.uuid == consumer)).mappings()
        parts["consumer"] = [{**each, "uuid": ""} for each in known]
        noted = schema.changes.c.subject_key == usage_key(row.id, consumer)
        parts["changes"] = list(connection.scalars(select(schema.changes.c.subject).where(noted)))
    return parts


def outcome(engine, one):
    try:
        Ledger(engine, now=lambda: NOW).claim([one])
    except RoostError as error:
        return type(error), str(error).partition(":")[2]
    return None


def test_both_ways_leave_the_same_behind(current, monkeypatch):
    chance, ways = random.Random(1), set()
    for _ in range(60):
        seed, consumers = chance.getrandbits(32), [new_uuid(), new_uuid()]
        amounts = {"VCPU": chance.randint(0, 9), "MEMORY_MB": chance.choice([0, 512, 1024, 5000])}
        amounts |= chance.choice([{}, {"CUSTOM_X": 2}, {"CUSTOM_NONE": 1}])
        found = []
        for consumer, is_short in zip(consumers, (True, False), strict=True):
            node = random_node(current, random.Random(seed))
            wanted = {name: amount for name, amount in amounts.items() if amount} or {"VCPU": 1}
            one = claim(node, consumer=consumer)
            one = type(one)(**{**vars(one), "amounts": wanted})
            monkeypatch.setattr(ledger_module, "claim_at_once", AT_ONCE if is_short else lambda *_: False)
            result = outcome(current, one)
            found.append((result, left_behind(current, node, consumer)))
        assert found[0] == found[1], (seed, amounts)
        assert found[0][1]["changes"] == ([] if found[0][0] else [USAGE])
        ways.add(found[0][0] and found[0][0][0])
    assert ways == {None, ClaimRejected}


def test_what_is_held_already_is_fulfilled_and_something_else_is_not(current):
    node, other = add_node(current), add_node(current)
    book, one = Ledger(current), claim(node)
    for _ in range(3):
        book.claim([one])
    assert used(current, node)["VCPU"] == 2
    with pytest.raises(AlreadyClaimed):
        book.claim([claim(other, consumer=one.consumer_uuid)])
    assert used(current, other)["VCPU"] == 0


def test_a_group_and_many_classes_go_the_long_way(current):
    node = add_node(current)
    grouped = claim(node, group=StrictGroup(new_uuid(), "anti-affinity"))
    assert not claim_at_once(current, grouped, NOW)
    assert not claim_at_once(current, claim(node, A=1, B=1, C=1), NOW)
    assert used(current, node)["VCPU"] == 0


def test_threads_that_want_the_last_places_at_the_same_moment(current):
    """Each with a ledger of its own, so that nobody's commit is shared."""
    node, results = add_node(current, totals={"VCPU": 20, "MEMORY_MB": 99999}), []

    def take():
        book = Ledger(current)
        for _ in range(5):
            try:
                book.claim([claim(node, 1)])
                results.append(True)
            except ClaimRejected:
                results.append(False)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (results.count(True), len(results)) == (20, 40)
    assert used(current, node)["VCPU"] == 20
