# SPDX-License-Identifier: Apache-2.0
"""What to do about a plugin that fails because it was written for Python 2, or for more of nova than there is."""

from __future__ import annotations

PAGE = "docs/how-to/plugins-of-nova.md lists what there is"
CONVERT = "convert it to Python 3, for instance with 2to3 or modernize, and look at it again"

PYTHON_2_MODULES = frozenset(
    "__builtin__ commands ConfigParser cPickle cStringIO httplib Queue StringIO urllib2 urlparse xmlrpclib".split()
)
PYTHON_2_NAMES = frozenset("basestring file long raw_input reduce unichr unicode xrange".split())
PYTHON_2_METHODS = frozenset("has_key iteritems iterkeys itervalues".split())


def uses_python_2(cause: BaseException) -> bool:
    """Whether an error comes of a name that is gone since Python 3."""
    if isinstance(cause, AttributeError):
        return cause.name in PYTHON_2_METHODS
    if isinstance(cause, ModuleNotFoundError):
        return cause.name in PYTHON_2_MODULES
    return isinstance(cause, NameError) and cause.name in PYTHON_2_NAMES


def remedy_for(cause: BaseException) -> str:
    """What to do about an error that somebody's plugin raised while it ran; empty where that is not ours to say."""
    if uses_python_2(cause):
        return f"it is written for Python 2: {CONVERT}"
    if isinstance(cause, ImportError) and (cause.name or "").partition(".")[0] == "nova":
        return PAGE
    return ""
