# SPDX-License-Identifier: Apache-2.0
"""A locked compute node: its capacity, the check of claims against it, and which guest holds what of it.

A transaction that changes the inventories of a node, or what is used of them, must hold the lock on its row in
`compute_nodes`: claims take it here, reports and imports in `roost.records`.

The columns `numa_topology` and `pci_stats` of a node are what is left of pinned CPUs, NUMA memory and PCI devices.
They follow from `base_numa_topology` and `base_pci_stats` (what the node has, less what others than the ledger's
consumers use) and `guest_allocations`. A claim subtracts from what is left. A release computes it again from the
base: a node may have reported fewer devices than are booked, and then a device that is released is not free.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Executable, Text, or_, select, text, type_coerce

from roost.hosts.capacity import ClassCapacity, missing_class_reason, shortage_reason
from roost.hosts.guests import Guest, GuestSpace, SpaceTexts, guest_from_text, space_texts
from roost.hosts.numa_cells import OvercommitLimits
from roost.hosts.record import is_bare_metal
from roost.model.resources import Amounts, Use
from roost.store.schema.fleet import compute_nodes, guest_allocations, inventories
from roost.store.statements import Statement, is_key, key_parameter
from roost.store.transactions import select_for_update


@dataclass
class Node:
    """A compute node whose row is locked: its capacity, and what is allocated of it."""

    id: int
    uuid: str
    host: str
    name: str
    """Its hypervisor_hostname."""
    is_bare_metal: bool
    free: Use
    """Free memory (MiB), disk (GiB) and vCPUs by nova's host attributes; may be negative."""
    capacity: Mapping[str, ClassCapacity]
    """Resource class -> limit, unit constraints and allocated amount."""
    instances_delta: int = 0
    """Instances added less instances removed since the node was locked."""
    guests: NodeGuests | None = None
    """Pinned CPUs, NUMA memory and PCI devices; None if no operation of the transaction concerns them."""

    def check_capacity(self, amounts: Amounts) -> str:
        """Why the node cannot provide the amounts; an empty text if it can.

        A bare-metal node is provided whole, so nothing of it may be allocated yet, and it must have something.
        """
        if self.is_bare_metal:
            is_taken = any(each.allocated for each in self.capacity.values())
            if is_taken:
                return "the node is taken"
            return "" if self.granted_amounts(amounts) else "nothing of it is free"
        for name, asked in amounts.items():
            capacity = self.capacity.get(name)
            reason = missing_class_reason(name, asked) if capacity is None else shortage_reason(capacity, name, asked)
            if reason:
                return reason
        return ""

    def check_guest(self, guest: Guest | None, limits: OvercommitLimits | None) -> str:
        """Why the node cannot provide these CPUs, pages and devices any more; an empty text if it can."""
        if guest is None or self.is_bare_metal or self.guests is None:
            return ""
        return self.guests.space.shortage(guest, limits)

    def granted_amounts(self, amounts: Amounts) -> dict[str, int]:
        """What a claim of these amounts allocates: the amounts, or all that a bare-metal node has."""
        if not self.is_bare_metal:
            return dict(amounts)
        return {name: int(each.limit) for name, each in self.capacity.items() if each.limit >= 1}


_LOCKED_COLUMNS = [
    compute_nodes.c[name]
    for name in (
        *("id", "uuid", "host", "hypervisor_hostname", "hypervisor_type"),
        *("free_ram_mb", "free_disk_gb", "vcpus", "vcpus_used"),
    )
]
_INVENTORY_COLUMNS = [
    inventories.c[name]
    for name in (
        *("node_id", "resource_class", "total", "reserved", "allocation_ratio"),
        *("min_unit", "max_unit", "step_size", "used"),
    )
]


def node_lock_statements(dialect: str, uuids: Collection[str], ids: Collection[int] = ()) -> list[Statement]:
    """Statements that lock nodes, by uuid or id, in the order of ids, and then read their inventories.

    In this order, so that the inventories are those under the lock. `nodes_from_rows` takes the two results.
    """
    keys: dict[str, list[Any]] = {"uuid": sorted(uuids), "id": sorted(ids)}
    key_columns = tuple((name, len(those) == 1) for name, those in keys.items() if those)
    values = {name: key_parameter(those) for name, those in keys.items()}
    return [Statement(statement, values) for statement in _select_nodes_and_inventories(dialect, key_columns)]


@cache
def _select_nodes_and_inventories(
    dialect: str, key_columns: tuple[tuple[str, bool], ...]
) -> tuple[Executable, Executable]:
    """`key_columns`: columns that nodes are found by, each with whether one key is given for it or several."""
    wanted = [is_key(dialect, compute_nodes.c[name], name, is_one) for name, is_one in key_columns]
    is_one_row = len(key_columns) == 1 and key_columns[0][1]
    lock = select_for_update(dialect, _LOCKED_COLUMNS, compute_nodes, wanted, is_one_row)
    joined = inventories.join(compute_nodes, compute_nodes.c.id == inventories.c.node_id)
    return lock, select(*_INVENTORY_COLUMNS).select_from(joined).where(or_(*wanted))


