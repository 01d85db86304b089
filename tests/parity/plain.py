# SPDX-License-Identifier: Apache-2.0
"""The rules as plain loops over plain objects: slow, obvious, and what the columns must agree with.

Written from the specification, independently of `roost.filters`, `roost.weighers` and `roost.scheduler`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from roost.hosts import HostTable
from roost.model import RequestSpec


@dataclass
class PlainHost:
    """One host, as an object with attributes."""

    host: str
    node: str
    total_usable_ram_mb: int
    free_ram_mb: int
    total_usable_disk_gb: int
    free_disk_mb: int
    vcpus_total: int
    vcpus_used: int
    cpu_allocation_ratio: float
    ram_allocation_ratio: float
    disk_allocation_ratio: float
    num_instances: int
    num_io_ops: int
    disabled: bool
    up: bool
    cell: str
    metadata: list[dict[str, str]]
    limit: dict[str, float] = field(default_factory=dict)
    allocated: dict[str, int] = field(default_factory=dict)
    max_unit: dict[str, int] = field(default_factory=dict)

    def zones(self) -> set[str]:
        found = set()
        for metadata in self.metadata:
            if "availability_zone" in metadata:
                for piece in metadata["availability_zone"].split(","):
                    found.add(piece.strip())
        return found


def plain_hosts(table: HostTable) -> list[PlainHost]:
    """A copy of the table as objects."""
    copied = []
    for view in table.in_the_running():
        numbers = {
            name: getattr(view, name)
            for name in PlainHost.__dataclass_fields__
            if name in table.numbers and name not in ("limit", "allocated")
        }
        copied.append(
            PlainHost(
                host=view.host,
                node=view.nodename,
                disabled=view.is_disabled,
                up=view.is_up,
                cell=view.cell,
                metadata=[dict(each.metadata) for each in view.aggregates],
                limit={name: getattr(view, f"limit:{name}") for name in table.resource_classes()},
                allocated={name: getattr(view, f"allocated:{name}") for name in table.resource_classes()},
                max_unit={name: getattr(view, f"max_unit:{name}") for name in table.resource_classes()},
                **numbers,
            )
        )
    return copied


# --- filters -----------------------------------------------------------------------------------------


def all_hosts(host: PlainHost, spec: RequestSpec) -> bool:
    return True


def compute(host: PlainHost, spec: RequestSpec) -> bool:
    return not host.disabled and host.up


def ram(host: PlainHost, spec: RequestSpec) -> bool:
    requested = spec.flavor.memory_mb
    if host.total_usable_ram_mb < requested:
        return False
    limit = host.total_usable_ram_mb * host.ram_allocation_ratio
    used = host.total_usable_ram_mb - host.free_ram_mb
    return limit - used >= requested


def core(host: PlainHost, spec: RequestSpec) -> bool:
    requested = spec.flavor.vcpus
    if host.vcpus_total == 0:
        return True
    limit = host.vcpus_total * host.cpu_allocation_ratio
    if limit > 0 and requested > host.vcpus_total:
        return False
    return limit - host.vcpus_used >= requested


def disk(host: PlainHost, spec: RequestSpec) -> bool:
    requested = 1024 * (spec.flavor.root_gb + spec.flavor.ephemeral_gb) + spec.flavor.swap
    total = 1024 * host.total_usable_disk_gb
    if total < requested:
        return False
    used = total - host.free_disk_mb
    return total * host.disk_allocation_ratio - used >= requested


def availability_zone(host: PlainHost, spec: RequestSpec) -> bool:
    if not spec.availability_zone:
        return True
    zones = host.zones()
    if zones:
        return spec.availability_zone in zones
    return spec.availability_zone == "nova"


def retry(host: PlainHost, spec: RequestSpec) -> bool:
    return spec.retry is None or (host.host, host.node) not in spec.retry.hosts


FILTERS: dict[str, Any] = {
    "AllHostsFilter": all_hosts,
    "AvailabilityZoneFilter": availability_zone,
    "ComputeFilter": compute,
    "CoreFilter": core,
    "DiskFilter": disk,
    "RamFilter": ram,
    "RetryFilter": retry,
}


def capacity(host: PlainHost, spec: RequestSpec) -> bool:
    if host.disabled:
        return False
    flavor = spec.flavor
    asked = {
        "VCPU": flavor.vcpus,
        "MEMORY_MB": flavor.memory_mb,
        "DISK_GB": flavor.root_gb + flavor.ephemeral_gb + math.ceil(flavor.swap / 1024),
    }
    for name, amount in asked.items():
        if amount == 0:
            continue
        if host.allocated[name] + amount > host.limit[name]:
            return False
        if amount > host.max_unit[name]:
            return False
    return True


# --- weighers ----------------------------------------------------------------------------------------


def free_ram(host: PlainHost) -> float:
    return host.free_ram_mb


def free_cpu(host: PlainHost) -> float:
    return host.vcpus_total * host.cpu_allocation_ratio - host.vcpus_used


def free_disk(host: PlainHost) -> float:
    return host.free_disk_mb


WEIGHERS: dict[str, tuple[Any, float | None, str]] = {
    "CPUWeigher": (free_cpu, 0, "cpu_weight_multiplier"),
    "DiskWeigher": (free_disk, 0, "disk_weight_multiplier"),
    "RAMWeigher": (free_ram, 0, "ram_weight_multiplier"),
}


def normalise(numbers: list[float], minval: float | None, maxval: float | None) -> list[float]:
    if not numbers:
        return []
    high = float(max(numbers) if maxval is None else maxval)
    low = float(min(numbers) if minval is None else minval)
    if low == high:
        return [0.0 for _ in numbers]
    return [(number - low) / (high - low) for number in numbers]


def multiplier(host: PlainHost, key: str, configured: float) -> float:
    values = {metadata[key] for metadata in host.metadata if key in metadata}
    if not values:
        return configured
    try:
        return min(float(value) for value in values)
    except ValueError:
        return configured


def weights(hosts: list[PlainHost], weighers: list[str], multipliers: dict[str, float] | None = None) -> list[float]:
    totals = [0.0 for _ in hosts]
    if len(hosts) < 2:
        return totals
    for name in weighers:
        raw_of, minval, key = WEIGHERS[name]
        raw = [raw_of(host) if minval is None else max(raw_of(host), minval) for host in hosts]
        configured = (multipliers or {}).get(name, 1.0)
        for at, score in enumerate(normalise(raw, minval, None)):
            totals[at] += multiplier(hosts[at], key, configured) * score
    return totals


# --- the whole request -------------------------------------------------------------------------------


def consume(host: PlainHost, spec: RequestSpec) -> None:
    flavor = spec.flavor
    host.free_ram_mb -= flavor.memory_mb
    host.free_disk_mb -= 1024 * (flavor.root_gb + flavor.ephemeral_gb)
    host.vcpus_used += flavor.vcpus
    host.num_instances += 1
    host.num_io_ops += 1
    host.allocated["VCPU"] += flavor.vcpus
    host.allocated["MEMORY_MB"] += flavor.memory_mb
    host.allocated["DISK_GB"] += flavor.root_gb + flavor.ephemeral_gb + math.ceil(flavor.swap / 1024)


def place(
    hosts: list[PlainHost], spec: RequestSpec, filters: list[str], weighers: list[str]
) -> list[PlainHost] | None:
    """The chosen hosts, consumed; None, and nothing consumed, where one instance has no host."""
    once = {"AllHostsFilter", "AvailabilityZoneFilter", "ComputeFilter"}
    chosen: list[PlainHost] = []
    saved: list[tuple[PlainHost, Any]] = []
    for index in range(spec.num_instances):
        hosts = [host for host in hosts if capacity(host, spec)]
        for name in filters:
            if index == 0 or name not in once:
                hosts = [host for host in hosts if FILTERS[name](host, spec)]
        if not hosts:
            for host, before in reversed(saved):
                for attribute, value in before.items():
                    setattr(host, attribute, value)
            return None
        totals = weights(hosts, weighers)
        order = sorted(range(len(hosts)), key=lambda at: -totals[at])
        hosts = [hosts[at] for at in order]
        best = hosts[0]
        saved.append((best, vars(best) | {"allocated": dict(best.allocated)}))
        consume(best, spec)
        chosen.append(best)
    return chosen
