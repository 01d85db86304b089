# SPDX-License-Identifier: Apache-2.0
"""Built-ins in nova's shape, under nova's module names, for plugins that derive from them.

Each class delegates to the built-in with the same name, one host at a time. If such a class itself is enabled, the
built-in is used instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, ClassVar

from roost.compat.base_classes import BaseHostFilter, BaseHostWeigher
from roost.compat.request_shapes import original_request
from roost.filters import all_filters
from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.arrays import Array
from roost.model.request import RequestSpec
from roost.weighers import all_weighers
from roost.weighers.base import Weigher

_FILTERS = "nova.scheduler.filters"
_WEIGHERS = "nova.scheduler.weights"

MODULES: dict[str, tuple[str, ...]] = {
    f"{_FILTERS}.affinity_filter": (
        "DifferentHostFilter",
        "SameHostFilter",
        "SimpleCIDRAffinityFilter",
        "ServerGroupAffinityFilter",
        "ServerGroupAntiAffinityFilter",
        "GroupAffinityFilter",
        "GroupAntiAffinityFilter",
    ),
    f"{_FILTERS}.aggregate_image_properties_isolation": ("AggregateImagePropertiesIsolation",),
    f"{_FILTERS}.aggregate_instance_extra_specs": ("AggregateInstanceExtraSpecsFilter",),
    f"{_FILTERS}.aggregate_multitenancy_isolation": ("AggregateMultiTenancyIsolation",),
    f"{_FILTERS}.all_hosts_filter": ("AllHostsFilter",),
    f"{_FILTERS}.availability_zone_filter": ("AvailabilityZoneFilter",),
    f"{_FILTERS}.compute_capabilities_filter": ("ComputeCapabilitiesFilter",),
    f"{_FILTERS}.compute_filter": ("ComputeFilter",),
    f"{_FILTERS}.core_filter": ("CoreFilter", "AggregateCoreFilter"),
    f"{_FILTERS}.disk_filter": ("DiskFilter", "AggregateDiskFilter"),
    f"{_FILTERS}.exact_core_filter": ("ExactCoreFilter",),
    f"{_FILTERS}.exact_disk_filter": ("ExactDiskFilter",),
    f"{_FILTERS}.exact_ram_filter": ("ExactRamFilter",),
    f"{_FILTERS}.image_props_filter": ("ImagePropertiesFilter",),
    f"{_FILTERS}.io_ops_filter": ("IoOpsFilter", "AggregateIoOpsFilter"),
    f"{_FILTERS}.isolated_hosts_filter": ("IsolatedHostsFilter",),
    f"{_FILTERS}.json_filter": ("JsonFilter",),
    f"{_FILTERS}.metrics_filter": ("MetricsFilter",),
    f"{_FILTERS}.num_instances_filter": ("NumInstancesFilter", "AggregateNumInstancesFilter"),
    f"{_FILTERS}.numa_topology_filter": ("NUMATopologyFilter",),
    f"{_FILTERS}.pci_passthrough_filter": ("PciPassthroughFilter",),
    f"{_FILTERS}.ram_filter": ("RamFilter", "AggregateRamFilter"),
    f"{_FILTERS}.retry_filter": ("RetryFilter",),
    f"{_FILTERS}.trusted_filter": ("TrustedFilter",),
    f"{_FILTERS}.type_filter": ("TypeAffinityFilter", "AggregateTypeAffinityFilter"),
    f"{_WEIGHERS}.affinity": ("ServerGroupSoftAffinityWeigher", "ServerGroupSoftAntiAffinityWeigher"),
    f"{_WEIGHERS}.compute": ("BuildFailureWeigher",),
    f"{_WEIGHERS}.cpu": ("CPUWeigher",),
    f"{_WEIGHERS}.cross_cell": ("CrossCellWeigher",),
    f"{_WEIGHERS}.disk": ("DiskWeigher",),
    f"{_WEIGHERS}.hypervisor_version": ("HypervisorVersionWeigher",),
    f"{_WEIGHERS}.image_props": ("ImagePropertiesWeigher",),
    f"{_WEIGHERS}.io_ops": ("IoOpsWeigher",),
    f"{_WEIGHERS}.metrics": ("MetricsWeigher",),
    f"{_WEIGHERS}.num_instances": ("NumInstancesWeigher",),
    f"{_WEIGHERS}.pci": ("PCIWeigher",),
    f"{_WEIGHERS}.ram": ("RAMWeigher",),
}
"""Module of nova -> names of the built-ins in it."""


class BuiltInFilter(BaseHostFilter):
    """A filter in nova's shape that delegates to a built-in; plugins derive from it."""

    built_in_class: ClassVar[type[Filter]]

    @cached_property
    def _built_in(self) -> Filter:
        return self.built_in_class(self._plugin_context.options_of(self.built_in_class))

    def host_passes(self, host_state: Any, spec_obj: Any) -> Any:
        """Whether the built-in accepts this host."""
        return self._built_in.host_passes(host_state, original_request(spec_obj))

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The built-in's reason if the built-in rejects the host, else the plugin's."""
        if self._built_in.host_passes(host, spec):
            return super().reason(host, spec)
        return self._built_in.reason(host, spec)

    def ceilings(self, hosts: Hosts, spec: RequestSpec) -> Mapping[str, Array]:
        """The built-in's overcommit ceilings for each host."""
        return self._built_in.ceilings(hosts, spec)


