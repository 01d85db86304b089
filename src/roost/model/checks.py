# SPDX-License-Identifier: Apache-2.0
"""Checks at the door: each takes a value from outside and gives it back in its proper form, or says why not."""

from __future__ import annotations

import math
import reprlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from roost.errors import FieldError, nearest
from roost.validation.frozen_dict import FrozenDict

MOST = 10**15
"""No amount is larger than this: beyond it sums of int64 columns could overflow."""
DEEPEST = 32
"""Free-form values are nested no deeper than this."""

_LARGEST = sys.float_info.max
_EMPTY: Mapping[str, Any] = FrozenDict()
_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 80


def whole_number(value: Any, field: str, least: int = 0, most: int = MOST) -> int:
    """An integer between `least` and `most`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise FieldError(field, f"{shown(value)} is not a whole number")
    if isinstance(value, float) and not value.is_integer():  # NaN and infinities are not integers either
        raise FieldError(field, f"{shown(value)} is not a whole number")
    return int(_within(int(value), field, least, most))


def number(value: Any, field: str, least: float = -_LARGEST, most: float = _LARGEST) -> float:
    """A finite float between `least` and `most`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise FieldError(field, f"{shown(value)} is not a number")
    if isinstance(value, float) and not math.isfinite(value):
        raise FieldError(field, f"{shown(value)} is not a finite number")
    return float(_within(value, field, least, most))


def _within(value: float, field: str, least: float, most: float) -> float:
    if value < least:
        raise FieldError(field, f"{shown(value)} is too small", f"at least {least}")
    if value > most:
        raise FieldError(field, f"{shown(value)} is too large", f"at most {most}")
    return value


def text(value: Any, field: str) -> str:
    """A string that is not empty."""
    if not isinstance(value, str):
        raise FieldError(field, f"{shown(value)} is not text", "put it in quotes")
    if not value:
        raise FieldError(field, "is empty")
    return value


def name(value: Any, field: str) -> str:
    """A string that is not empty and can be printed on one line."""
    if not text(value, field).isprintable():
        raise FieldError(field, f"{shown(value)} has characters that cannot be printed", "use letters and digits")
    return str(value)


def optional_text(value: Any, field: str) -> str | None:
    """A string, possibly empty, or None."""
    if value is not None and not isinstance(value, str):
        raise FieldError(field, f"{shown(value)} is not text", "put it in quotes")
    return value


def flag(value: Any, field: str) -> bool:
    """True or False, spelt so."""
    if not isinstance(value, bool):
        raise FieldError(field, f"{shown(value)} is not a yes or no", "write true or false")
    return value


def names(value: Any, field: str) -> tuple[str, ...]:
    """A list of strings; a single string stands for a list of one."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise FieldError(field, f"{shown(value)} is not a list of names")
    ordered = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
    return tuple(text(each, f"{field}[{at}]") for at, each in enumerate(ordered))


def mapping(value: Any, field: str) -> Mapping[str, Any]:
    """A mapping with text keys, read-only."""
    if type(value) is not dict and not isinstance(value, Mapping):  # what an ABC is asked takes its time
        raise FieldError(field, f"{shown(value)} is not a mapping", "write key: value pairs")
    if not value:
        return _EMPTY
    for key in value:
        if not isinstance(key, str):
            raise FieldError(field, f"the key {shown(key)} is not text", "put it in quotes")
    return FrozenDict(value)


def text_mapping(value: Any, field: str) -> Mapping[str, str]:
    """A mapping from text to text, read-only; numbers and booleans are taken as their text."""
    return FrozenDict({key: _as_text(each, f"{field}.{key}") for key, each in mapping(value, field).items()})


def _as_text(value: Any, field: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        number(value, field)
        return str(value)
    raise FieldError(field, f"{shown(value)} is not text", "put it in quotes")


def plain_data(value: Any, field: str, deepest: int = DEEPEST, top: str = "") -> Any:
    """Whatever JSON can say: texts, finite numbers, yes, no, null, and lists and mappings of such, not too deep."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, float)):
        number(value, field)
        return value
    if not isinstance(value, (list, tuple, Mapping)):
        raise FieldError(field, f"{shown(value)} is no text and no number", "put it in quotes")
    if not deepest:
        raise FieldError(top, "is nested too deeply", f"at most {DEEPEST} levels")
    inside = mapping(value, field).items() if isinstance(value, Mapping) else enumerate(value)
    for key, each in inside:
        if not isinstance(each, str):
            inner = f"{field}[{key}]" if isinstance(key, int) else f"{field}.{key}"
            plain_data(each, inner, deepest - 1, top or field)
    return value


def known_keys(record: Mapping[str, Any], known: Iterable[str], field: str = "") -> None:
    """Refuse keys that nobody reads, with the nearest one that somebody does."""
    known = list(known)
    for key in record:
        if key not in known:
            raise FieldError(field, f"unknown field {shown(key)}", nearest(str(key), known))


def shown(value: Any) -> str:
    """A value as it looks in an error: short, on one line. Large ones are not written out to be cut off."""
    try:
        plain = str(value) if hasattr(value, "isoformat") else _SHORT.repr(value)
    except RecursionError:
        return "a deeply nested value"
    except ValueError:  # Python does not write these out
        return "a number of thousands of digits"
    return plain if len(plain) <= 60 else plain[:57] + "..."
