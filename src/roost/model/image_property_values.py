# SPDX-License-Identifier: Apache-2.0
"""Conversion of one image property value: numbers, texts, choices, CPU lists, version predicates.

Each converter is called with the raw value and returns the typed one, or raises ImagePropertyError with an empty
field: the caller knows the name of the property. `image_property_table.py` says which property has which converter.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from roost.errors import FieldError, nearest
from roost.validation.display import shown
from roost.validation.frozen_dict import FrozenDict

Converter = Callable[[Any], Any]
"""Raw value of a property -> typed value; raises ImagePropertyError with an empty field."""

VersionPredicates = tuple[tuple[str, tuple[int, ...]], ...]
"""Comparisons that must all hold: `(">=", (6, 0)), ("<", (7,))`."""

LARGEST_CPU = 65535
"""The highest CPU number of an instance. The bound keeps `0-999999999` from exhausting memory."""


class ImagePropertyError(FieldError):
    """An image property whose value cannot be converted. `nova_type` names the error that nova would raise."""

    code = "roost.bad_input.image_property"

    def __init__(self, field: str, problem: str, hint: str = "", nova_type: str = "ValueError") -> None:
        super().__init__(field, problem, hint)
        self.nova_type = nova_type

    def at(self, field: str) -> ImagePropertyError:
        """A copy of this error with another field path."""
        return ImagePropertyError(field, self.problem, self.hint, self.nova_type)


def property_error(value: Any, problem: str, hint: str = "", nova_type: str = "ValueError") -> ImagePropertyError:
    """The error for a raw value, which the message quotes before `problem`; its field is empty."""
    return ImagePropertyError("", f"{shown(value)} {problem}", hint, nova_type)


# --- scalars --------------------------------------------------------------------------------------


def to_integer(value: Any) -> int:
    """The integer that int() reads from the value's text; 4.0 and True are refused."""
    try:
        return int(str(value))
    except ValueError:
        raise property_error(value, "is not an integer", "write digits, such as 4") from None


def to_text(value: Any) -> str:
    """The text of a text, a number or a boolean."""
    if not isinstance(value, (str, int, float)):
        raise property_error(value, "is not text", "put it in quotes")
    try:
        return str(value)
    except ValueError:
        raise property_error(value, "has no text", "use a smaller number") from None


def to_boolean(value: Any) -> bool:
    """True for the texts that mean yes, for True and for 1; False for everything else."""
    if isinstance(value, str):
        return value.lower() in ("true", "yes", "on", "1", "t", "y")
    return isinstance(value, int) and value == 1


def one_of(allowed: str, any_case: bool = False, **aliases: str) -> Converter:
    """A converter for one of the blank-separated words. `aliases`: other accepted word -> the allowed word.

    `any_case`: the value is lowercased before it is compared.
    """
    choices = allowed.split()
    hint = "one of: " + ", ".join(choices)

    def convert(value: Any) -> str:
        if not isinstance(value, str):
            raise property_error(value, "is not text", f"put it in quotes; {hint}")
        word = value.lower() if any_case else value
        word = aliases.get(word, word)
        if word not in choices:
            raise property_error(value, "is not allowed", hint if len(choices) <= 12 else nearest(word, choices))
        return word

    return convert


# --- lists ----------------------------------------------------------------------------------------


def to_text_list(value: Any) -> tuple[str, ...]:
    """The texts of a list."""
    if not isinstance(value, (list, tuple)):
        raise property_error(value, "is not a list of texts")
    return tuple(to_text(each) for each in value)


