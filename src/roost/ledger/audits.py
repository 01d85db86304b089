# SPDX-License-Identifier: Apache-2.0
"""What an audit of the ledger looks for: consumers that should hold nothing, and guests that nodes cannot have.

Consumers: instances without a server, migrations that ended, and consumers that hold nothing. Guests: bookings of
pinned CPUs, NUMA memory and PCI devices, against what nodes have, and against what is left.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, Text, and_, case, delete, exists, false, func, not_, or_, select, type_coerce

from roost.hosts.guests import Guest, GuestSpace, SpaceTexts, guest_from_text
from roost.hosts.pci import count_by_properties
from roost.ledger.claim import HeldNode
from roost.ledger.nodes import guests_from_rows, node_guests_from_rows, select_guests, select_spaces, update_space
from roost.ledger.unlocked_read import read_holdings
from roost.model.resources import INSTANCE, MIGRATION, move_of
from roost.model.uuids import canonical_uuid
from roost.store.change_log import GUESTS, Change, record_changes
from roost.store.schema.fleet import allocations, compute_nodes, consumers, guest_allocations
from roost.store.schema.servers import migrations, servers
from roost.store.statements import read_rows, send_batch


class Finding(NamedTuple):
    """An inconsistency of the ledger."""

    kind: str
    """One of the kinds in docs/explanation/the-ledger.md."""
    subject: str
    """Uuid of the consumer, server or group, or id of the node or group."""
    host: str
    detail: str
    remedy: str
    """What `heal` does about it; empty if an operator has to decide."""
    key: tuple[Any, ...] = ()
    """The key columns of the row to repair."""
    project_id: str | None = None
    """Project of the consumer, where the finding is about one."""
    created_at: datetime.datetime | None = None
    """Since when the consumer has been there, where the finding is about one."""


FINISHED_STATUSES = ("accepted", "cancelled", "completed", "confirmed", "done", "error", "failed", "reverted")
"""Statuses of migrations that need no allocations any more."""
STATES_WITHOUT_RESOURCES = ("deleted", "soft-delete")
"""Values of vm_state in which a server needs no allocations."""
IDLE_STATES_WITHOUT_RESOURCES = ("shelved_offloaded",)
"""Values of vm_state in which a server without a task needs no allocations; one that is unshelved claims some."""
_RELEASE, _GIVE_BACK = "release them", "give them back to the instance"


class UndoneMove(NamedTuple):
    """The key of a finding: a move that has ended on its source, where the instance gets back what it had."""

    created_before: datetime.datetime
    instance: str
    targets: tuple[str, ...]
    """Uuids of the nodes that the instance holds."""
    sources: tuple[str, ...]
    """Uuids of the nodes that the migration holds."""


def needs_resources() -> Any:
    """A condition on servers: whether they need allocations. One that could not be built needs none."""
    is_kept = func.coalesce(servers.c.vm_state, "").not_in(STATES_WITHOUT_RESOURCES)
    is_unbuilt = and_(servers.c.vm_state == "error", servers.c.host.is_(None))
    is_without = or_(servers.c.vm_state.in_(IDLE_STATES_WITHOUT_RESOURCES), is_unbuilt)
    return and_(is_kept, not_(func.coalesce(and_(servers.c.task_state.is_(None), is_without), false())))


def find_leaks(
    connection: Connection, created_before: datetime.datetime, known: Collection[str] = ()
) -> Iterator[Finding]:
    """Claims of instances that neither the servers nor `known` have: their caller never came back, for one."""
    has_server = exists().where(and_(servers.c.uuid == consumers.c.uuid, needs_resources()))
    query = _select_allocated(INSTANCE, created_before).where(~has_server)
    for uuid, host, project_id, created_at in connection.execute(query):
        if canonical_uuid(uuid) not in known:
            detail = "holds resources, and there is no such server"
            yield Finding("leak", uuid, host, detail, _RELEASE, (created_before,), project_id, created_at)


def find_ended_migrations(
    connection: Connection, created_before: datetime.datetime, known: Collection[str] = ()
) -> Iterator[Finding]:
    """Claims of migrations that do not run, or whose instance is gone.

    A server keeps what is held for it on the host where it is: what its migration holds elsewhere is released, and
    what it holds there is given back. Where the server is busy, or only `known` has the instance, or neither of the
    two holds just that host, an operator or an agent has to decide.
    """
    running = migrations.c.status.not_in(FINISHED_STATUSES)
    query = (
        _select_allocated(MIGRATION, created_before)
        .add_columns(func.min(migrations.c.server_uuid), func.count(case((running, 1))))
        .outerjoin(migrations, migrations.c.uuid == consumers.c.uuid)
    )
    rows = [row for row in connection.execute(query) if canonical_uuid(row[0]) not in known]
    instances = _read_instances(connection) | set(known) if rows else set()
    instance_of = {move_of(each): each for each in instances}
    moving = _read_running_moves(connection) if rows else {}
    pairs = {row[0]: instance_of.get(row[0], row[4]) for row in rows}
    ends = _find_ends(connection, pairs, created_before)
    for uuid, host, project_id, created_at, _, has_record in rows:
        instance = pairs[uuid]
        is_gone, is_running = instance not in instances, has_record or uuid in moving
        if is_running and not is_gone:
            continue
        detail = "holds resources, and " + ("its instance is gone" if is_running else "no such migration is running")
        detail += f"; its instance is {instance}" if not is_gone else ""
        remedy, key = ends.get(uuid, (_RELEASE, (created_before,)))
        remedy = "" if instance in known else remedy
        yield Finding("migration", uuid, host, detail, remedy, key, project_id, created_at)


_End = tuple[str, tuple[Any, ...]]
"""Remedy and key of a finding."""


def _find_ends(
    connection: Connection, instances: Mapping[str, str | None], created_before: datetime.datetime
) -> dict[str, _End]:
    """Migration -> how its move is ended, where its server needs resources. `instances`: migration -> instance."""
    uuids = {instance for instance in instances.values() if instance}
    wanted = select(*(servers.c[name] for name in ("uuid", "host", "vm_state", "task_state"))).where(
        needs_resources()
    )
    places = {row.uuid: row for row in read_rows(connection, wanted, servers.c.uuid, uuids)}
    held = read_holdings(connection, {*instances, *places}) if places else {}
    return {
        uuid: _end_on(places[instance], held.get(uuid, {}), held.get(instance, {}), created_before)
        for uuid, instance in instances.items()
        if instance is not None and instance in places
    }


def _end_on(
    server: Any, sources: Mapping[str, HeldNode], targets: Mapping[str, HeldNode], created_before: datetime.datetime
) -> _End:
    """How a move is ended whose migration holds `sources`, and whose instance holds `targets`."""
    is_idle = server.task_state is None and server.vm_state != "resized"
    is_on_source, is_on_target = _is_held(server.host, sources), _is_held(server.host, targets)
    if not is_idle or is_on_source == is_on_target:
        return "", ()
    if is_on_target:
        return _RELEASE, (created_before,)
    return _GIVE_BACK, UndoneMove(created_before, server.uuid, tuple(targets), tuple(sources))


def _is_held(host: str | None, nodes: Mapping[str, HeldNode]) -> bool:
    return any(held.host == host for held in nodes.values())


def find_used_consumers(connection: Connection, uuids: Collection[str]) -> set[str]:
    """Those of the consumers that something needs: a server that needs resources, a migration that runs.

    As `find_leaks` and `find_ended_migrations` see it, for a repair that comes later than the audit.
    """
    has_server = exists().where(servers.c.uuid == migrations.c.server_uuid, needs_resources())
    holds = exists().where(allocations.c.consumer_uuid == migrations.c.server_uuid)
    own = select(servers.c.uuid).where(servers.c.uuid.in_(uuids), needs_resources())
    running = select(migrations.c.uuid).where(
        migrations.c.uuid.in_(uuids), migrations.c.status.not_in(FINISHED_STATUSES), or_(has_server, holds)
    )
    moves = _read_running_moves(connection, or_(has_server, holds)).keys() & set(uuids)
    return {*connection.scalars(own), *connection.scalars(running), *moves}


def _read_running_moves(connection: Connection, *conditions: Any) -> dict[str, str]:
    """Consumer -> its instance, for all migrations that run: a conductor's have records with uuids of their own."""
    is_running = migrations.c.status.not_in(FINISHED_STATUSES)
    query = select(migrations.c.server_uuid).where(is_running, *conditions).distinct()
    return {move_of(each): each for each in connection.scalars(query) if each}


