# SPDX-License-Identifier: Apache-2.0
"""The audit finds what does not add up, heals what it can, and leaves alone what is in order or under way."""

import datetime
import threading

import pytest
from sqlalchemy import delete, insert, update
from tests.store.test_ledger import add_node, claim, group, new_uuid, rows_of, used

from roost.ledger.audit import audit, heal
from roost.ledger.audits import Finding
from roost.ledger.claim import Claim
from roost.ledger.ledger import Ledger
from roost.model.resources import move_of
from roost.store.schema.fleet import allocations, compute_nodes, consumers, inventories
from roost.store.schema.servers import (
    migrations,
    server_group_hosts,
    server_group_members,
    server_group_slots,
    server_groups,
    servers,
)

NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
TABLES = (migrations, servers, server_groups, allocations, consumers)


@pytest.fixture
def book(current):
    """On a database without claims."""
    with current.begin() as connection:
        for table in (*TABLES, inventories, compute_nodes):
            connection.execute(delete(table))
    return Ledger(current, now=lambda: NOW)


def found(engine, grace=60, after=0):
    return audit(engine, NOW + datetime.timedelta(seconds=after), grace)


def kinds(engine, **times):
    return sorted(finding.kind for finding in found(engine, **times))


def add_server(engine, uuid, node, **columns):
    (row,) = rows_of(engine, compute_nodes, uuid=node)
    place = {"host": row["host"], "node": row["hypervisor_hostname"], "vm_state": "active"}
    with engine.begin() as connection:
        connection.execute(insert(servers), {"uuid": uuid, "name": uuid, **place, **columns})


def change(engine, table, where, **values):
    with engine.begin() as connection:
        connection.execute(update(table).where(where).values(**values))


def heal_all(engine, book, **times):
    return heal(engine, found(engine, **times), book)


def test_a_server_that_holds_what_it_should_is_in_order(current, book):
    node, together, apart = add_node(current), group("affinity"), group("anti-affinity")
    for rule in (None, together, apart):
        one = claim(node, 1, group=rule)
        book.claim([one])
        add_server(current, one.consumer_uuid, node)
    assert found(current, after=10**6) == []


def test_a_claim_whose_server_never_came_is_a_leak_once_it_is_old(current, book):
    node = add_node(current)
    one = claim(node)
    book.claim([one])
    assert kinds(current, after=60) == []
    (leak,) = found(current, after=61)
    assert (leak.kind, leak.subject, leak.remedy) == ("leak", one.consumer_uuid, "release them")
    assert heal_all(current, book, after=61) == 1
    assert found(current, after=10**6) == []
    assert used(current, node)["VCPU"] == 0


@pytest.mark.parametrize(("state", "is_released"), [("building", False), (None, False), ("deleted", True)])
def test_a_leak_whose_server_came_since_the_audit_is_not_released(current, book, state, is_released):
    node = add_node(current)
    one, other = claim(node), claim(node)
    book.claim([one, other])
    findings = found(current, after=61)
    add_server(current, one.consumer_uuid, node, vm_state=state)
    assert heal(current, findings, book) == 1 + is_released
    assert set(book.read_allocations([one.consumer_uuid])) == (set() if is_released else {one.consumer_uuid})
    assert book.read_allocations([other.consumer_uuid]) == {}


@pytest.mark.parametrize(("status", "is_released"), [("pre-migrating", False), ("confirmed", True)])
@pytest.mark.parametrize("has_server", [True, False])
def test_a_migration_that_is_found_running_since_the_audit_is_not_released(
    current, book, status, is_released, has_server
):
    source, target, move = add_node(current), add_node(current), new_uuid()
    one = claim(source)
    book.claim([one])
    book.start_move(move, claim(target, consumer=one.consumer_uuid))
    if has_server:
        add_server(current, one.consumer_uuid, target)
    findings = [each for each in found(current, after=61) if each.kind == "migration"]
    row = {"uuid": move, "server_uuid": one.consumer_uuid, "migration_type": "resize", "status": status}
    with current.begin() as connection:
        connection.execute(insert(migrations), row)
    assert heal(current, findings, book) == is_released
    assert used(current, source)["VCPU"] == (0 if is_released else 2)


