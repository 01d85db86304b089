# SPDX-License-Identifier: Apache-2.0
"""Records of one host as a source reports it: a fleet file, a database, an agent, a simulator.

Metrics have the names of nova's MonitorMetric and MonitorMetricList, because plugins read them. `number_values` and
`encoded_values` say which attribute of a record each column of the table holds.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from roost.errors import FieldError
from roost.hosts.instances import Instance, MigrationHolding
from roost.hosts.numa_cells import HostTopology
from roost.hosts.pci import Pool
from roost.model.descriptions import time_text
from roost.model.fields import AT_LEAST_ONE, RATIO, Amount, MappingOf, Record
from roost.model.flavor import AttributesAsItems
from roost.model.group import Aggregate, Service
from roost.model.kinds import FrozenDict, OrNull, Timestamp, WholeNumber
from roost.model.resources import DISK_GB, MEMORY_MB, RESOURCE_CLASS, VCPU

PERCENTAGES = frozenset(
    {"cpu.user.percent", "cpu.kernel.percent", "cpu.idle.percent", "cpu.iowait.percent", "cpu.percent"}
)
"""Metrics that agents report as fractions (0.25), and nova uses as whole percentages (25)."""
_TIME = Timestamp()


@dataclass(frozen=True)
class Metric(AttributesAsItems):
    """A metric of a host. Percentages are whole numbers: 25 for a quarter."""

    name: str
    value: Any
    timestamp: datetime | None = None
    """When it was measured, in UTC; None if the agent does not say."""
    source: str | None = None
    """The monitor that measured it."""

    @classmethod
    def of(cls, reported: Mapping[str, Any]) -> Metric:
        """The metric of an entry of the column `metrics`."""
        try:
            timestamp = _TIME.strict(reported.get("timestamp"), "timestamp")
        except FieldError:
            timestamp = None
        return cls(reported["name"], reported["value"], timestamp, reported.get("source"))

    def to_dict(self) -> dict[str, Any]:
        """The metric as agents report it: a percentage is a fraction, the time is a text."""
        value = self.value / 100 if self.name in PERCENTAGES else self.value
        timestamp = self.timestamp.replace(tzinfo=None).isoformat() if self.timestamp else None
        return {"name": self.name, "value": value, "timestamp": timestamp, "source": self.source}


class MetricList(list[Metric]):
    """The metrics of a host, in the order of the report."""

    @property
    def objects(self) -> list[Metric]:
        """The metrics, under nova's name for the elements of a list object."""
        return self

    def to_list(self) -> list[dict[str, Any]]:
        """The metrics as agents report them, each as a dict."""
        return [each.to_dict() for each in self]


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


SECONDS_UNTIL_DOWN = 60
"""nova's default of `service_down_time`: without a heartbeat for longer than this, a service is down."""

_NUMBER_READERS: dict[str, Callable[[HostRecord], Any]] = {
    "total_usable_ram_mb": lambda record: record.total_usable_ram_mb,
    "free_ram_mb": lambda record: record.ram_mb_left,
    "total_usable_disk_gb": lambda record: record.total_usable_disk_gb,
    "free_disk_mb": lambda record: record.disk_mb_left,
    "disk_mb_used": lambda record: record.disk_mb_taken,
    "vcpus_total": lambda record: record.vcpus_total,
    "vcpus_used": lambda record: record.vcpus_taken,
    "cpu_allocation_ratio": lambda record: record.cpu_allocation_ratio,
    "ram_allocation_ratio": lambda record: record.ram_allocation_ratio,
    "disk_allocation_ratio": lambda record: record.disk_allocation_ratio,
    "num_instances": lambda record: record.instance_count,
    "num_io_ops": lambda record: record.counter("num_io_ops", "io_workload"),
    "failed_builds": lambda record: record.counter("failed_builds", "failed_builds"),
    "hypervisor_version": lambda record: record.hypervisor_version,
    "is_up": lambda record: record.service.is_up(SECONDS_UNTIL_DOWN),
    "is_disabled": lambda record: record.service.disabled,
    "is_bare_metal": lambda record: is_bare_metal(record.hypervisor_type),
}

# `version` and `ratios` are numeric, but encoded: few distinct values, and rules that are evaluated per value.
_ENCODED_READERS: dict[str, Callable[[HostRecord], Any]] = {
    "cell": lambda record: record.cell,
    "hypervisor_type": lambda record: record.hypervisor_type,
    "version": lambda record: record.hypervisor_version,
    "ratios": lambda record: (record.cpu_allocation_ratio, record.ram_allocation_ratio),
    "host_ip": lambda record: record.host_ip,
    "supported_instances": lambda record: record.supported_instances,
    "cpu_info": lambda record: record.cpu_info,
    "stats": lambda record: FrozenDict(record.stats),
    "metrics": lambda record: record.metrics,
    "service": lambda record: record.service,
    "aggregates": lambda record: record.aggregates,
    "traits": lambda record: record.traits,
    "trust_level": lambda record: record.trust_level,
    "pci_pools": lambda record: record.pci_pools,
    "numa": lambda record: record.numa,
    "allocation_candidates": lambda record: record.allocation_candidates,
}

_NO_INVENTORY = Inventory(total=0)


def number_values(records: Sequence[HostRecord], classes: Iterable[str] = ()) -> dict[str, list[Any]]:
    """Numeric column -> one value per record. Columns exist for all resource classes of the records and `classes`."""
    columns = {name: [read(record) for record in records] for name, read in _NUMBER_READERS.items()}
    inventories = [record.inventories for record in records]
    allocated = [record.allocated for record in records]
    wanted = dict.fromkeys(classes) | dict.fromkeys(name for each in inventories for name in each)
    for name in wanted:
        of_class = [each.get(name, _NO_INVENTORY) for each in inventories]
        columns[f"limit:{name}"] = [float(each.limit) for each in of_class]
        columns[f"allocated:{name}"] = [each.get(name, 0) for each in allocated]
        columns[f"max_unit:{name}"] = [each.total if each.max_unit is None else each.max_unit for each in of_class]
        columns[f"min_unit:{name}"] = [each.min_unit for each in of_class]
        columns[f"step_size:{name}"] = [each.step_size for each in of_class]
    return columns


def encoded_values(records: Sequence[HostRecord]) -> dict[str, list[Any]]:
    """Dictionary-encoded column -> one value per record."""
    return {name: [read(record) for record in records] for name, read in _ENCODED_READERS.items()}


def describe_host(
    record: HostRecord, *, seconds_until_down: float, default_zone: str, seen_at: datetime | None
) -> dict[str, Any]:
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
