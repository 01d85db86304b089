# SPDX-License-Identifier: Apache-2.0
"""Filters and weighers in nova's shape: base classes for plugins, the request they expect, built-ins to derive from.

The request is a dict up to Liberty, an object since Mitaka. A base class is bound to the PluginContext in which a
plugin is constructed. A built-in under nova's module name delegates to ours of the same name, one host at a time; if
such a class itself is enabled, the built-in is used instead.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple

from roost.filters import all_filters
from roost.filters.base import Filter, HostFilter
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import Array, BoolArray, FloatArray
from roost.model.kinds import IdentityCache
from roost.model.legacy import as_filter_properties
from roost.model.pci import PciRequest
from roost.model.request import RequestSpec
from roost.plugins.context import PluginContext, current_context
from roost.weighers import all_weighers
from roost.weighers.base import HostWeigher, Weigher

_DICT_ARGUMENT_NAMES = frozenset({"filter_properties", "weight_properties", "weighing_properties"})
"""Argument names of plugins that expect the dict. Some plugins use them for the object."""


@dataclass(frozen=True)
class RequestContext:
    """nova's request context: the user and project of a request."""

    user_id: str | None = None
    project_id: str | None = None
    is_admin: bool = False
    request_id: str | None = None
    read_deleted: str = "no"
    roles: Sequence[str] = ()
    auth_token: str | None = None
    """Always None: plugins get no tokens."""
    service_catalog: Sequence[Any] = ()
    remote_address: str | None = None
    timestamp: Any = None
    user_domain: str | None = None
    project_domain: str | None = None
    user_name: str | None = None
    project_name: str | None = None

    @classmethod
    def of(cls, spec: RequestSpec) -> RequestContext:
        """The context of the caller; without one, user and project of the instance."""
        known = {name: spec.caller[name] for name in cls.__dataclass_fields__ if name in spec.caller}
        return cls(**{"user_id": spec.user_id, "project_id": spec.project_id, **known})

    @property
    def tenant(self) -> str | None:
        """The project id, under its old name."""
        return self.project_id

    @property
    def user(self) -> str | None:
        """The user id, under its old name."""
        return self.user_id

    def elevated(self, read_deleted: str | None = None) -> RequestContext:
        """A copy with administrator rights."""
        return replace(self, is_admin=True, read_deleted=read_deleted or self.read_deleted)

    def to_dict(self) -> dict[str, Any]:
        """All fields as a dict of plain data."""
        return asdict(self)


class TriedHostObject(NamedTuple):
    """A tried host, with the field names of nova's ComputeNode."""

    host: str
    hypervisor_hostname: str


class PciRequests(list[PciRequest]):
    """The PCI requests as a list that also has nova's attribute `requests`."""

    @property
    def requests(self) -> list[PciRequest]:
        """The PCI requests."""
        return self


class NovaRequest(RequestSpec):
    """A request with lists where nova has lists: plugins append to them and compare them with lists."""

    original: RequestSpec

    @classmethod
    def of(cls, spec: RequestSpec) -> NovaRequest:
        """The request in nova's shape, without validating it again; `original` is the request itself."""
        lists = {name: list(listed) for name in _LISTS if (listed := getattr(spec, name)) is not None}
        parts: dict[str, Any] = {
            "scheduler_hints": {name: list(values) for name, values in spec.scheduler_hints.items()},
            "pci_requests": PciRequests(spec.pci_requests),
            "original": spec,
        }
        if group := spec.instance_group:
            members, hosts = list(group.members), list(group.hosts)
            parts["instance_group"] = group.updated(members, hosts)  # type: ignore[arg-type]
        if retry := spec.retry:
            parts["retry"] = _with(retry, hosts=[TriedHostObject(*pair) for pair in retry.hosts])
        view: NovaRequest = _with(spec, cls, **lists, **parts)
        return view

    @property
    def _context(self) -> RequestContext:
        return RequestContext.of(self)

    def __getitem__(self, key: str) -> Any:
        """The item, including `context`, which only the dict had: plugins may use it under any argument name."""
        return self._context if key == "context" else super().__getitem__(key)

    def __deepcopy__(self, memo: dict[int, Any]) -> NovaRequest:
        changeable = (*_LISTS, "scheduler_hints", "flavor")
        twin: NovaRequest = _with(self, **{name: copy.deepcopy(getattr(self, name), memo) for name in changeable})
        return twin

    @property
    def is_rebuild(self) -> bool:
        """Whether it only checks that the instance may stay on its host with another image."""
        return self.original.is_rebuild


_LISTS = (
    "ignore_hosts",
    "force_hosts",
    "force_nodes",
    "requested_resources",
    "security_groups",
    "requested_networks",
)


