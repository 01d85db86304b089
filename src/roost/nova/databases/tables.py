# SPDX-License-Identifier: Apache-2.0
"""The tables of nova's API database and cell databases, with the columns that are read and no others.

So a column that another release of nova adds or drops matters only if it is one of these. Times are UTC without a
zone: whole seconds on MariaDB, microseconds on PostgreSQL. Rows of a cell are live while `deleted` is 0; rows of the
API database vanish when they are deleted. Columns that hold JSON are decoded with a limit on their size, and with
errors that name the column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Boolean, Column, DateTime, Double, Integer, MetaData, String, Table, Text
from sqlalchemy.types import TypeEngine

from roost.errors import FieldError
from roost.records.node_rows import JsonCache

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