class BuiltInWeigher(BaseHostWeigher):
    """A weigher in nova's shape that delegates to a built-in; plugins derive from it."""

    built_in_class: ClassVar[type[Weigher]]

    @cached_property
    def _built_in(self) -> Weigher:
        return self.built_in_class(self._plugin_context.options_of(self.built_in_class))

    def weight_multiplier(self, host_state: Any = None) -> float:
        """The multiplier that the host's aggregates or else the options set."""
        if host_state is None:
            return self._built_in.multiplier()
        return self._built_in.weight_multiplier(host_state)

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        return self._built_in._weigh_object(host_state, original_request(weight_properties))


@cache
def filters() -> dict[str, type[BuiltInFilter]]:
    """Name -> class in nova's shape, for every built-in filter."""
    return {each.__name__: _filter_in_nova_shape(each) for each in all_filters()}


@cache
def weighers() -> dict[str, type[BuiltInWeigher]]:
    """Name -> class in nova's shape, for every built-in weigher."""
    return {each.__name__: _weigher_in_nova_shape(each) for each in all_weighers()}


def classes_in(module_name: str) -> dict[str, type]:
    """Name -> class in nova's shape, for the built-ins of one of nova's modules."""
    classes: dict[str, Any] = {**filters(), **weighers()}
    return {name: classes[name] for name in MODULES[module_name]}


def resolve_built_in(plugin: type) -> type:
    """The built-in behind a class of `filters()` or `weighers()`; any other class is returned unchanged."""
    own: type | None = vars(plugin).get("built_in_class")
    return own or plugin


def _filter_in_nova_shape(rule: type[Filter]) -> type[BuiltInFilter]:
    body = {
        "built_in_class": rule,
        "run_filter_once_per_request": rule.run_filter_once_per_request,
        "RUN_ON_REBUILD": rule.runs_on_rebuild,
        "__doc__": rule.__doc__,
        "__module__": _module_of(rule, _FILTERS),
    }
    return type(rule.__name__, (BuiltInFilter,), body)


def _weigher_in_nova_shape(rule: type[Weigher]) -> type[BuiltInWeigher]:
    body = {
        "built_in_class": rule,
        "minval": rule.minval,
        "maxval": rule.maxval,
        "__doc__": rule.__doc__,
        "__module__": _module_of(rule, _WEIGHERS),
    }
    return type(rule.__name__, (BuiltInWeigher,), body)


def _module_of(rule: type, otherwise: str) -> str:
    """The module of nova that has it. Not Roost's: results of derived classes must not be cached like built-ins'."""
    return next((module for module, names in MODULES.items() if rule.__name__ in names), otherwise)
