# SPDX-License-Identifier: Apache-2.0
"""Compares the ledger with itself, with the servers and with the nodes, and heals what can be healed without a guess.

Each finding comes from one statement, so it is true of one moment, whoever claims meanwhile.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, and_, delete, exists, func, or_, select, update

from roost.claims.claim import ANTI_AFFINITY
from roost.claims.ledger import Ledger
from roost.model.consumers import INSTANCE, MIGRATION
from roost.store.change_log import NODES, Change, record_changes
from roost.store.error_mapping import database_errors
from roost.store.schema import (
    allocations,
    compute_nodes,
    consumers,
    inventories,
    migrations,
    server_group_hosts,
    server_group_members,
    server_group_slots,
    server_groups,
    servers,
)
from roost.store.transactions import writing

FINISHED = ("accepted", "cancelled", "completed", "confirmed", "done", "error", "failed", "reverted")
"""Statuses of migrations that hold nothing any more."""
NOWHERE = ("deleted", "soft-delete", "shelved_offloaded")
"""States of servers that need no resources."""


class Finding(NamedTuple):
    """Something that does not add up."""

    kind: str
    subject: str
    """Which consumer, server, group or node."""
    host: str
    detail: str
    remedy: str
    """What --fix does about it; empty where a person has to decide."""
    key: tuple[Any, ...] = ()
    """For whoever heals it."""


def audit(engine: Engine, now: datetime.datetime, grace_seconds: float) -> list[Finding]:
    """Everything that does not add up. A claim younger than the grace may still get its server."""
    born_before = now - datetime.timedelta(seconds=grace_seconds)
    found: list[Finding] = []
    with database_errors(engine), engine.connect() as connection:
        for look in (_wrong_sums, _overfull, _homeless, _elsewhere, _empty_slots, _crowded):
            found += look(connection)
        for look_back in (_leaks, _unfinished, _idle):
            found += look_back(connection, born_before)
    return found


def heal(engine: Engine, findings: Sequence[Finding], ledger: Ledger) -> int:
    """Do what the remedies say; how many were healed."""
    healed = 0
    for finding in findings:
        if finding.kind in _RELEASED:
            healed += ledger.release([finding.subject])
        elif finding.kind in _MENDERS:
            healed += _mend(engine, finding)
    return healed


def _mend(engine: Engine, finding: Finding) -> bool:
    with writing(engine) as connection:
        return bool(_MENDERS[finding.kind](connection, finding))


# --- sums ---


def _held() -> Any:
    """Node and class -> what its allocations add up to."""
    total = func.sum(allocations.c.used).label("held")
    return (
        select(allocations.c.node_id, allocations.c.resource_class, total)
        .group_by(allocations.c.node_id, allocations.c.resource_class)
        .subquery("held")
    )


def _wrong_sums(connection: Connection) -> Iterator[Finding]:
    held = _held()
    same = and_(held.c.node_id == inventories.c.node_id, held.c.resource_class == inventories.c.resource_class)
    amount = func.coalesce(held.c.held, 0)
    query = (
        select(compute_nodes.c.host, inventories.c.node_id, inventories.c.resource_class, inventories.c.used, amount)
        .join(compute_nodes, compute_nodes.c.id == inventories.c.node_id)
        .outerjoin(held, same)
        .where(inventories.c.used != amount)
        .order_by(compute_nodes.c.host, inventories.c.resource_class)
    )
    for host, node_id, name, used, held_amount in connection.execute(query):
        detail = f"{name}: {used} used, allocations add up to {int(held_amount)}"
        yield Finding("sum", str(node_id), host, detail, "set it to the sum", (node_id, name))


def _mend_sum(connection: Connection, finding: Finding) -> int:
    """Under the node's lock, so that no claim is under way there."""
    node_id, name = finding.key
    connection.execute(select(compute_nodes.c.id).where(compute_nodes.c.id == node_id).with_for_update())
    here = and_(allocations.c.node_id == node_id, allocations.c.resource_class == name)
    held = connection.scalar(select(func.coalesce(func.sum(allocations.c.used), 0)).where(here))
    this = and_(inventories.c.node_id == node_id, inventories.c.resource_class == name)
    done = connection.execute(update(inventories).where(this).values(used=int(held or 0))).rowcount
    record_changes(connection, [Change(NODES, str(node_id))])
    return done


