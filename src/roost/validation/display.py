# SPDX-License-Identifier: Apache-2.0
"""Display of external values in error messages."""

from __future__ import annotations

import reprlib
from typing import Any

LONGEST = 60
"""Maximum length of a displayed value, characters."""

_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 80


def shown(value: Any) -> str:
    """The value on one line of at most 60 characters. Large values are abbreviated, never formatted in full."""
    try:
        plain = str(value) if hasattr(value, "isoformat") else _SHORT.repr(value)
    except RecursionError:
        return "a deeply nested value"
    except ValueError:  # str() refuses integers of thousands of digits
        return "a number of thousands of digits"
    return plain if len(plain) <= LONGEST else plain[: LONGEST - 3] + "..."
