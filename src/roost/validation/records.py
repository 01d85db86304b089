# SPDX-License-Identifier: Apache-2.0
"""Dataclasses that declare the kinds of their fields, and the kinds that parse such records.

    @dataclass(frozen=True)
    class Flavor(Checked):
        vcpus: Amount                 # Annotated[int, AMOUNT]
        name: Annotated[str, LABEL] = ""

`Flavor(...)` validates its fields; `Record(Flavor)` is the kind of a mapping that is parsed to a Flavor.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from roost.errors import FieldError, nearest
from roost.validation.containers import AnyMapping
from roost.validation.display import shown
from roost.validation.kinds import Kind, Parser, Schema, unchanged

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
