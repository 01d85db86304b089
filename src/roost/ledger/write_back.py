# SPDX-License-Identifier: Apache-2.0
"""Writes claims to the database: the differences of a unit of work in one batch, or one claim in one statement.

In a batch, rows of the change log come last. One statement is a claim for one new instance on one node: how most
claims are made on PostgreSQL. It has the conditions of `Node.check_capacity`: the node has the capacity, min_unit,
max_unit and step_size allow the amounts, it is not bare metal, and the consumer is new and in no group. If one of
them does not hold, the statement fails and changes nothing. The ledger then makes the claim by way of
`load_unit_of_work`, and so finds the reason of a refusal.

Pinned CPUs, NUMA memory and PCI devices are claimed by compare-and-swap: the scheduler has fitted the guest to what
it saw of the node, and the statement has the condition that the node's columns still say just that.

Two such claims on one node are serialised: the second waits for the lock on the node's row, and its conditions see
what the first has committed.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from sqlalchemy import Connection, Engine, TextClause, select, text
from sqlalchemy.exc import DataError, IntegrityError

from roost.errors import DatabaseConflict
from roost.hosts.guests import Guest, GuestSpace, space_texts
from roost.ledger.claim import Claim
from roost.ledger.nodes import update_space
from roost.ledger.unit_of_work import Consumer, UnitOfWork
from roost.model.resources import INSTANCE
from roost.store.change_log import GUESTS, SERVERS, USAGE, Change, changes_insert, make_token, usage_key
from roost.store.columns import as_json_text
from roost.store.schema.fleet import allocations, consumers, guest_allocations
from roost.store.schema.servers import server_group_hosts, server_group_members, server_group_slots, servers
from roost.store.statements import (
    INTEGER_TYPE,
    TEXT_TYPE,
    Statement,
    addition_statement,
    delete_statement,
    insert_statement,
    send_batch,
    utc_text,
)
from roost.store.store_clock import given_or_present
from roost.store.transactions import database_errors


def write_unit_of_work(connection: Connection, work: UnitOfWork, now: datetime.datetime | None) -> None:
    """Write all differences to what was read. DatabaseConflict if an allocation does not fit any more.

    `now`: creation time of new consumers, and time of new claims of known ones; None, on PostgreSQL:
    by the clock of the database.
    """
    changed = work.changed_consumers()
    left = _lock_left_servers(connection, work) if work.left_servers else []
    if not changed and not left and not work.has_changed_groups():
        return
    dialect, spaces = connection.dialect.name, _find_changed_spaces(work)
    logged = [*_usage_changes(work, changed), *(Change(GUESTS, str(node_id)) for node_id in spaces)]
    logged += [Change(SERVERS, uuid) for uuid in left]
    used_changes = _find_used_changes(work)
    statements = [
        *(_update_used(dialect, rows, condition) for rows, condition in used_changes),
        *_update_nodes(dialect, work),
        *(update_space(node_id, space) for node_id, space in spaces.items()),
        *_write_consumers(dialect, work, changed, now),
        *_write_guests(dialect, work, changed),
        *_write_groups(dialect, work),
        *_delete_consumers(dialect, work, changed),
        *(Statement(_clear_host(dialect), {"uuid": uuid, "updated_at": _text_of(now)}) for uuid in left),
        *([changes_insert(dialect, logged)] if logged else ()),
    ]
    results = send_batch(connection, statements)
    if any(result.touched != len(rows) for result, (rows, _) in zip(results, used_changes, strict=False)):
        raise DatabaseConflict("an inventory changed under its lock", "try again")


def _usage_changes(work: UnitOfWork, changed: list[Consumer]) -> Iterator[Change]:
    for consumer in changed:
        for key in _usage_keys(work, consumer):
            yield Change(USAGE, key)


def _usage_keys(work: UnitOfWork, consumer: Consumer) -> Iterator[str]:
    """A key of the change log for each node on which the consumer's allocation, or its details, changed."""
    before = work.loaded.allocations.get(consumer.uuid, {})
    is_same_use = consumer.details == work.loaded.details.get(consumer.uuid)
    for node_id in sorted({*before, *consumer.allocations}):
        if not is_same_use or before.get(node_id) != consumer.allocations.get(node_id):
            yield usage_key(node_id, consumer.uuid)


@cache
def _clear_host(dialect: str) -> TextClause:
    time = given_or_present(dialect, ":updated_at")
    return text(f"UPDATE servers SET host = NULL, node = NULL, updated_at = {time} WHERE uuid = :uuid")  # noqa: S608


