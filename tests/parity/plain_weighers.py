# SPDX-License-Identifier: Apache-2.0
"""Every weigher as a plain rule about one host, and the sum of all: slow, obvious, from the specification.

Written from spec/weighers.md (those who pack: from what they say of themselves), independently of `roost.weighers`
and `roost.scheduler`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.parity import plain

from roost.hosts import HostTable
from roost.model import RequestSpec


class MetricNotFound(Exception):
    """A metric that is required and that the host does not report."""

    def __init__(self, host: str, metric: str) -> None:
        super().__init__(host, metric)
        self.host, self.metric = host, metric


@dataclass
class PlainHost(plain.PlainHost):
    """One host with what the weighers read besides."""

    failed_builds: int = 0
    hypervisor_version: int = 0
    free_devices: list[int] = field(default_factory=list)
    """Free PCI devices in each pool."""
    metrics: list[tuple[str, float]] | None = None
    instances: dict[str, dict[str, str]] = field(default_factory=dict)
    """Uuid -> image properties."""


def plain_hosts(table: HostTable) -> list[PlainHost]:
    """A copy of the table as objects."""
    return [
        PlainHost(
            **vars(base),
            failed_builds=view.failed_builds,
            hypervisor_version=view.hypervisor_version,
            free_devices=[pool.count for pool in view.pci_stats],
            metrics=None if view.metrics is None else [(each["name"], each["value"]) for each in view.metrics],
            instances={uuid: dict(instance.image_props) for uuid, instance in view.instances.items()},
        )
        for base, view in zip(plain.plain_hosts(table), table.in_the_running(), strict=True)
    ]


# --- the raw number of one host ----------------------------------------------------------------------


def read_settings(entries: tuple[str, ...]) -> list[tuple[str, float]]:
    found = []
    for entry in entries:
        if "=" not in entry:
            continue
        name, number = entry.split("=", 1)
        if not name:
            continue
        try:
            found.append((name, float(number)))
        except ValueError:
            continue
    return found


def free_ram(host: PlainHost, spec: RequestSpec, options: Any) -> float:
    return plain.free_ram(host)


def free_cpu(host: PlainHost, spec: RequestSpec, options: Any) -> float:
    return plain.free_cpu(host)


def free_disk(host: PlainHost, spec: RequestSpec, options: Any) -> float:
    return plain.free_disk(host)


def io_ops(host: PlainHost, spec: RequestSpec, options: Any) -> float:
    return host.num_io_ops


def num_instances(host: PlainHost, spec: RequestSpec, options: Any) -> float:
    return host.num_instances


def failed_builds(host: PlainHost, spec: RequestSpec, options: Any) -> float:
    return host.failed_builds


def hypervisor_version(host: PlainHost, spec: RequestSpec, options: Any) -> float:
    return host.hypervisor_version or 0


def pci(host: PlainHost, spec: RequestSpec, options: Any) -> float:
    free = 0
    for count in host.free_devices:
        free += count
    return 100 - min(free, 99)


def cross_cell(host: PlainHost, spec: RequestSpec, options: Any) -> float:
    destination = spec.requested_destination
    if destination is None or not destination.cell or not destination.allow_cross_cell_move:
        return 0
    return 1 if host.cell == destination.cell else -1


def _members(host: PlainHost, spec: RequestSpec, policy: str) -> int:
    group = spec.instance_group
    if group is None or group.policy != policy:
        return 0
    return len(set(host.instances) & set(group.members))


def soft_affinity(host: PlainHost, spec: RequestSpec, options: Any) -> float:
    return _members(host, spec, "soft-affinity")


def soft_anti_affinity(host: PlainHost, spec: RequestSpec, options: Any) -> float:
    return -_members(host, spec, "soft-anti-affinity")


def metrics(host: PlainHost, spec: RequestSpec, options: Any) -> float:
    reported = dict(host.metrics or [])
    factor = plain.multiplier(host, "metrics_weight_multiplier", options.weight_multiplier)
    total = 0.0
    for name, ratio in read_settings(options.weight_setting):
        if name in reported:
            total += reported[name] * ratio
        elif options.required:
            raise MetricNotFound(host.host, name)
        elif ratio * factor != 0:
            return options.weight_of_unavailable
    return total


def image_properties(host: PlainHost, spec: RequestSpec, options: Any) -> float:
    if options.image_props_weight_multiplier == 0.0 or spec.image is None:
        return 0.0
    existing = []
    for properties in host.instances.values():
        existing += [(name, str(value)) for name, value in properties.items()]
    ratios = dict(read_settings(options.image_props_weight_setting))
    total = 0.0
    for name, value in spec.image.properties.items():
        pair = (name, str(value))
        if pair in existing:
            ratio = ratios.get(name, 0.0) if ratios else 1
            total += ratio * existing.count(pair)
    return total


def _share(host: PlainHost, name: str, more: int = 0) -> float:
    limit = host.limit.get(name, 0)
    return (host.allocated[name] + more) / limit if limit > 0 else 0.0


def _settled(share: float) -> float:
    return round(share * 1e9) / 1e9


def best_fit(host: PlainHost, spec: RequestSpec, options: Any) -> float:
    total = 0.0
    for name, amount in spec.amounts.items():
        total += _share(host, name, amount)
    return _settled(total / max(1, len(spec.amounts)))


def balance(host: PlainHost, spec: RequestSpec, options: Any) -> float:
    if host.limit["VCPU"] <= 0 or host.limit["MEMORY_MB"] <= 0:
        return 0.0
    vcpus, memory_mb = spec.amounts.get("VCPU", 0), spec.amounts.get("MEMORY_MB", 0)
    before = abs(_share(host, "VCPU") - _share(host, "MEMORY_MB"))
    after = abs(_share(host, "VCPU", vcpus) - _share(host, "MEMORY_MB", memory_mb))
    return _settled(before - after)


def stack(host: PlainHost, spec: RequestSpec, options: Any) -> float:
    fullest = max(0.0, *(_share(host, name) for name in ("VCPU", "MEMORY_MB", "DISK_GB")))
    return _settled(1 + fullest if fullest > 0 else 0.0)


class Rule(NamedTuple):
    """A weigher: its raw number, the lower end of its scale, its option, aggregate key and sign."""

    raw: Callable[[PlainHost, RequestSpec, Any], float]
    minval: float | None
    option: str
    key: str
    sign: int = 1


def _rule(raw: Any, key: str, minval: float | None = None, sign: int = 1) -> Rule:
    return Rule(raw, minval, key, key, sign)


WEIGHERS: dict[str, Rule] = {
    "BalanceWeigher": _rule(balance, "balance_weight_multiplier"),
    "BestFitWeigher": _rule(best_fit, "best_fit_weight_multiplier"),
    "BuildFailureWeigher": _rule(failed_builds, "build_failure_weight_multiplier", sign=-1),
    "CPUWeigher": _rule(free_cpu, "cpu_weight_multiplier", minval=0),
    "CrossCellWeigher": _rule(cross_cell, "cross_cell_move_weight_multiplier"),
    "DiskWeigher": _rule(free_disk, "disk_weight_multiplier", minval=0),
    "HypervisorVersionWeigher": _rule(hypervisor_version, "hypervisor_version_weight_multiplier"),
    "ImagePropertiesWeigher": _rule(image_properties, "image_props_weight_multiplier"),
    "IoOpsWeigher": _rule(io_ops, "io_ops_weight_multiplier", minval=0),
    "MetricsWeigher": Rule(metrics, None, "weight_multiplier", "metrics_weight_multiplier"),
    "NumInstancesWeigher": _rule(num_instances, "num_instances_weight_multiplier"),
    "PCIWeigher": _rule(pci, "pci_weight_multiplier"),
    "RAMWeigher": _rule(free_ram, "ram_weight_multiplier", minval=0),
    "ServerGroupSoftAffinityWeigher": _rule(soft_affinity, "soft_affinity_weight_multiplier"),
    "ServerGroupSoftAntiAffinityWeigher": _rule(soft_anti_affinity, "soft_anti_affinity_weight_multiplier"),
    "StackWeigher": _rule(stack, "stack_weight_multiplier"),
}


# --- the sum -----------------------------------------------------------------------------------------


def multiplier(host: PlainHost, rule: Rule, options: Any) -> float:
    return rule.sign * plain.multiplier(host, rule.key, getattr(options, rule.option))


def weights(hosts: list[PlainHost], spec: RequestSpec, options: dict[str, Any]) -> list[float]:
    """The weight of each host; `options` has those of every weigher that takes part, in their order."""
    totals = [0.0 for _ in hosts]
    if len(hosts) < 2:
        return totals
    for name, chosen in options.items():
        rule = WEIGHERS[name]
        raw = [rule.raw(host, spec, chosen) for host in hosts]
        if rule.minval is not None:
            raw = [max(number, rule.minval) for number in raw]
        for at, score in enumerate(plain.normalise(raw, rule.minval, None)):
            totals[at] += multiplier(hosts[at], rule, chosen) * score
    return totals
