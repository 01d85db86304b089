# SPDX-License-Identifier: Apache-2.0
"""Kinds of single values - numbers, texts, booleans, words of a set, times - and their base class, `Kind`.

A kind parses a value strictly or leniently, and describes it as JSON Schema. `fields.py` has the kinds of lists,
mappings and records. Also here: values of other people as they are shown in error messages, read-only dicts, and
what records keep once it is computed (`lazy`, `IdentityCache`).
"""

from __future__ import annotations

import copy
import math
import re
import reprlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from types import NoneType
from typing import Any, Generic, NoReturn, TypeVar, overload

from roost.errors import FieldError

Value = TypeVar("Value")


class lazy(Generic[Value]):  # noqa: N801 - used like a decorator of the language
    """`functools.cached_property` without the lock it has before Python 3.12, which dominates its cost."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[Value]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


class IdentityCache(Generic[Value]):
    """A cache keyed by the identity of an object: no hashing, no comparing. Cleared when `most` entries are held."""

    def __init__(self, most: int = 1024) -> None:
        self._most = most
        self._entries: dict[int, tuple[object, Value]] = {}

    def get(self, key: object) -> Value | None:
        """The value cached for this very object; None if there is none."""
        entry = self._entries.get(id(key))
        return entry[1] if entry is not None and entry[0] is key else None

    def put(self, key: object, value: Value) -> Value:
        """Cache the value for this object; returns the value."""
        if len(self._entries) >= self._most:
            self._entries.clear()
        self._entries[id(key)] = key, value
        return value

    def clear(self) -> None:
        """Drop all entries."""
        self._entries.clear()


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


class FrozenDict(dict[str, Value]):
    """A dict whose mutating methods raise TypeError; copies are ordinary dicts."""

    def _refuse(self, *arguments: Any, **named: Any) -> NoReturn:
        raise TypeError("this mapping cannot be changed; dict(it) is a copy that can")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Value]:
        return {name: copy.deepcopy(value, memo) for name, value in self.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)


MOST = 10**15
"""The largest amount: with larger ones, sums of int64 columns could overflow."""
LONGEST_TEXT = 65_536
"""Maximum length of a text in lenient mode, characters."""
Schema = dict[str, Any]
Parser = Callable[[Any, str], Any]
"""(value, path of its field) -> parsed value; for example `strict` or `lenient` of a kind. Raises FieldError."""


def unchanged(value: Any, field: str) -> Any:
    """A parser that accepts everything and returns the value unchanged."""
    return value


_LARGEST_FLOAT = sys.float_info.max
_JSON_TYPES: dict[type, str] = {
    bool: "boolean",
    dict: "object",
    float: "number",
    int: "integer",
    list: "array",
    str: "string",
    Mapping: "object",
    NoneType: "null",
}


class Kind(Generic[Value]):
    """A type of field: a strict and a lenient parser, and a JSON Schema.

    A subclass defines `strict`, and `lenient` only if messages of nova may have other forms than files. The parsers
    return the converted value, or raise FieldError with the given path.
    """

    mismatch: str = ""
    """Error text for a value of another type, printed after the value: `is not a whole number`."""
    remedy: str = ""
    """Hint for a mismatch; may be empty."""

    def strict(self, value: Any, field: str) -> Value:
        """Parse a value of a fleet file or the Python API; FieldError if it is invalid."""
        raise NotImplementedError

    def lenient(self, value: Any, field: str) -> Value:
        """Parse a value of a message of nova; FieldError if it is invalid. By default like `strict`."""
        return self.strict(value, field)

    @property
    def schema(self) -> Schema:
        """JSON Schema of what strict mode accepts."""
        raise NotImplementedError

    def refusal(self, value: Any, field: str) -> FieldError:
        """The error for a value of another type."""
        return FieldError(field, f"{shown(value)} {self.mismatch}", self.remedy)


@dataclass(frozen=True)
class OrNull(Kind[Any]):
    """A kind that also accepts null, which is parsed as `unset`."""

    kind: Kind[Any]
    unset: Any = None
    is_published: bool = True
    """Whether the schema allows null."""

    def strict(self, value: Any, field: str) -> Any:
        """`unset` for None."""
        return self.unset if value is None else self.kind.strict(value, field)

    def lenient(self, value: Any, field: str) -> Any:
        """`unset` for None."""
        return self.unset if value is None else self.kind.lenient(value, field)

    @property
    def schema(self) -> Schema:
        """The schema of the inner kind, with null added if `is_published`."""
        inner = self.kind.schema
        if not self.is_published:
            return inner
        if "enum" in inner:
            return {**inner, "enum": [*inner["enum"], None]}
        types = inner["type"]
        return {**inner, "type": [*([types] if isinstance(types, str) else types), "null"]}


# --- numbers and flags ----------------------------------------------------------------------------


@dataclass(frozen=True)
class WholeNumber(Kind[int]):
    """An integer within bounds, or an integral float. Lenient: also digits as text, and any float, truncated."""

    least: float = 0
    most: float = MOST
    unset: int | None = None
    """Lenient mode: the value for null and other empty values; None: they are refused."""
    mismatch = "is not a whole number"

    def strict(self, value: Any, field: str) -> int:
        """An integer or a float without fraction."""
        if type(value) is int and self.least <= value <= self.most:
            return value
        if not self.matches(value):
            raise self.refusal(value, field)
        return int(_within(int(value), self.least, self.most, field))

    def lenient(self, value: Any, field: str) -> int:
        """A number, or up to 19 digits as text."""
        if self.unset is not None and not value:
            value = self.unset
        elif isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
            value = int(value)
        elif isinstance(value, float):
            value = int(_UP_TO_MOST.strict(value, field))
        return self.strict(value, field)

    def matches(self, value: Any) -> bool:
        """Whether the value is a whole number, ignoring the bounds."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        return isinstance(value, int) or value.is_integer()  # False for NaN and infinities

    @property
    def schema(self) -> Schema:
        """An integer with its bounds."""
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True)
class Number(Kind[float]):
    """A finite number within bounds, as a float."""

    least: float = -_LARGEST_FLOAT
    most: float = _LARGEST_FLOAT
    mismatch = "is not a number"

    def strict(self, value: Any, field: str) -> float:
        """An integer or a float; no NaN, no infinity."""
        if type(value) is float and self.least <= value <= self.most:
            return value
        if not self.matches(value):
            raise self.refusal(value, field)
        if isinstance(value, float) and not math.isfinite(value):
            raise FieldError(field, f"{shown(value)} is not a finite number")
        return float(_within(value, self.least, self.most, field))

    def matches(self, value: Any) -> bool:
        """Whether the value is a number, ignoring the bounds; NaN and infinities are numbers."""
        return isinstance(value, (int, float)) and not isinstance(value, bool)

    @property
    def schema(self) -> Schema:
        """A number with its bounds, except bounds at the limits of float."""
        bounds: Schema = {}
        if self.least != -_LARGEST_FLOAT:
            bounds["minimum"] = self.least
        if self.most != _LARGEST_FLOAT:
            bounds["maximum"] = self.most
        return {"type": "number", **bounds}


