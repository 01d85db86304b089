# SPDX-License-Identifier: Apache-2.0
"""Kinds of fields that hold lists, mappings and records, and dataclasses that declare the kinds of their fields.

    @dataclass(frozen=True)
    class Flavor(Checked):
        vcpus: Amount                 # Annotated[int, AMOUNT]
        name: Annotated[str, LABEL] = ""

`Flavor(...)` validates its fields; `Record(Flavor)` is the kind of a mapping that is parsed to a Flavor. UPPER_CASE
names are kinds, which parse values; CamelCase names are types that declare fields. In lenient mode null means empty,
and the number of entries is bounded. Kinds of single values are in `kinds.py`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from roost.errors import FieldError, nearest
from roost.model.kinds import (
    Boolean,
    FrozenDict,
    Kind,
    Number,
    OfType,
    OrNull,
    Parser,
    PrintableString,
    Schema,
    String,
    WholeNumber,
    shown,
    unchanged,
    written_form,
)

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


RecordT = TypeVar("RecordT")

_MISSING = dataclasses.MISSING
_MAPPING = AnyMapping()


@cache
def kinds_of(cls: type) -> Mapping[str, Kind[Any] | None]:
    """Field -> its kind, in the order of the dataclass; None for a field without a declared kind."""
    hints = get_type_hints(cls, include_extras=True)
    return {each.name: _declared_kind(hints[each.name]) for each in dataclasses.fields(cls)}


def _declared_kind(hint: Any) -> Kind[Any] | None:
    marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((each for each in marks if isinstance(each, Kind)), None)


class Checked:
    """Base of frozen dataclasses whose fields are parsed in strict mode on construction; FieldError if invalid."""

    def __post_init__(self) -> None:
        values = self.__dict__
        for name, parse, default in _checks_of(type(self)):  # type: ignore[arg-type]  # mypy: type[T] is Hashable
            value = values[name]
            if value is not default:  # defaults are valid
                values[name] = parse(value, name)


@cache
def _checks_of(cls: type) -> tuple[tuple[str, Parser, Any], ...]:
    defaults = {each.name: each.default for each in dataclasses.fields(cls)}
    return tuple((name, kind.strict, defaults[name]) for name, kind in kinds_of(cls).items() if kind is not None)


def refuse_unknown(keys: Iterable[Any], known: Iterable[str], field: str = "") -> None:
    """Raise FieldError for the first unknown key, with the nearest known key as hint."""
    known = list(known)
    for key in keys:
        if key not in known:
            raise FieldError(field, f"unknown field {shown(key)}", nearest(str(key), known))


class Record(Kind[RecordT]):
    """The kind of a mapping that is parsed to a dataclass; unknown fields are refused."""

    def __init__(
        self,
        cls: type[RecordT],
        names: tuple[str, ...] = (),
        *,
        hint: str = "",
        null_is_absent: bool = False,
        rule: Callable[[RecordT], None] | None = None,
    ) -> None:
        """`names`: the accepted fields, in the order of the schema; by default all.

        `hint`: remedy if a required field is missing. `null_is_absent`: null means the default, for a field that has
        one. `rule` checks the record as a whole and raises FieldError.
        """
        self._cls, self._names, self._rule, self._null_is_absent = cls, names, rule, null_is_absent
        self._hint = hint or f"{cls.__name__} cannot do without it"

    @cached_property
    def kinds(self) -> Mapping[str, Kind[Any] | None]:
        """Accepted field -> its kind."""
        every = kinds_of(self._cls)  # type: ignore[arg-type]  # mypy: type[T] is Hashable
        return {name: every[name] for name in self._names or every}

    @cached_property
    def _defaulted(self) -> frozenset[str]:
        fields = dataclasses.fields(self._cls)  # type: ignore[arg-type]  # always a dataclass
        has_default = [each for each in fields if (each.default, each.default_factory) != (_MISSING, _MISSING)]
        return frozenset(each.name for each in has_default)

    @cached_property
    def _required(self) -> tuple[str, ...]:
        return tuple(name for name in self.kinds if name not in self._defaulted)

    def strict(self, value: Any, field: str) -> RecordT:
        """The parsed record; errors name the path of the record and the field."""
        try:
            return self.read(value)
        except FieldError as error:
            raise error.under(field) from None

    def read(self, value: Any) -> RecordT:
        """The parsed record, for a record at the top level: errors name only the field."""
        plain = _MAPPING.strict(value, "")
        if not plain.keys() <= self.kinds.keys():
            refuse_unknown(plain, self.kinds)
        if self._null_is_absent:
            plain = self._without_nulls(plain)
        for name in self._required:
            if name not in plain:
                raise FieldError(name, "is missing", self._hint)
        if not issubclass(self._cls, Checked):
            plain = {name: parse(plain[name], name) for name, parse in self._parsers if name in plain}
        record = self._cls(**plain)
        if self._rule is not None:
            self._rule(record)
        return record

    def _without_nulls(self, plain: Mapping[str, Any]) -> Mapping[str, Any]:
        """The fields except nulls that mean a default. A missing required field becomes null: its kind reports it."""
        found = {name: plain.get(name) for name in self.kinds}
        return {name: each for name, each in found.items() if each is not None or name not in self._defaulted}

    @cached_property
    def _parsers(self) -> tuple[tuple[str, Parser], ...]:
        return tuple((name, kind.strict if kind else unchanged) for name, kind in self.kinds.items())

    @property
    def schema(self) -> Schema:
        """An object with the accepted fields; no other properties are allowed."""
        properties = {name: kind.schema for name, kind in self.kinds.items() if kind is not None}
        required = [name for name in self._required if not (self._null_is_absent and _takes_null(self.kinds[name]))]
        return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


def _takes_null(kind: Kind[Any] | None) -> bool:
    try:
        if kind is not None:
            kind.strict(None, "")
    except FieldError:
        return False
    return True


class Part(Kind[RecordT]):
    """The kind of a record of a class. With `takes_mappings`, a mapping is parsed to a record."""

    def __init__(self, cls: type[RecordT], takes_mappings: bool = False) -> None:
        self.cls = cls
        self.mismatch = f"is not of the class {cls.__name__}"
        self._record = Record(cls) if takes_mappings else None

    def strict(self, value: Any, field: str) -> RecordT:
        """The record unchanged, or a new record from a mapping."""
        if isinstance(value, self.cls):
            return value
        if self._record is not None and isinstance(value, Mapping):
            return self._record.strict(value, field)
        raise self.refusal(value, field)


# --- messages -------------------------------------------------------------------------------------


def lenient_parsers(cls: type, *names: str) -> dict[str, Parser]:
    """Field -> lenient parser, for the named fields of the dataclass, by default for all that declare a kind."""
    kinds = {name: kind for name, kind in kinds_of(cls).items() if kind is not None}
    return {name: kinds[name].lenient for name in names or kinds}


def parse_present(parsers: Mapping[str, Parser], data: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Field -> parsed value, for the fields of `parsers` that are in `data`; other fields are ignored."""
    return {name: parse(data[name], f"{field}.{name}") for name, parse in parsers.items() if name in data}


