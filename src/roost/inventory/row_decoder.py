# SPDX-License-Identifier: Apache-2.0
"""Rows of the database as fields of host records and instances. `row_encoder.py` is the inverse."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, type_coerce
from sqlalchemy.types import NULLTYPE

from roost.hosts.numa_cells import host_topology_from_json
from roost.hosts.pci import pools_from_json
from roost.model import Flavor
from roost.model.kinds import FrozenDict
from roost.store.columns import LONG_TEXT, JsonText
from roost.store.schema import compute_nodes

ALLOCATION_RATIOS = ("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio")
_COPIED_ATTRIBUTES = ("trust_level", "failed_builds")
UNREPORTED_FIELDS: dict[str, Any] = {
    **dict.fromkeys(("vcpus_used", "free_ram_mb", "free_disk_mb", "num_instances", "num_io_ops"), 0),
    "hypervisor_type": None,
}
"""Fields of a node that has not reported yet: free_disk_gb is NULL."""
_BARE_METAL_FIELDS: dict[str, Any] = {
    "num_instances": 0,
    "num_io_ops": 0,
    "metrics": (),
    "numa": None,
    "pci_pools": (),
}
"""Fields of a bare-metal node, as nova's IronicHostManager sees it."""


def undecoded(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """A JSON column as its text: `JsonCache` decodes equal texts only once, and most hosts share them."""
    return type_coerce(column, LONG_TEXT).label(column.name) if isinstance(column.type, JsonText) else column


def unparsed(time: ColumnElement[Any]) -> ColumnElement[Any]:
    """A time as the driver gives it, in UTC and without a zone: one is read for each instance, and few are used."""
    return type_coerce(time, NULLTYPE).label("created_at")


_UNREAD_COLUMNS = ("base_numa_topology", "base_pci_stats")
"""Columns that only writers of the ledger and of reports need."""
NODE_COLUMNS = tuple(undecoded(column) for column in compute_nodes.columns if column.name not in _UNREAD_COLUMNS)


class JsonCache:
    """Cache of decoded JSON texts: equal texts are decoded once and share one object."""

    def __init__(self) -> None:
        self._decoded: dict[tuple[Callable[[Any], Any], str], Any] = {}

    def decode(self, text: str | None, make: Callable[[Any], Any]) -> Any:
        """`make` applied to the decoded value; None if the text is None."""
        if text is None:
            return None
        key = make, text
        try:
            return self._decoded[key]
        except KeyError:
            decoded = self._decoded[key] = make(json.loads(text))
            return decoded


def as_decoded(value: Any) -> Any:
    """The value unchanged: the `make` of `JsonCache.decode` for plain JSON."""
    return value


def as_triples(value: Any) -> tuple[tuple[str, ...], ...]:
    """A list of lists, such as [arch, hypervisor, mode] of `supported_instances`, as tuples."""
    return tuple(tuple(each) for each in value)


def node_fields(row: Any, texts: JsonCache, *, is_whole: bool = False) -> dict[str, Any]:
    """The fields of a host record from a row of `compute_nodes`; all amounts of a node without a report are 0.

    `is_whole`: the node is bare metal, and is read as nova's IronicHostManager sees it.
    """
    fields: dict[str, Any] = {"host": row.host, "node": row.hypervisor_hostname, "uuid": row.uuid, "cell": row.cell}
    if row.free_disk_gb is None:
        return fields | UNREPORTED_FIELDS | {"allocations": {}}
    fields |= _attribute_fields(texts.decode(row.attributes, as_decoded) or {})
    fields |= reported_fields(row, is_whole) | {
        "num_instances": row.running_vms,
        "num_io_ops": row.current_workload,
        "cpu_info": texts.decode(row.cpu_info, as_decoded),
        "supported_instances": texts.decode(row.supported_instances, as_triples) or (),
        "stats": texts.decode(row.stats, as_decoded) or {},
        "metrics": texts.decode(row.metrics, tuple),
        "numa": texts.decode(row.numa_topology, host_topology_from_json),
        "pci_pools": texts.decode(row.pci_stats, pools_from_json) or (),
    }
    return fields | _BARE_METAL_FIELDS if is_whole else fields


def reported_fields(row: Any, is_whole: bool = False) -> dict[str, Any]:
    """The fields that a row of `compute_nodes`, Roost's or nova's, has as plain columns: amounts and names."""
    ratios = {name: value for name in ALLOCATION_RATIOS if (value := getattr(row, name)) is not None}
    return ratios | {
        "vcpus_total": row.vcpus,
        "total_usable_ram_mb": row.memory_mb,
        "total_usable_disk_gb": row.local_gb,
        "vcpus_used": row.vcpus_used,
        "free_ram_mb": row.free_ram_mb,
        "free_disk_mb": 1024 * free_disk_gb(row, is_whole),
        "disk_mb_used": 1024 * row.local_gb_used,
        "hypervisor_type": row.hypervisor_type,
        "hypervisor_version": row.hypervisor_version,
        "host_ip": row.host_ip,
    }


def _attribute_fields(attributes: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: attributes[name] for name in _COPIED_ATTRIBUTES if name in attributes}
    if "allocation_candidates" in attributes:
        fields["allocation_candidates"] = tuple(attributes["allocation_candidates"])
    return fields


def free_disk_gb(row: Any, is_whole: bool) -> int:
    """Free disk in GiB, at most disk_available_least, which bare metal (`is_whole`) ignores; may be negative."""
    least = None if is_whole else row.disk_available_least
    free: int = row.free_disk_gb if least is None else min(row.free_disk_gb, least)
    return free


def has_excess_disk(row: Any) -> bool:
    """Whether disk_available_least exceeds free_disk_gb: one of the two must be wrong."""
    return None not in (row.free_disk_gb, row.disk_available_least) and row.disk_available_least > row.free_disk_gb


# --- instances ---------------------------------------------------------------------------------------

_NOTHING: Mapping[str, str] = FrozenDict()
_FLAVOR_FIELDS = tuple(Flavor.__dataclass_fields__)


class InstanceDetails(NamedTuple):
    """What is stored with an instance for filters and plugins."""

    flavor_id: Any = None
    flavor: Flavor | None = None
    """As it was when the instance was placed; None if a release that did not store it made the claim."""
    image_props: Mapping[str, str] = _NOTHING
    system_metadata: Mapping[str, str] = _NOTHING
    created_at: datetime | None = None
    is_claimed: bool = False
    """Whether a claim stored it, not an import."""


NO_DETAILS = InstanceDetails()


def details_of_consumer(value: Mapping[str, Any]) -> InstanceDetails:
    """The details of an instance from the JSON of its consumer."""
    flavor_id, flavor, created_at = value.get("flavor_id"), value.get("flavor"), value.get("created_at")
    return InstanceDetails(
        flavor_id,
        Flavor.from_details(flavor, flavor_id) if flavor else None,
        value.get("image_props") or _NOTHING,
        value.get("system_metadata") or _NOTHING,
        datetime.fromisoformat(created_at) if created_at else None,
        "use" in value,
    )


def details_of_server(flavor: Mapping[str, Any]) -> InstanceDetails:
    """The details of an instance without a claim from the flavor of its server, which may be an id without a size."""
    known = {name: flavor[name] for name in _FLAVOR_FIELDS if name in flavor}
    return InstanceDetails(flavor.get("id"), Flavor(**known) if {"vcpus", "memory_mb"} <= known.keys() else None)
