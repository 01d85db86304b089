# SPDX-License-Identifier: Apache-2.0
"""The base classes of nova's filters and weighers. A plugin that derives from them belongs to a world from birth."""

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
    """Remembers the world it was made in. In `__new__`, because plugins forget to call `super().__init__()`."""

    _world: PluginContext

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        """A plugin of the world that is being built."""
        made = super().__new__(cls)
        made._world = current_context()
        return made


class BaseHostFilter(InPluginContext, HostFilter):
    """nova's base class of filters."""

    options: Any = None

    @cached_property
    def _wants_dict(self) -> bool:
        return wants_dict(type(self), "host_passes", "filter_all")

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """What the plugin says, with its options and its fleet in place."""
        with self._world.in_place():
            return super().mask(hosts, as_dict(spec) if self._wants_dict else as_object(spec))  # type: ignore[arg-type]


class BaseHostWeigher(InPluginContext, HostWeigher):
    """nova's base class of weighers."""

    options: Any = None

    def weight_multiplier(self, host_state: Any = None) -> float:
        """1, or what the plugin says under the name that this had at first."""
        older = getattr(self, "_weight_multiplier", None)
        return float(older()) if older else 1.0

    @cached_property
    def _wants_dict(self) -> bool:
        return wants_dict(type(self), "_weigh_object", "weigh_objects")

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """What the plugin says, with its options and its fleet in place."""
        with self._world.in_place():
            return super().weigh(hosts, as_dict(spec) if self._wants_dict else as_object(spec))  # type: ignore[arg-type]

    def multipliers(self, hosts: Hosts) -> FloatArray:
        """What the plugin says its numbers count for."""
        with self._world.in_place():
            return super().multipliers(hosts)
