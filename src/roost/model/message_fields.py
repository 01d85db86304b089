# SPDX-License-Identifier: Apache-2.0
"""Fields of a message that a record does not hold: stored with the record, so that it can be sent on unchanged."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

_NO_FIELDS: Mapping[str, Any] = MappingProxyType({})


class Sent(NamedTuple):
    """The fields of the message that a record was parsed from."""

    names: frozenset[str]
    """Names of all fields in the message."""
    others: Mapping[str, Any]
    """Field -> value, for the fields of the message that the record does not hold."""


class FromMessage:
    """Base of records that may be parsed from a message of nova.

    Fields of nova's objects that Roost does not use are attributes too, for plugins: with the value that was sent,
    or else the default in `unheld`. They are ignored in comparisons.
    """

    unheld: ClassVar[Mapping[str, Any]] = _NO_FIELDS
    """Field that the record does not hold -> default value."""
    sent: ClassVar[Sent | None] = None

    def received(self, names: Collection[str], others: Mapping[str, Any] = _NO_FIELDS) -> Self:
        """Store the message's fields in the record, and return it. Only for records that are not shared yet."""
        self.__dict__["sent"] = Sent(frozenset(names), others)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy with ordinary, mutable dicts: plugins deep-copy a record in order to change it."""
        twin = object.__new__(type(self))
        names = [each.name for each in fields(self)]  # type: ignore[arg-type]  # subclasses are dataclasses
        twin.__dict__.update({name: copy.deepcopy(vars(self)[name], memo) for name in names}, sent=self.sent)
        return twin

    def unheld_value(self, name: str) -> Any:
        """The value of a field that the record does not hold: as sent, or the default. AttributeError if unknown."""
        sent: Sent | None = self.__dict__.get("sent")
        if sent is not None and name in sent.others:
            return sent.others[name]
        if name in type(self).unheld:
            return type(self).unheld[name]
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    if not TYPE_CHECKING:  # mypy would accept any misspelt attribute

        def __getattr__(self, name: str) -> Any:
            return self.unheld_value(name)
