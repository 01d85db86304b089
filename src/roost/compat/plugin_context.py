# SPDX-License-Identifier: Apache-2.0
"""The context of one pipeline's plugins: options and fleet, which plugins reach through nova's global names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from roost.compat import conf
from roost.compat.conf import PluginOptions
from roost.compat.fleet_state import EmptyFleetState, FleetState


@dataclass(eq=False)
class PluginContext:
    """Options and fleet for the plugins of one pipeline.

    Plugins assume one scheduler per process: `CONF` is a global object. So a context is activated before its plugins
    are called, which costs one comparison if it is already active.
    """

    options: PluginOptions = field(default_factory=PluginOptions)
    fleet: FleetState = field(default_factory=EmptyFleetState)

    @contextmanager
    def activated(self) -> Iterator[None]:
        """Context manager: inside, CONF and nova's objects are those of this context."""
        global _LAST
        with conf.activated(self.options):
            _LAST = self
            token = _CURRENT.set(self)
            try:
                yield
            finally:
                _CURRENT.reset(token)

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Context manager: plugins that are loaded or constructed inside are bound to this context."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def options_of(self, plugin: Any) -> Any:
        """The options of a built-in as configured; None if it has no options or nothing is configured."""
        settings = self.options.settings
        return settings.fill(plugin.Options) if settings and plugin.Options else None


_CURRENT: ContextVar[PluginContext] = ContextVar("context of the running plugins")
_LAST = PluginContext()
"""The last active context, for threads started by plugins: they have no value of the context variable."""


def current_context() -> PluginContext:
    """The context of the plugin that is being loaded, constructed or called."""
    return _CURRENT.get(_LAST)