def _within(value: float, least: float, most: float, field: str) -> float:
    if value < least:
        raise FieldError(field, f"{shown(value)} is too small", f"at least {least}")
    if value > most:
        raise FieldError(field, f"{shown(value)} is too large", f"at most {most}")
    return value


_UP_TO_MOST = Number(most=MOST)


@dataclass(frozen=True)
class Boolean(Kind[bool]):
    """True or False. Lenient: null is `unset`."""

    unset: bool = False
    mismatch = "is not a yes or no"
    remedy = "write true or false"

    def strict(self, value: Any, field: str) -> bool:
        """A boolean, and nothing else."""
        if not isinstance(value, bool):
            raise self.refusal(value, field)
        return value

    def lenient(self, value: Any, field: str) -> bool:
        """A boolean or None."""
        return self.unset if value is None else self.strict(value, field)

    @property
    def schema(self) -> Schema:
        """A boolean."""
        return {"type": "boolean"}


# --- texts ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class String(Kind[str]):
    """A string. Lenient: also a number or boolean, as text; at most 65,536 characters."""

    may_be_empty: bool = False
    mismatch = "is not text"
    remedy = "put it in quotes"

    def strict(self, value: Any, field: str) -> str:
        """A string, and nothing else."""
        if not isinstance(value, str):
            raise self.refusal(value, field)
        if not value and not self.may_be_empty:
            raise FieldError(field, "is empty")
        return value

    def lenient(self, value: Any, field: str) -> str:
        """The string; 5 becomes "5", True becomes "True"."""
        return self.strict(written_form(value, field), field)

    @property
    def schema(self) -> Schema:
        """A string."""
        return {"type": "string"} if self.may_be_empty else {"type": "string", "minLength": 1}