def test_a_running_migration_without_its_instance_is_released(current, book):
    source, target, move = add_node(current), add_node(current), new_uuid()
    one = claim(source)
    book.claim([one])
    book.start_move(move, claim(target, consumer=one.consumer_uuid))
    row = {"uuid": move, "server_uuid": one.consumer_uuid, "migration_type": "resize", "status": "migrating"}
    with current.begin() as connection:
        connection.execute(insert(migrations), row)
    book.release([one.consumer_uuid])
    assert kinds(current, after=61) == ["migration"]
    assert heal_all(current, book, after=61) == 1


def test_an_idle_consumer_whose_server_came_since_the_audit_stays(current, book):
    uuid, node = new_uuid(), add_node(current)
    with current.begin() as connection:
        connection.execute(insert(consumers), {"uuid": uuid, "created_at": NOW})
    findings = found(current, after=61)
    add_server(current, uuid, node)
    assert heal(current, findings, book) == 0
    assert len(rows_of(current, consumers, uuid=uuid)) == 1


@pytest.mark.parametrize("state", ["deleted", "shelved_offloaded"])
def test_a_server_that_is_gone_needs_nothing(current, book, state):
    node = add_node(current)
    one = claim(node)
    book.claim([one])
    add_server(current, one.consumer_uuid, node, vm_state=state)
    assert kinds(current, after=61) == ["leak"]


def test_a_server_that_is_being_unshelved_needs_its_fresh_claim(current, book):
    node = add_node(current)
    one = claim(node)
    book.claim([one])
    add_server(current, one.consumer_uuid, node, vm_state="shelved_offloaded", task_state="unshelving", host=None)
    assert found(current, after=61) == []
    change(current, servers, servers.c.uuid == one.consumer_uuid, task_state=None)
    assert kinds(current, after=61) == ["leak"]


def test_a_wrong_sum_is_set_right(current, book):
    node = add_node(current)
    book.claim([claim(node)])
    inventory = inventories.c
    change(current, inventories, inventory.resource_class == "VCPU", used=5)
    (wrong,) = found(current)
    assert (wrong.kind, wrong.detail) == ("sum", "VCPU: 5 used, allocations add up to 2")
    assert heal_all(current, book) == 1
    assert found(current) == []
    assert used(current, node)["VCPU"] == 2


def test_a_sum_without_any_allocation_is_set_to_nothing(current, book):
    node = add_node(current)
    change(current, inventories, inventories.c.resource_class == "VCPU", used=1)
    assert heal_all(current, book) == 1
    assert used(current, node)["VCPU"] == 0


def test_a_node_that_shrank_is_overfull_and_a_person_has_to_decide(current, book):
    node = add_node(current)
    book.claim([claim(node, 8)])
    change(current, inventories, inventories.c.resource_class == "VCPU", total=5)
    (full,) = found(current)
    assert (full.kind, full.detail, full.remedy) == ("overfull", "VCPU: 8 used, 5 may be", "")
    assert heal_all(current, book) == 0


def test_a_server_that_holds_nothing_is_named(current, book):
    node, uuid = add_node(current), new_uuid()
    add_server(current, uuid, node)
    assert [(each.kind, each.subject, each.remedy) for each in found(current)] == [("unclaimed", uuid, "")]


def test_a_server_that_holds_resources_of_another_node_is_named_unless_it_moves(current, book):
    here, there = add_node(current), add_node(current)
    one = claim(there)
    book.claim([one])
    add_server(current, one.consumer_uuid, here)
    assert kinds(current) == ["elsewhere"]
    row = {"uuid": new_uuid(), "server_uuid": one.consumer_uuid, "migration_type": "resize", "status": "migrating"}
    with current.begin() as connection:
        connection.execute(insert(migrations), row)
    assert kinds(current) == []


