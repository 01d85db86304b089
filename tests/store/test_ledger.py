# SPDX-License-Identifier: Apache-2.0
"""The ledger on real databases: what is claimed is there, what is refused is not, and many at once break no rule."""

import itertools
import threading
import time
import uuid

import pytest
from sqlalchemy import func, insert, select

from roost.errors import AlreadyClaimed, ClaimRejected, DatabaseConflict, DatabaseUnreachable
from roost.ledger import ledger as ledger_module
from roost.ledger.claim import Claim, StrictGroup
from roost.ledger.ledger import Ledger
from roost.model.resources import Use
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema.fleet import allocations as allocations_table
from roost.store.schema.fleet import compute_nodes, consumers
from roost.store.schema.fleet import inventories as inventories_table
from roost.store.schema.history import changes
from roost.store.schema.servers import server_group_members, server_group_slots, server_groups

TOTALS = {"VCPU": 8, "MEMORY_MB": 16384, "DISK_GB": 100}
numbers = itertools.count(1)


def add_node(engine, host=None, totals=TOTALS, inventory=None, **columns):
    """The uuid of a new node."""
    number = next(numbers)
    row = {
        "uuid": str(uuid.UUID(int=number)),
        "host": host or f"host{number}",
        "hypervisor_hostname": f"node{number}",
        "vcpus": 8,
        "memory_mb": 16384,
        "free_ram_mb": 16384,
        "local_gb": 100,
        "free_disk_gb": 100,
        "running_vms": 0,
        **columns,
    }
    with engine.begin() as connection:
        node_id = connection.execute(insert(compute_nodes), row).inserted_primary_key[0]
        rows = [{"node_id": node_id, "resource_class": name, "total": total} for name, total in totals.items()]
        connection.execute(insert(inventories_table), [row | (inventory or {}) for row in rows])
    return row["uuid"]


def new_uuid():
    return str(uuid.uuid4())


def claim(node, vcpus=2, consumer=None, group=None, **amounts):
    wanted = {"VCPU": vcpus, "MEMORY_MB": 1024, **amounts}
    details = {"flavor_id": "7", "image_props": {"os": "ünix"}}
    return Claim(consumer or new_uuid(), node, wanted, Use(1024, 10, vcpus), "proj", "user", details, group)


def group(policy, most=1):
    return StrictGroup(new_uuid(), policy, most, "g")


def used(engine, node):
    """Class -> what the inventory says is used of it; and the allocations must say the same."""
    inventories, allocations, nodes = inventories_table.c, allocations_table.c, compute_nodes.c
    with engine.connect() as connection:
        node_id = connection.scalar(select(nodes.id).where(nodes.uuid == node))
        said = dict(
            connection.execute(
                select(inventories.resource_class, inventories.used).where(inventories.node_id == node_id)
            ).all()
        )
        held = dict(
            connection.execute(
                select(allocations.resource_class, func.sum(allocations.used))
                .where(allocations.node_id == node_id)
                .group_by(allocations.resource_class)
            ).all()
        )
    assert {name: amount for name, amount in said.items() if amount} == {
        name: int(each) for name, each in held.items()
    }
    return said


def rows_of(engine, table, **values):
    with engine.connect() as connection:
        wanted = [table.c[name] == value for name, value in values.items()]
        return connection.execute(select(table).where(*wanted)).mappings().all()


@pytest.fixture
def book(current):
    return Ledger(current)


def test_a_claim_is_in_every_table_that_knows_of_it(current, book):
    node = add_node(current)
    one = claim(node, DISK_GB=10)
    book.claim([one])
    assert used(current, node) == {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 10}
    (consumer,) = rows_of(current, consumers, uuid=one.consumer_uuid)
    assert (consumer["kind"], consumer["project_id"], consumer["user_id"]) == ("instance", "proj", "user")
    assert consumer["details"] == {"flavor_id": "7", "image_props": {"os": "ünix"}, "use": [1024, 10, 2]}
    (row,) = rows_of(current, compute_nodes, uuid=node)
    free = [row[name] for name in ("free_ram_mb", "memory_mb_used", "free_disk_gb", "local_gb_used", "vcpus_used")]
    assert (free, row["running_vms"]) == ([15360, 1024, 90, 10, 2], 1)
    (change,) = rows_of(current, changes, subject_key=f"{row['id']}/{one.consumer_uuid}")
    assert change["subject"] == "allocations"


