# SPDX-License-Identifier: Apache-2.0
"""Reports of agents on their nodes, and the deletion of a node.

A claim lowers the free amounts of a node before the agent knows of the server, and a release raises them after it has
left. So an agent of Roost's reports no use at all, and the columns are computed under the lock of the node: what is
reserved, what the consumers of the ledger use, and the listed instances that the ledger does not have. A report that
gives use itself, as nova's agents do, is taken as it is.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, func, select, update

from roost.errors import BadInput, UnknownName, nearest
from roost.hosts import HostRecord
from roost.model.kinds import shown
from roost.model.uuids import canonical_uuid
from roost.records.aggregates import remove_host_from_aggregates
from roost.records.fleet_export import NO_OTHER_USE, OtherUse, sum_use
from roost.records.node_rows import ALLOCATION_RATIOS, inventory_rows, node_row, unlisted_uuid, uuid_of_node
from roost.records.node_writer import (
    NodeAllocations,
    WantedNode,
    delete_node_rows,
    describe_node,
    find_host,
    find_node,
    lock_nodes,
    sample_host_names,
    save_nodes,
    space_columns,
)
from roost.records.services import delete_static_service, record_agent_alive
from roost.store.change_log import NODES, SERVICES, Change, record_changes
from roost.store.reconcile import KeyedRows
from roost.store.schema.fleet import compute_nodes, consumers
from roost.store.statements import Row, read_rows, with_json_as_text
from roost.store.store_clock import PresentTime, read_time, stamp_of
from roost.store.transactions import writing

LARGEST_EXACT = 2**53
"""The largest integer that the float columns of `HostTable` represent exactly."""
MOST_VCPUS_PER_CPU = 10_000
"""Used vCPUs per physical CPU above which a report is implausible."""
_TOTALS = ("vcpus_total", "total_usable_ram_mb", "total_usable_disk_gb")
_COUNTS = (*_TOTALS, "num_instances", "num_io_ops", "failed_builds", "hypervisor_version")


def save_report(
    engine: Engine,
    record: HostRecord,
    now: PresentTime,
    disk_available_least: int | None = None,
    made_at: datetime | None = None,
) -> None:
    """Save what an agent reports of its node. Its consumers and allocations are the ledger's, and stay unchanged.

    `record.instances`: those that the figures of NUMA cells and PCI devices count; see `node_writer.py`. A record
    without figures of use takes them from the ledger; as the head of this module says.
    The service of a static host is the agent's from then on. A report equal to the last one is not a change; an
    implausible one is BadInput, and the last one stays. `disk_available_least`: GiB that can really be written.
    `made_at`: when the agent took its figures, by the clock of claims; None: after all that is booked by now.
    """
    check_agent_report(record, disk_available_least)
    names = record.host, record.nodename
    with writing(engine) as connection:
        known = find_node(connection, names, canonical_uuid(record.uuid))
        stored = lock_nodes(connection, [known.id] if known else [])
        uuid = known.uuid if known else uuid_of_node(record, *names)
        allocated = stored.allocations_by_node.get(known.id, {}) if known else {}
        row = reported_row(connection, record, known.id if known else None, allocated)
        row |= {"uuid": uuid, "disk_available_least": disk_available_least}
        booked = stored.guests_of(known.id, allocated) if known else {}
        too_young = _find_claimed_after(connection, booked, made_at) if made_at and booked else ()
        row |= space_columns(row, booked, {each.uuid for each in record.instances}, too_young=too_young)
        wanted = WantedNode(names, row, record.traits, inventory_rows(record), allocated)
        saved = save_nodes(connection, stored, [wanted], read_time(now, connection))
        record_changes(connection, [*saved.changes, *record_agent_alive(connection, record.host, now)])


def save_statistics(engine: Engine, record: HostRecord, now: PresentTime) -> bool:
    """Save counters and statistics of a report alone: running I/O, failed builds, `stats`. False without the node.

    It takes a third of the time of `save_report`, and an agent does it with each change of a server.
    """
    node = with_json_as_text(compute_nodes)
    row = node_row(record)
    values = {name: row[name] for name in ("current_workload", "stats", "attributes")}
    named = (node.c.host == record.host) & (node.c.hypervisor_hostname == record.nodename)
    with writing(engine) as connection:
        node_id = connection.scalar(select(node.c.id).where(named))
        if node_id is None:
            return False
        connection.execute(update(node).where(node.c.id == node_id).values(**values, updated_at=stamp_of(now)))
        record_changes(connection, [Change(NODES, str(node_id))])
    return True


def _find_claimed_after(connection: Connection, uuids: Iterable[str], time: datetime) -> set[str]:
    """Those of the consumers whose allocations were claimed after this time."""
    claimed_at = func.coalesce(consumers.c.updated_at, consumers.c.created_at)
    return set(connection.scalars(select(consumers.c.uuid).where(consumers.c.uuid.in_(uuids), claimed_at > time)))


# --- plausibility ------------------------------------------------------------------------------------


def check_agent_report(record: HostRecord, disk_available_least: int | None = None) -> None:
    """BadInput, with host, field and value, for an implausible report. Free amounts may be negative."""
    for field, value, problem in _find_problems(record, disk_available_least):
        place = f"host {record.host}, node {record.nodename}"
        raise BadInput(f"{place}: {field}: {shown(value)} {problem}", "the report is not taken: look at the agent")


def _find_problems(record: HostRecord, least: int | None) -> Iterator[tuple[str, Any, str]]:
    """Field, value and problem of everything that is implausible in a report; `least`: its disk_available_least."""
    for name in _COUNTS:
        yield from _amount_problems(name, getattr(record, name), 0)
    for name in ("free_ram_mb", "free_disk_mb"):
        yield from _amount_problems(name, getattr(record, name), -LARGEST_EXACT)
    yield from _amount_problems("disk_mb_used", record.disk_mb_used, -LARGEST_EXACT)
    yield from _amount_problems("disk_available_least", least, -LARGEST_EXACT)
    yield from _amount_problems("vcpus_used", record.vcpus_used, 0)
    for name in ALLOCATION_RATIOS:
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
    if record.vcpus_taken > MOST_VCPUS_PER_CPU * max(1, record.vcpus_total):
        yield "vcpus_used", record.vcpus_taken, f"is absurd for {record.vcpus_total} CPUs"


def _amount_problems(name: str, value: Any, least: int) -> Iterator[tuple[str, Any, str]]:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        yield name, value, "is not a whole number"
    elif value < least:
        yield name, value, "is negative" if least == 0 else f"is less than {least}"
    elif value > LARGEST_EXACT:
        yield name, value, "is more than anything has"


def _ratio_problems(name: str, value: Any) -> Iterator[tuple[str, Any, str]]:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        yield name, value, "is no finite number"
    elif value <= 0:
        yield name, value, "is not above 0"
    elif value > LARGEST_EXACT:
        yield name, value, "is more than anything has"


# --- deletion ----------------------------------------------------------------------------------------


def delete_node(engine: Engine, host: str, node: str = "") -> None:
    """Delete a node, and the service of a static host with its last node. BadInput if the node has allocations.

    The consumer of unlisted use (use that no listed instance accounts for) is deleted with the node.
    """
    names = host, node or host
    with writing(engine) as connection:
        known = find_node(connection, names)
        if known is None:
            raise UnknownName(
                f"there is no node {names[1]!r} on host {host!r}", nearest(host, sample_host_names(connection))
            )
        stored = lock_nodes(connection, [known.id])
        unlisted = unlisted_uuid(known.uuid)
        uuids = sorted(stored.allocations_by_node.get(known.id, {}).keys() - {unlisted})
        if uuids:
            problem = f"{describe_node(names)}: {len(uuids)} hold something there, {uuids[0]} for one"
            raise BadInput(problem, "move or delete them first")
        changes = [delete_node_rows(connection, known.id, [unlisted])]
        # No agent will report the host again, so its service and its places in aggregates are deleted too.
        if find_host(connection, host) is None and delete_static_service(connection, host):
            changes += [Change(SERVICES, host), *remove_host_from_aggregates(connection, host)]
        record_changes(connection, changes)


_USE_FIELDS = ("free_ram_mb", "free_disk_mb", "vcpus_used")


def reported_row(connection: Connection, record: HostRecord, node_id: int | None, allocated: NodeAllocations) -> Row:
    """The row of `compute_nodes` for a report, without names and uuid; `node_id` is None for a new node.

    `allocated`: all allocations on the node, which must be locked.
    """
    if any(getattr(record, name) is not None for name in _USE_FIELDS):
        return node_row(record)
    unknown = replace(
        record,
        instances=tuple(each for each in record.instances if each.uuid not in allocated),
        migrations=tuple(each for each in record.migrations if each.uuid not in allocated),
        num_instances=None,
    )
    count = replace(unknown, stats={}).instance_count
    row = node_row(replace(unknown, num_instances=count))
    booked = NO_OTHER_USE if node_id is None else _booked_use(connection, node_id, allocated)
    return booked.add_to(_reserved_use(record).add_to(row))


def _reserved_use(record: HostRecord) -> OtherUse:
    """What the host keeps for itself, which counts as used, as in nova."""
    return OtherUse(memory_mb=record.reserved_ram_mb, disk_gb=record.reserved_disk_gb, vcpus=record.reserved_vcpus)


def _booked_use(connection: Connection, node_id: int, allocated: NodeAllocations) -> OtherUse:
    return sum_use(node_id, allocated, set(), _read_consumers(connection, allocated))


def _read_consumers(connection: Connection, uuids: Collection[str]) -> KeyedRows:
    """Kind and details of consumers, by uuid."""
    plain = with_json_as_text(consumers).c
    rows = read_rows(connection, select(plain.uuid, plain.kind, plain.details), plain.uuid, uuids)
    return {(row.uuid,): {"kind": row.kind, "details": row.details} for row in rows}