def _with(record: Any, kind: type[Any] | None = None, **fields: Any) -> Any:
    """A copy with the given fields, which are not validated and may have other types."""
    twin = object.__new__(kind or type(record))
    object.__setattr__(twin, "__dict__", {**record.__dict__, **fields})
    return twin


class FilterProperties(dict[str, Any]):
    """The filter_properties dict of releases up to Liberty, with the attributes of the request object as well."""

    def __init__(self, spec: RequestSpec) -> None:
        super().__init__(as_filter_properties(spec))
        self["context"] = RequestContext.of(spec)
        self["config_options"] = dict(spec.config_options)
        self.spec = NovaRequest.of(spec)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copy looks up such names before `spec` is set
            raise AttributeError(name)
        return getattr(self.spec, name)

    def __missing__(self, key: str) -> Any:
        return self.spec[key]

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (isinstance(key, str) and key in self.spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> FilterProperties:
        twin = FilterProperties(self.spec.original)  # which is immutable
        twin.clear()
        twin.update(copy.deepcopy(dict(self), memo))
        return twin

    def get(self, key: str, default: Any = None) -> Any:
        """The member of the dict, or else the attribute of the request if it is not None, or else the default."""
        return super().get(key, default) if super().__contains__(key) else self.spec.get(key, default)


_DICTS = IdentityCache[FilterProperties](most=64)
"""One dict per request, shared by all plugins: a plugin may read what an earlier plugin has written."""
_OBJECTS = IdentityCache[NovaRequest](most=64)


def as_dict(spec: RequestSpec) -> FilterProperties:
    """The request as the dict of releases up to Liberty; one shared dict per request."""
    return _DICTS.get(spec) or _DICTS.put(spec, FilterProperties(spec))


def as_object(spec: RequestSpec) -> NovaRequest:
    """The request as the object of releases since Mitaka; one shared object per request."""
    return _OBJECTS.get(spec) or _OBJECTS.put(spec, NovaRequest.of(spec))


def original_request(request: Any) -> Any:
    """The RequestSpec behind a dict or object that was passed to a plugin."""
    if isinstance(request, FilterProperties):
        return request.spec.original
    return request.original if isinstance(request, NovaRequest) else request


def wants_dict(plugin: type, *methods: str) -> bool:
    """Whether a method that the plugin itself defines has an argument with a name of the dict."""
    written = [each for each in plugin.__mro__ if each.__module__.partition(".")[0] not in ("roost", "builtins")]
    functions = [vars(each)[name] for each in written for name in methods if name in vars(each)]
    return any(not _DICT_ARGUMENT_NAMES.isdisjoint(_arguments_of(each)) for each in functions)


def _arguments_of(function: Any) -> Iterable[str]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # a callable without a signature
        return ()


class InPluginContext:
    """Records the current PluginContext. In `__new__`, because plugins may not call `super().__init__()`."""

    _plugin_context: PluginContext

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        """A plugin bound to the current PluginContext."""
        plugin = super().__new__(cls)
        plugin._plugin_context = current_context()
        return plugin


class BaseHostFilter(InPluginContext, HostFilter):
    """nova's base class of filters: override `host_passes` or `filter_all`."""

    options: Any = None

    @cached_property
    def _wants_dict(self) -> bool:
        return wants_dict(type(self), "host_passes", "filter_all")

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for each host that the plugin accepts; runs with the plugin's context active."""
        with self._plugin_context.activated():
            return super().mask(hosts, as_dict(spec) if self._wants_dict else as_object(spec))  # type: ignore[arg-type]


class BaseHostWeigher(InPluginContext, HostWeigher):
    """nova's base class of weighers: override `_weigh_object` or `weigh_objects`."""

    options: Any = None

    def weight_multiplier(self, host_state: Any = None) -> float:
        """1.0, or the result of `_weight_multiplier`, the method's older name, if the plugin defines it."""
        older = getattr(self, "_weight_multiplier", None)
        return float(older()) if older else 1.0

    @cached_property
    def _wants_dict(self) -> bool:
        return wants_dict(type(self), "_weigh_object", "weigh_objects")

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """The plugin's raw number for each host; runs with the plugin's context active."""
        with self._plugin_context.activated():
            return super().weigh(hosts, as_dict(spec) if self._wants_dict else as_object(spec))  # type: ignore[arg-type]

    def multipliers(self, hosts: Hosts) -> FloatArray:
        """The plugin's multiplier for each host; runs with the plugin's context active."""
        with self._plugin_context.activated():
            return super().multipliers(hosts)


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