def test_a_release_leaves_no_trace_but_a_change(current, book):
    node = add_node(current)
    one = claim(node)
    book.claim([one])
    assert book.release([one.consumer_uuid]) == 1
    assert set(used(current, node).values()) == {0}
    assert rows_of(current, consumers, uuid=one.consumer_uuid) == []
    (row,) = rows_of(current, compute_nodes, uuid=node)
    assert (row["free_ram_mb"], row["vcpus_used"], row["running_vms"]) == (16384, 0, 0)
    assert len(rows_of(current, changes, subject_key=f"{row['id']}/{one.consumer_uuid}")) == 2
    assert book.release([one.consumer_uuid]) == 0


def test_all_of_a_request_or_nothing(current, book):
    wide, narrow = add_node(current), add_node(current)
    with pytest.raises(ClaimRejected, match="9 vcpu asked; 8 of 8 left"):
        book.claim([claim(wide), claim(narrow, 9)])
    assert used(current, wide)["VCPU"] == 0
    with pytest.raises(ClaimRejected, match="the node was deleted"):
        book.claim([claim(wide), claim(new_uuid())])
    assert used(current, wide)["VCPU"] == 0


def test_a_claim_that_is_repeated_is_there_once(current, book):
    node = add_node(current)
    one = claim(node, 8)
    for _ in range(3):
        book.claim([one])
    assert used(current, node)["VCPU"] == 8
    with pytest.raises(AlreadyClaimed):
        book.claim([claim(node, 1, consumer=one.consumer_uuid)])


@pytest.mark.parametrize(("ratio", "reserved", "fits"), [(2.0, 0, 16), (1.0, 3, 5), (1.5, 1, 10), (0.5, 0, 4)])
def test_ratio_and_reservation_set_the_limit(current, book, ratio, reserved, fits):
    node = add_node(current, totals={"VCPU": 8}, inventory={"allocation_ratio": ratio, "reserved": reserved})
    for _ in range(fits):
        book.claim([Claim(new_uuid(), node, {"VCPU": 1})])
    with pytest.raises(ClaimRejected, match=f"1 vcpu asked; 0 of {fits} left"):
        book.claim([Claim(new_uuid(), node, {"VCPU": 1})])


def test_a_bare_metal_node_is_claimed_whole(current, book):
    node = add_node(current, hypervisor_type="ironic", totals=TOTALS | {"CUSTOM_BAREMETAL_GOLD": 1})
    one = Claim(new_uuid(), node, {"CUSTOM_BAREMETAL_GOLD": 1})
    book.claim([one])
    assert used(current, node) == TOTALS | {"CUSTOM_BAREMETAL_GOLD": 1}
    (row,) = rows_of(current, compute_nodes, uuid=node)
    assert (row["free_ram_mb"], row["free_disk_gb"], row["vcpus_used"]) == (0, 0, 8)
    with pytest.raises(ClaimRejected, match="the node is taken"):
        book.claim([Claim(new_uuid(), node, {"CUSTOM_BAREMETAL_GOLD": 1})])
    book.release([one.consumer_uuid])
    (row,) = rows_of(current, compute_nodes, uuid=node)
    assert (row["free_ram_mb"], row["free_disk_gb"], row["vcpus_used"]) == (16384, 100, 0)


def test_a_move_holds_both_ends_until_it_is_finished(current, book):
    source, target = add_node(current), add_node(current)
    one = claim(source, 4)
    book.claim([one])
    move = new_uuid()
    book.start_move(move, claim(target, 4, consumer=one.consumer_uuid))
    assert (used(current, source)["VCPU"], used(current, target)["VCPU"]) == (4, 4)
    assert [row["kind"] for row in rows_of(current, consumers, uuid=move)] == ["migration"]
    assert book.finish_move(move)
    assert (used(current, source)["VCPU"], used(current, target)["VCPU"]) == (0, 4)
    assert not book.finish_move(move)


def test_a_move_that_is_undone(current, book):
    source, target = add_node(current), add_node(current)
    apart = group("anti-affinity")
    one = claim(source, 4, group=apart)
    book.claim([one])
    move = new_uuid()
    book.start_move(move, claim(target, 6, consumer=one.consumer_uuid, group=apart))
    for held in (source, target):
        with pytest.raises(ClaimRejected, match="anti-affinity"):
            book.claim([claim(held, 1, group=apart)])
    assert book.undo_move(move, one.consumer_uuid)
    assert (used(current, source)["VCPU"], used(current, target)["VCPU"]) == (4, 0)
    book.claim([claim(target, 1, group=apart)])
    with pytest.raises(ClaimRejected):
        book.claim([claim(source, 1, group=apart)])
    assert rows_of(current, consumers, uuid=move) == []
    (consumer,) = rows_of(current, consumers, uuid=one.consumer_uuid)
    assert (consumer["kind"], consumer["details"]["use"]) == ("instance", [1024, 10, 4])