@pytest.mark.parametrize(
    ("status", "expected"), [("migrating", []), ("reverted", ["migration"]), (None, ["migration"])]
)
def test_a_migration_that_ended_must_hold_nothing(current, book, status, expected):
    source, target, move = add_node(current), add_node(current), new_uuid()
    one = claim(source)
    book.claim([one])
    book.start_move(move, claim(target, consumer=one.consumer_uuid))
    add_server(current, one.consumer_uuid, target)
    if status:
        row = {"uuid": move, "server_uuid": one.consumer_uuid, "migration_type": "resize", "status": status}
        with current.begin() as connection:
            connection.execute(insert(migrations), row)
    assert kinds(current, after=61) == expected
    heal_all(current, book, after=61)
    assert used(current, source)["VCPU"] == (0 if expected else 2)


@pytest.mark.parametrize(("status", "expected"), [("finished", []), ("confirmed", ["migration"])])
def test_the_record_of_a_conductors_move_has_a_uuid_of_its_own(current, book, status, expected):
    """Its consumer in the ledger follows from the server's uuid; a resize may wait for its confirmation for days."""
    source, target = add_node(current), add_node(current)
    one = claim(source)
    book.claim([one])
    book.start_move(move_of(one.consumer_uuid), claim(target, consumer=one.consumer_uuid))
    add_server(current, one.consumer_uuid, target)
    unrecorded = [each for each in found(current, after=61) if each.kind == "migration"]
    row = {"uuid": new_uuid(), "server_uuid": one.consumer_uuid, "migration_type": "resize", "status": status}
    with current.begin() as connection:
        connection.execute(insert(migrations), row)
    assert kinds(current, after=61) == expected
    heal(current, unrecorded, book)
    assert used(current, source)["VCPU"] == (0 if expected else 2)


def moved(engine, book, place=0, **columns):
    """Instance, migration and nodes of a move that has ended; the server is on the node with the number `place`."""
    nodes = [add_node(engine), add_node(engine)]
    one = claim(nodes[0])
    book.claim([one])
    book.start_move(move := move_of(one.consumer_uuid), claim(nodes[1], consumer=one.consumer_uuid))
    add_server(engine, one.consumer_uuid, nodes[place], **columns)
    return one.consumer_uuid, move, nodes


@pytest.mark.parametrize("place", [0, 1])
def test_a_move_that_ended_leaves_its_server_what_it_holds_where_it_is(current, book, place):
    instance, move, nodes = moved(current, book, place, vm_state="error")
    assert heal_all(current, book, after=61) == 1
    held = book.read_allocations([instance, move])
    assert {uuid: list(places) for uuid, places in held.items()} == {instance: [nodes[place]]}
    assert found(current, after=61) == []


@pytest.mark.parametrize("columns", [{"task_state": "powering-off"}, {"vm_state": "resized"}, {"host": "elsewhere"}])
def test_where_a_server_is_not_certain_its_ended_move_keeps_both_hosts(current, book, columns):
    instance, move, _ = moved(current, book, **columns)
    assert [each.remedy for each in found(current, after=61) if each.kind == "migration"] == [""]
    heal_all(current, book, after=61)
    assert book.read_allocations([instance, move]).keys() == {instance, move}


def test_a_move_that_runs_again_since_the_audit_is_not_undone(current, book):
    instance, move, _ = moved(current, book)
    findings = [each for each in found(current, after=61) if each.kind == "migration"]
    row = {"uuid": new_uuid(), "server_uuid": instance, "migration_type": "resize", "status": "migrating"}
    with current.begin() as connection:
        connection.execute(insert(migrations), row)
    assert heal(current, findings, book) == 0
    assert book.read_allocations([instance, move]).keys() == {instance, move}


def test_consumers_that_hold_nothing_are_deleted(current, book):
    with current.begin() as connection:
        connection.execute(insert(consumers), {"uuid": new_uuid(), "created_at": NOW})
    assert kinds(current, after=30) == []
    assert kinds(current, after=61) == ["idle"]
    assert heal_all(current, book, after=61) == 1
    assert found(current, after=61) == []


def test_slots_and_bindings_that_nobody_needs_are_freed(current, book):
    node, apart, together = add_node(current), group("anti-affinity"), group("affinity")
    ones = [claim(node, 1, group=rule) for rule in (apart, together)]
    book.claim(ones)
    held = [each.consumer_uuid for each in ones]
    with current.begin() as connection:
        connection.execute(delete(allocations).where(allocations.c.consumer_uuid.in_(held)))
    assert kinds(current) == ["binding", "slot", "sum", "sum"]
    assert heal_all(current, book) == 4
    assert found(current) == []