def _overfull(connection: Connection) -> Iterator[Finding]:
    limit = (inventories.c.total - inventories.c.reserved) * inventories.c.allocation_ratio
    query = (
        select(compute_nodes.c.host, inventories.c.node_id, inventories.c.resource_class, inventories.c.used, limit)
        .join(compute_nodes, compute_nodes.c.id == inventories.c.node_id)
        .where(inventories.c.used > limit)
        .order_by(compute_nodes.c.host, inventories.c.resource_class)
    )
    for host, node_id, name, used, most in connection.execute(query):
        yield Finding("overfull", str(node_id), host, f"{name}: {used} used, {most:.0f} may be", "")


# --- consumers and servers ---


def _places(kind: str) -> Any:
    """Consumers of a kind with the hosts they hold something of."""
    return (
        select(consumers.c.uuid, func.min(compute_nodes.c.host).label("host"))
        .join(allocations, allocations.c.consumer_uuid == consumers.c.uuid)
        .join(compute_nodes, compute_nodes.c.id == allocations.c.node_id)
        .where(consumers.c.kind == kind)
        .group_by(consumers.c.uuid)
        .order_by(consumers.c.uuid)
    )


def _older(moment: datetime.datetime) -> Any:
    return or_(consumers.c.created_at.is_(None), consumers.c.created_at < moment)


def _leaks(connection: Connection, born_before: datetime.datetime) -> Iterator[Finding]:
    needs = and_(servers.c.uuid == consumers.c.uuid, func.coalesce(servers.c.vm_state, "").not_in(NOWHERE))
    query = _places(INSTANCE).where(~exists().where(needs), _older(born_before))
    for uuid, host in connection.execute(query):
        yield Finding("leak", uuid, host, "holds resources, and there is no such server", "release them")


def _unfinished(connection: Connection, born_before: datetime.datetime) -> Iterator[Finding]:
    running = and_(migrations.c.uuid == consumers.c.uuid, migrations.c.status.not_in(FINISHED))
    query = _places(MIGRATION).where(~exists().where(running), _older(born_before))
    for uuid, host in connection.execute(query):
        yield Finding("migration", uuid, host, "holds resources, and no such migration is running", "release them")


def _idle(connection: Connection, born_before: datetime.datetime) -> Iterator[Finding]:
    holds = exists().where(allocations.c.consumer_uuid == consumers.c.uuid)
    query = select(consumers.c.uuid).where(~holds, _older(born_before)).order_by(consumers.c.uuid)
    server = exists().where(servers.c.uuid == consumers.c.uuid)
    for (uuid,) in connection.execute(query.where(~server)):
        yield Finding("idle", uuid, "", "a consumer that holds nothing", "delete it")


def _drop_idle(connection: Connection, finding: Finding) -> int:
    holds = exists().where(allocations.c.consumer_uuid == consumers.c.uuid)
    return connection.execute(delete(consumers).where(consumers.c.uuid == finding.subject, ~holds)).rowcount


def _sited() -> Any:
    """Servers that are somewhere and need resources there; with the node, where there is such a one."""
    here = and_(compute_nodes.c.host == servers.c.host, compute_nodes.c.hypervisor_hostname == servers.c.node)
    return (
        select(servers.c.uuid, servers.c.host)
        .outerjoin(compute_nodes, here)
        .where(servers.c.host.is_not(None), func.coalesce(servers.c.vm_state, "").not_in(NOWHERE))
        .order_by(servers.c.uuid)
    )


