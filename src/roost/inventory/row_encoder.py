# SPDX-License-Identifier: Apache-2.0
"""A host record as rows: which column holds what. `row_decoder.py` is the way back.

These functions are pure. Columns of JSON are given as their text.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from roost.hosts import HostRecord, Instance, Inventory
from roost.hosts.numa import HostTopology
from roost.hosts.record import uuid_of
from roost.hosts.table import Run
from roost.model.consumers import INSTANCE, UNLISTED
from roost.model.json_records import to_json
from roost.store.bulk import Row
from roost.store.column_types import as_json_text

JSON_COLUMNS = (
    *("cpu_info", "supported_instances", "stats", "metrics", "numa_topology", "pci_stats"),
    "attributes",
)
INVENTORY_PARTS = tuple(each.name for each in dataclasses.fields(Inventory))

_NAMESPACE = uuid.UUID("0a3f5f0e-3c53-5b0f-8f0e-2b7d1d1f6a52")
_CANDIDATES = next(each.default for each in dataclasses.fields(HostRecord) if each.name == "allocation_candidates")

Amounts = Mapping[str, int]
"""Resource class -> amount."""


def derived_uuid(kind: str, name: str) -> str:
    """The uuid of something that was given none: always the same for the same kind and name."""
    return str(uuid.uuid5(_NAMESPACE, f"{kind}\n{name}"))


@lru_cache(maxsize=4096)  # an import asks three times for each node of a chunk
def unlisted_uuid(node_uuid: str) -> str:
    """The uuid of the consumer of kind `unlisted` on a node: use that no listed instance accounts for."""
    try:
        return str(uuid.uuid5(uuid.UUID(node_uuid), UNLISTED))
    except ValueError:  # a fleet file may name its nodes as it likes
        return derived_uuid(UNLISTED, node_uuid)


def json_text(value: Any) -> str | None:
    """The text of a JSON column; None for None."""
    return None if value is None else as_json_text(value)


# --- the node ----------------------------------------------------------------------------------------


def node_row(record: HostRecord) -> Row:
    """The row of `compute_nodes`, without its names and uuid: what hosts that are alike share."""
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
        "current_workload": record.counted("num_io_ops", "io_workload"),
        "running_vms": record.counted("num_instances", "num_instances", len(record.instances)),
        "cpu_allocation_ratio": record.cpu_allocation_ratio,
        "ram_allocation_ratio": record.ram_allocation_ratio,
        "disk_allocation_ratio": record.disk_allocation_ratio,
        "hypervisor_type": record.hypervisor_type,
        "hypervisor_version": record.hypervisor_version,
        "host_ip": record.host_ip,
        **_json_parts(record),
    }


def _json_parts(record: HostRecord) -> Row:
    attributes = {
        "trust_level": None if record.trust_level == "unknown" else record.trust_level,
        "allocation_candidates": (
            None if record.allocation_candidates == _CANDIDATES else to_json(record.allocation_candidates)
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
    return {name: json_text(values[name]) for name in JSON_COLUMNS}


def topology_json(topology: HostTopology | None) -> Any:
    """NUMA cells as a fleet file has them; what is not said is left out."""
    if topology is None:
        return None
    cells = [
        {name: value for name, value in to_json(cell).items() if value} | {"id": cell.id, "memory": cell.memory}
        for cell in topology.cells
    ]
    return {"cells": [_with_socket(plain, cell.socket) for plain, cell in zip(cells, topology.cells, strict=True)]}


def _with_socket(plain: dict[str, Any], socket: int | None) -> dict[str, Any]:
    """The cell with its socket, which may be 0; an unknown one is left out."""
    return plain if socket is None else plain | {"socket": socket}


def uuid_of_node(record: HostRecord, host: str, node: str) -> str:
    """The uuid that the record gives, or else one made from the names."""
    return record.uuid or uuid_of(host, node)


def inventory_rows(record: HostRecord) -> dict[str, Row]:
    """Resource class -> the row of `inventories`, without the node and what is used."""
    return {
        name: {part: getattr(inventory, part) for part in INVENTORY_PARTS}
        for name, inventory in record.inventories.items()
    }


# --- instances ---------------------------------------------------------------------------------------


def instances_of(record: HostRecord) -> dict[str, Instance]:
    """Uuid -> instance; of one that is listed twice the last entry counts, as in the table of hosts."""
    return {each.uuid: each for each in record.instances}


def held_by_instances(record: HostRecord) -> dict[str, dict[str, int]]:
    """Instance uuid -> resource class -> amount; instances that hold nothing are left out."""
    amounts = {uuid: _positive(each.resources) for uuid, each in instances_of(record).items()}
    return {uuid: held for uuid, held in amounts.items() if held}


def unlisted_amounts(record: HostRecord) -> dict[str, int]:
    """Resource class -> amount that is in use and that no listed instance accounts for."""
    listed = instances_of(record).values()
    return _positive(
        {
            name: taken - sum(each.resources.get(name, 0) for each in listed)
            for name, taken in record.allocated.items()
        }
    )


def _positive(amounts: Amounts) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount > 0}


def instance_details(instance: Instance, flavor_ids: Mapping[Any, int]) -> dict[str, Any]:
    """Flavor and image properties of an instance, which filters read.

    `flavor_ids`: a flavor's id in the file -> its number in the store.
    """
    details = {
        "flavor_id": flavor_ids.get(instance.flavor_id, instance.flavor_id),
        "image_props": dict(instance.image_props) or None,
    }
    return {name: value for name, value in details.items() if value is not None}


def consumer_row(instance: Instance, details: Mapping[str, Any]) -> Row:
    """The row of `consumers` for an instance, without its uuid."""
    return {"kind": INSTANCE, "project_id": instance.project_id, "details": json_text(details)}


def unlisted_row() -> Row:
    """The row of `consumers` for use that no listed instance accounts for, without its uuid."""
    return {"kind": UNLISTED, "project_id": None, "details": None}


def server_row(instance: Instance, host: str, node: str) -> Row:
    """The row of `servers`, without its uuid, which has to do for a name."""
    return {
        "name": instance.uuid,
        "project_id": instance.project_id,
        "host": host,
        "node": node,
        "vm_state": "active",
    }


# --- all rows of a record ----------------------------------------------------------------------------


class SharedRows:
    """Rows that all hosts of one record, which may stand for a range of names, have in common; worked out once."""

    def __init__(self, record: HostRecord) -> None:
        self.record = record
        self.row = node_row(record)
        self.inventories = inventory_rows(record)
        self.instances: Mapping[str, Instance] = instances_of(record)
        self.held = held_by_instances(record)
        self.unlisted = unlisted_amounts(record)


class HostEntry(NamedTuple):
    """One node of a fleet."""

    names: tuple[str, str]
    """Host and node."""
    shared: SharedRows

    @property
    def host(self) -> str:
        """The name of its service host."""
        return self.names[0]

    @property
    def record(self) -> HostRecord:
        """What the file says; its names may stand for many."""
        return self.shared.record


def entries_of(runs: Iterable[Run]) -> list[HostEntry]:
    """Every node of a fleet, in the order of the file."""
    return [HostEntry(names, shared) for shared, every in ((SharedRows(r), n) for r, n in runs) for names in every]
