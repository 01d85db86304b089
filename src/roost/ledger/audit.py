# SPDX-License-Identifier: Apache-2.0
"""Audit of the ledger: compares it with servers and nodes, and repairs findings that leave no choice.

Each kind of finding comes from one statement, so it is consistent even while schedulers make claims.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import structlog
from sqlalchemy import Connection, Engine, and_, delete, exists, func, select, update

from roost.errors import ClaimRejected
from roost.ledger.audits import (
    FINISHED_STATUSES,
    WRONG_SPACE,
    Finding,
    UndoneMove,
    delete_idle_consumer,
    find_ended_migrations,
    find_idle_consumers,
    find_leaks,
    find_wrong_guests,
    needs_resources,
    repair_space,
)
from roost.ledger.claim import ANTI_AFFINITY
from roost.ledger.ledger import Ledger
from roost.store.change_log import NODES, Change, record_changes
from roost.store.schema.fleet import allocations, compute_nodes, consumers, inventories
from roost.store.schema.servers import (
    migrations,
    server_group_hosts,
    server_group_members,
    server_group_slots,
    server_groups,
    servers,
)
from roost.store.transactions import database_errors, writing

LOG = structlog.get_logger(__name__)


def audit(engine: Engine, now: datetime.datetime, grace_seconds: float, known: Collection[str] = ()) -> list[Finding]:
    """All inconsistencies of the ledger. A claim younger than `grace_seconds` may still get its server.

    `known`: uuids of instances, and of migrations, that are known elsewhere, in their one spelling: a set.
    """
    created_before = now - datetime.timedelta(seconds=grace_seconds)
    found: list[Finding] = []
    with database_errors(engine), engine.connect() as connection:
        for find in (
            _find_wrong_sums,
            _find_overfull_nodes,
            _find_unclaimed_servers,
            _find_servers_elsewhere,
            _find_stale_slots,
            _find_stale_bindings,
            _find_crowded_hosts,
            find_wrong_guests,
        ):
            found += find(connection)
        for find_older in (find_leaks, find_ended_migrations, find_idle_consumers):
            found += find_older(connection, created_before, known)
    return found


def find_abandoned(
    connection: Connection, created_before: datetime.datetime, known: Collection[str] = ()
) -> list[Finding]:
    """Claims for servers and migrations that are gone, if they were made before this moment: they can be released."""
    return [
        *find_leaks(connection, created_before, known),
        *find_ended_migrations(connection, created_before, known),
    ]


def heal(engine: Engine, findings: Sequence[Finding], ledger: Ledger) -> int:
    """Repair the findings that have a remedy: how many were repaired. What is in order by now is left alone."""
    healed = 0
    for finding in (each for each in findings if each.remedy):
        if isinstance(finding.key, UndoneMove):
            healed += _give_back(finding, finding.key, ledger)
        elif finding.kind in _RELEASED_KINDS:
            (created_before,) = finding.key
            healed += ledger.release([finding.subject], created_before, spares_used=True)
        elif finding.kind in _REPAIRS:
            healed += _repair(engine, finding)
    return healed


def _give_back(finding: Finding, move: UndoneMove, ledger: Ledger) -> bool:
    """Undo a move that has ended on its source; False, with a line in the log, where that would split a group."""
    ends = move.targets, move.sources
    try:
        return ledger.undo_move(finding.subject, move.instance, *ends, ended_before=move.created_before)
    except ClaimRejected as error:
        LOG.warning("move not undone in the ledger", server=move.instance, reason=str(error))
        return False


def _repair(engine: Engine, finding: Finding) -> bool:
    with writing(engine) as connection:
        return bool(_REPAIRS[finding.kind](connection, finding))


# --- used amounts ------------------------------------------------------------------------------------


def _allocation_sums() -> Any:
    """A subquery: node id, resource class, and `total`, the sum of the allocations."""
    total = func.sum(allocations.c.used).label("total")
    return (
        select(allocations.c.node_id, allocations.c.resource_class, total)
        .group_by(allocations.c.node_id, allocations.c.resource_class)
        .subquery("allocated")
    )


def _find_wrong_sums(connection: Connection) -> Iterator[Finding]:
    sums = _allocation_sums()
    same = and_(sums.c.node_id == inventories.c.node_id, sums.c.resource_class == inventories.c.resource_class)
    amount = func.coalesce(sums.c.total, 0)
    query = (
        select(compute_nodes.c.host, inventories.c.node_id, inventories.c.resource_class, inventories.c.used, amount)
        .join(compute_nodes, compute_nodes.c.id == inventories.c.node_id)
        .outerjoin(sums, same)
        .where(inventories.c.used != amount)
        .order_by(compute_nodes.c.host, inventories.c.resource_class)
    )
    for host, node_id, name, used, total in connection.execute(query):
        detail = f"{name}: {used} used, allocations add up to {int(total)}"
        yield Finding("sum", str(node_id), host, detail, "set it to the sum", (node_id, name))


def _repair_sum(connection: Connection, finding: Finding) -> int:
    """Set `used` to the sum of the allocations, under the node's lock: no claim is under way there."""
    node_id, name = finding.key
    connection.execute(select(compute_nodes.c.id).where(compute_nodes.c.id == node_id).with_for_update())
    allocated = and_(allocations.c.node_id == node_id, allocations.c.resource_class == name)
    total = connection.scalar(select(func.coalesce(func.sum(allocations.c.used), 0)).where(allocated))
    inventory = and_(inventories.c.node_id == node_id, inventories.c.resource_class == name)
    repaired = connection.execute(update(inventories).where(inventory).values(used=int(total or 0))).rowcount
    record_changes(connection, [Change(NODES, str(node_id))])
    return repaired


