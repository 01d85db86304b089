# SPDX-License-Identifier: Apache-2.0
"""Rows of nova's `compute_nodes` as fields of host records, derived as nova's HostState derives its attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from roost.errors import FieldError
from roost.messages.objects.numa_pci import host_topology_from_object, pools_from_object
from roost.model.fields import MAPPING
from roost.model.kinds import shown
from roost.nova_cloud.databases.cell_changes import ReportedNode, as_utc
from roost.nova_cloud.databases.json_columns import LONGEST_TEXT, decode_column
from roost.nova_cloud.databases.tables import compute_nodes
from roost.records.node_rows import UNREPORTED_FIELDS, JsonCache, as_triples, reported_fields

SELECT_NODES = select(compute_nodes)
_COUNTERS = {"num_instances": "num_instances", "num_io_ops": "io_workload", "failed_builds": "failed_builds"}
"""Field of a host record -> key in the column `stats`."""
_LARGEST_COUNTER = 2**31


def decode_node(row: Any, cell_uuid: str, texts: JsonCache) -> ReportedNode:
    """The node of a live row; FieldError if the row cannot be understood.

    All amounts of a node without free_disk_gb, which has not reported yet, are 0. Otherwise its free disk is at most
    disk_available_least: for nova's fake driver, which says 0, none.
    """
    if not row.host or not row.uuid:
        raise FieldError("host" if not row.host else "uuid", "is empty")
    node = row.hypervisor_hostname or row.host
    fields: dict[str, Any] = {"host": row.host, "node": node, "uuid": row.uuid, "cell": cell_uuid}
    if row.free_disk_gb is None:
        return ReportedNode(row.id, fields | UNREPORTED_FIELDS, as_utc(row.updated_at))
    stats = decode_column(row, "stats", _stats, texts) or {}
    fields |= reported_fields(row) | {name: _counter(stats, key) for name, key in _COUNTERS.items()}
    fields |= {
        "free_ram_mb": row.free_ram_mb or 0,
        "host_ip": None if row.host_ip is None else str(row.host_ip),  # PostgreSQL has a type for it
        "cpu_info": _cpu_info(row, texts),
        "supported_instances": decode_column(row, "supported_instances", as_triples, texts) or (),
        "stats": stats,
        "metrics": decode_column(row, "metrics", _metrics, texts) or (),
        "numa": decode_column(row, "numa_topology", host_topology_from_object, texts),
        "pci_pools": decode_column(row, "pci_stats", pools_from_object, texts) or (),
    }
    return ReportedNode(row.id, fields, as_utc(row.updated_at))


def _stats(value: Any) -> Mapping[str, Any]:
    return MAPPING.strict(value, "stats")


def _counter(stats: Mapping[str, Any], key: str) -> int:
    """A number of `stats`, whose values are texts; 0 if it is missing."""
    value = stats.get(key, 0)
    try:
        number = int(value) if len(str(value)) < len(str(_LARGEST_COUNTER)) else _LARGEST_COUNTER
    except (TypeError, ValueError):
        raise FieldError(f"stats.{key}", f"{shown(value)} is no number") from None
    return number


def _cpu_info(row: Any, texts: JsonCache) -> Any:
    """The CPU as an object; as the text itself where a driver writes no JSON object."""
    try:
        return decode_column(row, "cpu_info", _cpu_object, texts)
    except FieldError:
        return row.cpu_info[:LONGEST_TEXT]


def _cpu_object(value: Any) -> Mapping[str, Any]:
    return MAPPING.strict(value, "cpu_info")


def _metrics(value: Any) -> tuple[Mapping[str, Any], ...]:
    """The metrics as monitors report them: percentages are fractions, which the host table makes whole numbers."""
    for each in value:
        if not MAPPING.strict(each, "metrics").keys() >= {"name", "value"}:
            raise FieldError("metrics", f"{shown(each)} has no name or no value")
    return tuple(value)
