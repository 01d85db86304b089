# SPDX-License-Identifier: Apache-2.0
"""Records of one host as a source reports it: a fleet file, a database, an agent, a simulator."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from roost.hosts.instance import Instance, MigrationHolding
from roost.hosts.numa_cells import HostTopology
from roost.hosts.pci import Pool
from roost.model.aggregate import Aggregate, Service
from roost.model.fields import AT_LEAST_ONE, RATIO, Amount, MappingOf, Record
from roost.model.kinds import OrNull, WholeNumber
from roost.model.resources import DISK_GB, MEMORY_MB, RESOURCE_CLASS, VCPU

Pair = tuple[str, str]
"""(host, node): the names that identify a row of the host table."""

_IN_SERVICE = Service()
_NODE_NAMESPACE = uuid.UUID("6f0a6b4e-52d5-5d7c-9b62-3d2c3c1f7a10")


@dataclass(frozen=True, slots=True)
class Inventory:
    """How much of one resource class a host has, and in which units it is allocated."""

    total: Amount
    reserved: Amount = 0
    allocation_ratio: Annotated[float, RATIO] = 1.0
    min_unit: Annotated[int, AT_LEAST_ONE] = 1
    max_unit: Annotated[int | None, OrNull(AT_LEAST_ONE)] = None
    """The most a single instance may take; the total unless said otherwise."""
    step_size: Annotated[int, AT_LEAST_ONE] = 1

    @property
    def limit(self) -> float:
        """The most that all instances of the host may be allocated in total: (total - reserved) x ratio."""
        return (self.total - self.reserved) * self.allocation_ratio


def _check_reserved(inventory: Inventory) -> None:
    WholeNumber(most=inventory.total).strict(inventory.reserved, "reserved")


INVENTORIES = MappingOf(Record(Inventory, rule=_check_reserved), key=RESOURCE_CLASS)
"""Resource class -> how much of it there is."""


@dataclass(frozen=True, slots=True)
class HostRecord:
    """One (host, node) pair. Attribute names are nova's; units are in the names.

    A usage field that is None was not reported and is derived from the listed instances and migrations.
    """

    host: str
    node: str = ""
    uuid: str = ""
    cell: str = "cell1"
    total_usable_ram_mb: int = 0
    free_ram_mb: int | None = None
    total_usable_disk_gb: int = 0
    free_disk_mb: int | None = None
    disk_mb_used: int | None = None
    """Used disk as reported; None: all disk that is not free."""
    vcpus_total: int = 0
    vcpus_used: int | None = None
    cpu_allocation_ratio: float = 4.0
    ram_allocation_ratio: float = 1.0
    disk_allocation_ratio: float = 1.0
    reserved_vcpus: int = 0
    reserved_ram_mb: int = 0
    reserved_disk_gb: int = 0
    num_instances: int | None = None
    num_io_ops: int | None = None
    failed_builds: int | None = None
    hypervisor_type: str | None = "QEMU"
    hypervisor_version: int = 0
    host_ip: str | None = None
    supported_instances: tuple[tuple[str, ...], ...] = ()
    cpu_info: str | Mapping[str, Any] | None = None
    stats: Mapping[str, Any] = field(default_factory=dict)
    metrics: tuple[Mapping[str, Any], ...] | None = ()
    service: Service = _IN_SERVICE
    aggregates: tuple[Aggregate, ...] = ()
    instances: tuple[Instance, ...] = ()
    migrations: tuple[MigrationHolding, ...] = ()
    """Migrations that hold something of the host; their instances move away, or are resized there."""
    traits: frozenset[str] = frozenset()
    trust_level: str = "unknown"
    """The trust level that the attestation service reports for the node; `unknown` without one."""
    resources: Mapping[str, Inventory] = field(default_factory=dict)
    pci_pools: tuple[Pool, ...] = ()
    numa: HostTopology | None = None
    allocation_candidates: tuple[Mapping[str, Any], ...] = ({"mappings": {}},)
    allocations: Mapping[str, int] | None = None
    """What the ledger says is allocated per resource class; None: it does not say, it follows from the above."""

    @property
    def nodename(self) -> str:
        """The node's name; the name of the host if no node name is given."""
        return self.node or self.host

    def allocated_to_listed(self, resource_class: str) -> int:
        """The amount of a resource class that the listed instances and migrations have."""
        own = sum(each.resources.get(resource_class, 0) for each in self.instances)
        return own + sum(each.resources.get(resource_class, 0) for each in self.migrations)

    @property
    def ram_mb_left(self) -> int:
        """Free memory, MiB: as reported, or else the total minus what listed instances and migrations have."""
        if self.free_ram_mb is not None:
            return self.free_ram_mb
        return self.total_usable_ram_mb - self.allocated_to_listed(MEMORY_MB)

    @property
    def disk_mb_left(self) -> int:
        """Free disk, MiB: as reported, or else the total minus what listed instances and migrations have."""
        if self.free_disk_mb is not None:
            return self.free_disk_mb
        return 1024 * (self.total_usable_disk_gb - self.allocated_to_listed(DISK_GB))

    @property
    def disk_mb_taken(self) -> int:
        """Used disk, MiB: as reported, or else the total minus the free disk."""
        if self.disk_mb_used is not None:
            return self.disk_mb_used
        return 1024 * self.total_usable_disk_gb - self.disk_mb_left

    @property
    def vcpus_taken(self) -> int:
        """Used CPUs: as reported, or else those of the listed instances and migrations."""
        return self.allocated_to_listed(VCPU) if self.vcpus_used is None else self.vcpus_used

    def counter(self, name: str, stat: str, otherwise: int = 0) -> int:
        """A counter: the field `name` if it was reported, else the entry `stat` of `stats`, else `otherwise`."""
        value = getattr(self, name)
        return int(self.stats.get(stat, otherwise)) if value is None else value

    @property
    def instance_count(self) -> int:
        """Instances on the host: as reported, or else those listed, and those whose migrations alone are listed."""
        listed = {each.uuid for each in self.instances} if self.migrations else ()
        leaving = sum(each.instance not in listed for each in self.migrations)
        return self.counter("num_instances", "num_instances", len(self.instances) + leaving)

    @property
    def inventories(self) -> dict[str, Inventory]:
        """Resource class -> inventory; for VCPU, MEMORY_MB and DISK_GB from the totals unless `resources` has one."""
        usual = {
            VCPU: Inventory(self.vcpus_total, self.reserved_vcpus, self.cpu_allocation_ratio),
            MEMORY_MB: Inventory(self.total_usable_ram_mb, self.reserved_ram_mb, self.ram_allocation_ratio),
            DISK_GB: Inventory(self.total_usable_disk_gb, self.reserved_disk_gb, self.disk_allocation_ratio),
        }
        return usual | dict(self.resources)

    @property
    def allocated(self) -> dict[str, int]:
        """Resource class -> allocated amount.

        It is `allocations`, if a ledger reported them. Otherwise everything that is neither free nor reserved counts
        as allocated (as in nova, free amounts exclude the reservation), and at least the amounts of the listed
        instances and migrations.
        """
        if self.allocations is not None:
            return {name: self.allocations.get(name, 0) for name in self.inventories}
        free_disk_gb = self.disk_mb_left // 1024
        taken = {
            VCPU: self.vcpus_taken,
            MEMORY_MB: self.total_usable_ram_mb - self.reserved_ram_mb - self.ram_mb_left,
            DISK_GB: self.total_usable_disk_gb - self.reserved_disk_gb - free_disk_gb,
        }
        return {name: max(0, taken.get(name, 0), self.allocated_to_listed(name)) for name in self.inventories}


def is_bare_metal(hypervisor_type: str | None) -> bool:
    """Whether a node with this hypervisor type is bare metal, so that one instance consumes all of it."""
    return (hypervisor_type or "").lower() == "ironic"


def default_node_uuid(host: str, node: str) -> str:
    """The uuid of a node for which no source gives one: derived from its names, so always the same."""
    return str(uuid.uuid5(_NODE_NAMESPACE, f"{host}\n{node}"))