def test_members_that_share_a_host_behind_the_ledgers_back_are_named(current, book):
    node, apart = add_node(current), group("anti-affinity")
    ones = [claim(node, 1, group=apart), Claim(new_uuid(), node, {"VCPU": 1})]
    book.claim(ones)
    (row,) = rows_of(current, server_groups, uuid=apart.uuid)
    with current.begin() as connection:
        joins = {"group_id": row["id"], "server_uuid": ones[1].consumer_uuid}
        connection.execute(insert(server_group_members), joins)
    assert [(each.kind, each.subject, each.remedy) for each in found(current)] == [("crowded", apart.uuid, "")]


# --- what happens between the audit and the repair ---


def test_a_claim_that_was_made_since_is_not_released(current, book):
    here, there, later = add_node(current), add_node(current), NOW + datetime.timedelta(seconds=100)
    one = claim(here, 1)
    book.claim([one])
    findings = found(current, after=90)
    assert [each.kind for each in findings] == ["leak"]
    book.release([one.consumer_uuid])
    again = claim(there, 1, one.consumer_uuid)
    Ledger(current, now=lambda: later).claim([again])
    assert heal(current, findings, book) == 0
    assert book.read_allocations([one.consumer_uuid]) == {one.consumer_uuid: {there: dict(again.amounts)}}


def test_the_source_of_a_move_that_was_started_since_is_not_released(current, book):
    nodes, later, move = [add_node(current) for _ in range(3)], NOW + datetime.timedelta(seconds=100), new_uuid()
    one = claim(nodes[0], 1)
    book.claim([one])
    add_server(current, one.consumer_uuid, nodes[0])
    book.start_move(move, claim(nodes[1], 1, one.consumer_uuid))
    findings = [each for each in found(current, after=90) if each.kind == "migration"]
    book.finish_move(move)
    Ledger(current, now=lambda: later).start_move(move, claim(nodes[2], 1, one.consumer_uuid))
    assert len(findings) == 1
    assert heal(current, findings, book) == 0
    assert book.read_allocations([move]).keys() == {move}


def test_a_slot_that_was_taken_since_is_kept(current, book):
    node, rule = add_node(current), group("anti-affinity")
    one = claim(node, 1, group=rule)
    book.claim([one])
    (slot,) = rows_of(current, server_group_slots, consumer_uuid=one.consumer_uuid)
    finding = Finding("slot", one.consumer_uuid, slot["host"], "", "free it", (slot["group_id"], slot["host"], 0))
    assert heal(current, [finding], book) == 0
    assert rows_of(current, server_group_slots, consumer_uuid=one.consumer_uuid) == [slot]


def test_a_group_that_was_bound_since_stays_bound(current, book):
    one = claim(add_node(current), 1, group=group("affinity"))
    book.claim([one])
    (bound,) = rows_of(current, server_group_hosts)
    finding = Finding("binding", str(bound["group_id"]), bound["host"], "", "unbind it", (bound["group_id"],))
    assert heal(current, [finding], book) == 0
    assert rows_of(current, server_group_hosts) == [bound]


def test_an_idle_consumer_that_is_claiming_is_kept_with_its_claim(current, book, kind):
    if kind == "sqlite":
        return  # one transaction writes at a time
    node, uuid = add_node(current), new_uuid()
    (row,) = rows_of(current, compute_nodes, uuid=node)
    with current.begin() as connection:
        connection.execute(insert(consumers), {"uuid": uuid, "kind": "instance"})
    findings = found(current)
    assert [each.kind for each in findings] == ["idle"]
    repair = threading.Thread(target=heal, args=(current, findings, book))
    with current.begin() as connection:  # the last statements of a claim
        connection.execute(update(consumers).where(consumers.c.uuid == uuid).values(kind="instance"))
        amounts = {"consumer_uuid": uuid, "node_id": row["id"], "resource_class": "VCPU", "used": 1}
        connection.execute(insert(allocations), amounts)
        repair.start()
        repair.join(1)
    repair.join()
    assert len(rows_of(current, allocations, consumer_uuid=uuid)) == 1
