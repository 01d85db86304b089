# SPDX-License-Identifier: Apache-2.0
"""A table of fields with their kinds and meanings, as for the hosts of a fleet file, and entries that fill it in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from roost.errors import FieldError, nearest
from roost.validation.display import shown
from roost.validation.kinds import Kind, Parser, Schema

_MOST_MEMOISED = 10_000

Memo = dict[tuple[str, str], Any]
"""Field and text of a list or mapping -> what was made of it."""


class Field(NamedTuple):
    """What a field may be, and what it means."""

    kind: Kind[Any]
    meaning: str


class FieldTable(Kind[dict[str, Any]]):
    """A mapping of some of the fields of a table, and no others: field -> value in its proper form."""

    def __init__(
        self,
        fields: Mapping[str, Field],
        *,
        required: Mapping[str, str],
        mismatch: str,
        remedy: str,
        unshared: Collection[str] = (),
    ) -> None:
        """`required`: field -> what to do where it is missing. `unshared`: fields whose lists are seldom equal."""
        self._parsers: dict[str, Parser] = {name: field.kind.strict for name, field in fields.items()}
        self._fields, self._required, self._unshared = fields, required, unshared
        self.mismatch, self.remedy = mismatch, remedy

    def strict(self, value: Any, field: str) -> dict[str, Any]:
        """One entry; FieldError for the first of its fields that is unknown or wrong."""
        try:
            return self._parse(value, {})
        except FieldError as error:
            raise error.under(field) from None

    def parse_all(self, entries: list[Any], field: str, uses_up: bool = False) -> list[dict[str, Any]]:
        """All entries. Equal lists and mappings in them are parsed once, and shared.

        `uses_up`: entries are removed from the list on the way, so that they are not in memory in both forms.
        """
        waiting = entries if uses_up else [*entries]
        waiting.reverse()
        parsed: list[dict[str, Any]] = []
        memo: Memo = {}
        try:
            while waiting:
                parsed.append(self._parse(waiting.pop(), memo))
        except FieldError as error:
            raise error.under(f"{field}[{len(parsed)}]") from None
        return parsed

    def _parse(self, entry: Any, memo: Memo) -> dict[str, Any]:
        if not isinstance(entry, dict):
            raise self.refusal(entry, "")
        for name, hint in self._required.items():
            if name not in entry:
                raise FieldError(name, "is missing", hint)
        parsed: dict[str, Any] = {}
        for name, value in entry.items():
            parse = self._parsers.get(name)
            if parse is None:
                raise FieldError("", f"unknown field {shown(name)}", nearest(str(name), self._parsers))
            is_shared = isinstance(value, (list, dict)) and name not in self._unshared
            parsed[name] = _parse_once(parse, value, name, memo) if is_shared else parse(value, name)
        return parsed

    @property
    def schema(self) -> Schema:
        """An object with these properties, described, and no others."""
        fields = {name: {**field.kind.schema, "description": field.meaning} for name, field in self._fields.items()}
        required = [*self._required]
        return {"type": "object", "required": required, "additionalProperties": False, "properties": fields}


def _parse_once(parse: Parser, value: Any, name: str, memo: Memo) -> Any:
    try:
        key = name, repr(value)
    except (RecursionError, ValueError):  # too deep, or a number too long: the kind says so
        return parse(value, name)
    if key not in memo:
        if len(memo) > _MOST_MEMOISED:
            memo.clear()
        memo[key] = parse(value, name)
    return memo[key]
