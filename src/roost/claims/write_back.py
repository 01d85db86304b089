# SPDX-License-Identifier: Apache-2.0
"""Writes what became of the books: the differences, each kind in one statement; last, the changes for readers."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Column, Connection, Executable, delete, text

from roost.claims.unit_of_work import Consumer, UnitOfWork
from roost.errors import DatabaseConflict
from roost.store.bulk import INTEGER_TYPE, TEXT_TYPE, addition_statement, insert_statement
from roost.store.change_log import USAGE, Change, changes_insert, usage_key
from roost.store.column_types import as_json_text
from roost.store.schema import (
    allocations,
    consumers,
    server_group_hosts,
    server_group_members,
    server_group_slots,
)
from roost.store.statement_batch import Statement, is_key, key_parameter, send_batch


def write_unit_of_work(connection: Connection, books: UnitOfWork, now: datetime.datetime) -> None:
    """All differences to what was read, in one batch."""
    changed = [each for each in books.consumers.values() if each.held != books.before.held.get(each.uuid, {})]
    if not changed:
        return
    dialect = connection.dialect.name
    posted = _posted(books)
    requests = [
        *(_inventory_change(dialect, rows, condition) for rows, condition in posted),
        *_node_changes(dialect, books),
        *_consumer_changes(dialect, books, changed, now),
        *_group_changes(dialect, books),
        *_dropped_consumers(dialect, books, changed),
        changes_insert(dialect, [Change(USAGE, key) for each in changed for key in _usage_keys(books, each)]),
    ]
    answers = send_batch(connection, requests)
    if any(answer.touched != len(rows) for answer, (rows, _) in zip(answers, posted, strict=False)):
        raise DatabaseConflict("an inventory changed under its lock", "try again")


def _usage_keys(books: UnitOfWork, consumer: Consumer) -> Iterator[str]:
    before = books.before.held.get(consumer.uuid, {})
    for node_id in sorted({*before, *consumer.held}):
        if before.get(node_id) != consumer.held.get(node_id):
            yield usage_key(node_id, consumer.uuid)


_INVENTORY = (("node_id", INTEGER_TYPE), ("resource_class", TEXT_TYPE))
# The lock on the node has seen to it already; the database holds it to be true all the same.
_STILL_FITS = "used + given.difference <= (total - reserved) * allocation_ratio"


def _posted(books: UnitOfWork) -> list[tuple[list[tuple[int, str, int]], str]]:
    """Node, class and difference, with a condition: what is taken must still fit, what is given back always does."""
    taken: list[tuple[int, str, int]] = []
    given_back: list[tuple[int, str, int]] = []
    for uuid, node in sorted(books.nodes.items(), key=lambda item: item[1].id):
        before = books.before.nodes[uuid][0]
        for name, room in sorted(node.rooms.items()):
            difference = int(room.allocated - before[name].allocated)
            if difference:
                (taken if difference > 0 else given_back).append((node.id, name, difference))
    return [(rows, condition) for rows, condition in ((taken, _STILL_FITS), (given_back, "")) if rows]


def _inventory_change(dialect: str, rows: list[tuple[int, str, int]], condition: str) -> Statement:
    return addition_statement(dialect, "inventories", _INVENTORY, {"used": "difference"}, rows, condition)


_COUNTED = {
    "free_ram_mb": "-memory",
    "memory_mb_used": "memory",
    "free_disk_gb": "-disk",
    "local_gb_used": "disk",
    "vcpus_used": "cpus",
    "running_vms": "came",
}


def _node_changes(dialect: str, books: UnitOfWork) -> Iterator[Statement]:
    """What nova's host attributes count, until the node's next report."""
    rows = []
    for uuid, node in sorted(books.nodes.items(), key=lambda item: item[1].id):
        taken = books.before.nodes[uuid][1].plus(node.free, -1)
        if any(taken) or node.instances:
            rows.append((node.id, *taken, node.instances))
    if rows:
        yield addition_statement(dialect, "compute_nodes", (("id", INTEGER_TYPE),), _COUNTED, rows)


_CONSUMER = ("uuid", "kind", "project_id", "user_id", "details", "created_at")
_ALLOCATION = ("consumer_uuid", "node_id", "resource_class", "used")
_MEMBER = ("group_id", "server_uuid")
_SLOT = ("group_id", "host", "slot", "consumer_uuid")

# As texts, so that values need no column types on their way.
_UPDATE_CONSUMER = text("UPDATE consumers SET kind = :kind, details = :details WHERE uuid = :uuid")
_FREE_SLOT = text("DELETE FROM server_group_slots WHERE group_id = :group_id AND host = :host AND slot = :slot")
_UNBIND = text("DELETE FROM server_group_hosts WHERE group_id = :group_id")


def _deletion(dialect: str, column: Column[Any], uuids: Sequence[str]) -> Statement:
    """The rows of a table with one of these in this column."""
    return Statement(_delete(dialect, column, len(uuids) == 1), {"uuids": key_parameter(uuids)})


@cache
def _delete(dialect: str, column: Column[Any], is_one: bool) -> Executable:
    return delete(column.table).where(is_key(dialect, column, "uuids", is_one))


def _consumer_changes(
    dialect: str, books: UnitOfWork, changed: list[Consumer], now: datetime.datetime
) -> Iterator[Statement]:
    """New ones, and what each of those that changed holds now."""
    before = books.before.held
    new = [_consumer_row(each, now) for each in changed if each.uuid not in before and each.held]
    if new:
        yield insert_statement(dialect, consumers, _CONSUMER, new)
    old = [each for each in changed if each.uuid in before]
    if old:
        yield _deletion(dialect, allocations.c.consumer_uuid, [each.uuid for each in old])
        for each in old:
            if each.held:
                said = {"uuid": each.uuid, "kind": each.kind, "details": as_json_text(each.details)}
                yield Statement(_UPDATE_CONSUMER, said)
    rows = [
        (each.uuid, node_id, name, used)
        for each in changed
        for node_id, amounts in each.held.items()
        for name, used in amounts.items()
    ]
    if rows:
        yield insert_statement(dialect, allocations, _ALLOCATION, rows)


def _consumer_row(consumer: Consumer, now: datetime.datetime) -> tuple[Any, ...]:
    details = as_json_text(consumer.details)
    return consumer.uuid, consumer.kind, consumer.project_id, consumer.user_id, details, now


def _dropped_consumers(dialect: str, books: UnitOfWork, changed: list[Consumer]) -> Iterator[Statement]:
    """Those who hold nothing any more; their slots are gone before them."""
    gone = [each.uuid for each in changed if each.uuid in books.before.held and not each.held]
    if gone:
        yield _deletion(dialect, consumers.c.uuid, gone)


def _group_changes(dialect: str, books: UnitOfWork) -> Iterator[Statement]:
    """Slots and hosts, which uniqueness rules guard; and who is a member."""
    for uuid, group in books.groups.items():
        old_slots, old_host, old_members = books.before.groups[uuid]
        for host, slot in [place for place, who in old_slots.items() if group.slots.get(place) != who]:
            yield Statement(_FREE_SLOT, {"group_id": group.id, "host": host, "slot": slot})
        taken = [(place, who) for place, who in group.slots.items() if old_slots.get(place) != who]
        if taken:
            rows = [(group.id, host, slot, who) for (host, slot), who in taken]
            yield insert_statement(dialect, server_group_slots, _SLOT, rows)
        if group.host != old_host:
            yield Statement(_UNBIND, {"group_id": group.id})
            if group.host is not None:
                yield insert_statement(dialect, server_group_hosts, ("group_id", "host"), [(group.id, group.host)])
        if joined := sorted(group.members - old_members):
            yield insert_statement(dialect, server_group_members, _MEMBER, [(group.id, each) for each in joined])