def nodes_from_rows(node_rows: Iterable[Any], inventory_rows: Iterable[Any]) -> list[Node]:
    """The nodes, from the results of `node_lock_statements`; capacity is (total - reserved) x allocation_ratio."""
    capacity: dict[int, dict[str, ClassCapacity]] = {}
    for node_id, name, total, reserved, ratio, least, most, step, used in inventory_rows:
        found = ClassCapacity(used, (total - reserved) * ratio, total if most is None else most, least, step)
        capacity.setdefault(node_id, {})[name] = found
    return [
        Node(
            node_id,
            uuid,
            host,
            name,
            is_bare_metal(kind),
            Use(memory_mb or 0, disk_gb or 0, vcpus - vcpus_used),
            capacity.get(node_id, {}),
        )
        for node_id, uuid, host, name, kind, memory_mb, disk_gb, vcpus, vcpus_used in node_rows
    ]


class NodeGuests(NamedTuple):
    """The state of one node. Immutable: changes return another one."""

    space: GuestSpace
    """What is left for new guests."""
    base: GuestSpace
    """What is left without the guests of the ledger."""
    booked: Mapping[str, Guest] | None = None
    """Consumer uuid -> what it holds; None if it was not read, because nothing is released on the node."""

    def with_guest(self, consumer_uuid: str, guest: Guest) -> NodeGuests:
        """With a guest of this consumer added."""
        booked = None if self.booked is None else {**self.booked, consumer_uuid: guest}
        return self._replace(space=self.space.with_guest(guest), booked=booked)

    def without_guest(self, consumer_uuid: str) -> NodeGuests:
        """Without the guest of this consumer; `booked` must have been read."""
        booked = {uuid: guest for uuid, guest in (self.booked or {}).items() if uuid != consumer_uuid}
        return self._replace(space=self.base.with_guests(booked.values()), booked=booked)

    def with_owner(self, before: str, after: str) -> NodeGuests:
        """With the guest of one consumer transferred to another."""
        if self.booked is None:
            return self
        return self._replace(booked={after if uuid == before else uuid: each for uuid, each in self.booked.items()})


_UPDATE_SPACE = text("UPDATE compute_nodes SET numa_topology = :numa, pci_stats = :pools WHERE id = :id")


def update_space(node_id: int, space: GuestSpace) -> Statement:
    """The statement that sets what is left of a node for guests; the node must be locked."""
    return Statement(_UPDATE_SPACE, {"id": node_id, **space_texts(space)._asdict()})


# --- reading -----------------------------------------------------------------------------------------


def select_spaces(dialect: str, column: str, keys: Collection[Any]) -> Statement:
    """The statement that reads what is left of nodes, found by `id` or `uuid`; the nodes must be locked."""
    return Statement(_select_spaces(dialect, column, len(keys) == 1), {"keys": key_parameter(sorted(keys))})


@cache
def _select_spaces(dialect: str, column: str, is_one: bool) -> Executable:
    names = ("numa_topology", "pci_stats", "base_numa_topology", "base_pci_stats")
    fields = [type_coerce(compute_nodes.c[name], Text) for name in names]
    return select(compute_nodes.c.id, *fields).where(is_key(dialect, compute_nodes.c[column], "keys", is_one))


def select_guests(dialect: str, column: str, keys: Sequence[Any]) -> Statement:
    """The statement that reads guests, found by `node_id` or `consumer_uuid`: for `guests_from_rows`."""
    return Statement(_select_guests(dialect, column, len(keys) == 1), {"keys": key_parameter(keys)})


@cache
def _select_guests(dialect: str, column: str, is_one: bool) -> Executable:
    table = guest_allocations.c
    fields = table.consumer_uuid, table.node_id, type_coerce(table.guest, Text)
    return select(*fields).where(is_key(dialect, table[column], "keys", is_one))


def guests_from_rows(rows: Iterable[Any]) -> dict[tuple[str, int], Guest]:
    """Consumer uuid and node id -> guest, from the result of `select_guests`."""
    return {(uuid, node_id): guest_from_text(text) for uuid, node_id, text in rows}


def node_guests_from_rows(
    rows: Iterable[Any], booked: Mapping[tuple[str, int], Guest] | None = None
) -> dict[int, NodeGuests]:
    """Node id -> its state, from the result of `select_spaces`; `booked`: every guest of these nodes."""
    found: dict[int, NodeGuests] = {}
    for node_id, numa, pools, base_numa, base_pools in rows:
        space = SpaceTexts(numa, pools).decode()
        is_equal = (numa, pools) == (base_numa, base_pools)
        base = space if is_equal else SpaceTexts(base_numa, base_pools).decode()
        here = None if booked is None else {uuid: each for (uuid, at), each in booked.items() if at == node_id}
        found[node_id] = NodeGuests(space, base, here)
    return found
