# SPDX-License-Identifier: Apache-2.0
"""Error messages for plugins that cannot be loaded: what is missing, and the remedy of `roost.errors`."""

from __future__ import annotations

import re
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
