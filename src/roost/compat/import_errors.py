# SPDX-License-Identifier: Apache-2.0
"""Error messages for plugins that cannot be loaded: what is missing, and the remedy."""

from __future__ import annotations

import re
import sys

from oslo_config import cfg

from roost.compat.import_hook import is_compat_tree
from roost.errors import PluginNotFound
from roost.remedies import CONVERT, PAGE, uses_python_2

_PYTHON_2_SYNTAX = (
    "Missing parentheses in call to",
    "multiple exception types must be parenthesized",
    "leading zeros in decimal integer",
    "inconsistent use of tabs",
    "ur'",
)
_NOT_THERE = re.compile(r"cannot import name '(\w+)' from '(nova[\w.]*)'")


def explain_import_error(path: str, cause: Exception) -> PluginNotFound | None:
    """The error for a failure that is typical of nova's plugins; None for any other failure."""
    if isinstance(cause, SyntaxError):
        return _explain_syntax(path, cause)
    if uses_python_2(cause):
        verb = "imports" if isinstance(cause, ImportError) else "uses"
        return PluginNotFound(f"{path} is written for Python 2: it {verb} {getattr(cause, 'name', '')}", CONVERT)
    if isinstance(cause, cfg.NoSuchOptError):
        option = f"[{cause.group.name if cause.group else 'DEFAULT'}] {cause.opt_name}"
        remedy = "take it out, or have the plugin register the option itself"
        return PluginNotFound(f"{path}: it asks for the option {option}, which Roost does not have", remedy)
    if isinstance(cause, ModuleNotFoundError):
        return _explain_module(path, cause.name or "")
    if isinstance(cause, ImportError) and (found := _NOT_THERE.search(str(cause))):
        return PluginNotFound(f"{path}: it imports {found[1]} from {found[2]}, which Roost does not have", PAGE)
    if isinstance(cause, AttributeError) and re.search(r"module 'nova[\w.]*' has no attribute", str(cause)):
        return PluginNotFound(f"{path}: {cause}: Roost does not have it", PAGE)
    return None


def _explain_syntax(path: str, cause: SyntaxError) -> PluginNotFound:
    where = f"{cause.filename}, line {cause.lineno}: {cause.msg}"
    if any(sign in str(cause.msg) for sign in _PYTHON_2_SYNTAX) or _looks_like_python_2(cause.text or ""):
        return PluginNotFound(f"{path} is written for Python 2: {where}", CONVERT)
    problem = f"{path}: importing failed: {type(cause).__name__}: {where}"
    return PluginNotFound(problem, f"if it is written for Python 2, {CONVERT}")


def _looks_like_python_2(line: str) -> bool:
    signs = (
        r"^\s*print\s+[^(=]",
        r"^\s*exec\s+['\"\w]",
        r"<>",
        r"^\s*raise\s+\w+\s*,",
        r"\bur['\"]",
        r"\b0[0-7]+\b",
        r"\b\d+L\b",
    )
    return any(re.search(sign, line) for sign in signs)


def _explain_module(path: str, name: str) -> PluginNotFound | None:
    if name.partition(".")[0] != "nova":
        return None
    if path.startswith(f"{name}."):
        file, class_name = path.split(".")[-2:]
        remedy = f"a file of your own goes beside the config file, as {file}.py, and is named {file}.{class_name}"
        return PluginNotFound(f"{path}: Roost has no {class_name}, and there is no module {name}", remedy)
    if place := _other_nova():
        remedy = "Roost answers for nova where there is none: move files of your own out of a folder of that name"
        return PluginNotFound(f"{path}: it imports {name}, which is not in {place}", remedy)
    return PluginNotFound(f"{path}: it imports {name}, which Roost does not have", PAGE)


def _other_nova() -> str:
    """The folder of an imported `nova` package that is not Roost's (a real one, or a user's); empty if none."""
    places = [] if is_compat_tree("nova") else list(getattr(sys.modules.get("nova"), "__path__", ()))
    return str(places[0]) if places else ""
