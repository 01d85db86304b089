# SPDX-License-Identifier: Apache-2.0
"""A hypervisor as each version of the API shows it."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from roost.api.microversions import Microversion, v
from roost.records.hypervisors import HypervisorRecord

CPU_INFO_AS_OBJECT, UUIDS, EMPTY_SERVERS, WITHOUT_AMOUNTS = v(28), v(53), v(75), v(88)
"""Since when cpu_info is no text, ids are uuids, a hypervisor without servers says so, and amounts are left out."""
AMOUNTS = (
    *("vcpus", "memory_mb", "local_gb", "vcpus_used", "memory_mb_used", "local_gb_used", "free_ram_mb"),
    *("free_disk_gb", "current_workload", "running_vms", "disk_available_least"),
)


def named(version: Microversion, node: HypervisorRecord, *, with_servers: bool) -> dict[str, Any]:
    """Its id, name and state; `with_servers`: with the servers on it."""
    shown: dict[str, Any] = {
        "id": node.uuid if version >= UUIDS else node.id,
        "hypervisor_hostname": node.hypervisor_hostname,
        "state": "up" if node.is_up else "down",
        "status": "disabled" if node.disabled else "enabled",
    }
    if with_servers and (node.servers or version >= EMPTY_SERVERS):
        shown["servers"] = [{"name": each.name, "uuid": each.uuid} for each in node.servers]
    return shown


def detailed(version: Microversion, node: HypervisorRecord, *, with_servers: bool) -> dict[str, Any]:
    """With its kind, address and service, and before 2.88 with its amounts."""
    shown = named(version, node, with_servers=with_servers) | {
        "hypervisor_type": node.hypervisor_type or "",
        "hypervisor_version": node.hypervisor_version,
        "host_ip": node.host_ip,
        "service": {
            "id": node.service_uuid if version >= UUIDS else node.service_id,
            "host": node.host,
            "disabled_reason": node.disabled_reason,
        },
    }
    if version >= WITHOUT_AMOUNTS:
        return shown | {"uptime": None}
    return shown | {name: getattr(node, name) for name in AMOUNTS} | {"cpu_info": _cpu_info(version, node.cpu_info)}


def _cpu_info(version: Microversion, reported: Any) -> Any:
    """What an agent reported of its CPUs: an object, before 2.28 as text."""
    if version < CPU_INFO_AS_OBJECT:
        return reported if isinstance(reported, str) else json.dumps(reported or {})
    if isinstance(reported, str):
        with suppress(ValueError):
            reported = json.loads(reported)
    return reported if isinstance(reported, dict) else {}
