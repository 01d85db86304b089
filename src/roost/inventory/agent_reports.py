# SPDX-License-Identifier: Apache-2.0
"""What an agent says of its node, and what becomes of nodes that are gone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, or_, select

from roost.errors import BadInput, UnknownName, nearest
from roost.hosts import HostRecord
from roost.inventory.host_import import check_uuid
from roost.inventory.node_reader import AGENT
from roost.inventory.node_states import NodeState, place_of_node, read_states, save_states
from roost.inventory.row_encoder import inventory_rows, node_row, unlisted_uuid, uuid_of_node
from roost.inventory.services import save_heartbeat, take_over
from roost.store.change_log import AGGREGATES, NODES, SERVICES, Change, note_changes
from roost.store.schema import (
    aggregate_hosts,
    allocations,
    compute_nodes,
    consumers,
    services,
)
from roost.store.transactions import writing
from roost.validation.display import shown

__all__ = ["delete_node", "save_heartbeat", "save_report"]

MOST = 2**53
"""Beyond this the table of hosts, which counts in floats, would not be exact."""
MOST_PER_TOTAL = 10_000
"""No host gives out more CPUs than so many for each that it has."""
_MOST_COMPARED = 2000
_TOTALS = ("vcpus_total", "total_usable_ram_mb", "total_usable_disk_gb")
_COUNTS = (*_TOTALS, "num_instances", "num_io_ops", "failed_builds", "hypervisor_version")
_RATIOS = ("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio")


def save_report(engine: Engine, record: HostRecord, now: datetime, disk_available_least: int | None = None) -> None:
    """Save what an agent says of its node; who is on it, and what they hold, is the ledger's to say.

    The agent takes over a host that was static. A report that is equal to the last one is no change; one that cannot
    be true is BadInput, and the last one stays. `disk_available_least`: GiB that may really be written.
    """
    check_report(record, disk_available_least)
    pair = record.host, record.nodename
    with writing(engine) as connection:
        old = _find(connection, pair, record.uuid)
        uuid = old.row["uuid"] if old and not record.uuid else uuid_of_node(record, *pair)
        names = {"host": record.host, "hypervisor_hostname": record.nodename, "uuid": uuid}
        row = node_row(record) | names | {"disk_available_least": disk_available_least}
        new = NodeState(row, record.traits, inventory_rows(record), old.held if old else {}, old.id if old else None)
        changes = save_states(connection, [(old, new)], now)
        note_changes(connection, [*changes, *take_over(connection, record.host, now)])


def _find(connection: Connection, pair: tuple[str, str], uuid: str) -> NodeState | None:
    """The node of these names, locked; None where it is new. Its uuid may not be another's, nor another one."""
    table = compute_nodes.c
    is_pair = (table.host == pair[0]) & (table.hypervisor_hostname == pair[1])
    rows = connection.execute(
        select(table.id, table.uuid, table.host, table.hypervisor_hostname).where(or_(is_pair, table.uuid == uuid))
    )
    number = None
    for row in rows:
        owner = row.host, row.hypervisor_hostname
        check_uuid(pair, uuid or row.uuid, row.uuid if owner == pair else None, owner if row.uuid == uuid else pair)
        number = row.id if owner == pair else number
    return None if number is None else read_states(connection, [number])[number]


# --- can it be true? ---------------------------------------------------------------------------------


def check_report(record: HostRecord, disk_available_least: int | None = None) -> None:
    """BadInput, with host, field and value, for a report that cannot be true. Less than nothing may be free."""
    for field, value, problem in _doubts(record, disk_available_least):
        place = f"host {record.host}, node {record.nodename}"
        raise BadInput(f"{place}: {field}: {shown(value)} {problem}", "the report is not taken: look at the agent")


