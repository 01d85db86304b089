# SPDX-License-Identifier: Apache-2.0
"""What the plugins of one pipeline can see besides host and request: the options, and the fleet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from roost.compat import conf
from roost.compat.conf import PluginOptions
from roost.compat.fleet_state import FleetState, NoFleet


@dataclass(eq=False)
class PluginContext:
    """Options and fleet for the plugins of one pipeline.

    Plugins are written for one scheduler per process: `CONF` is one object. So a world is put in place before its
    plugins are asked, which costs a comparison as long as it is the same one.
    """

    options: PluginOptions = field(default_factory=PluginOptions)
    fleet: FleetState = field(default_factory=NoFleet)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """While this is open, nova's names answer from this world."""
        global _LAST
        with conf.in_place(self.options):
            _LAST = self
            token = _HERE.set(self)
            try:
                yield
            finally:
                _HERE.reset(token)

    @contextmanager
    def bound(self) -> Iterator[None]:
        """While this is open, plugins that are loaded and made belong to this world."""
        token = _HERE.set(self)
        try:
            yield
        finally:
            _HERE.reset(token)

    def options_of(self, plugin: Any) -> Any:
        """The options of a built-in, as they were read; its defaults where none were."""
        settings = self.options.settings
        return settings.fill(plugin.Options) if settings and plugin.Options else None


_HERE: ContextVar[PluginContext] = ContextVar("world of the plugins that are asked")
_LAST = PluginContext()
"""For threads that plugins start themselves, which have no context: the world that was in place last."""


def current_context() -> PluginContext:
    """The world of the plugin that is being loaded, made or asked."""
    return _HERE.get(_LAST)
