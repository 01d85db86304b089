# SPDX-License-Identifier: Apache-2.0
"""Adapters for plugins that derive from the classes of an installed, real nova."""

from __future__ import annotations

import sys
from typing import Any

from roost.compat.base_classes import BaseHostFilter, BaseHostWeigher
from roost.compat.request_shapes import original_request
from roost.filters.base import Filter
from roost.weighers.base import Weigher

_BASES_OF_NOVA: dict[type, tuple[str, str]] = {
    Filter: ("nova.scheduler.filters", "BaseHostFilter"),
    Weigher: ("nova.scheduler.weights", "BaseHostWeigher"),
}


def adapt_plugin(candidate: Any, base: type) -> Any:
    """An adapter class for a filter or weigher of a real nova; any other candidate is returned unchanged."""
    module, name = _BASES_OF_NOVA[base]
    base_of_nova = getattr(sys.modules.get(module), name, None)
    if not (isinstance(candidate, type) and isinstance(base_of_nova, type) and issubclass(candidate, base_of_nova)):
        return candidate
    if issubclass(candidate, base):
        return candidate
    return _adapt_filter(candidate) if base is Filter else _adapt_weigher(candidate)


def _adapt_filter(real: type[Any]) -> Any:
    class Adapter(BaseHostFilter):
        run_filter_once_per_request = getattr(real, "run_filter_once_per_request", False)
        RUN_ON_REBUILD = getattr(real, "RUN_ON_REBUILD", False)

        def __init__(self) -> None:
            super().__init__()
            self._real = real()
            self.run_filter_for_index = self._real.run_filter_for_index  # type: ignore[method-assign]

        def host_passes(self, host_state: Any, spec_obj: Any) -> Any:
            return self._real.host_passes(host_state, original_request(spec_obj))

        def filter_all(self, filter_obj_list: Any, spec_obj: Any) -> Any:
            return self._real.filter_all(filter_obj_list, original_request(spec_obj))

    return _with_names_of(real, Adapter)


def _adapt_weigher(real: type[Any]) -> Any:
    class Adapter(BaseHostWeigher):
        minval, maxval = getattr(real, "minval", None), getattr(real, "maxval", None)

        def __init__(self) -> None:
            super().__init__()
            self._real = real()
            self.weight_multiplier = self._real.weight_multiplier  # type: ignore[method-assign]

        def weigh_objects(self, weighed_obj_list: Any, weight_properties: Any) -> Any:
            return self._real.weigh_objects(weighed_obj_list, original_request(weight_properties))

    return _with_names_of(real, Adapter)


def _with_names_of(real: type, adapter: Any) -> Any:
    adapter.name = adapter.__name__ = real.__name__
    adapter.__qualname__ = real.__qualname__
    adapter.__module__, adapter.__doc__, adapter.is_built_in = real.__module__, real.__doc__, False
    return adapter
