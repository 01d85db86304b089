# SPDX-License-Identifier: Apache-2.0
"""Random fleets, and what their hosts report later: few distinct values of everything, so that much is equal."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from tests.parity import plain_weighers

from roost.hosts import HostRecord, HostTable, Instance
from roost.hosts.numa_cells import host_topology_from_json
from roost.hosts.pci import pools_from_json
from roost.hosts.record import Inventory, number_values
from roost.hosts.table import ChangeLog
from roost.hosts.updates import Usage
from roost.model import Aggregate, Service

Dice = random.Random

UUIDS = tuple(f"u{number}" for number in range(12))
"""Instances that hosts report, hints name and groups have as members."""
TRAITS = (
    *("CUSTOM_FAST", "CUSTOM_OLD", "COMPUTE_IMAGE_TYPE_QCOW2"),
    *("COMPUTE_STORAGE_BUS_VIRTIO", "HW_ARCH_AARCH64", "COMPUTE_ACCELERATORS"),
)
CLASSES = ("CUSTOM_FPGA", "VGPU")
DEVICES = ({"vendor_id": "10de", "product_id": "1eb8"}, {"vendor_id": "8086", "product_id": "154c"})
ADDRESSES = ("10.4.7.9", "10.4.7.200", "10.4.8.1", "fd00::5")
CPUS = ('{"arch": "x86_64", "maxphysaddr": {"bits": 46}}', '{"arch": "aarch64", "maxphysaddr": {"bits": 39}}', None)
TRIPLES = (("x86_64", "kvm", "hvm"), ("aarch64", "qemu", "hvm"), ("i686", "kvm", "hvm"))
MULTIPLIER_KEYS = tuple(sorted({rule.key for rule in plain_weighers.WEIGHERS.values()}))
NUMBERS = ("2", "-1.5", "0", "0.1", "1e3", "bogus")

METADATA: dict[str, tuple[str, ...]] = {
    "availability_zone": ("az1", "az2", "az1, az2", "nova"),
    "ssd": ("true", "false", "true, false"),
    "filter_tenant_id": ("p1", "p2", "p1, p2"),
    "filter_tenant_id2": ("p1",),
    "instance_type": ("small", "small, large"),
    "os_distro": ("linux", "windows", "linux, windows"),
    "cpu_allocation_ratio": ("0.5", "1", "2.0", "x"),
    "ram_allocation_ratio": ("0.5", "1.5", "2"),
    "disk_allocation_ratio": ("0.5", "1.5", "2"),
    "max_io_ops_per_host": ("3", "6", "x"),
    "max_instances_per_host": ("3", "8", "20"),
    "trait:CUSTOM_FAST": ("required", "forbidden"),
}

_CELL = {"id": 0, "cpuset": [0, 1, 2, 3], "pcpuset": [0, 1, 2, 3], "siblings": [[0, 1], [2, 3]], "memory": 4096}
_PAGES = [{"size_kb": 4, "total": 524288}, {"size_kb": 2048, "total": 1024}]
TOPOLOGIES = tuple(
    host_topology_from_json({"cells": cells})
    for cells in (
        [_CELL],
        [_CELL, _CELL | {"id": 1, "cpuset": [4, 5, 6, 7], "pcpuset": [4, 5, 6, 7], "siblings": [[4, 5], [6, 7]]}],
        [_CELL | {"mempages": _PAGES, "pinned_cpus": [0, 1]}],
    )
)
ABLE = {
    "supported_instances": TRIPLES[:2],
    "traits": frozenset(TRAITS),
    "metrics": ({"name": "foo", "value": 1}, {"name": "bar", "value": 7}),
    "trust_level": "trusted",
}
"""A host that may take almost anything, unless it says otherwise."""


@dataclass
class Fleet:
    """What the hosts of one fleet have in common."""

    aggregates: list[Aggregate]
    cells: tuple[str, ...]
    sizes: list[dict[str, Any]]
    varied: tuple[str, ...]
    """Fields in which hosts differ from the start."""
    watched: tuple[str, ...]
    """Fields that change most often."""
    keys: tuple[str, ...]
    """Metadata that aggregates often have."""
    has_topologies: bool
    has_devices: bool
    has_metal: bool


def make_fleet(dice: Dice, watched: tuple[str, ...], keys: tuple[str, ...]) -> Fleet:
    often_varied = [name for name in FIELDS if dice.random() < 0.4]
    has_topologies = "numa" in watched or dice.random() < 0.06
    is_tight = dice.random() < (0.8 if set(watched) & set(AMOUNTS) else 0.2)
    return Fleet(
        aggregates=[make_aggregate(dice, number, keys) for number in range(1, dice.choice([2, 4, 6]))],
        cells=("cell1", "cell2") if "cell" in watched or dice.random() < 0.25 else ("cell1",),
        sizes=[make_size(dice, is_tight) for _ in range(dice.choice([1, 2, 4]))],
        varied=(*dice.choice([(), (), often_varied]), *(name for name in watched if name != "resources")),
        watched=watched,
        keys=keys,
        has_topologies=has_topologies,
        has_devices=has_topologies or "pci_pools" in watched or dice.random() < 0.1,
        has_metal=dice.random() < 0.12,
    )


def make_aggregate(dice: Dice, number: int, keys: tuple[str, ...]) -> Aggregate:
    """Those keys mostly, and some others."""
    names = [key for key in keys if dice.random() < 0.7]
    names += dice.sample(sorted(METADATA), dice.choice([0, 0, 0, 1, 2]))
    names += dice.sample(MULTIPLIER_KEYS, dice.choice([0, 0, 1, 3]))
    metadata = {key: dice.choice(METADATA.get(key, NUMBERS)) for key in names}
    return Aggregate(f"agg{number}", metadata, id=number, uuid=f"uuid-of-agg{number}")


def make_size(dice: Dice, is_tight: bool) -> dict[str, Any]:
    """Room for many instances; or for so few that a little more or less shows at once."""
    scale = 1 if is_tight else 4
    return {
        "total_usable_ram_mb": scale * dice.choice([1024, 2048, 4096]),
        "total_usable_disk_gb": scale * dice.choice([10, 20, 50]),
        "vcpus_total": scale * dice.choice([2, 4]),
    }


def make_records(dice: Dice, fleet: Fleet) -> list[HostRecord]:
    """In the order of the rows they become."""
    has_nodes = dice.random() < 0.2
    names = [(f"Host{at // 2}", f"n{at % 2}") if has_nodes else (f"host{at:02}", "") for at in range(40)]
    count = dice.choice([6, 8, 8, 12, 16, 30])
    return [make_record(dice, fleet, *pair) for pair in sorted(dice.sample(names, count))]


def make_table(dice: Dice, records: list[HostRecord]) -> HostTable:
    """Now and then with a log that forgets after a few changes."""
    table = HostTable.of(records)
    table.changes = ChangeLog(keep=dice.choice([1, 6, *[8192] * 6]))
    return table


def make_record(dice: Dice, fleet: Fleet, host: str, node: str) -> HostRecord:
    fields = {name: FIELDS[name](dice, fleet) for name in fleet.varied if dice.random() < 0.5}
    fields |= dict(dice.choice(fleet.sizes))
    if fleet.has_metal and dice.random() < 0.3:
        fields["hypervisor_type"] = "ironic"
    for name in ("numa", "pci_pools", "host_ip"):
        fields[name] = FIELDS[name](dice, fleet)
    return HostRecord(host, node, **(ABLE | fields | {"cell": dice.choice(fleet.cells)}))


# --- what a host may report ------------------------------------------------------------------------------


def make_instances(dice: Dice, fleet: Fleet) -> tuple[Instance, ...]:
    return tuple(make_instance(dice, uuid) for uuid in dice.sample(UUIDS, dice.choice([0, 0, 1, 2])))


def make_instance(dice: Dice, uuid: str) -> Instance:
    properties = dice.choice([{}, {}, {"os_distro": "linux"}, {"os_distro": "windows", "hw_disk_bus": "virtio"}])
    return Instance(uuid, "p1", dice.choice([1, 2, None]), properties, {"VCPU": 1, "MEMORY_MB": 256})


def make_service(dice: Dice, fleet: Fleet) -> Service:
    odd = [Service(disabled=True, disabled_reason="broken"), Service(up=False), Service(seconds_since_seen=90.0)]
    return dice.choice([Service()] * 8 + odd)


def make_traits(dice: Dice) -> frozenset[str]:
    marked = dice.choice([()] * 7 + [("COMPUTE_STATUS_DISABLED",)])
    return frozenset([*dice.sample(TRAITS, dice.choice([1, 5, 5, 6])), *marked])


def make_aggregates(dice: Dice, fleet: Fleet) -> tuple[Aggregate, ...]:
    most = min(2, len(fleet.aggregates))
    return tuple(dice.sample(fleet.aggregates, dice.randint(0, most)))


def make_resources(dice: Dice, fleet: Fleet) -> dict[str, Inventory]:
    """A few of a special class, or another account of a usual one."""
    name = dice.choice([*CLASSES, *CLASSES, "VCPU", "MEMORY_MB", "DISK_GB"])
    unit = 256 if name == "MEMORY_MB" else 1
    made = Inventory(
        total=unit * dice.choice([2, 8]),
        reserved=unit * dice.choice([0, 0, 1]),
        allocation_ratio=dice.choice([1.0, 1.0, 0.5, 2.0]),
        min_unit=unit * dice.choice([1, 1, 1, 2]),
        max_unit=dice.choice([None, None, unit, 2 * unit]),
        step_size=unit * dice.choice([1, 1, 1, 2]),
    )
    return {name: made} if dice.random() < 0.8 else {}


def make_metrics(dice: Dice, fleet: Fleet) -> tuple[dict[str, Any], ...] | None:
    names = dice.choice([("foo", "bar")] * 4 + [("foo",), ()])
    found = tuple({"name": name, "value": dice.choice([0, 1, 7, 0.1, -50])} for name in names)
    return None if dice.random() < 0.01 else found


def make_pools(dice: Dice, fleet: Fleet) -> Any:
    if not fleet.has_devices:
        return ()
    kinds = dice.sample(DEVICES, dice.choice([0, 1, 2]))
    return pools_from_json(
        [kind | {"count": dice.choice([0, 2, 5]), "numa_node": dice.choice([None, 0])} for kind in kinds]
    )


def make_candidates(dice: Dice, fleet: Fleet) -> tuple[dict[str, Any], ...]:
    """Mostly the one that says nothing."""
    named: tuple[dict[str, Any], ...] = ({"mappings": {"r1-0": ["p1"]}}, {"mappings": {}})
    return named if fleet.has_devices and dice.random() < 0.1 else ({"mappings": {}},)


def one_of(*values: Any) -> Callable[[Dice, Fleet], Any]:
    return lambda dice, fleet: dice.choice(values)


RATIOS = one_of(0.5, 1.0, 1.0, 1.5, 4.0)
AMOUNTS = ("vcpus_used", "free_ram_mb", "free_disk_mb", "resources")

FIELDS: dict[str, Callable[[Dice, Fleet], Any]] = {
    "total_usable_ram_mb": one_of(0, 512, 1024, 2048, 4096, 16384),
    "free_ram_mb": lambda dice, fleet: dice.choice([None, -512, 0, 512, 1024, 2048, dice.randrange(8192)]),
    "total_usable_disk_gb": one_of(0, 5, 10, 20, 50, 400),
    "free_disk_mb": lambda dice, fleet: dice.choice([None, -1, 0, 1024, 5120, 51200, dice.randrange(20480)]),
    "vcpus_total": one_of(0, 1, 2, 4, 16),
    "vcpus_used": one_of(None, 0, 1, 2, 4, 9),
    "cpu_allocation_ratio": RATIOS,
    "ram_allocation_ratio": RATIOS,
    "disk_allocation_ratio": RATIOS,
    "reserved_vcpus": one_of(0, 0, 1),
    "reserved_ram_mb": one_of(0, 0, 512),
    "reserved_disk_gb": one_of(0, 0, 5),
    "num_instances": one_of(None, 0, 1, 2, 5, 12),
    "num_io_ops": one_of(None, 0, 0, 1, 3, 7),
    "failed_builds": one_of(None, 0, 0, 1, 3),
    "hypervisor_type": one_of("QEMU", "QEMU", "KVM", None),
    "hypervisor_version": one_of(0, 6002000, 6002001, 7000000),
    "host_ip": one_of(*ADDRESSES),
    "supported_instances": lambda dice, fleet: tuple(dice.sample(TRIPLES, dice.choice([1, 2]))),
    "cpu_info": one_of(*CPUS),
    "stats": one_of({}, {"gpu": "1"}, {"gpu": "2", "num_io_ops": 1}),
    "metrics": make_metrics,
    "service": make_service,
    "aggregates": make_aggregates,
    "instances": make_instances,
    "traits": lambda dice, fleet: make_traits(dice),
    "trust_level": one_of("trusted", "untrusted", "unknown"),
    "resources": make_resources,
    "pci_pools": make_pools,
    "numa": lambda dice, fleet: dice.choice([None, *TOPOLOGIES, *TOPOLOGIES]) if fleet.has_topologies else None,
    "allocation_candidates": make_candidates,
    "cell": lambda dice, fleet: dice.choice(fleet.cells),
}
"""Field of a report -> a value of it."""


def report_of(table: HostTable, row: int, last: HostRecord) -> HostRecord:
    """What a host would report that knows of all that was placed on it."""
    numbers = ("free_ram_mb", "free_disk_mb", "vcpus_used", "num_instances", "num_io_ops", "failed_builds")
    known = {name: int(table.numbers[name][row]) for name in numbers}
    held = tuple(table.instances.get(row, {}).values())
    encoded = {name: table.encoded[name].at(row) for name in ("numa", "pci_pools", "trust_level")}
    return replace(last, instances=held, **known, **encoded)


def change_report(dice: Dice, fleet: Fleet, report: HostRecord) -> HostRecord:
    """In one field, in some, or in almost all; mostly in one that is watched."""
    names = dice.sample(sorted(FIELDS), dice.choice([1, 1, 1, 1, 2, 2, 5, 25]))
    if fleet.watched and dice.random() < 0.75:
        names = [dice.choice(fleet.watched)]
    changed = replace(report, **{name: FIELDS[name](dice, fleet) for name in names})
    if fleet.has_metal and dice.random() < 0.1:
        changed = replace(changed, hypervisor_type=dice.choice(["ironic", "QEMU"]))
    return changed


def usage_of(report: HostRecord, gone: Collection[str] = ()) -> Usage:
    """What of such a host is used, and who is there."""
    values = number_values([report])
    names = [each for each in Usage.__dataclass_fields__ if each in values]
    numbers = {name: values[name][0] for name in names}
    return Usage(**numbers, allocated=report.allocated, added=report.instances, removed=gone)


def make_room(report: HostRecord) -> HostRecord:
    """A host on which anything fits, in service."""
    sizes = {"total_usable_ram_mb": 4_000_000, "total_usable_disk_gb": 100_000, "vcpus_total": 4000}
    nothing_used = {"free_ram_mb": 4_000_000, "free_disk_mb": 102_400_000, "vcpus_used": 0, "num_io_ops": 0}
    return replace(report, **sizes, **nothing_used, num_instances=0, service=Service(), resources={})