def written_form(value: Any, field: str) -> Any:
    """A number or boolean as text, any other value unchanged. FieldError for a text longer than LONGEST_TEXT."""
    if isinstance(value, (bool, int, float)):
        return shown(value)
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise FieldError(field, f"is a text of {len(value)} characters", f"at most {LONGEST_TEXT}")
    return value


class PrintableString(String):
    """A non-empty string of printable characters."""

    def strict(self, value: Any, field: str) -> str:
        """A printable string."""
        if not super().strict(value, field).isprintable():
            problem = f"{shown(value)} has characters that cannot be printed"
            raise FieldError(field, problem, "use letters and digits")
        return str(value)


@dataclass(frozen=True)
class Matching(Kind[str]):
    """A string that matches a regular expression."""

    pattern: str
    """Regular expression that the whole string must match."""
    mismatch: str
    remedy: str = ""

    def strict(self, value: Any, field: str) -> str:
        """A string that matches from its first character to its last."""
        if not isinstance(value, str) or not self._compiled.fullmatch(value):
            raise self.refusal(value, field)
        return value

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern)

    @property
    def schema(self) -> Schema:
        """A string with the pattern."""
        return {"type": "string", "pattern": f"^{self.pattern}$"}


@dataclass(frozen=True)
class OneOf(Kind[str]):
    """One of a fixed set of words."""

    words: tuple[str, ...]
    mismatch: str = "is not allowed"
    remedy: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "remedy", self.remedy or f"one of: {', '.join(self.words)}")

    def strict(self, value: Any, field: str) -> str:
        """One of the words."""
        if value not in self.words:
            raise self.refusal(value, field)
        return str(value)

    @property
    def schema(self) -> Schema:
        """An enumeration of the words."""
        return {"enum": [*self.words]}


class Timestamp(Kind[datetime]):
    """A date and time in the form of ISO 8601; without a time zone it is UTC."""

    mismatch = "is no date and time"
    remedy = "write it as 2026-01-31T12:00:00Z"

    def strict(self, value: Any, field: str) -> datetime:
        """An aware time in UTC, of a text or a datetime."""
        try:
            found = value if isinstance(value, datetime) else datetime.fromisoformat(value)
            return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        except (TypeError, ValueError, OverflowError):
            raise self.refusal(value, field) from None

    @property
    def schema(self) -> Schema:
        """A string with the usual format of a time."""
        return {"type": "string", "format": "date-time"}


# --- by class -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OfType(Kind[Any]):
    """Any value of the given Python types, unchanged. Booleans are refused unless `takes_flags`."""

    types: tuple[type, ...]
    mismatch: str
    remedy: str = ""
    takes_flags: bool = False

    def strict(self, value: Any, field: str) -> Any:
        """The value itself."""
        if not self.matches(value):
            raise self.refusal(value, field)
        return value

    def matches(self, value: Any) -> bool:
        """Whether the value has one of the types."""
        return isinstance(value, self.types) and (self.takes_flags or not isinstance(value, bool))

    @property
    def schema(self) -> Schema:
        """The JSON types that correspond to the Python types."""
        names = [_JSON_TYPES[each] for each in self.types]
        return {"type": names[0] if len(names) == 1 else names}
