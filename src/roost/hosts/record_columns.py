# SPDX-License-Identifier: Apache-2.0
"""From host records to columns of the table: which attribute of a record each column holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from roost.hosts.record import HostRecord, Inventory, is_bare_metal
from roost.model.kinds import FrozenDict

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
