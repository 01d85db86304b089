# SPDX-License-Identifier: Apache-2.0
"""Plugins that derive from a real nova's classes, where one is installed: taken in as they are."""

from __future__ import annotations

import sys
from typing import Any

from roost.compat.base_classes import BaseHostFilter, BaseHostWeigher
from roost.compat.request_shapes import as_ours
from roost.filters.base import Filter
from roost.weighers.base import Weigher

_REAL: dict[type, tuple[str, str]] = {
    Filter: ("nova.scheduler.filters", "BaseHostFilter"),
    Weigher: ("nova.scheduler.weights", "BaseHostWeigher"),
}


def adopted(candidate: Any, base: type) -> Any:
    """A class of ours that asks theirs, where theirs is a filter or weigher of a real nova; else what came in."""
    module, name = _REAL[base]
    real = getattr(sys.modules.get(module), name, None)
    if not (isinstance(candidate, type) and isinstance(real, type) and issubclass(candidate, real)):
        return candidate
    if issubclass(candidate, base):
        return candidate
    return _filter_asking(candidate) if base is Filter else _weigher_asking(candidate)


def _filter_asking(theirs: type[Any]) -> Any:
    class Asking(BaseHostFilter):
        run_filter_once_per_request = getattr(theirs, "run_filter_once_per_request", False)
        RUN_ON_REBUILD = getattr(theirs, "RUN_ON_REBUILD", False)

        def __init__(self) -> None:
            super().__init__()
            self._theirs = theirs()
            self.run_filter_for_index = self._theirs.run_filter_for_index  # type: ignore[method-assign]

        def host_passes(self, host_state: Any, spec_obj: Any) -> Any:
            return self._theirs.host_passes(host_state, as_ours(spec_obj))

        def filter_all(self, filter_obj_list: Any, spec_obj: Any) -> Any:
            return self._theirs.filter_all(filter_obj_list, as_ours(spec_obj))

    return _named_after(theirs, Asking)


def _weigher_asking(theirs: type[Any]) -> Any:
    class Asking(BaseHostWeigher):
        minval, maxval = getattr(theirs, "minval", None), getattr(theirs, "maxval", None)

        def __init__(self) -> None:
            super().__init__()
            self._theirs = theirs()
            self.weight_multiplier = self._theirs.weight_multiplier  # type: ignore[method-assign]

        def weigh_objects(self, weighed_obj_list: Any, weight_properties: Any) -> Any:
            return self._theirs.weigh_objects(weighed_obj_list, as_ours(weight_properties))

    return _named_after(theirs, Asking)


def _named_after(theirs: type, ours: Any) -> Any:
    ours.name = ours.__name__ = theirs.__name__
    ours.__qualname__ = theirs.__qualname__
    ours.__module__, ours.__doc__, ours.is_built_in = theirs.__module__, theirs.__doc__, False
    return ours
