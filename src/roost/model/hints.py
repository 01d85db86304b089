# SPDX-License-Identifier: Apache-2.0
"""The kind of scheduler hints: hint name -> tuple of texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roost.errors import FieldError
from roost.model.uuids import canonical_uuid
from roost.validation.containers import MappingOf, listed
from roost.validation.display import shown
from roost.validation.kinds import Kind
from roost.validation.vocabulary import MAPPING, OPTIONAL_TEXT

_INSTANCE_HINTS = ("same_host", "different_host")
"""Hints that hold uuids of instances."""


class _HintTexts(Kind[tuple[str, ...]]):
    """The texts of one hint; a single text is a list of one."""

    mismatch = "is no text and no list of texts"

    def strict(self, value: Any, field: str) -> tuple[str, ...]:
        """A text or a list of texts."""
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, (list, tuple)):
            raise self.refusal(value, field)
        for each in value:
            if not isinstance(each, str):
                raise FieldError(field, f"{shown(each)} is not text", "put it in quotes")
        return tuple(value)

    def lenient(self, value: Any, field: str) -> tuple[str, ...]:
        """The texts of a scalar or of a list of scalars; null is refused."""
        is_list = isinstance(value, (list, tuple, set, frozenset))
        found = []
        for at, each in enumerate(listed(value if is_list else [value], field)):
            text = OPTIONAL_TEXT.lenient(each, f"{field}[{at}]")
            if text is None:
                raise FieldError(f"{field}[{at}]", "has no value", "leave it out")
            found.append(text)
        return tuple(found)


class _Hints(MappingOf):
    """All hints of a request. Lenient: a null hint is left out, and uuids of instances get their one spelling."""

    def lenient(self, value: Any, field: str) -> Mapping[str, tuple[str, ...]]:
        """The hints that have a value."""
        given = {name: each for name, each in MAPPING.lenient(value, field).items() if each is not None}
        return with_canonical_uuids(self._parsed(self.value.lenient, given, field))


def with_canonical_uuids(hints: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    """The hints, with uuids of instances in their one spelling: as all instances here are spelt."""
    spelt = {name: tuple(map(canonical_uuid, hints[name])) for name in _INSTANCE_HINTS if name in hints}
    return MAPPING.strict({**hints, **spelt}, "") if spelt else hints


HINTS = _Hints(_HintTexts())
