# SPDX-License-Identifier: Apache-2.0
"""From a name in the configuration to a driver class."""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from roost.errors import PluginNotFound, nearest
from roost.plugins import import_path, load_point
from roost.scheduler.drivers.base import Driver
from roost.scheduler.drivers.caching_scheduler import CachingScheduler
from roost.scheduler.drivers.chance import ChanceScheduler
from roost.scheduler.drivers.filter_scheduler import FilterScheduler

DRIVERS: dict[str, type[Driver]] = {
    "filter_scheduler": FilterScheduler,
    "caching_scheduler": CachingScheduler,
    "chance_scheduler": ChanceScheduler,
}
_NOVA_PATHS = {
    "nova.scheduler.filter_scheduler.FilterScheduler": "filter_scheduler",
    "nova.scheduler.caching_scheduler.CachingScheduler": "caching_scheduler",
    "nova.scheduler.chance.ChanceScheduler": "chance_scheduler",
}
GROUPS = ("roost.scheduler.drivers", "nova.scheduler.driver")
"""Entry points; the second is nova's own."""


def find_driver(name: str, places: Sequence[Path] = ()) -> type[Driver]:
    """The driver of this name: a built-in, an entry point, or a dotted path."""
    built_in = DRIVERS.get(_NOVA_PATHS.get(name, name))
    if built_in is not None:
        return built_in
    points = {point.name: point for group in GROUPS for point in importlib.metadata.entry_points(group=group)}
    if name in points:
        return _checked(name, load_point(points[name]))
    if "." not in name:
        raise PluginNotFound(f"[scheduler] driver: unknown driver {name}", nearest(name, {*DRIVERS, *points}))
    return _checked(name, import_path(name, places))


def _checked(name: str, found: Any) -> type[Driver]:
    if not (inspect.isclass(found) and issubclass(found, Driver)):
        remedy = "derive it from roost.scheduler.drivers.Driver"
        raise PluginNotFound(f"[scheduler] driver: {name} is no driver class but {found!r}", remedy)
    return found
