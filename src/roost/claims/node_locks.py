# SPDX-License-Identifier: Apache-2.0
"""Locks nodes and reads their capacity.

A transaction that changes the inventories of a node, or what is used of them, must hold the lock on its row in
`compute_nodes`: claims take it here, reports and imports in `roost.inventory`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from typing import Any

from sqlalchemy import Executable, or_, select

from roost.claims.node_capacity import Node
from roost.hosts.capacity import ClassCapacity
from roost.hosts.record import is_bare_metal
from roost.model.resources import Use
from roost.store.schema import compute_nodes, inventories
from roost.store.statements import Statement, is_key, key_parameter
from roost.store.transactions import select_for_update

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
