# SPDX-License-Identifier: Apache-2.0
"""Uuids have one spelling inside: in lower case, with dashes. Every door where a uuid comes in uses this module."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from roost.model.fields import NAME, Names
from roost.model.kinds import Kind, OrNull, Schema, String

LONGEST_UUID = 36
"""Characters of a uuid in its one spelling, and of columns that hold uuids."""
_LONGEST_SPELLING = len("urn:uuid:") + LONGEST_UUID + len("{}")
_CANONICAL = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OTHER_SPELLING = re.compile(
    r"(?:urn:uuid:)?(\{)?"
    r"([0-9a-f]{8})(-?)([0-9a-f]{4})\3([0-9a-f]{4})\3([0-9a-f]{4})\3([0-9a-f]{12})"
    r"(?(1)\})",
    re.IGNORECASE,
)


def canonical_uuid(text: str) -> str:
    """The uuid in lower case with dashes, also from capitals, without dashes, in braces or as urn:uuid:...

    A text that is no uuid comes back unchanged.
    """
    # A text of 36 characters without capitals is spelt so already, or no uuid at all: this is a hot path.
    if len(text) == LONGEST_UUID and text == text.lower():
        return text
    return _respelt(text)


def is_uuid(text: str) -> bool:
    """Whether a text is a uuid, in any of the spellings that `canonical_uuid` knows."""
    return _CANONICAL.fullmatch(canonical_uuid(text)) is not None


def _respelt(text: str) -> str:
    found = _OTHER_SPELLING.fullmatch(text) if len(text) <= _LONGEST_SPELLING else None
    return "-".join(found.group(2, 4, 5, 6, 7)).lower() if found else text


@dataclass(frozen=True)
class UuidText(String):
    """A text that may be a uuid: a uuid is brought into its one spelling, other texts stay as they are."""

    def strict(self, value: Any, field: str) -> str:
        """The canonical uuid, or the text."""
        return canonical_uuid(super().strict(value, field))


class UuidOnly(Kind[str]):
    """A uuid in any spelling, and nothing else; the result is in its one spelling."""

    mismatch = "is no uuid"
    remedy = "32 digits from 0 to f, with or without dashes"

    def strict(self, value: Any, field: str) -> str:
        """The canonical uuid."""
        uuid = canonical_uuid(value) if isinstance(value, str) else ""
        if not _CANONICAL.fullmatch(uuid):
            raise self.refusal(value, field)
        return uuid

    @property
    def schema(self) -> Schema:
        """A string."""
        return {"type": "string"}


class NodeUuid(Kind[str]):
    """The uuid of a node in a fleet file: a uuid in its one spelling, or any printable text."""

    def strict(self, value: Any, field: str) -> str:
        """The canonical uuid, or the text."""
        return canonical_uuid(NAME.strict(value, field))

    @property
    def schema(self) -> Schema:
        """A string."""
        return NAME.schema


@dataclass(frozen=True)
class UuidTexts(Names):
    """A list of texts that may be uuids, each of which is brought into its one spelling."""

    entry: Kind[Any] = UuidText()

    def strict(self, value: Any, field: str) -> Any:
        """The texts of a list, of a set or a single text."""
        return (canonical_uuid(value),) if isinstance(value, str) else super().strict(value, field)


UUID = UuidOnly()
OptionalUuid = Annotated[str | None, OrNull(UuidText(may_be_empty=True))]
UuidTuple = Annotated[tuple[str, ...], UuidTexts()]
UuidField = Annotated[str, UuidText()]