def _text_of(time: datetime.datetime | None) -> str | None:
    return None if time is None else utc_text(time)


def _lock_left_servers(connection: Connection, work: UnitOfWork) -> list[str]:
    """Uuids of the servers that are still recorded on the host that they have left; their rows are locked."""
    uuids = sorted({uuid for uuid, _ in work.left_servers})
    rows = select(servers.c.uuid, servers.c.host).where(servers.c.uuid.in_(uuids)).order_by(servers.c.uuid)
    return [uuid for uuid, host in connection.execute(rows.with_for_update()) if (uuid, host) in work.left_servers]


# --- used amounts of inventories and nodes ------------------------------------------------------------

_UsedChanges = list[tuple[int, str, int]]
"""Node id, resource class, and amount to add to `used`."""
_INVENTORY_KEY = (("node_id", INTEGER_TYPE), ("resource_class", TEXT_TYPE))
# Checked in memory under the lock already; a second guard against a mistake there.
_STILL_FITS = "used + given.difference <= (total - reserved) * allocation_ratio"


def _find_used_changes(work: UnitOfWork) -> list[tuple[_UsedChanges, str]]:
    """Increases with the condition that they still fit, and decreases without one; empty lists are left out."""
    increases: _UsedChanges = []
    decreases: _UsedChanges = []
    for uuid, node in sorted(work.nodes.items(), key=lambda item: item[1].id):
        before = work.loaded.nodes[uuid][0]
        for name, capacity in sorted(node.capacity.items()):
            difference = int(capacity.allocated - before[name].allocated)
            if difference:
                (increases if difference > 0 else decreases).append((node.id, name, difference))
    return [(rows, condition) for rows, condition in ((increases, _STILL_FITS), (decreases, "")) if rows]


def _update_used(dialect: str, rows: _UsedChanges, condition: str) -> Statement:
    return addition_statement(dialect, "inventories", _INVENTORY_KEY, {"used": "difference"}, rows, condition)


_NODE_SUMS = {
    "free_ram_mb": "-memory",
    "memory_mb_used": "memory",
    "free_disk_gb": "-disk",
    "local_gb_used": "disk",
    "vcpus_used": "cpus",
    "running_vms": "instances",
}
"""Column of `compute_nodes` -> the amount added to it, or subtracted from it."""


def _update_nodes(dialect: str, work: UnitOfWork) -> Iterator[Statement]:
    """The columns behind nova's host attributes; a report that gives use itself overwrites them."""
    rows = []
    for uuid, node in sorted(work.nodes.items(), key=lambda item: item[1].id):
        used = work.loaded.nodes[uuid][1].plus(node.free, -1)
        if any(used) or node.instances_delta:
            rows.append((node.id, *used, node.instances_delta))
    if rows:
        yield addition_statement(dialect, "compute_nodes", (("id", INTEGER_TYPE),), _NODE_SUMS, rows)


# --- guests -------------------------------------------------------------------------------------------

_GUEST = ("consumer_uuid", "node_id", "guest")


def _find_changed_spaces(work: UnitOfWork) -> dict[int, GuestSpace]:
    """Node id -> what is left of it for guests, where that differs from when it was locked; by id.

    Readers need not know of `guest_allocations`.
    """
    found = {}
    for uuid, node in work.nodes.items():
        before = work.loaded.spaces[uuid]
        if before is not None and node.guests is not None and node.guests.space != before.space:
            found[node.id] = node.guests.space
    return dict(sorted(found.items()))


def _write_guests(dialect: str, work: UnitOfWork, changed: list[Consumer]) -> Iterator[Statement]:
    """Replace the guests of consumers. Before the deletion of consumers, to which guests refer."""
    differing = [each for each in changed if each.guests != work.loaded.guests.get(each.uuid, {})]
    known = [each.uuid for each in differing if work.loaded.guests.get(each.uuid)]
    if known:
        yield delete_statement(dialect, guest_allocations.c.consumer_uuid, known)
    rows = [(each.uuid, node_id, guest.to_text()) for each in differing for node_id, guest in each.guests.items()]
    if rows:
        yield insert_statement(dialect, guest_allocations, _GUEST, rows)


# --- consumers and allocations ------------------------------------------------------------------------

_CONSUMER = ("uuid", "kind", "project_id", "user_id", "details", "created_at", "updated_at")
_ALLOCATION = ("consumer_uuid", "node_id", "resource_class", "used")


@cache
def _update_consumer(dialect: str) -> TextClause:
    """As text: SQLAlchemy would process every value by its column type."""
    time = given_or_present(dialect, ":updated_at")
    changed = f"kind = :kind, details = :details, updated_at = {time}"
    return text(f"UPDATE consumers SET {changed} WHERE uuid = :uuid")  # noqa: S608


