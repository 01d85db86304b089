# SPDX-License-Identifier: Apache-2.0
"""The kind of mappings with a table of documented fields, such as the hosts of a fleet file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from roost.errors import FieldError, nearest
from roost.model.kinds import Kind, Parser, Schema, shown

_MOST_MEMOISED = 10_000

Memo = dict[tuple[str, str], Any]
"""(field, text of a list or mapping) -> parsed value."""


class Field(NamedTuple):
    """A field of a table: its kind, and a description for schema and documentation."""

    kind: Kind[Any]
    meaning: str


class FieldTable(Kind[dict[str, Any]]):
    """The kind of a mapping whose keys are fields of the table; the result maps field -> parsed value."""

    def __init__(
        self,
        fields: Mapping[str, Field],
        *,
        required: Mapping[str, str],
        mismatch: str,
        remedy: str,
        unshared: Collection[str] = (),
    ) -> None:
        """`required`: field -> hint if it is missing. `unshared`: fields that are not memoised: seldom equal."""
        self._parsers: dict[str, Parser] = {name: field.kind.strict for name, field in fields.items()}
        self._fields, self._required, self._unshared = fields, required, unshared
        self.mismatch, self.remedy = mismatch, remedy

    def strict(self, value: Any, field: str) -> dict[str, Any]:
        """The parsed fields of one entry; FieldError for the first unknown or invalid field."""
        try:
            return self._parse(value, {})
        except FieldError as error:
            raise error.under(field) from None

    def parse_all(self, entries: list[Any], field: str, uses_up: bool = False) -> list[dict[str, Any]]:
        """All entries, parsed. Equal lists and mappings in them are parsed once and shared.

        `uses_up`: entries are removed from the list while parsing, to save memory.
        """
        remaining = entries if uses_up else [*entries]
        remaining.reverse()
        parsed: list[dict[str, Any]] = []
        memo: Memo = {}
        try:
            while remaining:
                parsed.append(self._parse(remaining.pop(), memo))
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
            parsed[name] = _parse_memoised(parse, value, name, memo) if is_shared else parse(value, name)
        return parsed

    @property
    def schema(self) -> Schema:
        """An object with the fields as described properties; no other properties are allowed."""
        fields = {name: {**field.kind.schema, "description": field.meaning} for name, field in self._fields.items()}
        required = [*self._required]
        return {"type": "object", "required": required, "additionalProperties": False, "properties": fields}


def _parse_memoised(parse: Parser, value: Any, name: str, memo: Memo) -> Any:
    try:
        key = name, repr(value)
    except (RecursionError, ValueError):  # too deep, or a number too long: the kind raises the error
        return parse(value, name)
    if key not in memo:
        if len(memo) > _MOST_MEMOISED:
            memo.clear()
        memo[key] = parse(value, name)
    return memo[key]
