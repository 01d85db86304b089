# SPDX-License-Identifier: Apache-2.0
"""Error messages for plugins that cannot be loaded: what is missing, and the remedy of `roost.errors`.

The import hook that resolves `import nova` for plugins: while they are loaded, and whenever their code runs.

The finder is last in `sys.meta_path`, so it is asked for `nova` only if no real nova is installed. It resolves
imports while a plugin is being loaded, and later if a plugin's code is on the stack; for any other importer there is
no nova. What is in nova's modules is in the tables of `nova_modules` and `nova_shapes`. Modules that loading a plugin
added to `sys.modules` are removed again, so that no other importer finds them.

Adapters for plugins that derive from the classes of an installed, real nova.
"""

from __future__ import annotations

import builtins
import importlib
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from roost.errors import (
    CONVERT,
    PluginNotFound,
    find_sibling_import,
    is_python_2_syntax,
    is_unknown_option,
    lacks_name_of_nova,
    other_nova,
    remedy_for,
    uses_python_2,
)
from roost.filters.base import Filter
from roost.plugins import nova_shapes
from roost.plugins.context import current_context
from roost.plugins.nova_shapes import BaseHostFilter, BaseHostWeigher, original_request
from roost.weighers.base import Weigher

_NOT_THERE = re.compile(r"cannot import name '(\w+)' from '(nova[\w.]*)'")


def explain_import_error(path: str, cause: Exception) -> PluginNotFound | None:
    """The error for a failure that is typical of nova's plugins; None for any other failure."""
    if isinstance(cause, SyntaxError):
        return _explain_syntax(path, cause)
    if uses_python_2(cause):
        verb = "imports" if isinstance(cause, ImportError) else "uses"
        return PluginNotFound(f"{path} is written for Python 2: it {verb} {getattr(cause, 'name', '')}", CONVERT)
    if is_unknown_option(cause):
        problem = f"it asks for the option {_option_of(cause)}, which Roost does not have"
        return PluginNotFound(f"{path}: {problem}", remedy_for(cause))
    if sibling := find_sibling_import(cause):
        problem = f"it imports {sibling.name}, which is {sibling.file}, as a module of its own"
        return PluginNotFound(f"{path} is written for Python 2: {problem}", sibling.remedy)
    return _explain_missing_name(path, cause) if lacks_name_of_nova(cause) else None


def _option_of(cause: Any) -> str:
    return f"[{cause.group.name if cause.group else 'DEFAULT'}] {cause.opt_name}"


def _explain_syntax(path: str, cause: SyntaxError) -> PluginNotFound:
    where = f"{cause.filename}, line {cause.lineno}: {cause.msg}"
    if is_python_2_syntax(cause):
        return PluginNotFound(f"{path} is written for Python 2: {where}", remedy_for(cause))
    problem = f"{path}: importing failed: {type(cause).__name__}: {where}"
    return PluginNotFound(problem, remedy_for(cause))


def _explain_missing_name(path: str, cause: Exception) -> PluginNotFound | None:
    if isinstance(cause, ModuleNotFoundError):
        return _explain_module(path, cause)
    if isinstance(cause, AttributeError):
        return PluginNotFound(f"{path}: {cause}: Roost does not have it", remedy_for(cause))
    found = _NOT_THERE.search(str(cause))
    if found is None:
        return None
    problem = f"it imports {found[1]} from {found[2]}, which Roost does not have"
    return PluginNotFound(f"{path}: {problem}", remedy_for(cause))


def _explain_module(path: str, cause: ModuleNotFoundError) -> PluginNotFound:
    name = cause.name or ""
    if path.startswith(f"{name}."):
        file, class_name = path.split(".")[-2:]
        remedy = f"a file of your own goes beside the config file, as {file}.py, and is named {file}.{class_name}"
        return PluginNotFound(f"{path}: Roost has no {class_name}, and there is no module {name}", remedy)
    place = other_nova()
    lacking = f"which is not in {place}" if place else "which Roost does not have"
    return PluginNotFound(f"{path}: it imports {name}, {lacking}", remedy_for(cause))


_ORIGIN = str(Path(__file__).with_name("nova_modules.py"))
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


class _TableLoader(Loader):
    """Loads a module of nova that consists of given names."""

    def __init__(self, names: Mapping[str, object]) -> None:
        self._names = names

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self._names, __all__=[each for each in self._names if not each.startswith("_")])


class NovaFinder(MetaPathFinder):
    """Finds the modules of nova, and oslo libraries under their names up to 2015, for plugins."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """The spec of a module; None for other names, and for importers that are not plugins."""
        tree = name.partition(".")[0]
        if tree not in _TREES or not (is_compat_tree(tree) if path is not None else _is_for_plugin()):
            return None
        if old := next((each for each in _ALIASES if f"{name}.".startswith(f"{each}.")), None):
            return ModuleSpec(name, _AliasLoader(_ALIASES[old] + name.removeprefix(old)), is_package=True)
        if name == "oslo":
            return ModuleSpec(name, None, origin=_ORIGIN, is_package=True)
        names = _names_in(name)
        if names is None:
            return None
        # A package, so that an import of a submodule that is not there asks this finder and finds nothing.
        return ModuleSpec(name, _TableLoader(names), origin=_ORIGIN, is_package=True)


def _names_in(name: str) -> Mapping[str, object] | None:
    if name in nova_shapes.MODULES:
        return nova_shapes.classes_in(name)
    from roost.plugins.nova_modules import NOVA_MODULES  # with libraries that only plugins of nova need

    return NOVA_MODULES.get(name)


_FINDER = NovaFinder()
_LOCK = threading.RLock()
_LOADING: ContextVar[bool] = ContextVar("a plugin is being loaded", default=False)
_PLUGIN_MODULES: set[str] = set()
"""Modules whose code, with their submodules, may import nova at any time."""


def is_compat_tree(tree: str) -> bool:
    """Whether the imported top-level package (`nova` or `oslo`) is Roost's, not a real one."""
    spec = getattr(sys.modules.get(tree), "__spec__", None)
    return bool(getattr(spec, "origin", None) == _ORIGIN)


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
    return any(f"{each}.".startswith(("nova.", "roost.plugins.")) for each in origins)


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