def _write_consumers(
    dialect: str, work: UnitOfWork, changed: list[Consumer], now: datetime.datetime | None
) -> Iterator[Statement]:
    """Insert new consumers, update known ones, and replace the allocations of all changed ones."""
    before = work.loaded.allocations
    new = [_consumer_values(each, now) for each in changed if each.uuid not in before and each.allocations]
    if new:
        yield insert_statement(dialect, consumers, _CONSUMER, new, stamped="created_at")
    known = [each for each in changed if each.uuid in before]
    if known:
        yield delete_statement(dialect, allocations.c.consumer_uuid, [each.uuid for each in known])
        for each in known:
            if each.allocations:
                values = {"uuid": each.uuid, "kind": each.kind, "details": as_json_text(each.details)}
                time = _text_of(each.claimed_at or now)
                yield Statement(_update_consumer(dialect), {**values, "updated_at": time})
    rows = [
        (each.uuid, node_id, name, used)
        for each in changed
        for node_id, amounts in each.allocations.items()
        for name, used in amounts.items()
    ]
    if rows:
        yield insert_statement(dialect, allocations, _ALLOCATION, rows)


def _consumer_values(consumer: Consumer, now: datetime.datetime | None) -> tuple[Any, ...]:
    details = as_json_text(consumer.details)
    return consumer.uuid, consumer.kind, consumer.project_id, consumer.user_id, details, now, consumer.claimed_at


def _delete_consumers(dialect: str, work: UnitOfWork, changed: list[Consumer]) -> Iterator[Statement]:
    """Delete consumers that have no allocations any more. Comes after groups: slots refer to consumers."""
    gone = [each.uuid for each in changed if each.uuid in work.loaded.allocations and not each.allocations]
    if gone:
        yield delete_statement(dialect, consumers.c.uuid, gone)


# --- groups -------------------------------------------------------------------------------------------

_MEMBER = ("group_id", "server_uuid")
_SLOT = ("group_id", "host", "slot", "consumer_uuid")
_DELETE_SLOT = text("DELETE FROM server_group_slots WHERE group_id = :group_id AND host = :host AND slot = :slot")
_DELETE_HOST = text("DELETE FROM server_group_hosts WHERE group_id = :group_id")


def _write_groups(dialect: str, work: UnitOfWork) -> Iterator[Statement]:
    """Slots, hosts and new members. Uniqueness rules make it a conflict if another transaction took a slot."""
    for uuid, group in work.groups.items():
        old_slots, old_host, old_members = work.loaded.groups[uuid]
        for host, number in [slot for slot, owner in old_slots.items() if group.slots.get(slot) != owner]:
            yield Statement(_DELETE_SLOT, {"group_id": group.id, "host": host, "slot": number})
        taken = [(slot, owner) for slot, owner in group.slots.items() if old_slots.get(slot) != owner]
        if taken:
            rows = [(group.id, host, number, owner) for (host, number), owner in taken]
            yield insert_statement(dialect, server_group_slots, _SLOT, rows)
        if group.host != old_host:
            yield Statement(_DELETE_HOST, {"group_id": group.id})
            if group.host is not None:
                yield insert_statement(dialect, server_group_hosts, ("group_id", "host"), [(group.id, group.host)])
        if joined := sorted(group.members - old_members):
            yield insert_statement(dialect, server_group_members, _MEMBER, [(group.id, each) for each in joined])


MOST_CLASSES = 4
"""Resource classes of a claim. As a LIMIT in the statement: PostgreSQL would plan for 100 and scan whole tables."""

_CREATED_AT = given_or_present("postgresql", ":now")
_SET_SPACE = ", numa_topology = CAST(:numa AS text), pci_stats = CAST(:pools AS text)"
_IS_SPACE_AS_SEEN = """
            AND numa_topology IS NOT DISTINCT FROM CAST(:seen_numa AS text)
            AND pci_stats IS NOT DISTINCT FROM CAST(:seen_pools AS text)"""
_INSERT_GUEST = """, guest AS (
        INSERT INTO guest_allocations (consumer_uuid, node_id, guest)
        SELECT consumer.uuid, node.id, :guest FROM consumer, node
    )"""
_GUEST_CHANGE = "UNION ALL SELECT :guest_subject, CAST(node.id AS text), CAST(:token AS bigint) FROM node"


