# SPDX-License-Identifier: Apache-2.0
"""Servers, migrations, hosts, flavors and images as clients see them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from roost.hosts import HostRecord
from roost.model import Flavor, Image
from roost.model.resources import DISK_GB, MEMORY_MB, VCPU
from roost.servers.server import Fault, Migration, Server
from roost.servers.status import STATUSES_WITH_FAULT, status_of

Record = dict[str, Any]
_PLACES = ("source_compute", "source_node", "dest_compute", "dest_node")


def describe_server(server: Server, fault: Fault | None, for_admin: bool) -> Record:
    """A server; host, node, attempts and details of the fault are for admins. `fault`: the latest one."""
    flavor, image = server.flavor_and_image
    return {
        "id": server.uuid,
        "name": server.name,
        "description": server.description,
        "status": status_of(server.vm_state, server.task_state),
        "vm_state": server.vm_state,
        "task_state": server.task_state,
        "power_state": server.power_state,
        "host": server.host if for_admin else None,
        "node": server.node if for_admin else None,
        "availability_zone": server.availability_zone,
        "project_id": server.project_id,
        "user_id": server.user_id,
        "flavor": describe_flavor(flavor) if flavor else None,
        "image": {"id": image.id, "name": image.name} if image else None,
        "metadata": dict(server.metadata),
        "reservation_id": server.reservation_id,
        "created_at": time_text(server.created_at),
        "updated_at": time_text(server.updated_at),
        "launched_at": time_text(server.launched_at),
        "fault": describe_fault(fault, for_admin) if fault and shows_fault(server) else None,
        "attempts": [each._asdict() for each in server.task.attempts] if for_admin else [],
        "migrations": [],
    }


def describe_fully(server: Server, fault: Fault | None, migrations: Sequence[Migration]) -> Record:
    """A server for admins: with its migrations, and its latest fault whatever its status."""
    return describe_server(server, None, True) | {
        "migrations": [describe_migration(each, True) for each in migrations],
        "fault": describe_fault(fault, True) if fault else None,
    }


def shows_fault(server: Server) -> bool:
    """Whether clients are told the latest fault of a server."""
    return status_of(server.vm_state, server.task_state) in STATUSES_WITH_FAULT


def describe_fault(fault: Fault, for_admin: bool) -> Record:
    """A fault; its details are for admins."""
    record: Record = {"code": fault.code, "message": fault.message, "created": time_text(fault.created_at)}
    return record | ({"details": fault.details} if for_admin else {})


def describe_migration(migration: Migration, for_admin: bool) -> Record:
    """A migration; its hosts and nodes are for admins."""
    return {
        "uuid": migration.uuid,
        "server": migration.server_uuid,
        "migration_type": migration.migration_type,
        "status": migration.status,
        **{name: getattr(migration, name) if for_admin else None for name in _PLACES},
        "created_at": time_text(migration.created_at),
        "updated_at": time_text(migration.updated_at),
    }


def describe_host(
    record: HostRecord, *, seconds_until_down: float, default_zone: str, seen_at: datetime | None
) -> Record:
    """A host: whether it is up and enabled, what it has and what of it is used.

    `seconds_until_down`: without a heartbeat; `default_zone`: of hosts whose aggregates name none; `seen_at`: the
    time of its last heartbeat.
    """
    service, zones = record.service, (each.metadata.get("availability_zone") for each in record.aggregates)
    used = record.allocated
    return {
        "host": record.host,
        "node": record.nodename,
        "state": "up" if service.is_up(seconds_until_down) else "down",
        "status": "disabled" if service.disabled else "enabled",
        "disabled_reason": service.disabled_reason,
        "forced_down": service.forced_down,
        "availability_zone": next(filter(None, zones), default_zone),
        "servers": len(record.instances),
        "vcpus": record.vcpus_total,
        "vcpus_used": used[VCPU],
        "memory_mb": record.total_usable_ram_mb,
        "memory_mb_used": used[MEMORY_MB],
        "disk_gb": record.total_usable_disk_gb,
        "disk_gb_used": used[DISK_GB],
        "hypervisor_type": record.hypervisor_type,
        "updated_at": time_text(seen_at),
    }


def describe_flavor(flavor: Flavor) -> Record:
    """A flavor: its id and name, its sizes and its extra specs."""
    sizes = {name: getattr(flavor, name) for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")}
    names = {"id": flavor.flavorid or flavor.name or None, "name": flavor.name}
    return {**names, **sizes, "extra_specs": dict(flavor.extra_specs)}


def describe_image(image: Image) -> Record:
    """An image: its id, name and status, and the memory and disk that it needs."""
    found = {name: getattr(image, name) for name in ("id", "name", "status", "min_ram", "min_disk")}
    return found | {"status": image.status or "active"}


def time_text(moment: datetime | None) -> str | None:
    """A time as text in ISO 8601; None for None."""
    return moment.isoformat(timespec="seconds") if moment else None
