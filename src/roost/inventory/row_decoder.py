# SPDX-License-Identifier: Apache-2.0
"""Rows of `compute_nodes` as parts of a host record. `row_encoder.py` is the way back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, type_coerce

from roost.hosts.numa import host_topology_from_json
from roost.hosts.pci import pools_from_json
from roost.store.column_types import LONG_TEXT, JsonText
from roost.store.schema import compute_nodes

_RATIOS = ("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio")
_LIKE_IN_THE_FILE = ("trust_level", "failed_builds")
_NOTHING_REPORTED: dict[str, Any] = {
    **dict.fromkeys(("vcpus_used", "free_ram_mb", "free_disk_mb", "num_instances", "num_io_ops"), 0),
    "allocations": {},
    "hypervisor_type": None,
}
_NOT_COUNTED: dict[str, Any] = {"num_instances": 0, "num_io_ops": 0, "metrics": (), "numa": None, "pci_pools": ()}
"""The fields of a node that is given out whole."""


def as_text(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """A column of JSON, not decoded yet: most hosts share their texts, and each is decoded once (`JsonCache`)."""
    return type_coerce(column, LONG_TEXT).label(column.name) if isinstance(column.type, JsonText) else column


NODE_COLUMNS = tuple(as_text(column) for column in compute_nodes.columns)


class JsonCache:
    """JSON texts and what they stand for: decoded once, kept once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Callable[[Any], Any], str], Any] = {}

    def decode(self, text: str | None, make: Callable[[Any], Any]) -> Any:
        """`make` of the decoded value; None where there is no text."""
        if text is None:
            return None
        key = make, text
        if key not in self._known:
            self._known[key] = make(json.loads(text))
        return self._known[key]


def plain(value: Any) -> Any:
    """The decoded value itself."""
    return value


def _triples(value: Any) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(each) for each in value)


def node_fields(row: Any, texts: JsonCache, *, is_whole: bool = False) -> dict[str, Any]:
    """The fields of a host record that the row of a node gives; `is_whole`: as a bare-metal host manager sees it.

    Of a node that has not reported yet, all amounts are 0.
    """
    fields: dict[str, Any] = {"host": row.host, "node": row.hypervisor_hostname, "uuid": row.uuid, "cell": row.cell}
    if row.free_disk_gb is None:
        return fields | _NOTHING_REPORTED
    fields |= {name: value for name in _RATIOS if (value := getattr(row, name)) is not None}
    fields |= _attribute_fields(texts.decode(row.attributes, plain) or {})
    fields |= {
        "vcpus_total": row.vcpus,
        "total_usable_ram_mb": row.memory_mb,
        "total_usable_disk_gb": row.local_gb,
        "vcpus_used": row.vcpus_used,
        "free_ram_mb": row.free_ram_mb,
        "free_disk_mb": 1024 * free_disk_gb(row, is_whole),
        "disk_mb_used": 1024 * row.local_gb_used,
        "num_instances": row.running_vms,
        "num_io_ops": row.current_workload,
        "hypervisor_type": row.hypervisor_type,
        "hypervisor_version": row.hypervisor_version,
        "host_ip": row.host_ip,
        "cpu_info": texts.decode(row.cpu_info, plain),
        "supported_instances": texts.decode(row.supported_instances, _triples) or (),
        "stats": texts.decode(row.stats, plain) or {},
        "metrics": texts.decode(row.metrics, tuple),
        "numa": texts.decode(row.numa_topology, host_topology_from_json),
        "pci_pools": texts.decode(row.pci_stats, pools_from_json) or (),
    }
    return fields | _NOT_COUNTED if is_whole else fields


def _attribute_fields(attributes: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: attributes[name] for name in _LIKE_IN_THE_FILE if name in attributes}
    if "allocation_candidates" in attributes:
        fields["allocation_candidates"] = tuple(attributes["allocation_candidates"])
    return fields


def free_disk_gb(row: Any, is_whole: bool) -> int:
    """GiB that are free or that may really be written, whichever is less; it may be negative.

    Of bare metal that is given out whole, what is free counts alone.
    """
    least = None if is_whole else row.disk_available_least
    free: int = row.free_disk_gb if least is None else min(row.free_disk_gb, least)
    return free


def has_more_disk_than_booked(row: Any) -> bool:
    """Whether more disk may really be written than is booked as free, so that one of the two is wrong."""
    return None not in (row.free_disk_gb, row.disk_available_least) and row.disk_available_least > row.free_disk_gb
