# SPDX-License-Identifier: Apache-2.0
"""The hosts of a development cloud: several kinds in three zones, in the proportions of a fleet of 200."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

USUAL_COUNT, LEAST_COUNT, MOST_COUNT = 200, 10, 2000
IMAGE = "debian-12"
GPU_ALIAS = '{"name": "a100", "vendor_id": "10de", "product_id": "20b0"}'
"""The value of [pci] alias by which flavors ask for a GPU."""
GROUP = "apart"
"""A server group whose members never share a host."""
BROKEN_FAN = "broken fan, ticket 4711"


@dataclass(frozen=True)
class HostKind:
    """Hosts that are alike."""

    prefix: str
    zone: str
    share: int
    """How many of 200 hosts are of this kind."""
    vcpus: int
    memory_mb: int
    local_gb: int
    traits: tuple[str, ...] = ()
    gpus: int = 0


KINDS = (
    HostKind("a", "zone-a", 81, 64, 262144, 2000),
    HostKind("b", "zone-b", 60, 96, 393216, 4000),
    HostKind("ssd", "zone-b", 9, 48, 196608, 1000, ("STORAGE_DISK_SSD",)),
    HostKind("c", "zone-c", 42, 32, 131072, 1000),
    HostKind("gpu", "zone-a", 8, 64, 524288, 4000, ("CUSTOM_GPU_A100",), gpus=8),
)
FLAVORS: tuple[Mapping[str, Any], ...] = (
    {"name": "small", "vcpus": 2, "memory_mb": 4096, "root_gb": 20},
    {"name": "web", "vcpus": 4, "memory_mb": 8192, "root_gb": 40},
    {
        "name": "database",
        "vcpus": 16,
        "memory_mb": 65536,
        "root_gb": 400,
        "extra_specs": {"trait:STORAGE_DISK_SSD": "required"},
    },
    {
        "name": "train",
        "vcpus": 24,
        "memory_mb": 200000,
        "root_gb": 200,
        "extra_specs": {"pci_passthrough:alias": "a100:4", "trait:CUSTOM_GPU_A100": "required"},
    },
    {"name": "giant", "vcpus": 48, "memory_mb": 262144, "root_gb": 1000},
)


@dataclass(frozen=True)
class DevFleet:
    """The hosts by name, each with its kind."""

    kinds: Mapping[str, HostKind]
    down: str
    """A host without an agent."""
    disabled: str
    """A host that is out of service for repair."""

    @classmethod
    def of(cls, count: int) -> DevFleet:
        """A fleet of that many hosts, LEAST_COUNT at least."""
        kinds: dict[str, HostKind] = {}
        for kind, number in zip(KINDS, _split(count), strict=True):
            digits = max(2, len(str(number)))
            kinds |= {f"{kind.prefix}-{at:0{digits}}": kind for at in range(1, number + 1)}
        *_, down, disabled = (name for name, kind in kinds.items() if kind.zone == "zone-c")
        return cls(kinds, down, disabled)

    @property
    def document(self) -> dict[str, Any]:
        """The fleet as a fleet file has it, for an import: hosts, zones, aggregates, flavors and an image."""
        hosts = [_host_entry(name, kind, self) for name, kind in self.kinds.items()]
        zones = sorted({kind.zone for kind in KINDS})
        aggregates = [
            {"name": zone, "metadata": {"availability_zone": zone}, "hosts": self._hosts_in(zone)} for zone in zones
        ]
        gpus = [name for name, kind in self.kinds.items() if kind.gpus]
        # Hosts with GPUs fill up one by one, so that whole hosts stay free for large requests.
        packing = {f"{each}_weight_multiplier": "-1" for each in ("ram", "cpu", "disk")}
        aggregates.append({"name": "gpus", "metadata": {"gpu": "true", **packing}, "hosts": gpus})
        image = {"name": IMAGE, "id": "7c1a5c0e-0d0e-4b52-8f0c-5b1f3f4f9d12", "properties": {"os_distro": "debian"}}
        groups = [{"name": GROUP, "policy": "anti-affinity"}]
        parts = {"hosts": hosts, "aggregates": aggregates, "flavors": list(FLAVORS)}
        return parts | {"images": [image], "server_groups": groups}

    def _hosts_in(self, zone: str) -> list[str]:
        return [name for name, kind in self.kinds.items() if kind.zone == zone]


def _host_entry(name: str, kind: HostKind, fleet: DevFleet) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "host": name,
        "vcpus_total": kind.vcpus,
        "total_usable_ram_mb": kind.memory_mb,
        "total_usable_disk_gb": kind.local_gb,
    }
    if kind.traits:
        entry["traits"] = list(kind.traits)
    if name == fleet.disabled:
        entry["service"] = {"disabled": True, "disabled_reason": BROKEN_FAN, "up": False}
    else:
        entry["service"] = {"up": False}  # until its agent reports
    return entry


def _split(count: int) -> list[int]:
    """How many hosts there are of each kind; two of each at least where the count allows it."""
    found = [max(2, kind.share * count // USUAL_COUNT) for kind in KINDS]
    found[0] += count - sum(found)
    while found[0] < 2:  # a small fleet: take from the largest of the other kinds
        largest = max(range(1, len(found)), key=found.__getitem__)
        found[largest] -= 1
        found[0] += 1
    return found