def _read_instances(connection: Connection) -> set[str]:
    """Uuids of all servers that need resources, and of all instances that hold some."""
    holds = exists().where(allocations.c.consumer_uuid == consumers.c.uuid)
    instances = select(consumers.c.uuid).where(consumers.c.kind == INSTANCE, holds)
    wanted = select(servers.c.uuid).where(needs_resources())
    return {*connection.scalars(instances), *connection.scalars(wanted)}


def _select_allocated(kind: str, created_before: datetime.datetime) -> Any:
    """Consumers of a kind that have allocations: uuid, first host by name, project, time of creation."""
    own = (consumers.c.uuid, consumers.c.project_id, consumers.c.created_at)
    return (
        select(own[0], func.min(compute_nodes.c.host), *own[1:])
        .join(allocations, allocations.c.consumer_uuid == consumers.c.uuid)
        .join(compute_nodes, compute_nodes.c.id == allocations.c.node_id)
        .where(consumers.c.kind == kind, _is_created_before(created_before))
        .group_by(*own)
        .order_by(consumers.c.uuid)
    )


def _is_created_before(time: datetime.datetime) -> Any:
    return or_(consumers.c.created_at.is_(None), consumers.c.created_at < time)


def find_idle_consumers(
    connection: Connection, created_before: datetime.datetime, known: Collection[str] = ()
) -> Iterator[Finding]:
    """Consumers that hold nothing and are no servers."""
    has_allocations = exists().where(allocations.c.consumer_uuid == consumers.c.uuid)
    has_server = exists().where(servers.c.uuid == consumers.c.uuid)
    query = (
        select(consumers.c.uuid, consumers.c.project_id, consumers.c.created_at)
        .where(~has_allocations, ~has_server, _is_created_before(created_before))
        .order_by(consumers.c.uuid)
    )
    for uuid, project_id, created_at in connection.execute(query):
        if canonical_uuid(uuid) not in known:
            detail = "a consumer that holds nothing"
            yield Finding("idle", uuid, "", detail, "delete it", (), project_id, created_at)


