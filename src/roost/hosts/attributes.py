# SPDX-License-Identifier: Apache-2.0
"""The host attributes that extra specs and JSON queries may name, and the column that each one depends on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roost.hosts.view import HostView

_UNIQUE_PER_HOST = ("host", "nodename", "hypervisor_hostname", "uuid", "instances", "limits")
_SAME_NAME = (
    "total_usable_ram_mb",
    "free_ram_mb",
    "total_usable_disk_gb",
    "free_disk_mb",
    "disk_mb_used",
    "vcpus_total",
    "vcpus_used",
    "cpu_allocation_ratio",
    "ram_allocation_ratio",
    "disk_allocation_ratio",
    "num_instances",
    "num_io_ops",
    "failed_builds",
    "hypervisor_version",
    "hypervisor_type",
    "host_ip",
    "supported_instances",
    "cpu_info",
    "stats",
    "metrics",
    "service",
    "aggregates",
    "allocation_candidates",
)

ATTRIBUTES: dict[str, str] = (
    dict.fromkeys(_UNIQUE_PER_HOST, "")
    | {name: name for name in _SAME_NAME}
    | {"cell_uuid": "cell", "pci_stats": "pci_pools", "numa_topology": "numa"}
)
"""nova's attribute name -> column of the table; an empty text for attributes whose value is unique per host."""

ATTRIBUTE_COLUMNS = frozenset({*ATTRIBUTES.values(), "instances", "is_up"}) - {""}
"""Every column that an attribute depends on."""


def columns_behind(names: Iterable[str]) -> list[str] | None:
    """The columns that the named attributes depend on, sorted; None if the value of one is unique per host.

    Names that are no attribute are ignored.
    """
    columns = {ATTRIBUTES[name] for name in names if name in ATTRIBUTES}
    if "service" in columns:
        columns.add("is_up")  # `HostView.service` includes it
    return None if "" in columns else sorted(columns)


def attribute_of(host: HostView, name: str) -> Any:
    """The value of an attribute in nova's form, tuples as lists; None for a name that is no attribute."""
    if name not in ATTRIBUTES:
        return None
    return _as_lists(getattr(host, name))


def _as_lists(value: Any) -> Any:
    return [_as_lists(each) for each in value] if isinstance(value, tuple) else value
