# SPDX-License-Identifier: Apache-2.0
"""A claim in one statement leaves behind what the long way would, and where it cannot be, nothing at all."""

import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import func, select, text
from tests.store.fleets import NOW
from tests.store.test_ledger import add_node, claim, new_uuid, used

from roost.errors import AlreadyClaimed, ClaimRejected, RoostError
from roost.hosts.guests import Guest, GuestSpace, SpaceTexts, space_texts
from roost.hosts.numa_cells import host_topology_from_json
from roost.hosts.pci import pools_from_json
from roost.ledger.audit import audit
from roost.ledger.claim import StrictGroup
from roost.ledger.ledger import Ledger
from roost.ledger.write_back import OneStatementClaim
from roost.model.numa import InstanceCell
from roost.store.change_log import GUESTS, USAGE, usage_key
from roost.store.columns import as_json_text
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema.fleet import allocations, compute_nodes, guest_allocations, inventories
from roost.store.schema.fleet import consumers as consumers_table
from roost.store.schema.history import changes

DEVICE = {"vendor_id": "10de", "product_id": "1eb8", "numa_node": 0, "dev_type": "type-PCI"}


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
        row = connection.execute(select(compute_nodes).where(compute_nodes.c.uuid == node)).one()
        parts = {"node": {**row._mapping, "id": 0, "uuid": "", "host": "", "hypervisor_hostname": ""}}
        for table, column in (
            (inventories, inventories.c.node_id),
            (allocations, allocations.c.node_id),
        ):
            found = connection.execute(select(table).where(column == row.id)).mappings()
            parts[table.name] = sorted(
                str({**each, "node_id": 0, **({"consumer_uuid": ""} if table is allocations else {})})
                for each in found
            )
        known = connection.execute(select(consumers_table).where(consumers_table.c.uuid == consumer)).mappings()
        parts["consumer"] = [{**each, "uuid": ""} for each in known]
        noted = changes.c.subject_key == usage_key(row.id, consumer)
        parts["changes"] = list(connection.scalars(select(changes.c.subject).where(noted)))
    return parts


def outcome(book, one):
    try:
        book.claim([one])
    except RoostError as error:
        return type(error), str(error).partition(":")[2]
    return None


def test_both_ways_leave_the_same_behind(current, monkeypatch):
    book, chance, ways = Ledger(current, now=lambda: NOW), random.Random(1), set()
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
            with monkeypatch.context() as patched:
                if not is_short:
                    patched.setattr(OneStatementClaim, "claim", lambda *_: False)
                result = outcome(book, one)
            found.append((result, left_behind(current, node, consumer)))
        assert found[0] == found[1], (seed, amounts)
        assert found[0][1]["changes"] == ([] if found[0][0] else [USAGE])
        ways.add(found[0][0] and found[0][0][0])
    assert ways == {None, ClaimRejected}


def guest_node(engine, devices=3):
    """A node with pinned CPUs 0-5 and some devices."""
    cell = {"id": 0, "memory": 8192, "pcpuset": [*range(6)], "mempages": [{"size_kb": 4, "total": 2097152}]}
    pools = pools_from_json([{**DEVICE, "count": devices}] if devices else [])
    numa, stats = map(json.loads, space_texts(GuestSpace(host_topology_from_json({"cells": [cell]}), pools)))
    space = {"numa_topology": numa, "pci_stats": stats}
    base = {f"base_{name}": value for name, value in space.items()}
    return add_node(engine, totals={"VCPU": 99, "MEMORY_MB": 99999}, **space, **base)


def space_of(engine, node):
    """What is left of a node for guests, as a scheduler reads it."""
    nodes = compute_nodes.c
    with engine.connect() as connection:
        found = connection.execute(select(nodes.numa_topology, nodes.pci_stats).where(nodes.uuid == node)).one()
    return SpaceTexts(*map(as_json_text, found)).decode()


def guest_claim(node, seen, cpu=0, consumer=None):
    """A claim of one CPU and one device, of a scheduler that has seen this."""
    one = claim(node, 1, consumer)
    cell = InstanceCell(0, frozenset(), frozenset([0]), 64, cpu_policy="dedicated", cpu_pinning=((0, cpu),))
    guest = Guest((cell,), pools_from_json([{**DEVICE, "count": 1}]), one.consumer_uuid, "digest")
    return replace(one, guest=guest, seen_space=seen)


def mistaken_guests(engine):
    """What the audit has to say of guests."""
    return [each for each in audit(engine, NOW, 3600) if each.kind in ("guests", "overbooked")]


