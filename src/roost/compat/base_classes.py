# SPDX-License-Identifier: Apache-2.0
"""The base classes of nova's filters and weighers, bound to the PluginContext in which a plugin is constructed."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from roost.compat.plugin_context import PluginContext, current_context
from roost.compat.request_shapes import as_dict, as_object, wants_dict
from roost.filters.base import HostFilter
from roost.hosts import Hosts
from roost.hosts.arrays import Array, BoolArray, FloatArray
from roost.model.request import RequestSpec
from roost.weighers.base import HostWeigher


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
