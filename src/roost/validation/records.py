# SPDX-License-Identifier: Apache-2.0
"""Dataclasses that declare the kinds of their fields, and how they are read.

    @dataclass(frozen=True)
    class Flavor(Checked):
        vcpus: Amount                 # Annotated[int, AMOUNT]
        name: Annotated[str, LABEL] = ""

`Flavor(...)` checks its fields on every call; `Record(Flavor)` is the kind of a mapping of them, in files.
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

Held = TypeVar("Held")

_MISSING = dataclasses.MISSING
_MAPPING = AnyMapping()


@cache
def kinds_of(cls: type) -> Mapping[str, Kind[Any] | None]:
    """Field -> its kind, in the order of the dataclass; None for a field that declares none."""
    hints = get_type_hints(cls, include_extras=True)
    return {each.name: _declared_kind(hints[each.name]) for each in dataclasses.fields(cls)}


def _declared_kind(hint: Any) -> Kind[Any] | None:
    marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((each for each in marks if isinstance(each, Kind)), None)


class Checked:
    """Base of frozen dataclasses whose fields are put into their proper form, in strict mode, when they are made."""

    def __post_init__(self) -> None:
        values = self.__dict__
        for name, parse, default in _checks_of(type(self)):  # type: ignore[arg-type]  # mypy: type[T] is Hashable
            value = values[name]
            if value is not default:  # a default is in its proper form
                values[name] = parse(value, name)


@cache
def _checks_of(cls: type) -> tuple[tuple[str, Parser, Any], ...]:
    defaults = {each.name: each.default for each in dataclasses.fields(cls)}
    return tuple((name, kind.strict, defaults[name]) for name, kind in kinds_of(cls).items() if kind is not None)


def refuse_unknown(keys: Iterable[Any], known: Iterable[str], field: str = "") -> None:
    """FieldError for the first key that is not known, with the nearest one that is."""
    known = list(known)
    for key in keys:
        if key not in known:
            raise FieldError(field, f"unknown field {shown(key)}", nearest(str(key), known))


class Record(Kind[Held]):
    """A mapping of the fields of a dataclass, made into one; no other fields."""

    def __init__(
        self,
        cls: type[Held],
        names: tuple[str, ...] = (),
        *,
        hint: str = "",
        null_is_absent: bool = False,
        rule: Callable[[Held], None] | None = None,
    ) -> None:
        """`names`: the fields that are read, in the order of the schema; all of them by default.

        `hint`: what to do where a required field is missing. `null_is_absent`: null is as good as no entry, for a
        field with a default. `rule` raises FieldError for fields that do not go together.
        """
        self._cls, self._names, self._rule, self._null_is_absent = cls, names, rule, null_is_absent
        self._hint = hint or f"{cls.__name__} cannot do without it"

    @cached_property
    def kinds(self) -> Mapping[str, Kind[Any] | None]:
        """Field -> its kind, of the fields that are read."""
        every = kinds_of(self._cls)  # type: ignore[arg-type]  # mypy: type[T] is Hashable
        return {name: every[name] for name in self._names or every}

    @cached_property
    def _defaulted(self) -> frozenset[str]:
        fields = dataclasses.fields(self._cls)  # type: ignore[arg-type]  # every class here is a dataclass
        has_default = [each for each in fields if (each.default, each.default_factory) != (_MISSING, _MISSING)]
        return frozenset(each.name for each in has_default)

    @cached_property
    def _required(self) -> tuple[str, ...]:
        return tuple(name for name in self.kinds if name not in self._defaulted)

    def strict(self, value: Any, field: str) -> Held:
        """The dataclass; errors name the field, seen from the path of the record."""
        try:
            return self.read(value)
        except FieldError as error:
            raise error.under(field) from None

    def read(self, value: Any) -> Held:
        """The dataclass; errors name the field alone, for a record that is inside of nothing else."""
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
        made = self._cls(**plain)
        if self._rule is not None:
            self._rule(made)
        return made

    def _without_nulls(self, plain: Mapping[str, Any]) -> Mapping[str, Any]:
        """A required field that is not there is null, and its kind says what is wrong with that."""
        found = {name: plain.get(name) for name in self.kinds}
        return {name: each for name, each in found.items() if each is not None or name not in self._defaulted}

    @cached_property
    def _parsers(self) -> tuple[tuple[str, Parser], ...]:
        return tuple((name, kind.strict if kind else unchanged) for name, kind in self.kinds.items())

    @property
    def schema(self) -> Schema:
        """An object with these properties and no others."""
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


class Part(Kind[Held]):
    """A record of this class. With `takes_mappings`, a mapping of its fields is made into one."""

    def __init__(self, cls: type[Held], takes_mappings: bool = False) -> None:
        self.cls = cls
        self.mismatch = f"is not of the class {cls.__name__}"
        self._record = Record(cls) if takes_mappings else None

    def strict(self, value: Any, field: str) -> Held:
        """The value itself, or a new record from a mapping."""
        if isinstance(value, self.cls):
            return value
        if self._record is not None and isinstance(value, Mapping):
            return self._record.strict(value, field)
        raise self.refusal(value, field)


# --- messages -------------------------------------------------------------------------------------


def lenient_parsers(cls: type, *names: str) -> dict[str, Parser]:
    """Field -> how lenient mode reads it, for these fields of the dataclass, or for all that declare a kind."""
    kinds = {name: kind for name, kind in kinds_of(cls).items() if kind is not None}
    return {name: kinds[name].lenient for name in names or kinds}


def parse_present(parsers: Mapping[str, Parser], data: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Those of the fields that are in the mapping, each by its parser; the others of the mapping are ignored."""
    return {name: parse(data[name], f"{field}.{name}") for name, parse in parsers.items() if name in data}


def make_record(cls: type[Held], field: str, **values: Any) -> Held:
    """A record from values that its class checks; errors name the path, seen from `field`."""
    try:
        return cls(**values)
    except FieldError as error:
        raise error.under(field) from None
