# SPDX-License-Identifier: Apache-2.0
"""Who gets an answer to `import nova`, and when: plugins, while they are loaded and whenever their code runs.

A finder at the end of Python's list is asked for `nova` only where no real one is installed. It answers while a
plugin is being loaded, and later if a plugin's code is on the stack; for everybody else there is no nova. What
loading put into `sys.modules` is taken out again, so that others do not find it there.
"""

from __future__ import annotations

import builtins
import importlib
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from roost.compat import built_in
from roost.compat.plugin_context import current_context

HERE = str(Path(__file__).parent)
_TREES = ("nova", "oslo")
_NO_PLUGINS = frozenset({*_TREES, "roost"})
_ALIASES = {
    "oslo.concurrency": "oslo_concurrency",
    "oslo.config": "oslo_config",
    "oslo.context": "oslo_context",
    "oslo.i18n": "oslo_i18n",
    "oslo.messaging": "oslo_messaging",
    "oslo.serialization": "oslo_serialization",
    "oslo.utils": "oslo_utils",
    "nova.openstack.common.excutils": "oslo_utils.excutils",
    "nova.openstack.common.importutils": "oslo_utils.importutils",
    "nova.openstack.common.jsonutils": "oslo_serialization.jsonutils",
    "nova.openstack.common.strutils": "oslo_utils.strutils",
    "nova.openstack.common.timeutils": "oslo_utils.timeutils",
    "nova.openstack.common.units": "oslo_utils.units",
    "nova.openstack.common.uuidutils": "oslo_utils.uuidutils",
}
"""What has another name today. What is below these names is below the new ones."""


class _SameModule(Loader):
    """Puts an existing module under another name. A package is mirrored: what is in it must come from here too."""

    def __init__(self, target: str) -> None:
        self._target = target

    def exec_module(self, module: ModuleType) -> None:
        real = importlib.import_module(self._target)
        if hasattr(real, "__path__"):
            vars(module).update({name: value for name, value in vars(real).items() if not name.startswith("__")})
        else:
            sys.modules[module.__name__] = real


class _BuiltIns(Loader):
    """A module of nova's that holds built-in filters or weighers."""

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(built_in.classes_in(module.__name__))


class NovaFinder(MetaPathFinder):
    """Answers for nova, and for the names that oslo's libraries had up to 2015."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """None where the name is not ours to answer for, or the question not a plugin's."""
        tree = name.partition(".")[0]
        if tree not in _TREES or not (is_ours(tree) if path is not None else _is_for_plugin()):
            return None
        if old := next((each for each in _ALIASES if f"{name}.".startswith(f"{each}.")), None):
            return ModuleSpec(name, _SameModule(_ALIASES[old] + name.removeprefix(old)), is_package=True)
        if name in built_in.MODULES:
            return ModuleSpec(name, _BuiltIns(), origin=HERE)
        if name == "oslo":
            return ModuleSpec(name, None, origin=HERE, is_package=True)
        return PathFinder.find_spec(name, [HERE]) if name == "nova" else None  # below it, Python finds its way


_FINDER = NovaFinder()
_LOCK = threading.RLock()
_LOADING: ContextVar[bool] = ContextVar("a plugin is being loaded", default=False)
_PLUGIN_MODULES: set[str] = set()
"""Modules whose code may import nova at any time, with all that is below them."""


def is_ours(tree: str) -> bool:
    """Whether the top of the tree, which has been imported, is the one here and no real one."""
    spec = getattr(sys.modules.get(tree), "__spec__", None)
    return str(getattr(spec, "origin", "")).startswith(HERE)


def _is_for_plugin() -> bool:
    if _LOADING.get():
        return True
    frame = sys._getframe(1) if _PLUGIN_MODULES else None
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if name in _PLUGIN_MODULES or name.partition(".")[0] in _PLUGIN_MODULES:
            return True
        frame = frame.f_back
    return False


@contextmanager
def importing(module_name: str) -> Iterator[None]:
    """While this is open a plugin is loaded: nova is there for it, and its options are read from Roost's files."""
    with _LOCK, current_context().in_place(), _text_function():
        if _FINDER not in sys.meta_path:
            sys.meta_path.append(_FINDER)
        _PLUGIN_MODULES.update({module_name.partition(".")[0]} - _NO_PLUGINS)
        before = set(sys.modules)
        token = _LOADING.set(True)
        try:
            yield
        finally:
            _LOADING.reset(token)
            came = set(sys.modules) - before
            _remember(came)
            _forget(came)


def _remember(came: set[str]) -> None:
    """Modules that came along and have something of nova's may import more of it when they run."""
    for name in sorted(came):
        module = sys.modules.get(name)
        if isinstance(module, ModuleType) and name.partition(".")[0] not in _NO_PLUGINS and _has_nova(module):
            _PLUGIN_MODULES.add(name)
            vars(module).setdefault("_", str)  # up to Havana it was everywhere, without an import


def _has_nova(module: ModuleType) -> bool:
    origins = (
        str(getattr(each, "__module__", None) or getattr(each, "__name__", "")) for each in vars(module).values()
    )
    return any(f"{each}.".startswith(("nova.", "roost.compat.")) for each in origins)


def _forget(came: set[str]) -> None:
    """Who asks without being a plugin must not find what a plugin was given."""
    ours = {tree for tree in _TREES if is_ours(tree)}
    for name in came:
        if name.partition(".")[0] in ours:
            sys.modules.pop(name, None)


@contextmanager
def _text_function() -> Iterator[None]:
    """The `_` that marked texts for translators, while a module is loaded that takes it for granted."""
    was_there = hasattr(builtins, "_")
    if not was_there:
        builtins._ = str  # type: ignore[attr-defined]
    try:
        yield
    finally:
        if not was_there and getattr(builtins, "_", None) is str:
            del builtins._  # type: ignore[attr-defined]