def test_anti_affinity_is_kept_and_its_slots_are_free_again(current, book):
    node, apart = add_node(current), group("anti-affinity", most=2)
    first, second = claim(node, group=apart), claim(node, group=apart)
    book.claim([first, second])
    with pytest.raises(ClaimRejected, match="2 may be"):
        book.claim([claim(node, group=apart)])
    book.release([first.consumer_uuid])
    book.claim([claim(node, group=apart)])
    (row,) = rows_of(current, server_groups, uuid=apart.uuid)
    assert len(rows_of(current, server_group_slots, group_id=row["id"])) == 2
    assert {first.consumer_uuid, second.consumer_uuid} < set(book.read_group_members(apart.uuid))
    assert book.read_group_members("nobody") == []


def test_affinity_is_kept_until_the_last_member_has_left(current, book):
    here, there, together = add_node(current), add_node(current), group("affinity")
    first, second = claim(here, group=together), claim(here, group=together)
    book.claim([first])
    book.claim([second])
    book.release([first.consumer_uuid])
    with pytest.raises(ClaimRejected, match=r"the affinity group .* is on host"):
        book.claim([claim(there, group=together)])
    book.release([second.consumer_uuid])
    book.claim([claim(there, group=together)])


@pytest.mark.parametrize("policy", ["anti-affinity", "affinity"])
def test_members_that_came_without_the_ledger_count(current, book, policy):
    here, there, rule = add_node(current), add_node(current), group(policy)
    old, new = claim(here), claim(there, group=rule)
    book.claim([old])
    with current.begin() as connection:
        row = {"uuid": rule.uuid, "name": "g", "policy": policy}
        group_id = connection.execute(insert(server_groups), row).inserted_primary_key[0]
        member = {"group_id": group_id, "server_uuid": old.consumer_uuid}
        connection.execute(insert(server_group_members), member)
    wrong, right = (here, there) if policy == "anti-affinity" else (there, here)
    with pytest.raises(ClaimRejected, match="affinity group"):
        book.claim([claim(wrong, group=rule)])
    book.claim([claim(right, consumer=new.consumer_uuid, group=rule)])
    book.release([old.consumer_uuid])
    if policy == "anti-affinity":
        book.claim([claim(here, group=rule)])


# --- bad luck ---


def failing(monkeypatch, name, error, times, after=False):
    """The next calls of a step of the ledger fail, before they are done or after."""
    real, left = getattr(ledger_module, name), itertools.count(times, -1)

    def fail(*arguments):
        done = real(*arguments) if after else None
        if next(left) > 0:
            raise error
        return done if after else real(*arguments)

    monkeypatch.setattr(ledger_module, name, fail)


@pytest.mark.parametrize("error", [DatabaseConflict("deadlock"), DatabaseUnreachable("gone")])
def test_a_conflict_is_tried_again_after_a_growing_pause(current, monkeypatch, error):
    pauses, node = [], add_node(current)
    failing(monkeypatch, "write_unit_of_work", error, times=4, after=True)
    Ledger(current, sleep=pauses.append).claim([claim(node), claim(node)])
    assert used(current, node)["VCPU"] == 4
    assert len(pauses) == 4
    assert pauses[0] < pauses[3] < 1


@pytest.mark.parametrize(
    ("error", "bound"),
    [
        (DatabaseConflict("deadlock"), ledger_module.MOST_CONFLICTS),
        (DatabaseUnreachable("gone"), ledger_module.MOST_DISCONNECTIONS),
    ],
)
def test_there_is_a_bound(current, monkeypatch, error, bound):
    pauses, node = [], add_node(current)
    failing(monkeypatch, "load_unit_of_work", error, times=1000)
    with pytest.raises(type(error)):
        Ledger(current, sleep=pauses.append).claim([claim(node), claim(node)])
    assert len(pauses) == bound - 1
    assert used(current, node)["VCPU"] == 0


def test_a_commit_whose_answer_is_lost_is_not_done_twice(current, monkeypatch):
    node, one = add_node(current), None
    book = Ledger(current, sleep=lambda seconds: None)
    real, answers = book._commit_once, iter([DatabaseUnreachable("lost")])

    def lose_answer(operations):
        outcomes = real(operations)
        for error in answers:
            raise error
        return outcomes

    monkeypatch.setattr(book, "_commit_once", lose_answer)
    one = claim(node, 5)
    book.claim([one])
    assert used(current, node)["VCPU"] == 5


