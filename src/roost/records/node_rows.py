# SPDX-License-Identifier: Apache-2.0
"""Host records and instances as rows of the database, and rows as fields of these records: pure functions.

Values of JSON columns are texts.
"""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, type_coerce
from sqlalchemy.types import NULLTYPE

from roost.hosts import HostRecord, Instance, Inventory, MigrationHolding
from roost.hosts.guests import topology_json
from roost.hosts.numa_cells import host_topology_from_json
from roost.hosts.pci import pools_from_json
from roost.hosts.record import default_node_uuid
from roost.hosts.table import Run
from roost.model import Flavor
from roost.model.json_records import to_json
from roost.model.kinds import FrozenDict
from roost.model.resources import INSTANCE, MIGRATION, UNLISTED, Amounts
from roost.model.uuids import canonical_uuid
from roost.records.node_writer import space_columns
from roost.store.columns import LONG_TEXT, JsonText, as_json_text
from roost.store.schema.fleet import compute_nodes
from roost.store.statements import Row

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


JSON_COLUMNS = (
    *("cpu_info", "supported_instances", "stats", "metrics", "numa_topology", "pci_stats"),
    "attributes",
)
INVENTORY_PARTS = tuple(each.name for each in dataclasses.fields(Inventory))

DETAILS_OF_FILE = ("flavor_id", "flavor", "image_props", "system_metadata", "created_at")
"""Details of an instance's consumer that an import replaces; others are the ledger's."""
_DERIVED_NAMESPACE = uuid.UUID("0a3f5f0e-3c53-5b0f-8f0e-2b7d1d1f6a52")
_DEFAULT_CANDIDATES = next(
    each.default for each in dataclasses.fields(HostRecord) if each.name == "allocation_candidates"
)


def derived_uuid(kind: str, name: str) -> str:
    """A uuid for something that has none: deterministic, by kind and name."""
    return str(uuid.uuid5(_DERIVED_NAMESPACE, f"{kind}\n{name}"))


@lru_cache(maxsize=4096)  # an import needs it three times per node of a chunk
def unlisted_uuid(node_uuid: str) -> str:
    """The uuid of the consumer of kind `unlisted` on a node: use that no listed instance accounts for."""
    try:
        return str(uuid.uuid5(uuid.UUID(node_uuid), UNLISTED))
    except ValueError:  # the uuid of a node in a fleet file may be any text
        return derived_uuid(UNLISTED, node_uuid)


def json_text(value: Any) -> str | None:
    """The text of a JSON column; None (NULL) for None."""
    return None if value is None else as_json_text(value)


# --- the node ----------------------------------------------------------------------------------------


def node_row(record: HostRecord) -> Row:
    """The row of `compute_nodes`, without names and uuid, so that all hosts of a range share it."""
    free_disk_gb = record.disk_mb_left // 1024  # nova keeps whole GiB
    used_gb = record.total_usable_disk_gb - free_disk_gb
    return {
        "cell": record.cell,
        "vcpus": record.vcpus_total,
        "memory_mb": record.total_usable_ram_mb,
        "local_gb": record.total_usable_disk_gb,
        "vcpus_used": record.vcpus_taken,
        "memory_mb_used": record.total_usable_ram_mb - record.ram_mb_left,
        "local_gb_used": used_gb if record.disk_mb_used is None else record.disk_mb_used // 1024,
        "free_ram_mb": record.ram_mb_left,
        "free_disk_gb": free_disk_gb,
        "disk_available_least": None,
        "current_workload": record.counter("num_io_ops", "io_workload"),
        "running_vms": record.instance_count,
        "cpu_allocation_ratio": record.cpu_allocation_ratio,
        "ram_allocation_ratio": record.ram_allocation_ratio,
        "disk_allocation_ratio": record.disk_allocation_ratio,
        "hypervisor_type": record.hypervisor_type,
        "hypervisor_version": record.hypervisor_version,
        "host_ip": record.host_ip,
        **_json_columns(record),
    }


def _json_columns(record: HostRecord) -> Row:
    attributes = {
        "trust_level": None if record.trust_level == "unknown" else record.trust_level,
        "allocation_candidates": (
            None if record.allocation_candidates == _DEFAULT_CANDIDATES else to_json(record.allocation_candidates)
        ),
        "failed_builds": record.failed_builds,
    }
    values = {
        "cpu_info": to_json(record.cpu_info),
        "supported_instances": to_json(record.supported_instances),
        "stats": to_json(record.stats),
        "metrics": to_json(record.metrics),
        "numa_topology": topology_json(record.numa),
        "pci_stats": [pool.to_dict() for pool in record.pci_pools],
        "attributes": {name: value for name, value in attributes.items() if value is not None} or None,
    }
    texts = {name: json_text(values[name]) for name in JSON_COLUMNS}
    return texts | space_columns(texts, {}, ())


