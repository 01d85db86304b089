# SPDX-License-Identifier: Apache-2.0
"""Use of a node: where what its agent reports and what the ledger has booked meet.

A claim lowers the free amounts of a node before the agent knows of the server, and a release raises them after it has
left. So an agent of Roost's reports no use at all, and the columns are computed under the lock of the node: what is
reserved, what the consumers of the ledger use, and the listed instances that the ledger does not have. A report that
gives use itself, as nova's agents do, is taken as it is.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from sqlalchemy import Connection, select

from roost.hosts import HostRecord
from roost.inventory.node_writer import NodeAllocations
from roost.inventory.other_use import NO_OTHER_USE, OtherUse, sum_use
from roost.inventory.row_encoder import node_row
from roost.store.reconcile import KeyedRows
from roost.store.schema import consumers
from roost.store.statements import Row, read_rows, with_json_as_text

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
