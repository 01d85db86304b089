# SPDX-License-Identifier: Apache-2.0
"""Kinds of lists and mappings. In lenient mode null means empty, and the number of entries is bounded."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from roost.errors import FieldError
from roost.validation.display import shown
from roost.validation.frozen_dict import FrozenDict
from roost.validation.kinds import Kind, Number, Parser, Schema, String, unchanged, written_form

MOST_LISTED = 10_000
"""Maximum number of entries of a list or mapping in lenient mode."""
DEEPEST = 32
"""Maximum nesting of lists and mappings in free-form data."""

_SETS = (set, frozenset)
_EMPTY: Mapping[str, Any] = FrozenDict()
_NUMBER = Number()


def _check_length(value: Any, field: str) -> None:
    if len(value) > MOST_LISTED:
        raise FieldError(field, f"has {len(value)} entries", f"at most {MOST_LISTED}")


# --- lists ----------------------------------------------------------------------------------------


def listed(value: Any, field: str) -> list[Any]:
    """The unparsed entries of a list in lenient mode; empty for None, sorted by text for a set."""
    if value is None:
        return []
    if not isinstance(value, (list, tuple, *_SETS)):
        raise FieldError(field, f"{shown(value)} is not a list")
    _check_length(value, field)
    return list(value) if isinstance(value, (list, tuple)) else sorted(value, key=str)


@dataclass(frozen=True)
class ListOf(Kind[Any]):
    """The kind of a list whose entries are all of one kind."""

    entry: Kind[Any]
    make: Callable[[list[Any]], Any] = tuple
    """Converts the list of parsed entries to the result: tuple, frozenset, ..."""
    mismatch: str = "is not a list"
    remedy: str = ""
    types: tuple[type, ...] = (list, tuple)
    """Python types that strict mode accepts as a list."""
    rule: Callable[[list[Any]], None] | None = None
    """Checks the parsed entries jointly: raises FieldError with a path relative to the list."""

    def strict(self, value: Any, field: str) -> Any:
        """The entries, parsed in strict mode."""
        if not isinstance(value, self.types):
            raise self.refusal(value, field)
        return self._parsed(self.entry.strict, value, field)

    def lenient(self, value: Any, field: str) -> Any:
        """The entries, parsed in lenient mode; empty for None."""
        return self._parsed(self.entry.lenient, listed(value, field), field)

    def _parsed(self, parse: Parser, entries: Any, field: str) -> Any:
        parsed: list[Any] = []
        try:
            for each in entries:
                parsed.append(parse(each, ""))  # noqa: PERF401 - its length is the index of a bad entry
        except FieldError as error:  # paths are built only for errors: hot path
            raise error.at(f"{field}[{len(parsed)}]{error.field}") from None
        if self.rule is not None:
            try:
                self.rule(parsed)
            except FieldError as error:
                raise error.at(f"{field}{error.field}") from None
        return self.make(parsed)

    @property
    def schema(self) -> Schema:
        """An array with the schema of the entries."""
        return {"type": "array", "items": self.entry.schema}


@dataclass(frozen=True)
class Names(ListOf):
    """The kind of a list of non-empty texts. Strict mode also accepts a single text, and sorts sets."""

    entry: Kind[Any] = String()  # noqa: RUF009 - kinds are immutable
    mismatch: str = "is not a list of names"
    types: tuple[type, ...] = (list, tuple, *_SETS)

    def strict(self, value: Any, field: str) -> Any:
        """The texts of a list, of a set (sorted) or a single text."""
        if isinstance(value, str):
            return self._parsed(unchanged, [value], field)
        return super().strict(sorted(value, key=str) if isinstance(value, _SETS) else value, field)

    @property
    def schema(self) -> Schema:
        """An array or a string."""
        return {**super().schema, "type": ["array", "string"]}


_TRAIT = re.compile(r"[A-Z0-9_]+")


def _check_traits(names: list[str]) -> None:
    for at, each in enumerate(names):
        if not _TRAIT.fullmatch(each):
            raise FieldError(f"[{at}]", f"{shown(each)} is no trait", "capitals, digits and underscores")


@dataclass(frozen=True)
class Traits(Names):
    """The kind of a set of trait names: capitals, digits and underscores."""

    make: Callable[[list[Any]], Any] = frozenset
    rule: Callable[[list[Any]], None] | None = _check_traits

    @property
    def schema(self) -> Schema:
        """An array of trait names, or a single one."""
        return {**super().schema, "items": {"type": "string", "pattern": f"^{_TRAIT.pattern}$"}}


# --- mappings -------------------------------------------------------------------------------------


class AnyMapping(Kind[Mapping[str, Any]]):
    """The kind of a mapping with text keys; the result is read-only, its values are unchanged."""

    mismatch = "is not a mapping"
    remedy = "write key: value pairs"

    def strict(self, value: Any, field: str) -> Mapping[str, Any]:
        """A read-only copy."""
        if type(value) is not dict and not isinstance(value, Mapping):  # isinstance with an ABC is slow
            raise self.refusal(value, field)
        if not value:
            return _EMPTY
        for key in value:
            if not isinstance(key, str):
                raise FieldError(field, f"the key {shown(key)} is not text", "put it in quotes")
        return FrozenDict(value)

    def lenient(self, value: Any, field: str) -> Mapping[str, Any]:
        """A read-only copy; empty for None."""
        if value is None:
            return _EMPTY
        found = self.strict(value, field)
        _check_length(found, field)
        return found

    @property
    def schema(self) -> Schema:
        """An object."""
        return {"type": "object"}


_ANY_MAPPING = AnyMapping()


@dataclass(frozen=True)
class MappingOf(Kind[Mapping[str, Any]]):
    """The kind of a mapping whose values are all of one kind, and optionally its keys; the result is read-only."""

    value: Kind[Any]
    key: Kind[str] | None = None
    """Kind of all keys; None: any text."""

    def strict(self, value: Any, field: str) -> Mapping[str, Any]:
        """The mapping with values parsed in strict mode."""
        return self._parsed(self.value.strict, _ANY_MAPPING.strict(value, field), field)

    def lenient(self, value: Any, field: str) -> Mapping[str, Any]:
        """The mapping with values parsed in lenient mode; empty for None."""
        return self._parsed(self.value.lenient, _ANY_MAPPING.lenient(value, field), field)

    def _parsed(self, parse: Parser, entries: Mapping[str, Any], field: str) -> Mapping[str, Any]:
        if not entries:
            return _EMPTY
        parsed: dict[str, Any] = {}
        name = ""
        try:
            for name, each in entries.items():
                if self.key is not None:
                    self.key.strict(name, "")
                parsed[name] = parse(each, "")
        except FieldError as error:
            raise error.at(f"{field}.{name}{error.field}") from None
        return FrozenDict(parsed)

    @property
    def schema(self) -> Schema:
        """An object with the schemas of values and keys."""
        if self.key is None:
            return {"type": "object", "additionalProperties": self.value.schema}
        pattern = self.key.schema["pattern"]
        return {"type": "object", "patternProperties": {pattern: self.value.schema}, "additionalProperties": False}


class ScalarText(Kind[str]):
    """The kind of a scalar that becomes text. Booleans become `true`, `false`; in lenient mode `True`, `False`."""

    mismatch = "is not text"
    remedy = "put it in quotes"

    def strict(self, value: Any, field: str) -> str:
        """The text in YAML notation."""
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (int, float)):
            _NUMBER.strict(value, field)
            return str(value)
        raise self.refusal(value, field)

    def lenient(self, value: Any, field: str) -> str:
        """The text in Python notation; None is refused."""
        if value is None:
            raise FieldError(field, "has no value", "give it one, or leave it out")
        found = written_form(value, field)
        if not isinstance(found, str):
            raise self.refusal(value, field)
        return found

    @property
    def schema(self) -> Schema:
        """A string, number or boolean."""
        return {"type": ["string", "number", "boolean"]}


# --- free-form data -------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlainData(Kind[Any]):
    """The kind of any JSON data: texts, finite numbers, booleans, null, and up to 32 levels of lists and mappings."""

    then: Kind[Any] | None = None
    """A second kind that parses the data after the check; None: the data is returned unchanged."""
    mismatch = "is no text and no number"
    remedy = "put it in quotes"

    def strict(self, value: Any, field: str) -> Any:
        """The value unchanged, or as parsed by the kind `then`."""
        self._check(value, field, DEEPEST, "")
        return value if self.then is None else self.then.strict(value, field)

    @property
    def schema(self) -> Schema:
        """The schema of the kind `then`; empty if any data is accepted."""
        return {} if self.then is None else self.then.schema

    def _check(self, value: Any, field: str, deepest: int, top: str) -> None:
        if value is None or isinstance(value, (str, bool)):
            return
        if isinstance(value, (int, float)):
            _NUMBER.strict(value, field)
            return
        if not isinstance(value, (list, tuple, Mapping)):
            raise self.refusal(value, field)
        if not deepest:
            raise FieldError(top, "is nested too deeply", f"at most {DEEPEST} levels")
        inside = _ANY_MAPPING.strict(value, field).items() if isinstance(value, Mapping) else enumerate(value)
        for key, each in inside:
            if not isinstance(each, str):
                inner = f"{field}[{key}]" if isinstance(key, int) else f"{field}.{key}"
                self._check(each, inner, deepest - 1, top or field)
