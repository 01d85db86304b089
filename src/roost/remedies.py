# SPDX-License-Identifier: Apache-2.0
"""Hints for plugins that fail because they need Python 2, or parts of nova that `roost.compat` lacks."""

from __future__ import annotations

PAGE = "docs/how-to/plugins-of-nova.md lists what there is"
CONVERT = "convert it to Python 3, for instance with 2to3 or modernize, and look at it again"

PYTHON_2_MODULES = frozenset(
    "__builtin__ commands ConfigParser cPickle cStringIO httplib Queue StringIO urllib2 urlparse xmlrpclib".split()
)
PYTHON_2_NAMES = frozenset("basestring file long raw_input reduce unichr unicode xrange".split())
PYTHON_2_METHODS = frozenset("has_key iteritems iterkeys itervalues".split())


def uses_python_2(cause: BaseException) -> bool:
    """Whether an error is due to a module, name or method that Python 3 no longer has."""
    if isinstance(cause, AttributeError):
        return cause.name in PYTHON_2_METHODS
    if isinstance(cause, ModuleNotFoundError):
        return cause.name in PYTHON_2_MODULES
    return isinstance(cause, NameError) and cause.name in PYTHON_2_NAMES


def remedy_for(cause: BaseException) -> str:
    """A hint for an exception that a plugin raised while it ran; empty where no remedy is known."""
    if uses_python_2(cause):
        return f"it is written for Python 2: {CONVERT}"
    if isinstance(cause, ImportError) and (cause.name or "").partition(".")[0] == "nova":
        return PAGE
    return ""