def delete_idle_consumer(connection: Connection, finding: Finding) -> int:
    """Delete it, unless it got allocations or a server meanwhile.

    Allocations would be deleted with it, and their amounts stay used.
    """
    connection.execute(select(consumers.c.uuid).where(consumers.c.uuid == finding.subject).with_for_update())
    has_allocations = exists().where(allocations.c.consumer_uuid == consumers.c.uuid)
    has_server = exists().where(servers.c.uuid == consumers.c.uuid)
    idle = delete(consumers).where(consumers.c.uuid == finding.subject, ~has_allocations, ~has_server)
    return connection.execute(idle).rowcount


WRONG_SPACE, OVERBOOKED = "guests", "overbooked"


@dataclass
class _AuditedNode:
    """A node as one statement read it."""

    id: int
    host: str
    space: SpaceTexts
    base: SpaceTexts
    booked: dict[str, Guest] = field(default_factory=dict)


def find_wrong_guests(connection: Connection) -> Iterator[Finding]:
    """Nodes whose columns are not what base and bookings say, and bookings of what a node does not have."""
    for node in _read_nodes(connection).values():
        base = node.base.decode()
        left = base.with_guests(node.booked.values())
        if left != node.space.decode():
            detail = f"what is left of NUMA cells or PCI devices is not what its {len(node.booked)} bookings leave"
            yield Finding(WRONG_SPACE, str(node.id), node.host, detail, "compute it again", (node.id,))
        for detail in _overbooked(base, node.booked):
            yield Finding(OVERBOOKED, str(node.id), node.host, detail, "")


def _read_nodes(connection: Connection) -> dict[int, _AuditedNode]:
    """Nodes that have bookings, or of which more is used than the base says; in one statement."""
    table, names = compute_nodes.c, ("numa_topology", "pci_stats", "base_numa_topology", "base_pci_stats")
    texts = {name: type_coerce(table[name], Text) for name in names}
    differs = or_(*(func.coalesce(texts[name], "") != func.coalesce(texts[f"base_{name}"], "") for name in names[:2]))
    booking = guest_allocations.c
    query = (
        select(table.id, table.host, *texts.values(), booking.consumer_uuid, type_coerce(booking.guest, Text))
        .outerjoin(guest_allocations, booking.node_id == table.id)
        .where(or_(booking.node_id.is_not(None), differs))
        .order_by(table.host, table.id, booking.consumer_uuid)
    )
    found: dict[int, _AuditedNode] = {}
    for node_id, host, numa, pools, base_numa, base_pools, uuid, guest in connection.execute(query):
        new = _AuditedNode(node_id, host, SpaceTexts(numa, pools), SpaceTexts(base_numa, base_pools))
        node = found.setdefault(node_id, new)
        if guest is not None:
            node.booked[uuid] = guest_from_text(guest)
    return found


def _overbooked(base: GuestSpace, booked: Mapping[str, Guest]) -> Iterator[str]:
    """A sentence for each kind of device, and each CPU, that is booked more often than the node has it."""
    has = count_by_properties(base.pools)
    devices: Counter[Any] = Counter()
    for guest in booked.values():
        for pool in guest.devices:
            devices[pool.properties] += pool.count
    for properties, count in devices.items():
        if count > has.get(properties, 0):
            of_kind = dict(properties)
            name = f"{of_kind.get('vendor_id')}:{of_kind.get('product_id')}"
            yield f"{count} PCI devices {name} are booked; the node has {has.get(properties, 0)} for them"
    taken = {cpu for cell in base.numa.cells for cpu in cell.pinned_cpus} if base.numa else set()
    pins = Counter(cpu for guest in booked.values() for cell in guest.cells for _, cpu in cell.cpu_pinning)
    for cpu, times in sorted(pins.items()):
        if times > 1 or cpu in taken:
            yield f"CPU {cpu} is pinned by {times + (cpu in taken)} guests"


def repair_space(connection: Connection, finding: Finding) -> int:
    """Set what is left of a node to what base and bookings say, under its lock; how many nodes were changed."""
    (node_id,) = finding.key
    connection.execute(select(compute_nodes.c.id).where(compute_nodes.c.id == node_id).with_for_update())
    dialect = connection.dialect.name
    statements = [select_spaces(dialect, "id", [node_id]), select_guests(dialect, "node_id", [node_id])]
    spaces, booked = send_batch(connection, statements)
    changed = 0
    for guests in node_guests_from_rows(spaces.rows, guests_from_rows(booked.rows)).values():
        left = guests.base.with_guests((guests.booked or {}).values())
        changed += connection.execute(*update_space(node_id, left)).rowcount
    record_changes(connection, [Change(GUESTS, str(node_id))])
    return changed
