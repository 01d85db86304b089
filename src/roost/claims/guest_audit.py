# SPDX-License-Identifier: Apache-2.0
"""Audit of pinned CPUs, NUMA memory and PCI devices: bookings against what nodes have, and against what is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Text, func, or_, select, type_coerce

from roost.claims.findings import Finding
from roost.claims.node_guests import (
    guests_from_rows,
    node_guests_from_rows,
    select_guests,
    select_spaces,
    update_space,
)
from roost.hosts.guests import Guest, GuestSpace, SpaceTexts, guest_from_text
from roost.hosts.pci import count_by_properties
from roost.store.change_log import GUESTS, Change, record_changes
from roost.store.schema import compute_nodes, guest_allocations
from roost.store.statements import send_batch

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
