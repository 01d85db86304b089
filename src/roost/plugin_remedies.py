# SPDX-License-Identifier: Apache-2.0
"""Remedies for plugins that fail, when they are loaded or when they run, for reasons typical of plugins of nova."""

from __future__ import annotations

import re
import sys
from importlib.machinery import PathFinder
from types import TracebackType
from typing import Any, NamedTuple

PAGE = "docs/how-to/plugins-of-nova.md lists what there is"
CONVERT = "convert it to Python 3, for instance with 2to3 or modernize, and look at it again"
_REGISTER = "take it out, or have the plugin register the option itself"
_MOVE_OUT = "Roost answers for nova where there is none: move files of your own out of a folder of that name"

PYTHON_2_MODULES = frozenset(
    "__builtin__ commands ConfigParser cPickle cStringIO httplib Queue StringIO urllib2 urlparse xmlrpclib".split()
)
PYTHON_2_NAMES = frozenset("basestring file long raw_input reduce unichr unicode xrange".split())
PYTHON_2_METHODS = frozenset("has_key iteritems iterkeys itervalues".split())
_PYTHON_2_MESSAGES = (
    "Missing parentheses in call to",
    "multiple exception types must be parenthesized",
    "leading zeros in decimal integer",
    "inconsistent use of tabs",
    "ur'",
)
_PYTHON_2_LINES = (
    r"^\s*print\s+[^(=]",
    r"^\s*exec\s+['\"\w]",
    r"<>",
    r"^\s*raise\s+\w+\s*,",
    r"\bur['\"]",
    r"\b0[0-7]+\b",
    r"\b\d+L\b",
)
_NO_ATTRIBUTE = re.compile(r"module 'nova[\w.]*' has no attribute")
_COMPAT_DIR = __file__.rpartition("/")[0] + "/compat/"


class SiblingImport(NamedTuple):
    """An import of a file that lies beside the importing one, as Python 2 allowed in packages."""

    name: str
    file: str
    is_in_package: bool

    @property
    def remedy(self) -> str:
        """How Python 3 finds the file."""
        if self.is_in_package:
            return f"Python 3 imports a file of the same package by `from . import {self.name}`"
        return f"import {self.name} at the top of the plugin: folders of plugins are searched while it is loaded"


def remedy_for(cause: BaseException) -> str:
    """A hint for an exception that a plugin raised; empty where no remedy is known."""
    if isinstance(cause, SyntaxError):
        return CONVERT if is_python_2_syntax(cause) else f"if it is written for Python 2, {CONVERT}"
    if uses_python_2(cause):
        return f"it is written for Python 2: {CONVERT}"
    if is_unknown_option(cause):
        return _REGISTER
    if sibling := find_sibling_import(cause):
        return sibling.remedy
    if lacks_name_of_nova(cause):
        return _MOVE_OUT if isinstance(cause, ModuleNotFoundError) and other_nova() else PAGE
    return ""


def uses_python_2(cause: BaseException) -> bool:
    """Whether an error is due to a module, name or method that Python 3 no longer has."""
    if isinstance(cause, AttributeError):
        return cause.name in PYTHON_2_METHODS
    if isinstance(cause, ModuleNotFoundError):
        return cause.name in PYTHON_2_MODULES
    return isinstance(cause, NameError) and cause.name in PYTHON_2_NAMES


def is_python_2_syntax(cause: SyntaxError) -> bool:
    """Whether the line that cannot be parsed looks like Python 2."""
    by_message = any(sign in str(cause.msg) for sign in _PYTHON_2_MESSAGES)
    return by_message or any(re.search(sign, cause.text or "") for sign in _PYTHON_2_LINES)


def is_unknown_option(cause: BaseException) -> bool:
    """Whether a plugin asked for an option that is not registered."""
    cfg: Any = sys.modules.get("oslo_config.cfg")  # imported only if plugins use it
    return cfg is not None and isinstance(cause, cfg.NoSuchOptError)


def lacks_name_of_nova(cause: BaseException) -> bool:
    """Whether a plugin uses a module or name of nova that does not exist."""
    if isinstance(cause, AttributeError):
        return _NO_ATTRIBUTE.search(str(cause)) is not None
    return isinstance(cause, ImportError) and (cause.name or "").partition(".")[0] == "nova"


def other_nova() -> str:
    """The folder of an imported `nova` package that is not Roost's (a real one, or a user's); empty if none."""
    module = sys.modules.get("nova")
    origin = str(getattr(getattr(module, "__spec__", None), "origin", ""))
    places = [] if origin.startswith(_COMPAT_DIR) else list(getattr(module, "__path__", ()))
    return str(places[0]) if places else ""


def find_sibling_import(cause: BaseException) -> SiblingImport | None:
    """The import of a file beside the importing one that failed; None for any other error."""
    name, importer = getattr(cause, "name", None), _importing_frame(cause.__traceback__)
    if not isinstance(cause, ModuleNotFoundError) or not name or importer is None:
        return None
    found = PathFinder.find_spec(name, [str(importer["__file__"]).rpartition("/")[0]])
    return SiblingImport(name, found.origin, bool(importer.get("__package__"))) if found and found.origin else None


def _importing_frame(traceback: TracebackType | None) -> dict[str, Any] | None:
    """The globals of the innermost module in a traceback that has a file, leaving out importlib and Roost."""
    found = None
    while traceback is not None:
        names = traceback.tb_frame.f_globals
        if names.get("__file__") and str(names.get("__name__")).partition(".")[0] not in ("importlib", "roost"):
            found = names
        traceback = traceback.tb_next
    return found
