# SPDX-License-Identifier: Apache-2.0
"""Host records as rows of the database: pure functions. `row_decoder.py` is the inverse.

Values of JSON columns are texts.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from roost.hosts import HostRecord, Instance, Inventory, MigrationHolding
from roost.hosts.guests import topology_json
from roost.hosts.record import default_node_uuid
from roost.hosts.table import Run
from roost.inventory.reported_space import space_columns
from roost.model.json_records import to_json
from roost.model.resources import INSTANCE, MIGRATION, UNLISTED, Amounts
from roost.model.uuids import canonical_uuid
from roost.store.columns import as_json_text
from roost.store.statements import Row

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