def make_record(cls: type[RecordT], field: str, **values: Any) -> RecordT:
    """A record of the class, validated by it; errors name the path, which begins with `field`."""
    try:
        return cls(**values)
    except FieldError as error:
        raise error.under(field) from None


LARGEST_RATIO = 1e6
"""The largest allocation ratio."""

AMOUNT = WholeNumber()
AT_LEAST_ONE = WholeNumber(least=1)
OPTIONAL_AMOUNT = OrNull(AMOUNT)
AMOUNT_OR_UNSET = WholeNumber(unset=0)
"""An amount; in lenient mode null and empty values are 0."""
NUMBER = Number()
RATIO = Number(least=0, most=LARGEST_RATIO)
FLAG = Boolean()

TEXT = String()
OPTIONAL_TEXT = OrNull(String(may_be_empty=True))
LABEL = OrNull(String(may_be_empty=True), unset="", is_published=False)
"""A display text, possibly empty; null is an empty text."""
NAME = PrintableString()
IDENTIFIER = OfType((str, int, NoneType), "is no text and no whole number")
"""An id: a text, a whole number, or null."""

NAMES = Names()
NAME_SET = Names(make=frozenset)
TRAITS = Traits()
LISTS_OF_NAMES = ListOf(NAMES, mismatch="is not a list of lists")
MAPPING = AnyMapping()
TEXT_MAPPING = MappingOf(ScalarText())
PLAIN_DATA = PlainData()
PLAIN_MAPPING = PlainData(then=MAPPING)

Amount = Annotated[int, AMOUNT]
OptionalAmount = Annotated[int | None, OPTIONAL_AMOUNT]
AmountOrUnset = Annotated[int, AMOUNT_OR_UNSET]
Flag = Annotated[bool, FLAG]
Text = Annotated[str, TEXT]
OptionalText = Annotated[str | None, OPTIONAL_TEXT]
Label = Annotated[str, LABEL]
NameTuple = Annotated[tuple[str, ...], NAMES]
NameSet = Annotated[frozenset[str], NAME_SET]
NameLists = Annotated[tuple[tuple[str, ...], ...], LISTS_OF_NAMES]
TextMapping = Annotated[Mapping[str, str], TEXT_MAPPING]
FreeMapping = Annotated[Mapping[str, Any], MAPPING]