def _holds(*more: Any) -> Any:
    return exists().where(allocations.c.consumer_uuid == servers.c.uuid, *more)


def _homeless(connection: Connection) -> Iterator[Finding]:
    """One that a fleet file lists without resources has a consumer all the same: it holds nothing on purpose."""
    listed = exists().where(consumers.c.uuid == servers.c.uuid)
    for uuid, host in connection.execute(_sited().where(~_holds(), ~listed)):
        yield Finding("unclaimed", uuid, host, "runs there, and holds nothing", "")


def _elsewhere(connection: Connection) -> Iterator[Finding]:
    moves = exists().where(migrations.c.server_uuid == servers.c.uuid, migrations.c.status.not_in(FINISHED))
    there = _holds(allocations.c.node_id == compute_nodes.c.id)
    for uuid, host in connection.execute(_sited().where(_holds(), ~there, ~moves)):
        yield Finding("elsewhere", uuid, host, "runs there, and holds resources of another node", "")


# --- groups ---


def _empty_slots(connection: Connection) -> Iterator[Finding]:
    """Slots whose holder has nothing on that host, and affinity groups that are nowhere."""
    slots = server_group_slots.c
    holds = (
        exists()
        .where(allocations.c.consumer_uuid == slots.consumer_uuid)
        .where(compute_nodes.c.id == allocations.c.node_id, compute_nodes.c.host == slots.host)
    )
    query = select(slots.group_id, slots.host, slots.slot, slots.consumer_uuid).where(~holds)
    for group_id, host, slot, uuid in connection.execute(query):
        detail = f"slot {slot} of group {group_id} is taken, and its holder has nothing there"
        yield Finding("slot", uuid, host, detail, "free it", (group_id, host, slot))
    member = server_group_members.c
    anybody = (
        exists()
        .where(member.group_id == server_group_hosts.c.group_id)
        .where(allocations.c.consumer_uuid == member.server_uuid)
    )
    for group_id, host in connection.execute(select(server_group_hosts).where(~anybody)):
        detail = f"affinity group {group_id} is bound to it, and nobody of it holds anything"
        yield Finding("binding", str(group_id), host, detail, "unbind it", (group_id,))


def _free_slot(connection: Connection, finding: Finding) -> int:
    group_id, host, slot = finding.key
    slots = server_group_slots.c
    here = (slots.group_id == group_id, slots.host == host, slots.slot == slot)
    return connection.execute(
        delete(server_group_slots).where(*here, slots.consumer_uuid == finding.subject)
    ).rowcount


def _unbind(connection: Connection, finding: Finding) -> int:
    (group_id,) = finding.key
    return connection.execute(delete(server_group_hosts).where(server_group_hosts.c.group_id == group_id)).rowcount


def _crowded(connection: Connection) -> Iterator[Finding]:
    """Members of a strict group that share a host they must not share."""
    member, most = server_group_members.c, func.max(func.coalesce(server_groups.c.max_server_per_host, 1))
    count = func.count(func.distinct(member.server_uuid))
    query = (
        select(server_groups.c.uuid, compute_nodes.c.host, count, most)
        .join(server_group_members, member.group_id == server_groups.c.id)
        .join(allocations, allocations.c.consumer_uuid == member.server_uuid)
        .join(compute_nodes, compute_nodes.c.id == allocations.c.node_id)
        .where(server_groups.c.policy == ANTI_AFFINITY)
        .group_by(server_groups.c.uuid, compute_nodes.c.host)
        .having(count > most)
    )
    for uuid, host, members, allowed in connection.execute(query):
        yield Finding("crowded", uuid, host, f"{members} members of the anti-affinity group; {allowed} may be", "")


_RELEASED = ("leak", "migration")
"""Healed as whoever forgot it would have done it."""
_MENDERS: dict[str, Callable[[Connection, Finding], int]] = {
    "sum": _mend_sum,
    "idle": _drop_idle,
    "slot": _free_slot,
    "binding": _unbind,
}