def _make_statement(has_guest: bool) -> TextClause:
    set_space, is_as_seen, insert_guest, guest_change = (
        part if has_guest else "" for part in (_SET_SPACE, _IS_SPACE_AS_SEEN, _INSERT_GUEST, _GUEST_CHANGE)
    )
    return text(
        f"""
    WITH asked AS (
        SELECT key AS resource_class, CAST(value AS bigint) AS amount
        FROM json_each_text(CAST(:amounts AS json)) LIMIT {MOST_CLASSES}
    ), node AS (
        UPDATE compute_nodes SET
            free_ram_mb = free_ram_mb - :memory_mb, memory_mb_used = memory_mb_used + :memory_mb,
            free_disk_gb = free_disk_gb - :disk_gb, local_gb_used = local_gb_used + :disk_gb,
            vcpus_used = vcpus_used + :vcpus, running_vms = running_vms + 1{set_space}
        WHERE uuid = :node_uuid AND lower(coalesce(hypervisor_type, '')) <> 'ironic'
            AND NOT EXISTS (SELECT 1 FROM server_group_members WHERE server_uuid = :uuid){is_as_seen}
        RETURNING id
    ), taken AS (
        UPDATE inventories SET used = used + amount FROM asked, node
        WHERE node_id = node.id AND inventories.resource_class = asked.resource_class
            AND used + amount <= (total - reserved) * allocation_ratio
            AND amount BETWEEN min_unit AND coalesce(max_unit, total) AND amount % step_size = 0
        RETURNING 1
    ), consumer AS (
        INSERT INTO consumers (uuid, kind, project_id, user_id, details, created_at)
        SELECT :uuid, :kind, :project_id, :user_id, :details, {_CREATED_AT} FROM node RETURNING uuid
    ), allocation AS (
        INSERT INTO allocations (consumer_uuid, node_id, resource_class, used)
        SELECT consumer.uuid, node.id, resource_class, amount FROM consumer, node, asked
    ){insert_guest}, change AS (
        INSERT INTO changes (subject, subject_key, token)
        SELECT :subject, node.id || '/' || consumer.uuid, CAST(:token AS bigint) FROM node, consumer
        {guest_change}
    )
    SELECT 1 / CASE WHEN (SELECT count(*) FROM taken) = :classes THEN 1 ELSE 0 END
    """  # noqa: S608 - only constants are filled in
    )


_CLAIM, _CLAIM_WITH_GUEST = _make_statement(has_guest=False), _make_statement(has_guest=True)


class OneStatementClaim:
    """Makes claims in one statement, over a connection that stays open. Not thread-safe."""

    def __init__(self, engine: Engine) -> None:
        from roost.store.libpq_pipeline import PersistentPipeline  # needs psycopg, which is slow to import

        self._engine = engine
        self._pipeline = PersistentPipeline(engine)

    def claim(self, claim: Claim, now: datetime.datetime | None = None) -> bool:
        """Make the claim: False if a condition does not hold, or the claim needs more than one statement can do.

        Nothing is changed then. `now`: creation time of the consumer; None: by the database's clock.
        """
        amounts = {name: amount for name, amount in claim.amounts.items() if amount}
        if claim.group is not None or not 0 < len(amounts) <= MOST_CLASSES:
            return False
        statement, values, guest, seen = _CLAIM, _values(claim, amounts, now), claim.guest, claim.seen_space
        if guest is not None:
            if seen is None or seen.shortage(guest, claim.guest_limits):
                return False
            statement, values = _CLAIM_WITH_GUEST, {**values, **_guest_values(guest, seen)}
        with database_errors(self._engine):
            try:
                self._pipeline.send(Statement(statement, values))
            except (DataError, IntegrityError):
                return False
        return True


def _values(claim: Claim, amounts: dict[str, int], now: datetime.datetime | None) -> dict[str, Any]:
    return {
        **claim.use._asdict(),
        "amounts": json.dumps(amounts),
        "classes": len(amounts),
        "node_uuid": claim.node_uuid,
        "uuid": claim.consumer_uuid,
        "kind": INSTANCE,
        "project_id": claim.project_id,
        "user_id": claim.user_id,
        "details": as_json_text({**claim.details, "use": list(claim.use)}),
        "now": utc_text(now) if now else None,
        "subject": USAGE,
        "token": make_token(),
    }


def _guest_values(guest: Guest, seen: GuestSpace) -> dict[str, Any]:
    before, after = space_texts(seen), space_texts(seen.with_guest(guest))
    return {
        "seen_numa": before.numa,
        "seen_pools": before.pools,
        "numa": after.numa,
        "pools": after.pools,
        "guest": guest.to_text(),
        "guest_subject": GUESTS,
    }
