# SPDX-License-Identifier: Apache-2.0
"""Finds the driver class that the configuration names."""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from roost.errors import PAGE, PluginNotFound, nearest
from roost.plugins.registry import import_path, load_point
from roost.scheduler.drivers.base import Driver
from roost.scheduler.drivers.caching_scheduler import CachingScheduler
from roost.scheduler.drivers.chance_scheduler import ChanceScheduler
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
DERIVE = "derive it from roost.scheduler.drivers.Driver"


def find_driver(name: str, places: Sequence[Path] = ()) -> type[Driver]:
    """The driver of this name: a built-in, an entry point, or a dotted path."""
    built_in = DRIVERS.get(_NOVA_PATHS.get(name, name))
    if built_in is not None:
        return built_in
    points = {point.name: point for group in GROUPS for point in importlib.metadata.entry_points(group=group)}
    if name not in points and "." not in name:
        raise PluginNotFound(f"[scheduler] driver: unknown driver {name}", nearest(name, {*DRIVERS, *points}))
    try:
        return _checked(name, load_point(points[name]) if name in points else import_path(name, places))
    except PluginNotFound as error:
        remedy = f"{DERIVE}: drivers of nova's have to be rewritten" if error.hint == PAGE else error.hint
        raise PluginNotFound(f"[scheduler] driver: {error.message}", remedy) from error


def _checked(name: str, found: Any) -> type[Driver]:
    if not (inspect.isclass(found) and issubclass(found, Driver)):
        raise PluginNotFound(f"{name} is no driver class but {found!r}", DERIVE)
    return found