# --- many at once ---


@pytest.fixture
def engines(current):
    """As many as there would be schedulers, each with connections of its own."""
    made = [
        open_engine(DatabaseOptions(connection=current.url.render_as_string(hide_password=False))) for _ in range(4)
    ]
    yield made
    for each in made:
        each.dispose()


def run_all(jobs):
    errors = []

    def run(job):
        try:
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_four_schedulers_want_more_than_there_is(current, engines):
    nodes = [add_node(current) for _ in range(3)]  # room for 12 pairs of vcpus
    results = []

    def take(engine, number):
        book = Ledger(engine)
        for at in range(6):
            order = [nodes[(number + at + step) % 3] for step in range(3)]
            results.append(any(try_claim(book, [claim(node)]) for node in order))

    run_all([lambda each=each, at=at: take(each, at) for at, each in enumerate(engines)])
    assert (results.count(True), results.count(False)) == (12, 12)
    assert [used(current, node)["VCPU"] for node in nodes] == [8, 8, 8]


def try_claim(book, claims):
    try:
        book.claim(claims)
    except ClaimRejected:
        return False
    return True


def test_requests_that_want_the_same_nodes_in_another_order(current, engines):
    nodes = [add_node(current, totals={"VCPU": 100, "MEMORY_MB": 10**6}) for _ in range(5)]

    def take(engine, number):
        book, order = Ledger(engine), nodes[number:] + nodes[:number]
        for turn in range(5):
            book.claim([claim(node, 1) for node in (order if turn % 2 else order[::-1])])

    run_all([lambda each=each, at=at: take(each, at) for at, each in enumerate(engines)])
    assert [used(current, node)["VCPU"] for node in nodes] == [20] * 5


def test_four_schedulers_cannot_break_anti_affinity(current, engines):
    nodes, apart = [add_node(current) for _ in range(6)], group("anti-affinity")
    placed = []

    def take(engine):
        book = Ledger(engine)
        for _ in range(3):
            placed.extend(node for node in nodes if try_claim(book, [claim(node, 1, group=apart)]))

    run_all([lambda each=each: take(each) for each in engines])
    assert sorted(placed) == sorted(nodes)


def test_four_schedulers_cannot_break_affinity(current, engines):
    nodes, together = [add_node(current) for _ in range(4)], group("affinity")
    placed = []

    def take(engine, number):
        book = Ledger(engine)
        order = nodes[number:] + nodes[:number]
        placed.extend(node for node in order if try_claim(book, [claim(node, 1, group=together)]))

    run_all([lambda each=each, at=at: take(each, at) for at, each in enumerate(engines)])
    assert len(set(placed)) == 1
    assert len(placed) == 4


def test_the_same_consumer_from_two_sides_is_claimed_once(current, engines):
    nodes, one = [add_node(current), add_node(current)], new_uuid()
    said = []

    def take(engine, node):
        try:
            Ledger(engine).claim([claim(node, 3, consumer=one)])
            said.append("claimed")
        except AlreadyClaimed:
            said.append("already")

    run_all([lambda each=each, node=node: take(each, node) for each, node in zip(engines, nodes, strict=False)])
    assert sorted(said) == ["already", "claimed"]
    assert sorted(used(current, node)["VCPU"] for node in nodes) == [0, 3]


def test_those_who_wait_share_a_commit(current, monkeypatch):
    node, commits = add_node(current, totals={"VCPU": 1000, "MEMORY_MB": 10**6}), []
    book = Ledger(current)
    real = book._commit_once

    def counted(operations):
        while not commits and not book._group_commit._waiting:  # the first takes its time, until somebody waits
            time.sleep(0.001)
        commits.append(len(operations))
        return real(operations)

    monkeypatch.setattr(book, "_commit_once", counted)
    run_all([lambda: book.claim([claim(node, 1)]) for _ in range(30)])
    assert sum(commits) == 30
    assert used(current, node)["VCPU"] == 30
    assert len(commits) < 30


def test_one_that_is_refused_does_not_spoil_the_others(current, monkeypatch):
    node = add_node(current)
    book, outcomes = Ledger(current), []
    operations = [
        ledger_module.ClaimAll((claim(node, 6),)),
        ledger_module.ClaimAll((claim(node, 6),)),
        ledger_module.ClaimAll((claim(node, 2),)),
    ]
    outcomes = book._commit_group(operations)
    assert [type(each).__name__ for each in outcomes] == ["NoneType", "ClaimRejected", "NoneType"]
    assert used(current, node)["VCPU"] == 8
