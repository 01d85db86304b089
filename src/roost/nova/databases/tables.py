# SPDX-License-Identifier: Apache-2.0
"""The tables of nova's API database and cell databases, and what is read of a cell: its nodes, services, instances.

Only columns that are read are declared, so one that another release of nova adds or drops matters only if it is one
of these. Times are UTC without a zone: whole seconds on MariaDB, microseconds on PostgreSQL. Rows of a cell are live
while `deleted` is 0; rows of the API database vanish when they are deleted. Columns that hold JSON are decoded with a
limit on their size, and with errors that name the column.

Times of rows come from the clocks of nova's services, and become visible at the end of their transaction. So each
read goes back some seconds from its watermark, and rows that were seen with the same content are no change. What
still escapes - a clock that is behind by more than OVERLAP, a transaction that takes longer - is found when all rows
are compared (reconcile).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Boolean, Column, DateTime, Double, Integer, MetaData, String, Table, Text, bindparam
from sqlalchemy.types import TypeEngine

from roost.errors import FieldError
from roost.hosts import Instance
from roost.model import Service
from roost.records.node_rows import JsonCache


class ReportedNode(NamedTuple):
    """A live row of `compute_nodes`."""

    id: int
    """Row id, which is unique within its cell."""
    fields: Mapping[str, Any]
    """Arguments of `HostRecord`: all but service, aggregates, instances, and what placement knows."""
    updated_at: datetime | None
    """When the row was written last, in UTC; whole seconds on MariaDB. None: never since it was made."""


class NovaComputeRow(NamedTuple):
    """A live row of `services` for nova-compute."""

    id: int
    host: str
    service: Service
    """Its flags; whether it is up follows from `last_seen`."""
    last_seen: datetime | None
    """The last heartbeat in UTC; before the first one, when the row was made."""
    report_count: int
    """Heartbeats so far."""
    version: int
    uuid: str | None


class PlacedInstance(NamedTuple):
    """A live row of `instances` that has a host."""

    instance: Instance
    host: str
    node: str | None
    user_id: str | None
    vm_state: str | None
    task_state: str | None


@dataclass
class CellChanges:
    """What changed since the last read. Applied to what was known before, it gives what the database has now."""

    is_full: bool = False
    """It is everything: what was known before and is not in here is gone."""
    nodes: list[ReportedNode] = field(default_factory=list)
    removed_nodes: set[int] = field(default_factory=set)
    """Row ids of nodes that were reported before and are deleted, or cannot be understood any more."""
    services: dict[str, NovaComputeRow] = field(default_factory=dict)
    """Host -> service that is new, or whose flags or version changed."""
    removed_services: set[str] = field(default_factory=set)
    """Hosts whose service was reported before and is deleted."""
    heartbeats: dict[str, datetime] = field(default_factory=dict)
    """Host -> last heartbeat, for those that moved."""
    instances: dict[str, tuple[PlacedInstance, ...]] = field(default_factory=dict)
    """Host -> all its instances by row id, for hosts where any changed; empty if none is left."""
    problems: list[str] = field(default_factory=list)
    """One line for each row that cannot be understood; it is said once, until the row changes."""

    def __bool__(self) -> bool:
        """Whether anything changed."""
        changed = self.nodes, self.removed_nodes, self.services, self.removed_services, self.heartbeats
        return self.is_full or any(changed) or bool(self.instances or self.problems)


def as_utc(moment: datetime | None) -> datetime | None:
    """A time of nova's databases, which have UTC without a zone, with its zone."""
    return None if moment is None else moment.replace(tzinfo=UTC)


OVERLAP = timedelta(seconds=5)
"""How far a read goes back behind the newest time that was seen."""
IDLE_WINDOW = timedelta(seconds=30)
"""How far a read goes back behind the last read at most, so that the last rows before a quiet time are not read for
ever: it bounds the difference between this machine's clock and those of nova's services."""

SINCE = bindparam("since", type_=DateTime())
"""Parameter of statements, which are built once: building one takes longer than a small result."""


class Watermark:
    """The newest time seen in a table, and when it was read last."""

    def __init__(self) -> None:
        self._newest: datetime | None = None
        self._read_at = datetime(1970, 1, 1)  # without a zone, as in the database

    @property
    def since(self) -> datetime:
        """The time, without a zone as in the database, from which on rows are to be read again."""
        earliest = self._read_at - IDLE_WINDOW
        newest = min(self._newest or earliest, self._read_at)  # a clock that is ahead must not hide the others
        return max(newest - OVERLAP, earliest)

    def advance(self, read_at: datetime, times: Iterable[datetime | None]) -> None:
        """Record a read that began at `read_at`, with the times of its rows, None for a NULL."""
        self._read_at = read_at.astimezone(UTC).replace(tzinfo=None)
        self._newest = max((each for each in (self._newest, *times) if each is not None), default=None)