def to_map_list(value: Any) -> tuple[Mapping[str, Any], ...]:
    """A list of mappings, as read-only copies."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, Mapping) for each in value):
        raise property_error(value, "is not a list of maps")
    return tuple(_frozen(each) for each in value)


def _frozen(value: Any) -> Any:
    """A read-only copy: lists become tuples, sets frozensets, mappings FrozenDicts, at any depth."""
    if isinstance(value, Mapping):
        return FrozenDict({key: _frozen(each) for key, each in value.items()})
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(each) for each in value)
    return frozenset(value) if isinstance(value, set) else value


def thawed(value: Any) -> Any:
    """A converted value with ordinary containers: tuples become lists, frozensets sets, mappings dicts."""
    if isinstance(value, Mapping):
        return {key: thawed(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [thawed(each) for each in value]
    return set(value) if isinstance(value, frozenset) else value


# --- CPU lists ------------------------------------------------------------------------------------

_CPU_PIECE = re.compile(r"(\^?)\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?", re.ASCII)


def to_cpu_set(value: Any) -> frozenset[int]:
    """The CPUs in a list such as `1-4,^2,8`, or the one CPU of an integer."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return parse_cpu_set(to_text(value) if is_number else value)


def parse_cpu_set(text: str) -> frozenset[int]:
    """The CPUs in a list such as `1-4,^2,8`. `^` excludes, at any position; empty pieces are ignored."""
    if not isinstance(text, str):
        raise _cpu_error(text, "is not a list of CPUs")
    included: set[range] = set()
    excluded: set[range] = set()
    for piece in filter(None, map(str.strip, text.split(","))):
        is_excluded, cpus = _parse_cpu_piece(piece)
        (excluded if is_excluded else included).add(cpus)
    return _cpus_in(included) - _cpus_in(excluded)


def _cpus_in(ranges: set[range]) -> frozenset[int]:
    """The union of the ranges; overlaps are added once, so that many wide ranges cost no more than one."""
    cpus: set[int] = set()
    beyond = 0
    for each in sorted(ranges, key=lambda each: each.start):
        cpus.update(range(max(each.start, beyond), each.stop))
        beyond = max(beyond, each.stop)
    return frozenset(cpus)


def _parse_cpu_piece(piece: str) -> tuple[bool, range]:
    if not (match := _CPU_PIECE.fullmatch(piece)):
        raise _cpu_error(piece, "is not a CPU or a range of them")
    first, last = int(match[2]), int(match[3] or match[2])
    if first > last:
        raise _cpu_error(piece, "runs backwards")
    if last > LARGEST_CPU:
        raise _cpu_error(piece, f"goes beyond CPU {LARGEST_CPU}")
    return bool(match[1]), range(first, last + 1)


def _cpu_error(value: Any, problem: str) -> ImagePropertyError:
    return property_error(value, problem, "write CPUs and ranges, as in '0-3,^2'", nova_type="Invalid")


# --- version predicates ---------------------------------------------------------------------------

_COMPARISON = re.compile(r"(<=|>=|==|!=|<|>)\s*(\d{1,18}(?:\.\d{1,18})*)", re.ASCII)
_COMPARATORS = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}


def to_version_predicate(value: Any) -> str:
    """The text as it is, after a check that it can be parsed."""
    parse_version_predicate(value)
    return str(value)


def parse_version_predicate(text: str) -> VersionPredicates:
    """The comparisons in a text such as `>=6.0, <7`."""
    if not isinstance(text, str):
        raise property_error(text, "is not text", "put it in quotes")
    return _version_predicate(text)


@lru_cache(maxsize=8)
def _version_predicate(text: str) -> VersionPredicates:
    """The comparisons in a text; kept, because each hypervisor version of a fleet is compared."""
    matches = [_COMPARISON.fullmatch(piece.strip()) for piece in text.split(",")]
    if None in matches:
        raise property_error(text, "is not a version predicate", "write comparisons, as in '>=6.0, <7'")
    return tuple((match[1], tuple(map(int, match[2].split(".")))) for match in matches if match)


def version_satisfies(version: tuple[int, ...], predicates: VersionPredicates) -> bool:
    """Whether all comparisons hold for the version. Trailing zeros are ignored: 6.2 equals 6.2.0."""
    found = _without_trailing_zeros(version)
    return all(_COMPARATORS[symbol](found, _without_trailing_zeros(wanted)) for symbol, wanted in predicates)


def _without_trailing_zeros(version: tuple[int, ...]) -> tuple[int, ...]:
    length = len(version)
    while length and version[length - 1] == 0:
        length -= 1
    return version[:length]
