# SPDX-License-Identifier: Apache-2.0
"""What one sequence is mostly about: a rule, what it reads of the hosts, and requests that give it something to do.

Left to chance alone, the one column that somebody forgot would hardly ever change between two requests it matters to.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.parity import plain_weighers
from tests.parity.random_fleets import ADDRESSES, CLASSES, UUIDS
from tests.parity.random_requests import (
    Names,
    vary_distro,
    vary_group_of,
    vary_image,
    vary_needs,
    with_devices,
    with_extra_specs,
    with_topology,
)

from roost.model import Destination, RequestSpec, Retry
from roost.model.request import RequestGroup, RequestLevelParams

Dice = random.Random
Wish = Callable[[Dice, Names, RequestSpec], RequestSpec]

CPUS = "vcpus_total vcpus_used cpu_allocation_ratio"
MEMORY = "total_usable_ram_mb free_ram_mb ram_allocation_ratio"
DISK = "total_usable_disk_gb free_disk_mb disk_allocation_ratio"
USE = "vcpus_total vcpus_used total_usable_ram_mb free_ram_mb total_usable_disk_gb free_disk_mb cpu_allocation_ratio"

MIDDLES: dict[str, float] = {
    "total_usable_ram_mb": 2048,
    "free_ram_mb": 1024,
    "total_usable_disk_gb": 20,
    "free_disk_mb": 5120,
    "disk_mb_used": 10240,
    "vcpus_total": 4,
    "vcpus_used": 2,
    "cpu_allocation_ratio": 1.5,
    "ram_allocation_ratio": 1.5,
    "disk_allocation_ratio": 1.5,
    "num_instances": 2,
    "num_io_ops": 2,
    "failed_builds": 1,
    "hypervisor_version": 6002001,
}
"""Attribute of a host -> a number that some have and some have not."""


@dataclass(frozen=True)
class Focus:
    """One rule."""

    rule: str = ""
    """Name of a filter or weigher; none for capacity and prefilters."""
    fields: tuple[str, ...] = ()
    """What hosts report that it reads."""
    keys: tuple[str, ...] = ()
    """Metadata of aggregates that it reads."""
    wish: Wish = lambda dice, names, spec: spec
    """What makes a request its business."""
    switches: tuple[str, ...] = ()
    """Prefilter options that are on."""


# --- wishes ------------------------------------------------------------------------------------------------


def one_of(field: str, *values: Any) -> Wish:
    return lambda dice, names, spec: replace(spec, **{field: dice.choice(values)})


def extra_spec(*choices: dict[str, str]) -> Wish:
    return lambda dice, names, spec: with_extra_specs(spec, dice.choice(choices))


def group_of(policy: str) -> Wish:
    return lambda dice, names, spec: vary_group_of(dice, spec, policy)


def hint(name: str, *choices: Sequence[str]) -> Wish:
    return lambda dice, names, spec: replace(spec, scheduler_hints={name: dice.choice(choices)})


def instances_hint(name: str) -> Wish:
    def wish(dice: Dice, names: Names, spec: RequestSpec) -> RequestSpec:
        return replace(spec, scheduler_hints={name: dice.sample(UUIDS, dice.choice([1, 4, 8]))})

    return wish


def tried_hosts(dice: Dice, names: Names, spec: RequestSpec) -> RequestSpec:
    return replace(spec, retry=Retry(hosts=dice.sample(list(names), dice.choice([1, 3]))))


def flavor_field(field: str, *values: Any) -> Wish:
    return lambda dice, names, spec: replace(spec, flavor=replace(spec.flavor, **{field: dice.choice(values)}))


def whole_disk(dice: Dice, names: Names, spec: RequestSpec) -> RequestSpec:
    return replace(spec, flavor=replace(spec.flavor, root_gb=dice.choice([1, 5]), ephemeral_gb=0, swap=0))


def near_devices(dice: Dice, names: Names, spec: RequestSpec) -> RequestSpec:
    return with_devices(dice, names, with_topology(dice, names, spec))


CAPABILITIES = (
    *({f"capabilities:{name}": f">= {middle}"} for name, middle in MIDDLES.items()),
    *({f"capabilities:{name}": f"<= {middle}"} for name, middle in MIDDLES.items()),
    {"capabilities:hypervisor_type": "<or> QEMU <or> KVM"},
    {"capabilities:cpu_info:arch": "x86_64"},
    {"capabilities:service:disabled": "False"},
    {"capabilities:metrics": "<in> bar"},
    {"capabilities:host_ip": "<in> 10.4"},
    {"capabilities:supported_instances": "<in> aarch64"},
    {"gpu": "== 1"},
)
QUERIES = (
    *(json.dumps([">=", f"${name}", middle]) for name, middle in MIDDLES.items()),
    *(json.dumps(["<", f"${name}", middle]) for name, middle in MIDDLES.items()),
    json.dumps(["in", "$hypervisor_type", "QEMU", "KVM"]),
    json.dumps(["=", "$stats.gpu", "1"]),
    json.dumps(["=", "$host_ip", ADDRESSES[0]]),
    json.dumps(["not", "$service.disabled"]),
    "nonsense",
)


def two_queries(operator: str) -> Wish:
    def wish(dice: Dice, names: Names, spec: RequestSpec) -> RequestSpec:
        parts = [json.loads(each) for each in dice.sample(QUERIES[:-1], 2)]
        return replace(spec, scheduler_hints={"query": json.dumps([operator, *parts])})

    return wish


ATTRIBUTES = f"{CPUS} {MEMORY} {DISK} num_instances num_io_ops failed_builds hypervisor_version stats host_ip service"

# --- what there is -------------------------------------------------------------------------------------------


def focus(rule: str, fields: str, keys: str = "", wish: Wish | None = None, switches: str = "") -> Focus:
    given = {} if wish is None else {"wish": wish}
    return Focus(rule, tuple(fields.split()), tuple(keys.split()), switches=tuple(switches.split()), **given)


FILTERS = (
    focus("AggregateCoreFilter", CPUS, "cpu_allocation_ratio"),
    focus("AggregateDiskFilter", DISK, "disk_allocation_ratio"),
    focus("AggregateImagePropertiesIsolation", "aggregates", "os_distro", vary_distro),
    focus("AggregateInstanceExtraSpecsFilter", "aggregates", "ssd", extra_spec({"ssd": "true"}, {"ssd": "s!= true"})),
    focus("AggregateIoOpsFilter", "num_io_ops aggregates", "max_io_ops_per_host"),
    focus("AggregateMultiTenancyIsolation", "aggregates", "filter_tenant_id", one_of("project_id", "p1", "p2")),
    focus("AggregateNumInstancesFilter", "num_instances aggregates", "max_instances_per_host"),
    focus("AggregateRamFilter", MEMORY, "ram_allocation_ratio"),
    focus(
        "AggregateTypeAffinityFilter", "aggregates", "instance_type", flavor_field("name", "small", "large", "odd")
    ),
    focus("AvailabilityZoneFilter", "aggregates", "availability_zone", one_of("availability_zone", "az1", "nova")),
    focus("ComputeCapabilitiesFilter", ATTRIBUTES, wish=extra_spec(*CAPABILITIES)),
    focus("ComputeCapabilitiesFilter", USE, wish=extra_spec(*CAPABILITIES[:8])),
    focus("ComputeCapabilitiesFilter", "hypervisor_type cpu_info stats metrics", wish=extra_spec(*CAPABILITIES[-7:])),
    focus("ComputeFilter", "service"),
    focus("CoreFilter", CPUS),
    focus("DifferentHostFilter", "instances", wish=instances_hint("different_host")),
    focus("DiskFilter", DISK),
    focus("ExactCoreFilter", CPUS),
    focus("ExactDiskFilter", DISK, wish=whole_disk),
    focus("ExactRamFilter", MEMORY),
    focus("GroupAffinityFilter", "instances", wish=group_of("legacy")),
    focus("GroupAntiAffinityFilter", "instances", wish=group_of("legacy")),
    focus("ImagePropertiesFilter", "supported_instances hypervisor_version cpu_info", wish=vary_image),
    focus("IoOpsFilter", "num_io_ops"),
    focus("IsolatedHostsFilter", "", wish=vary_image),
    focus("JsonFilter", ATTRIBUTES, wish=two_queries("and")),
    focus("JsonFilter", ATTRIBUTES, wish=two_queries("or")),
    focus("JsonFilter", "hypervisor_type stats host_ip service", wish=hint("query", *QUERIES[-5:])),
    focus("MetricsFilter", "metrics"),
    focus("NUMATopologyFilter", "numa pci_pools cpu_allocation_ratio ram_allocation_ratio", wish=with_topology),
    focus("NUMATopologyFilter", "numa pci_pools allocation_candidates", wish=near_devices),
    focus("NumInstancesFilter", "num_instances"),
    focus("PciPassthroughFilter", "pci_pools allocation_candidates", wish=with_devices),
    focus("RamFilter", MEMORY),
    focus("RetryFilter", "", wish=tried_hosts),
    focus("SameHostFilter", "instances", wish=instances_hint("same_host")),
    focus("ServerGroupAffinityFilter", "instances", wish=group_of("affinity")),
    focus("ServerGroupAntiAffinityFilter", "instances", wish=group_of("anti-affinity")),
    focus("SimpleCIDRAffinityFilter", "host_ip", wish=hint("build_near_host_ip", *([each] for each in ADDRESSES))),
    focus("TrustedFilter", "trust_level", wish=extra_spec({"trust:trusted_host": "trusted"})),
    focus("TypeAffinityFilter", "instances", wish=flavor_field("id", 1, 2)),
)

WEIGHED = {
    "BalanceWeigher": USE,
    "BestFitWeigher": f"{USE} resources",
    "BuildFailureWeigher": "failed_builds",
    "CPUWeigher": CPUS,
    "CrossCellWeigher": "cell",
    "DiskWeigher": "free_disk_mb",
    "HypervisorVersionWeigher": "hypervisor_version",
    "ImagePropertiesWeigher": "instances",
    "IoOpsWeigher": "num_io_ops",
    "MetricsWeigher": "metrics aggregates",
    "NumInstancesWeigher": "num_instances",
    "PCIWeigher": "pci_pools",
    "RAMWeigher": "free_ram_mb",
    "ServerGroupSoftAffinityWeigher": "instances",
    "ServerGroupSoftAntiAffinityWeigher": "instances",
    "StackWeigher": USE,
}
WEIGHER_WISHES: dict[str, Wish] = {
    "CrossCellWeigher": one_of("requested_destination", Destination(cell="cell1", allow_cross_cell_move=True)),
    "ImagePropertiesWeigher": vary_distro,
    "ServerGroupSoftAffinityWeigher": group_of("soft-affinity"),
    "ServerGroupSoftAntiAffinityWeigher": group_of("soft-anti-affinity"),
}
WEIGHERS = tuple(
    focus(name, f"{fields} aggregates", plain_weighers.WEIGHERS[name].key, WEIGHER_WISHES.get(name))
    for name, fields in WEIGHED.items()
)

CLASSES_ASKED = extra_spec(*({f"resources:{name}": str(amount)} for name in CLASSES for amount in (1, 2)))
TRAITS_ASKED = extra_spec({"trait:CUSTOM_FAST": "required"}, {"trait:CUSTOM_OLD": "forbidden"})
ROOT_TRAITS_ASKED = one_of(
    "request_level_params",
    RequestLevelParams(),
    RequestLevelParams(root_required=["CUSTOM_FAST"]),
    RequestLevelParams(root_forbidden=["CUSTOM_OLD"]),
    RequestLevelParams(root_forbidden=["CUSTOM_FAST"]),
)
GROUPS_ASKED = one_of(
    "requested_resources",
    (),
    [RequestGroup({CLASSES[0]: 1})],
    [RequestGroup(required_traits=["CUSTOM_FAST"])],
    [RequestGroup(forbidden_traits=["CUSTOM_FAST"])],
    [RequestGroup(aggregates=[["uuid-of-agg1"]])],
    [RequestGroup(forbidden_aggregates=["uuid-of-agg1"])],
)
AGGREGATES_ASKED = one_of(
    "requested_destination",
    Destination(),
    Destination(aggregates=["uuid-of-agg1"]),
    Destination(aggregates=["uuid-of-agg1,uuid-of-agg2", "uuid-of-agg3"]),
    Destination(forbidden_aggregates=["uuid-of-agg1"]),
)
TENANTS = "limit_tenants_to_placement_aggregate"
ISOLATION = "enable_isolated_aggregate_filtering"

STAGES = (
    Focus(),
    focus("", f"{CPUS} {MEMORY} {DISK} reserved_vcpus reserved_ram_mb reserved_disk_gb"),
    focus("", "resources", wish=CLASSES_ASKED),
    focus("", "resources total_usable_ram_mb free_ram_mb"),
    focus("", "traits service", wish=TRAITS_ASKED),
    focus("", "aggregates", "availability_zone", one_of("availability_zone", "az1", "az2")),
    focus("", "aggregates", "filter_tenant_id", one_of("project_id", "p1", "p2"), TENANTS),
    focus("", "aggregates traits", "trait:CUSTOM_FAST", TRAITS_ASKED, ISOLATION),
    focus("", "traits", "", vary_image, "query_placement_for_image_type_support image_metadata_prefilter"),
    focus("", "traits aggregates resources", wish=vary_needs),
    focus("", "traits", wish=ROOT_TRAITS_ASKED),
    focus("", "traits aggregates resources", wish=GROUPS_ASKED),
    focus("", "aggregates", wish=AGGREGATES_ASKED),
    Focus(),
)

FOCI = (*STAGES, *FILTERS, *WEIGHERS)
"""Sequences take them in turn."""
