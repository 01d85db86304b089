# SPDX-License-Identifier: Apache-2.0
"""Why a plugin cannot be loaded, in words that name what is missing and what to do."""

from __future__ import annotations

import re

from roost.errors import PluginNotFound

PAGE = "docs/how-to/plugins-of-nova.md lists what there is"
_PYTHON_2 = "convert it to Python 3, for instance with 2to3 or modernize, and look at it again"
_PYTHON_2_MODULES = frozenset(
    "__builtin__ commands ConfigParser cPickle cStringIO httplib Queue StringIO urllib2 urlparse xmlrpclib".split()
)
_PYTHON_2_NAMES = frozenset("basestring file long raw_input reduce unichr unicode xrange".split())
_PYTHON_2_SYNTAX = (
    "Missing parentheses in call to",
    "multiple exception types must be parenthesized",
    "leading zeros in decimal integer",
    "inconsistent use of tabs",
    "ur'",
)
_NOT_THERE = re.compile(r"cannot import name '(\w+)' from '(nova[\w.]*)'")


def explain(path: str, cause: Exception) -> PluginNotFound | None:
    """The error for what goes wrong with plugins of nova in particular; None where it is anything else."""
    if isinstance(cause, SyntaxError):
        return _explain_syntax(path, cause)
    if isinstance(cause, ModuleNotFoundError):
        return _explain_module(path, cause.name or "")
    if isinstance(cause, ImportError) and (found := _NOT_THERE.search(str(cause))):
        return PluginNotFound(f"{path}: it imports {found[1]} from {found[2]}, which Roost does not have", PAGE)
    if isinstance(cause, AttributeError) and re.search(r"module 'nova[\w.]*' has no attribute", str(cause)):
        return PluginNotFound(f"{path}: {cause}: Roost does not have it", PAGE)
    if isinstance(cause, NameError) and cause.name in _PYTHON_2_NAMES:
        return PluginNotFound(f"{path} is written for Python 2: it uses {cause.name}", _PYTHON_2)
    return None


def _explain_syntax(path: str, cause: SyntaxError) -> PluginNotFound:
    where = f"{cause.filename}, line {cause.lineno}: {cause.msg}"
    if any(sign in str(cause.msg) for sign in _PYTHON_2_SYNTAX) or _looks_like_python_2(cause.text or ""):
        return PluginNotFound(f"{path} is written for Python 2: {where}", _PYTHON_2)
    problem = f"{path}: importing failed: {type(cause).__name__}: {where}"
    return PluginNotFound(problem, f"if it is written for Python 2, {_PYTHON_2}")


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
    if name in _PYTHON_2_MODULES:
        return PluginNotFound(f"{path} is written for Python 2: it imports {name}", _PYTHON_2)
    if name.partition(".")[0] != "nova":
        return None
    if path.startswith(f"{name}."):
        file, class_name = name.rpartition(".")[2], path.rpartition(".")[2]
        remedy = f"a file of your own goes beside the config file, as {file}.py, and is named {file}.{class_name}"
        return PluginNotFound(f"{path}: Roost has no {class_name}, and there is no module {name}", remedy)
    return PluginNotFound(f"{path}: it imports {name}, which Roost does not have", PAGE)