def _find_overfull_nodes(connection: Connection) -> Iterator[Finding]:
    limit = (inventories.c.total - inventories.c.reserved) * inventories.c.allocation_ratio
    query = (
        select(compute_nodes.c.host, inventories.c.node_id, inventories.c.resource_class, inventories.c.used, limit)
        .join(compute_nodes, compute_nodes.c.id == inventories.c.node_id)
        .where(inventories.c.used > limit)
        .order_by(compute_nodes.c.host, inventories.c.resource_class)
    )
    for host, node_id, name, used, allowed in connection.execute(query):
        yield Finding("overfull", str(node_id), host, f"{name}: {used} used, {allowed:.0f} may be", "")


# --- servers ---------------------------------------------------------------------------------------


def _select_placed_servers() -> Any:
    """Servers that are on a host and need resources there, joined with their node where it exists."""
    is_its_node = and_(compute_nodes.c.host == servers.c.host, compute_nodes.c.hypervisor_hostname == servers.c.node)
    return (
        select(servers.c.uuid, servers.c.host)
        .outerjoin(compute_nodes, is_its_node)
        .where(servers.c.host.is_not(None), needs_resources())
        .order_by(servers.c.uuid)
    )


def _server_has_allocations(*conditions: Any) -> Any:
    return exists().where(allocations.c.consumer_uuid == servers.c.uuid, *conditions)


def _find_unclaimed_servers(connection: Connection) -> Iterator[Finding]:
    """Servers without allocations; one that a fleet file lists without resources is fine, and has a consumer."""
    has_consumer = exists().where(consumers.c.uuid == servers.c.uuid)
    query = _select_placed_servers().where(~_server_has_allocations(), ~has_consumer)
    for uuid, host in connection.execute(query):
        yield Finding("unclaimed", uuid, host, "runs there, and holds nothing", "")


def _find_servers_elsewhere(connection: Connection) -> Iterator[Finding]:
    """Servers whose allocations are all on other nodes, unless they are moving."""
    is_unfinished = migrations.c.status.not_in(FINISHED_STATUSES)
    is_moving = exists().where(migrations.c.server_uuid == servers.c.uuid, is_unfinished)
    is_claimed_there = _server_has_allocations(allocations.c.node_id == compute_nodes.c.id)
    query = _select_placed_servers().where(_server_has_allocations(), ~is_claimed_there, ~is_moving)
    for uuid, host in connection.execute(query):
        yield Finding("elsewhere", uuid, host, "runs there, and holds resources of another node", "")


