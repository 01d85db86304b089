# SPDX-License-Identifier: Apache-2.0
"""Small changes to a row of the table, each of which costs what it changes: `HostTable.update` takes a whole report.

All of them write exactly the columns that changed to the table's log, and nothing where nothing did.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from roost.hosts.record import Instance
from roost.hosts.record_columns import SECONDS_UNTIL_DOWN

if TYPE_CHECKING:
    from roost.hosts.table import HostTable
    from roost.model.aggregate import Aggregate
    from roost.model.service import Service


@dataclass(frozen=True, slots=True)
class Usage:
    """What of a host is used, by nova's names and by resource class, and who came to it and left it."""

    free_ram_mb: int
    free_disk_mb: int
    disk_mb_used: int
    vcpus_used: int
    num_instances: int
    num_io_ops: int
    allocated: Mapping[str, int]
    """All that is allocated, per resource class."""
    came: Collection[Instance] = ()
    """Those who are there now; some may have been there before."""
    gone: Collection[str] = field(default=())
    """Uuids of those who are not."""


_NUMBERS = ("free_ram_mb", "free_disk_mb", "disk_mb_used", "vcpus_used", "num_instances", "num_io_ops")


def set_usage(table: HostTable, row: int, usage: Usage) -> bool:
    """What is used now: whether that was a change. A class of resources that no report named yet is left out."""
    values = {name: getattr(usage, name) for name in _NUMBERS}
    values |= {f"allocated:{name}": usage.allocated.get(name, 0) for name in table.resource_classes()}
    touched = table.put_numbers(row, values)
    if table.instance_index.replace(row, usage.came, usage.gone):
        touched.add("instances")
    table.whole_nodes.forget(row)
    return _note(table, row, touched)


def set_instances(table: HostTable, row: int, came: Collection[Instance], gone: Collection[str]) -> bool:
    """Who is there and who is not, whatever they use: whether that was a change."""
    return _note(table, row, {"instances"} if table.instance_index.replace(row, came, gone) else set())


def set_service(table: HostTable, row: int, service: Service) -> bool:
    """The service as it is now, which knows whether it is up: whether that was a change."""
    values = {"is_up": service.is_up(SECONDS_UNTIL_DOWN), "is_disabled": service.disabled}
    touched = table.put_numbers(row, values)
    if table.encoded["service"].set(row, service):
        touched.add("service")
    return _note(table, row, touched)


def set_aggregates(table: HostTable, row: int, aggregates: tuple[Aggregate, ...]) -> bool:
    """The aggregates that the host is in: whether that was a change. `known_aggregates` is the caller's to set."""
    return _note(table, row, {"aggregates"} if table.encoded["aggregates"].set(row, aggregates) else set())


def _note(table: HostTable, row: int, touched: set[str]) -> bool:
    if touched:
        table.changes.note(row, frozenset(touched))
    return bool(touched)
