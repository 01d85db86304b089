# SPDX-License-Identifier: Apache-2.0
"""How a value from outside looks in an error."""

from __future__ import annotations

import reprlib
from typing import Any

LONGEST = 60
"""Characters of a value in an error."""

_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 80


def shown(value: Any) -> str:
    """The value on one line of at most 60 characters. Large values are never written out in full to be cut off."""
    try:
        plain = str(value) if hasattr(value, "isoformat") else _SHORT.repr(value)
    except RecursionError:
        return "a deeply nested value"
    except ValueError:  # Python writes out no integer of thousands of digits
        return "a number of thousands of digits"
    return plain if len(plain) <= LONGEST else plain[: LONGEST - 3] + "..."