def test_guests_are_claimed_both_ways_alike(current):
    book, behind = Ledger(current, now=lambda: NOW), []
    for is_short in (True, False):
        node, uuids = guest_node(current), [new_uuid() for _ in range(3)]
        for cpu, consumer in enumerate(uuids):
            one = guest_claim(node, space_of(current, node), cpu, consumer)
            if is_short:
                assert OneStatementClaim(current).claim(one, NOW)
            else:
                book.claim([replace(one, seen_space=None)])
        with current.connect() as connection:
            rows = connection.execute(select(guest_allocations)).mappings().all()
            node_id = next(row["node_id"] for row in rows if row["consumer_uuid"] == uuids[0])
            is_noted = (changes.c.subject == GUESTS) & (changes.c.subject_key == str(node_id))
            noted = connection.scalar(select(func.count()).where(is_noted))
        guests = [row["guest"] | {"instance": ""} for uuid in uuids for row in rows if row["consumer_uuid"] == uuid]
        behind.append((left_behind(current, node, uuids[0]), guests, noted))
    assert behind[0] == behind[1]
    assert (len(behind[0][1]), behind[0][2]) == (3, 3)
    assert not mistaken_guests(current)


def test_a_guest_that_was_fitted_to_what_has_changed_goes_the_long_way(current):
    node, book = guest_node(current), Ledger(current)
    seen = space_of(current, node)
    book.claim([guest_claim(node, seen, cpu=0)])
    late = guest_claim(node, seen, cpu=1)
    assert not OneStatementClaim(current).claim(late, NOW)
    book.claim([late])  # its CPU and a device are free still
    with pytest.raises(ClaimRejected, match="pin"):
        book.claim([guest_claim(node, seen, cpu=0)])
    assert [pool.count for pool in space_of(current, node).pools] == [1]


def test_one_that_does_not_fit_what_was_seen_is_refused(current):
    node = guest_node(current, devices=0)
    one = guest_claim(node, space_of(current, node))
    assert not OneStatementClaim(current).claim(one, NOW)
    with pytest.raises(ClaimRejected, match="0 PCI devices 10de:1eb8 are free"):
        Ledger(current).claim([one])


def test_threads_that_want_the_last_devices_at_the_same_moment(current):
    """All have seen the node empty, so all but the first must find out."""
    node, results = guest_node(current), []
    seen = space_of(current, node)

    def take(cpu):
        try:
            Ledger(current).claim([guest_claim(node, seen, cpu)])
            results.append(True)
        except ClaimRejected:
            results.append(False)

    threads = [threading.Thread(target=take, args=[cpu]) for cpu in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(results) == [False] * 3 + [True] * 3
    assert not mistaken_guests(current)


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
    one_statement = OneStatementClaim(current)
    assert not one_statement.claim(grouped, NOW)
    assert not one_statement.claim(claim(node, A=1, B=1, C=1), NOW)
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


def test_a_connection_that_the_server_ended_meanwhile_is_noticed_before_it_is_used(current):
    node, book = add_node(current, totals={"VCPU": 20, "MEMORY_MB": 99999}), Ledger(current, sleep=unexpected)
    for number in range(1, 4):
        book.claim([claim(node, 1)])
        assert used(current, node)["VCPU"] == number
        end_other_connections(current)


def test_one_that_is_ended_in_the_middle_is_tried_again_and_nothing_is_claimed_twice(current):
    node, book = add_node(current, totals={"VCPU": 20, "MEMORY_MB": 99999}), Ledger(current, sleep=lambda _: None)
    book.claim([claim(node, 1)])
    with current.connect() as other, ThreadPoolExecutor(1) as pool:
        other.execute(text("SELECT 1 FROM compute_nodes WHERE uuid = :uuid FOR UPDATE"), {"uuid": node})
        waiting = pool.submit(book.claim, [claim(node, 1)])
        while not end_other_connections(current, "wait_event_type = 'Lock'"):
            time.sleep(0.01)
        other.rollback()
        waiting.result(20)
    assert used(current, node)["VCPU"] == 2


def test_statements_that_the_server_forgot_are_told_again(current):
    node, book = add_node(current, totals={"VCPU": 20, "MEMORY_MB": 99999}), Ledger(current, sleep=unexpected)
    book.claim([claim(node, 1)])
    connection, _ = book._one_statement._pipeline._open
    connection.exec_driver_sql("DEALLOCATE ALL")
    connection.commit()
    book.claim([claim(node, 1)])
    book.claim([claim(node, 1)])
    assert used(current, node)["VCPU"] == 3
    assert book._one_statement._pipeline._open[0] is connection


def test_who_keeps_a_connection_takes_it_from_nobody(current):
    engine = open_engine(
        DatabaseOptions(connection=str(current.url), max_pool_size=1, max_overflow=0, pool_timeout=1)
    )
    node = add_node(engine)
    Ledger(engine).claim([claim(node)])
    assert used(engine, node)["VCPU"] == 2
    engine.dispose()


def unexpected(seconds):
    raise AssertionError("nothing was to be tried again")


def end_other_connections(engine, condition="true"):
    """How many of this database's were ended; all of them are gone then."""
    others = f"FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND {condition}"
    with engine.connect() as connection:
        ended = connection.scalars(text(f"SELECT pid {others}")).all()
        for pid in ended:
            connection.scalar(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
        still_there = text("SELECT count(*) FROM pg_stat_activity WHERE pid = ANY(:pids)")
        while connection.scalar(still_there, {"pids": list(ended)}):
            connection.rollback()  # or it would see the same for ever
            time.sleep(0.01)
        return len(ended)