# --- groups ------------------------------------------------------------------------------------------


def _is_slot_needed() -> Any:
    """Whether the consumer of a slot has an allocation on its host."""
    slots = server_group_slots.c
    return (
        exists()
        .where(allocations.c.consumer_uuid == slots.consumer_uuid)
        .where(compute_nodes.c.id == allocations.c.node_id, compute_nodes.c.host == slots.host)
        .correlate(server_group_slots)
    )


def _has_placed_member() -> Any:
    """Whether a member of an affinity group that is bound to a host has allocations."""
    member = server_group_members.c
    return (
        exists()
        .where(member.group_id == server_group_hosts.c.group_id)
        .where(allocations.c.consumer_uuid == member.server_uuid)
        .correlate(server_group_hosts)
    )


def _lock_group(connection: Connection, group_id: int) -> None:
    connection.execute(select(server_groups.c.id).where(server_groups.c.id == group_id).with_for_update())


def _find_stale_slots(connection: Connection) -> Iterator[Finding]:
    """Slots of anti-affinity groups whose consumer has no allocation on that host."""
    slots = server_group_slots.c
    query = select(slots.group_id, slots.host, slots.slot, slots.consumer_uuid).where(~_is_slot_needed())
    for group_id, host, slot, uuid in connection.execute(query):
        detail = f"slot {slot} of group {group_id} is taken, and its holder has nothing there"
        yield Finding("slot", uuid, host, detail, "free it", (group_id, host, slot))


def _find_stale_bindings(connection: Connection) -> Iterator[Finding]:
    """Affinity groups that are bound to a host although no member has allocations."""
    for group_id, host in connection.execute(select(server_group_hosts).where(~_has_placed_member())):
        detail = f"affinity group {group_id} is bound to it, and no member holds anything"
        yield Finding("binding", str(group_id), host, detail, "unbind it", (group_id,))


def _delete_slot(connection: Connection, finding: Finding) -> int:
    group_id, host, slot = finding.key
    _lock_group(connection, group_id)
    slots = server_group_slots.c
    same_slot = (slots.group_id == group_id, slots.host == host, slots.slot == slot)
    return connection.execute(
        delete(server_group_slots).where(*same_slot, slots.consumer_uuid == finding.subject, ~_is_slot_needed())
    ).rowcount


def _delete_binding(connection: Connection, finding: Finding) -> int:
    (group_id,) = finding.key
    _lock_group(connection, group_id)
    of_group = server_group_hosts.c.group_id == group_id
    return connection.execute(delete(server_group_hosts).where(of_group, ~_has_placed_member())).rowcount


def _find_crowded_hosts(connection: Connection) -> Iterator[Finding]:
    """Hosts with more members of an anti-affinity group than it allows."""
    member, limit = server_group_members.c, func.max(func.coalesce(server_groups.c.max_server_per_host, 1))
    count = func.count(func.distinct(member.server_uuid))
    query = (
        select(server_groups.c.uuid, compute_nodes.c.host, count, limit)
        .join(server_group_members, member.group_id == server_groups.c.id)
        .join(allocations, allocations.c.consumer_uuid == member.server_uuid)
        .join(compute_nodes, compute_nodes.c.id == allocations.c.node_id)
        .where(server_groups.c.policy == ANTI_AFFINITY)
        .group_by(server_groups.c.uuid, compute_nodes.c.host)
        .having(count > limit)
    )
    for uuid, host, members, allowed in connection.execute(query):
        yield Finding("crowded", uuid, host, f"{members} members of the anti-affinity group; {allowed} may be", "")


_RELEASED_KINDS = ("leak", "migration")
"""Kinds that are repaired by a release of the consumer."""
_REPAIRS: dict[str, Callable[[Connection, Finding], int]] = {
    "sum": _repair_sum,
    "idle": delete_idle_consumer,
    "slot": _delete_slot,
    "binding": _delete_binding,
    WRONG_SPACE: repair_space,
}
"""Kind -> function that repairs a finding in its own transaction: how many rows it changed."""