LONGEST_TEXT = 4 << 20
"""Characters of a JSON text that are decoded; nova's columns hold 64 KiB on MariaDB."""


def decode_column(row: Any, name: str, make: Callable[[Any], Any], texts: JsonCache) -> Any:
    """`make` applied to the JSON value of a column, once for equal texts; None for NULL and for an empty text.

    FieldError, with the name of the column, for a text that is too long or that `make` cannot use.
    """
    text = getattr(row, name)
    if not text:
        return None
    if len(text) > LONGEST_TEXT:
        raise FieldError(name, f"has {len(text)} characters; at most {LONGEST_TEXT} are read")
    try:
        return texts.decode(text, make)
    except FieldError as error:
        raise error if error.field.startswith(name) else error.under(name) from None
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise FieldError(name, f"is not what nova writes there: {type(error).__name__}") from None


API = MetaData()
CELL = MetaData()
SHADOW = MetaData()
"""Tables of the API database that only shadow mode reads: a scheduler needs no right to them."""


def _columns(kind: TypeEngine[Any], *names: str) -> list[Column[Any]]:
    return [Column(name, kind) for name in names]


def _table(metadata: MetaData, name: str, *columns: list[Column[Any]]) -> Table:
    every = [Column("id", Integer, primary_key=True), *_columns(DateTime(), "created_at", "updated_at")]
    return Table(name, metadata, *every, *(column for group in columns for column in group))


def _soft_deleted() -> list[Column[Any]]:
    return [*_columns(Integer(), "deleted"), *_columns(DateTime(), "deleted_at")]


cell_mappings = _table(
    API, "cell_mappings", _columns(String(), "uuid", "name", "database_connection"), _columns(Boolean(), "disabled")
)
host_mappings = _table(API, "host_mappings", _columns(String(), "host"), _columns(Integer(), "cell_id"))
aggregates = _table(API, "aggregates", _columns(String(), "uuid", "name"))
aggregate_hosts = _table(API, "aggregate_hosts", _columns(Integer(), "aggregate_id"), _columns(String(), "host"))
aggregate_metadata = _table(
    API, "aggregate_metadata", _columns(Integer(), "aggregate_id"), _columns(String(), "key", "value")
)
instance_groups = _table(API, "instance_groups", _columns(String(), "uuid", "name", "project_id", "user_id"))
instance_group_policy = _table(
    API, "instance_group_policy", _columns(Integer(), "group_id"), _columns(String(), "policy", "rules")
)
instance_group_member = _table(
    API, "instance_group_member", _columns(Integer(), "group_id"), _columns(String(), "instance_uuid")
)
request_specs = _table(SHADOW, "request_specs", _columns(String(), "instance_uuid"), _columns(Text(), "spec"))

instance_mappings = _table(
    API, "instance_mappings", _columns(String(), "instance_uuid"), _columns(Integer(), "cell_id")
)

services = _table(
    CELL,
    "services",
    _soft_deleted(),
    _columns(String(), "host", "binary", "disabled_reason", "uuid"),
    _columns(Integer(), "report_count", "version"),
    _columns(Boolean(), "disabled", "forced_down"),
    _columns(DateTime(), "last_seen_up"),
)
compute_nodes = _table(
    CELL,
    "compute_nodes",
    _soft_deleted(),
    _columns(String(), "uuid", "host", "hypervisor_hostname", "hypervisor_type", "host_ip"),
    _columns(Integer(), "vcpus", "vcpus_used", "memory_mb", "free_ram_mb", "local_gb", "local_gb_used"),
    _columns(Integer(), "free_disk_gb", "disk_available_least", "hypervisor_version"),
    _columns(Double(), "cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"),
    _columns(Text(), "cpu_info", "supported_instances", "stats", "metrics", "numa_topology", "pci_stats"),
)
instances = _table(
    CELL,
    "instances",
    _columns(Integer(), "deleted"),
    _columns(String(), "uuid", "host", "node", "project_id", "user_id", "image_ref", "vm_state", "task_state"),
    _columns(Integer(), "instance_type_id"),
)
instance_extra = _table(CELL, "instance_extra", _columns(String(), "instance_uuid"), _columns(Text(), "flavor"))
instance_system_metadata = _table(
    CELL,
    "instance_system_metadata",
    _columns(Integer(), "deleted"),
    _columns(String(), "instance_uuid", "key", "value"),
)
