# SPDX-License-Identifier: Apache-2.0
"""Hosts, flavors and images as clients see them; servers are described by the conductor, which knows their faults."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from roost.hosts import HostRecord
from roost.model import Flavor, Image
from roost.model.resources import DISK_GB, MEMORY_MB, VCPU

Record = dict[str, Any]


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
    return {name: getattr(image, name) for name in ("id", "name", "status", "min_ram", "min_disk")}


def time_text(moment: datetime | None) -> str | None:
    """A time as text in ISO 8601; None for None."""
    return moment.isoformat(timespec="seconds") if moment else None