def _doubts(record: HostRecord, least: int | None) -> Iterator[tuple[str, Any, str]]:
    for name in _COUNTS:
        yield from _doubts_of_amount(name, getattr(record, name), 0)
    for name in ("free_ram_mb", "free_disk_mb"):
        yield from _doubts_of_amount(name, getattr(record, name), -MOST)
    yield from _doubts_of_amount("disk_mb_used", record.disk_mb_used, -MOST)
    yield from _doubts_of_amount("disk_available_least", least, -MOST)
    yield from _doubts_of_amount("vcpus_used", record.vcpus_used, 0)
    for name in _RATIOS:
        yield from _doubts_of_ratio(name, getattr(record, name))
    for name, inventory in record.inventories.items():
        for part in ("total", "reserved", "min_unit", "max_unit", "step_size"):
            least_allowed = 0 if part in ("total", "reserved") else 1
            yield from _doubts_of_amount(f"{name}.{part}", getattr(inventory, part), least_allowed)
        yield from _doubts_of_ratio(f"{name}.allocation_ratio", inventory.allocation_ratio)
        if inventory.reserved > inventory.total:
            yield f"{name}.reserved", inventory.reserved, f"is more than there is ({inventory.total})"
    yield from _doubts_of_use(record)


def _doubts_of_use(record: HostRecord) -> Iterator[tuple[str, Any, str]]:
    total_mb = 1024 * record.total_usable_disk_gb
    for name, free, total in (
        ("free_ram_mb", record.ram_mb_left, record.total_usable_ram_mb),
        ("free_disk_mb", record.disk_mb_left, total_mb),
    ):
        if free > total:
            yield name, free, f"is more than there is ({total})"
    if record.vcpus_taken > MOST_PER_TOTAL * max(1, record.vcpus_total):
        yield "vcpus_used", record.vcpus_taken, f"is absurd for {record.vcpus_total} CPUs"


def _doubts_of_amount(name: str, value: Any, least: int) -> Iterator[tuple[str, Any, str]]:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        yield name, value, "is not a whole number"
    elif value < least:
        yield name, value, "is negative" if least == 0 else f"is less than {least}"
    elif value > MOST:
        yield name, value, "is more than anything has"


def _doubts_of_ratio(name: str, value: Any) -> Iterator[tuple[str, Any, str]]:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        yield name, value, "is no finite number"
    elif value <= 0:
        yield name, value, "is not above 0"
    elif value > MOST:
        yield name, value, "is more than anything has"


# --- gone --------------------------------------------------------------------------------------------


def delete_node(engine: Engine, host: str, node: str = "") -> None:
    """Delete a node, and the service of a static host with its last one. Nobody may hold anything on it.

    What it reported to be in use without saying by whom goes with it.
    """
    pair = host, node or host
    with writing(engine) as connection:
        state = _find(connection, pair, "")
        if state is None:
            known = connection.scalars(select(compute_nodes.c.host).limit(_MOST_COMPARED))
            raise UnknownName(f"there is no node {pair[1]!r} on host {host!r}", nearest(host, set(known)))
        nobody = unlisted_uuid(state.row["uuid"])
        holders = sorted(state.held.keys() - {nobody})
        if holders:
            problem = f"{place_of_node(state.row)}: {len(holders)} hold something there, {holders[0]} for one"
            raise BadInput(problem, "move or delete them first")
        connection.execute(delete(allocations).where(allocations.c.node_id == state.id))
        connection.execute(delete(consumers).where(consumers.c.uuid == nobody))
        connection.execute(delete(compute_nodes).where(compute_nodes.c.id == state.id))
        note_changes(connection, [Change(NODES, str(state.id)), *_drop_service(connection, host)])


def _drop_service(connection: Connection, host: str) -> list[Change]:
    """A static service is nobody's but its nodes': it goes with the last, and the host leaves its aggregates."""
    left = connection.scalar(select(func.count()).select_from(compute_nodes).where(compute_nodes.c.host == host))
    if left:
        return []
    static = (services.c.host == host) & (services.c.binary == AGENT) & services.c.is_static
    if not connection.execute(delete(services).where(static)).rowcount:
        return []
    is_member = aggregate_hosts.c.host == host
    numbers = connection.scalars(select(aggregate_hosts.c.aggregate_id).where(is_member)).all()
    connection.execute(delete(aggregate_hosts).where(is_member))
    return [Change(SERVICES, host), *(Change(AGGREGATES, str(number)) for number in numbers)]
