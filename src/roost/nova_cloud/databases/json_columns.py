# SPDX-License-Identifier: Apache-2.0
"""Columns of nova's databases that hold JSON: decoded with a limit on their size, and errors that name the column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roost.errors import FieldError
from roost.records.node_rows import JsonCache

LONGEST_TEXT = 4 << 20
"""Characters of a JSON text that are decoded; nova's columns hold 64 KiB on MariaDB."""


def decode_column(row: Any, name: str, make: Callable[[Any], Any], texts: JsonCache) -> Any:
    """`make` applied to the JSON value of a column, once for equal texts; None for NULL and for an empty text.

    FieldError, with the name of the column, for a text that is too long or that `make` cannot use.
    """
    text = getattr(row, name)
    if not text:
        return None
    if len(text) > LONGEST_TEXT:
        raise FieldError(name, f"has {len(text)} characters; at most {LONGEST_TEXT} are read")
    try:
        return texts.decode(text, make)
    except FieldError as error:
        raise error if error.field.startswith(name) else error.under(name) from None
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise FieldError(name, f"is not what nova writes there: {type(error).__name__}") from None
