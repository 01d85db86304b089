# SPDX-License-Identifier: Apache-2.0
"""The import hook that resolves `import nova` for plugins: while they are loaded, and whenever their code runs.

The finder is last in `sys.meta_path`, so it is asked for `nova` only if no real nova is installed. It resolves
imports while a plugin is being loaded, and later if a plugin's code is on the stack; for any other importer there is
no nova. Modules that loading a plugin added to `sys.modules` are removed again, so that no other importer finds them.
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

COMPAT_DIR = str(Path(__file__).parent)
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
"""Old module name -> current name. Submodules of an old name are submodules of the current one."""


class _AliasLoader(Loader):
    """Loads a module under an old name. Packages are copied, so that their submodules are resolved here too."""

    def __init__(self, target: str) -> None:
        self._target = target

    def exec_module(self, module: ModuleType) -> None:
        real = importlib.import_module(self._target)
        if hasattr(real, "__path__"):
            vars(module).update({name: value for name, value in vars(real).items() if not name.startswith("__")})
        else:
            sys.modules[module.__name__] = real


class _BuiltInLoader(Loader):
    """Loads a module of nova that consists of built-in filters or weighers."""

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(built_in.classes_in(module.__name__))


class NovaFinder(MetaPathFinder):
    """Finds the modules of nova, and oslo libraries under their names up to 2015, for plugins."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """The spec of a module; None for other names, and for importers that are not plugins."""
        tree = name.partition(".")[0]
        if tree not in _TREES or not (is_compat_tree(tree) if path is not None else _is_for_plugin()):
            return None
        if old := next((each for each in _ALIASES if f"{name}.".startswith(f"{each}.")), None):
            return ModuleSpec(name, _AliasLoader(_ALIASES[old] + name.removeprefix(old)), is_package=True)
        if name in built_in.MODULES:
            return ModuleSpec(name, _BuiltInLoader(), origin=COMPAT_DIR)
        if name == "oslo":
            return ModuleSpec(name, None, origin=COMPAT_DIR, is_package=True)
        if name != "nova":  # Python itself finds the submodules of the package
            return None
        return PathFinder.find_spec(name, [COMPAT_DIR])


_FINDER = NovaFinder()
_LOCK = threading.RLock()
_LOADING: ContextVar[bool] = ContextVar("a plugin is being loaded", default=False)
_PLUGIN_MODULES: set[str] = set()
"""Modules whose code, with their submodules, may import nova at any time."""


def is_compat_tree(tree: str) -> bool:
    """Whether the imported top-level package (`nova` or `oslo`) is Roost's, not a real one."""
    spec = getattr(sys.modules.get(tree), "__spec__", None)
    return str(getattr(spec, "origin", "")).startswith(COMPAT_DIR)


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
    """Context manager for importing a plugin: inside, nova can be imported, and CONF reads Roost's files."""
    with _LOCK, current_context().activated(), _builtin_underscore():
        if _FINDER not in sys.meta_path:
            sys.meta_path.append(_FINDER)
        _PLUGIN_MODULES.update({module_name.partition(".")[0]} - _NO_PLUGINS)
        before = set(sys.modules)
        token = _LOADING.set(True)
        try:
            yield
        finally:
            _LOADING.reset(token)
            new_modules = set(sys.modules) - before
            _allow_nova_imports(new_modules)
            _remove_nova_modules(new_modules)


def _allow_nova_imports(new_modules: set[str]) -> None:
    """Allow new modules that use names of nova to import more of nova at run time."""
    for name in sorted(new_modules):
        module = sys.modules.get(name)
        if isinstance(module, ModuleType) and name.partition(".")[0] not in _NO_PLUGINS and _has_nova(module):
            _PLUGIN_MODULES.add(name)
            vars(module).setdefault("_", str)  # up to Havana it was a builtin


def _has_nova(module: ModuleType) -> bool:
    origins = (
        str(getattr(each, "__module__", None) or getattr(each, "__name__", "")) for each in vars(module).values()
    )
    return any(f"{each}.".startswith(("nova.", "roost.compat.")) for each in origins)


def _remove_nova_modules(new_modules: set[str]) -> None:
    """Remove Roost's nova modules from sys.modules: only plugins may import them."""
    trees = {tree for tree in _TREES if is_compat_tree(tree)}
    for name in new_modules:
        if name.partition(".")[0] in trees:
            sys.modules.pop(name, None)


@contextmanager
def _builtin_underscore() -> Iterator[None]:
    """Context manager: inside, `_` is a builtin. Old modules use it to mark texts for translation."""
    was_there = hasattr(builtins, "_")
    if not was_there:
        builtins._ = str  # type: ignore[attr-defined]
    try:
        yield
    finally:
        if not was_there and getattr(builtins, "_", None) is str:
            del builtins._  # type: ignore[attr-defined]