def uuid_of_node(record: HostRecord, host: str, node: str) -> str:
    """The uuid of the record, or one derived from the names if it has none."""
    return canonical_uuid(record.uuid) if record.uuid else default_node_uuid(host, node)


def inventory_rows(record: HostRecord) -> dict[str, Row]:
    """Resource class -> row of `inventories`, without `node_id` and `used`."""
    return {
        name: {part: getattr(inventory, part) for part in INVENTORY_PARTS}
        for name, inventory in record.inventories.items()
    }


# --- instances ---------------------------------------------------------------------------------------


def instances_by_uuid(record: HostRecord) -> dict[str, Instance]:
    """Uuid -> instance. The last entry of an instance that is listed twice counts, as in `HostTable`."""
    return {each.uuid: each for each in record.instances}


def listed_allocations(record: HostRecord) -> dict[str, dict[str, int]]:
    """Uuid of an instance or migration -> resource class -> amount; those without resources are left out."""
    listed: dict[str, Instance | MigrationHolding] = {**instances_by_uuid(record)}
    listed |= {each.uuid: each for each in record.migrations}
    amounts = {uuid: _positive(each.resources) for uuid, each in listed.items()}
    return {uuid: positive for uuid, positive in amounts.items() if positive}


def unlisted_amounts(record: HostRecord) -> dict[str, int]:
    """Resource class -> used amount that no listed instance or migration accounts for."""
    found = listed_allocations(record).values()
    return _positive(
        {name: taken - sum(each.get(name, 0) for each in found) for name, taken in record.allocated.items()}
    )


def _positive(amounts: Amounts) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount > 0}


def instance_details(instance: Instance, flavor_ids: Mapping[Any, int]) -> dict[str, Any]:
    """The details of an instance's consumer, which filters and plugins read; empty ones are left out.

    `flavor_ids`: id of a flavor in the file -> its row id. Such a flavor is stored once, in the catalogue.
    """
    details = {
        "flavor_id": flavor_ids.get(instance.flavor_id, instance.flavor_id),
        "flavor": instance.flavor.to_details() if instance.flavor else None,
        "image_props": dict(instance.image_props) or None,
        "system_metadata": dict(instance.system_metadata) or None,
        "created_at": instance.created_at.isoformat() if instance.created_at else None,
    }
    return {name: value for name, value in details.items() if value is not None}


def consumer_row(instance: Instance, details: Mapping[str, Any]) -> Row:
    """The row of `consumers` for an instance, without its uuid."""
    return {"kind": INSTANCE, "project_id": instance.project_id, "details": json_text(details)}


def migration_row() -> Row:
    """The row of `consumers` for a migration that a file lists and the database does not know, without its uuid."""
    return {"kind": MIGRATION, "project_id": None, "details": None}


def unlisted_row() -> Row:
    """The row of `consumers` for unlisted use, without its uuid."""
    return {"kind": UNLISTED, "project_id": None, "details": None}


def server_row(instance: Instance, host: str, node: str) -> Row:
    """The row of `servers`, without its uuid, which is also used as its name."""
    return {
        "name": instance.uuid,
        "project_id": instance.project_id,
        "host": host,
        "node": node,
        "vm_state": "active",
    }


# --- all rows of a record ----------------------------------------------------------------------------


class SharedRows:
    """Rows that are the same for all hosts of a record, which may describe a range of hosts; computed once."""

    def __init__(self, record: HostRecord) -> None:
        self.record = record
        self.row = node_row(record)
        self.inventories = inventory_rows(record)
        self.instances: Mapping[str, Instance] = instances_by_uuid(record)
        self.migrations = frozenset(each.uuid for each in record.migrations)
        self.allocations = listed_allocations(record)
        self.unlisted = unlisted_amounts(record)


class HostEntry(NamedTuple):
    """One node of a fleet file."""

    names: tuple[str, str]
    """Host and node."""
    shared: SharedRows

    @property
    def host(self) -> str:
        """Name of the host."""
        return self.names[0]

    @property
    def record(self) -> HostRecord:
        """The record of the file; it may describe a range of hosts, so its names are not those of this node."""
        return self.shared.record


def entries_of(runs: Iterable[Run]) -> list[HostEntry]:
    """Every node of a fleet file, in the order of the file."""
    shared_runs = ((SharedRows(record), pairs) for record, pairs in runs)
    return [HostEntry(names, shared) for shared, pairs in shared_runs for names in pairs]
