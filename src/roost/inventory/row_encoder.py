# SPDX-License-Identifier: Apache-2.0
"""A host record as rows: which column holds what. `decoding.py` is the way back.

Nothing here knows of a database. Columns of JSON are given as their text.
"""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from roost.hosts import HostRecord, Instance, Inventory
from roost.hosts.numa import HostTopology
from roost.hosts.record import uuid_of
from roost.inventory.bulk import Row
from roost.inventory.node_reader import AGENT
from roost.model import Service
from roost.model.consumers import INSTANCE, UNLISTED
from roost.model.json_records import to_json

"""The kind of consumers that stand for what a node said was in use, and no listed instance accounts for."""
JSON_COLUMNS = (
    *("cpu_info", "supported_instances", "stats", "metrics", "numa_topology", "pci_stats"),
    "attributes",
)
INVENTORY_PARTS = tuple(each.name for each in dataclasses.fields(Inventory))
TOPIC = "compute"
LONGEST_SILENCE = timedelta(days=3650)
"""A service that was silent for longer is down in any case, and there are no dates before the year 1."""

_NAMESPACE = uuid.UUID("0a3f5f0e-3c53-5b0f-8f0e-2b7d1d1f6a52")
_CANDIDATES = next(each.default for each in dataclasses.fields(HostRecord) if each.name == "allocation_candidates")

Amounts = Mapping[str, int]
"""Resource class -> amount."""


def derived_uuid(kind: str, name: str) -> str:
    """The uuid of something that nobody gave one: always the same for the same name."""
    return str(uuid.uuid5(_NAMESPACE, f"{kind}\n{name}"))


def unlisted_uuid(node_uuid: str) -> str:
    """The consumer that stands for what the node's listed instances do not account for."""
    try:
        return str(uuid.uuid5(uuid.UUID(node_uuid), UNLISTED))
    except ValueError:  # a fleet file may name its nodes as it likes
        return derived_uuid(UNLISTED, node_uuid)


def json_text(value: Any) -> str | None:
    """JSON as the store writes it."""
    return None if value is None else json.dumps(value, separators=(",", ":"), allow_nan=False)


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
    """Socket 0 is one; that nobody knows the socket is what is left out."""
    return plain if socket is None else plain | {"socket": socket}


def uuid_of_node(record: HostRecord, host: str, node: str) -> str:
    """Its own, or one made from the names."""
    return record.uuid or uuid_of(host, node)


def inventory_rows(record: HostRecord) -> dict[str, Row]:
    """Resource class -> the row of `inventories`, without the node and what is used."""
    return {
        name: {part: getattr(inventory, part) for part in INVENTORY_PARTS}
        for name, inventory in record.inventories.items()
    }


# --- who is on it ------------------------------------------------------------------------------------


def instances_of(record: HostRecord) -> dict[str, Instance]:
    """By uuid; of one that is listed twice the last word counts, as in the table of hosts."""
    return {each.uuid: each for each in record.instances}


def held_by_instances(record: HostRecord) -> dict[str, dict[str, int]]:
    """Consumer -> what it holds; instances that hold nothing are left out."""
    amounts = {uuid: _positive(each.resources) for uuid, each in instances_of(record).items()}
    return {uuid: held for uuid, held in amounts.items() if held}


def held_by_nobody(record: HostRecord) -> dict[str, int]:
    """What is in use and no listed instance accounts for."""
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
    """What rules ask of an instance. `flavor_ids`: a flavor's id in the file -> its number in the store."""
    details = {
        "flavor_id": flavor_ids.get(instance.flavor_id, instance.flavor_id),
        "image_props": dict(instance.image_props) or None,
    }
    return {name: value for name, value in details.items() if value is not None}


def consumer_row(instance: Instance, details: Mapping[str, Any]) -> Row:
    """The row of `consumers`."""
    return {
        "uuid": instance.uuid,
        "kind": INSTANCE,
        "project_id": instance.project_id,
        "details": json_text(details),
    }


def unlisted_row(uuid: str) -> Row:
    """The row of `consumers` for what nobody accounts for."""
    return {"uuid": uuid, "kind": UNLISTED, "project_id": None, "details": None}


def server_row(instance: Instance, host: str, node: str) -> Row:
    """The row of `servers`: a name nobody told us, so its uuid."""
    return {
        "uuid": instance.uuid,
        "name": instance.uuid,
        "project_id": instance.project_id,
        "host": host,
        "node": node,
        "vm_state": "active",
    }


# --- the service -------------------------------------------------------------------------------------


def service_row(host: str, service: Service, now: datetime) -> Row:
    """The row of `services` for a host that is new."""
    return {
        "host": host,
        "binary": AGENT,
        "topic": TOPIC,
        "uuid": derived_uuid("service", host),
        **service_flags(service),
        **signs_of_life(service, now),
    }


def service_flags(service: Service) -> Row:
    """What an operator said."""
    return {
        "disabled": service.disabled,
        "disabled_reason": service.disabled_reason,
        "forced_down": service.forced_down,
    }


def signs_of_life(service: Service, now: datetime) -> Row:
    """Static: counts as up and has no agent. Never heard of: down. Else when it was last heard of."""
    if service.up is False:
        return {"is_static": False, "last_seen_up": None, "created_at": None}
    if service.up or service.seconds_since_seen is None:
        return {"is_static": True, "last_seen_up": None, "created_at": now}
    seconds = service.seconds_since_seen
    longest = LONGEST_SILENCE.total_seconds()
    silence = timedelta(seconds=max(-longest, min(seconds, longest)))
    return {"is_static": False, "last_seen_up": now - silence, "created_at": now}


def speaks_of_life(service: Service) -> bool:
    """Whether the source says outright that the agent is alive, or not."""
    return service.up is not None or service.seconds_since_seen is not None
