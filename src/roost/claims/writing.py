# SPDX-License-Identifier: Apache-2.0
"""Writes what became of the books: the differences, each kind in one statement; last, the changes for readers."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, update

from roost.claims.books import Books, Consumer
from roost.errors import DatabaseConflict
from roost.store.bulk import NUMBER, WORD, add_to_rows, insert_rows
from roost.store.changes import USAGE, Change, note_changes, usage_key
from roost.store.schema import (
    allocations,
    consumers,
    server_group_hosts,
    server_group_members,
    server_group_slots,
)
from roost.store.types import as_json_text


def close_books(connection: Connection, books: Books, now: datetime.datetime) -> None:
    """All differences to what was read."""
    changed = [each for each in books.consumers.values() if each.held != books.before.held.get(each.uuid, {})]
    if not changed:
        return
    _write_inventories(connection, books)
    _write_nodes(connection, books)
    _write_consumers(connection, books, changed, now)
    _write_groups(connection, books)
    _drop_consumers(connection, books, changed)
    note_changes(connection, [Change(USAGE, key) for each in changed for key in _usage_keys(books, each)])


def _usage_keys(books: Books, consumer: Consumer) -> Iterator[str]:
    before = books.before.held.get(consumer.uuid, {})
    for node_id in sorted({*before, *consumer.held}):
        if before.get(node_id) != consumer.held.get(node_id):
            yield usage_key(node_id, consumer.uuid)


_INVENTORY = (("node_id", NUMBER), ("resource_class", WORD))
# The lock on the node has seen to it already; the database holds it to be true all the same.
_STILL_FITS = "used + given.difference <= (total - reserved) * allocation_ratio"


def _write_inventories(connection: Connection, books: Books) -> None:
    """What is taken only if it still fits; what is given back always does."""
    taken: list[tuple[int, str, int]] = []
    given_back: list[tuple[int, str, int]] = []
    for uuid, node in sorted(books.nodes.items(), key=lambda item: item[1].id):
        before = books.before.nodes[uuid][0]
        for name, room in sorted(node.rooms.items()):
            difference = int(room.allocated - before[name].allocated)
            if difference:
                (taken if difference > 0 else given_back).append((node.id, name, difference))
    for rows, condition in ((taken, _STILL_FITS), (given_back, "")):
        done = (
            add_to_rows(connection, "inventories", _INVENTORY, {"used": "difference"}, rows, condition) if rows else 0
        )
        if done != len(rows):
            raise DatabaseConflict("an inventory changed under its lock", "try again")


_COUNTED = {
    "free_ram_mb": "-memory",
    "memory_mb_used": "memory",
    "free_disk_gb": "-disk",
    "local_gb_used": "disk",
    "vcpus_used": "cpus",
    "running_vms": "came",
}


def _write_nodes(connection: Connection, books: Books) -> None:
    """What nova's host attributes count, until the node's next report."""
    rows = []
    for uuid, node in sorted(books.nodes.items(), key=lambda item: item[1].id):
        taken = books.before.nodes[uuid][1].plus(node.free, -1)
        if any(taken) or node.instances:
            rows.append((node.id, *taken, node.instances))
    if rows:
        add_to_rows(connection, "compute_nodes", (("id", NUMBER),), _COUNTED, rows)


_CONSUMER = ("uuid", "kind", "project_id", "user_id", "details", "created_at")
_ALLOCATION = ("consumer_uuid", "node_id", "resource_class", "used")


def _write_consumers(connection: Connection, books: Books, changed: list[Consumer], now: datetime.datetime) -> None:
    """New ones, and what each of those that changed holds now."""
    before = books.before.held
    new = [_consumer_row(each, now) for each in changed if each.uuid not in before and each.held]
    if new:
        insert_rows(connection, consumers, _CONSUMER, new)
    old = [each for each in changed if each.uuid in before]
    if old:
        connection.execute(delete(allocations).where(allocations.c.consumer_uuid.in_([each.uuid for each in old])))
        moved = [{"of": each.uuid, "said": each.details, "what": each.kind} for each in old if each.held]
        if moved:
            statement = update(consumers).where(consumers.c.uuid == bindparam("of"))
            connection.execute(statement.values(details=bindparam("said"), kind=bindparam("what")), moved)
    rows = [
        (each.uuid, node_id, name, used)
        for each in changed
        for node_id, amounts in each.held.items()
        for name, used in amounts.items()
    ]
    if rows:
        insert_rows(connection, allocations, _ALLOCATION, rows)


def _consumer_row(consumer: Consumer, now: datetime.datetime) -> tuple[Any, ...]:
    details = as_json_text(consumer.details)
    return consumer.uuid, consumer.kind, consumer.project_id, consumer.user_id, details, now


def _drop_consumers(connection: Connection, books: Books, changed: list[Consumer]) -> None:
    """Those who hold nothing any more; their slots are gone before them."""
    gone = [each.uuid for each in changed if each.uuid in books.before.held and not each.held]
    if gone:
        connection.execute(delete(consumers).where(consumers.c.uuid.in_(gone)))


def _write_groups(connection: Connection, books: Books) -> None:
    """Slots and hosts, which uniqueness rules guard; and who is a member."""
    slots = server_group_slots.c
    for uuid, group in books.groups.items():
        old_slots, old_host, old_members = books.before.groups[uuid]
        here = {"group_id": group.id}
        for host, slot in [place for place, who in old_slots.items() if group.slots.get(place) != who]:
            this = (slots.group_id == group.id, slots.host == host, slots.slot == slot)
            connection.execute(delete(server_group_slots).where(*this))
        taken = [(place, who) for place, who in group.slots.items() if old_slots.get(place) != who]
        if taken:
            rows = [here | {"host": host, "slot": slot, "consumer_uuid": who} for (host, slot), who in taken]
            connection.execute(insert(server_group_slots), rows)
        if group.host != old_host:
            connection.execute(delete(server_group_hosts).where(server_group_hosts.c.group_id == group.id))
            if group.host is not None:
                connection.execute(insert(server_group_hosts), here | {"host": group.host})
        if joined := group.members - old_members:
            connection.execute(insert(server_group_members), [here | {"server_uuid": each} for each in joined])
