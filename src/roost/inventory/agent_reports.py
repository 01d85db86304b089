# SPDX-License-Identifier: Apache-2.0
"""Reports of agents on their nodes, and the deletion of a node."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import Engine

from roost.errors import BadInput, UnknownName, nearest
from roost.hosts import HostRecord
from roost.inventory.aggregates import drop_host
from roost.inventory.node_writer import (
    WantedNode,
    describe_node,
    drop_node,
    find_node,
    has_nodes,
    lock_nodes,
    sample_hosts,
    save_nodes,
)
from roost.inventory.row_encoder import inventory_rows, node_row, unlisted_uuid, uuid_of_node
from roost.inventory.services import drop_static_service, take_over
from roost.store.change_log import SERVICES, Change, note_changes
from roost.store.transactions import writing
from roost.validation.display import shown

MOST = 2**53
"""Beyond this the table of hosts, which counts in floats, would not be exact."""
MOST_PER_TOTAL = 10_000
"""No host gives out more CPUs than so many for each that it has."""
_TOTALS = ("vcpus_total", "total_usable_ram_mb", "total_usable_disk_gb")
_COUNTS = (*_TOTALS, "num_instances", "num_io_ops", "failed_builds", "hypervisor_version")
_RATIOS = ("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio")


def save_report(engine: Engine, record: HostRecord, now: datetime, disk_available_least: int | None = None) -> None:
    """Save what an agent reports of its node; the consumers on it, and what they hold, are the ledger's.

    The agent takes over a host that was static. A report that is equal to the last one is no change; one that cannot
    be true is BadInput, and the last one stays. `disk_available_least`: GiB that may really be written.
    """
    check_report(record, disk_available_least)
    names = record.host, record.nodename
    with writing(engine) as connection:
        known = find_node(connection, names, record.uuid)
        stored = lock_nodes(connection, [known.id] if known else [])
        uuid = known.uuid if known and not record.uuid else uuid_of_node(record, *names)
        row = node_row(record) | {"uuid": uuid, "disk_available_least": disk_available_least}
        held = stored.held.get(known.id, {}) if known else {}
        wanted = WantedNode(names, row, record.traits, inventory_rows(record), held)
        saved = save_nodes(connection, stored, [wanted], now)
        note_changes(connection, [*saved.changes, *take_over(connection, record.host, now)])


# --- plausibility ------------------------------------------------------------------------------------


def check_report(record: HostRecord, disk_available_least: int | None = None) -> None:
    """BadInput, with host, field and value, for a report that cannot be true. What is free may be negative."""
    for field, value, problem in _problems(record, disk_available_least):
        place = f"host {record.host}, node {record.nodename}"
        raise BadInput(f"{place}: {field}: {shown(value)} {problem}", "the report is not taken: look at the agent")


def _problems(record: HostRecord, least: int | None) -> Iterator[tuple[str, Any, str]]:
    for name in _COUNTS:
        yield from _amount_problems(name, getattr(record, name), 0)
    for name in ("free_ram_mb", "free_disk_mb"):
        yield from _amount_problems(name, getattr(record, name), -MOST)
    yield from _amount_problems("disk_mb_used", record.disk_mb_used, -MOST)
    yield from _amount_problems("disk_available_least", least, -MOST)
    yield from _amount_problems("vcpus_used", record.vcpus_used, 0)
    for name in _RATIOS:
        yield from _ratio_problems(name, getattr(record, name))
    for name, inventory in record.inventories.items():
        for part in ("total", "reserved", "min_unit", "max_unit", "step_size"):
            least_allowed = 0 if part in ("total", "reserved") else 1
            yield from _amount_problems(f"{name}.{part}", getattr(inventory, part), least_allowed)
        yield from _ratio_problems(f"{name}.allocation_ratio", inventory.allocation_ratio)
        if inventory.reserved > inventory.total:
            yield f"{name}.reserved", inventory.reserved, f"is more than there is ({inventory.total})"
    yield from _use_problems(record)


def _use_problems(record: HostRecord) -> Iterator[tuple[str, Any, str]]:
    total_mb = 1024 * record.total_usable_disk_gb
    for name, free, total in (
        ("free_ram_mb", record.ram_mb_left, record.total_usable_ram_mb),
        ("free_disk_mb", record.disk_mb_left, total_mb),
    ):
        if free > total:
            yield name, free, f"is more than there is ({total})"
    if record.vcpus_taken > MOST_PER_TOTAL * max(1, record.vcpus_total):
        yield "vcpus_used", record.vcpus_taken, f"is absurd for {record.vcpus_total} CPUs"


def _amount_problems(name: str, value: Any, least: int) -> Iterator[tuple[str, Any, str]]:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        yield name, value, "is not a whole number"
    elif value < least:
        yield name, value, "is negative" if least == 0 else f"is less than {least}"
    elif value > MOST:
        yield name, value, "is more than anything has"


def _ratio_problems(name: str, value: Any) -> Iterator[tuple[str, Any, str]]:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        yield name, value, "is no finite number"
    elif value <= 0:
        yield name, value, "is not above 0"
    elif value > MOST:
        yield name, value, "is more than anything has"


# --- deletion ----------------------------------------------------------------------------------------


def delete_node(engine: Engine, host: str, node: str = "") -> None:
    """Delete a node, and the service of a static host with its last one. No consumer may hold anything on it.

    Use that it reported and that no listed instance accounts for goes with it.
    """
    names = host, node or host
    with writing(engine) as connection:
        known = find_node(connection, names)
        if known is None:
            raise UnknownName(
                f"there is no node {names[1]!r} on host {host!r}", nearest(host, sample_hosts(connection))
            )
        stored = lock_nodes(connection, [known.id])
        unlisted = unlisted_uuid(known.uuid)
        holders = sorted(stored.held.get(known.id, {}).keys() - {unlisted})
        if holders:
            problem = f"{describe_node(names)}: {len(holders)} hold something there, {holders[0]} for one"
            raise BadInput(problem, "move or delete them first")
        changes = [drop_node(connection, known.id, [unlisted])]
        # A static service belongs to its host's nodes: it goes with the last, and the host leaves its aggregates.
        if not has_nodes(connection, host) and drop_static_service(connection, host):
            changes += [Change(SERVICES, host), *drop_host(connection, host)]
        note_changes(connection, changes)
