# SPDX-License-Identifier: Apache-2.0
"""What a message says of a record beyond what the record holds: kept, so that it can be sent on as it came."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Sent(NamedTuple):
    """How a record looked in the message that it came in."""

    names: frozenset[str]
    """The fields that were there."""
    others: Mapping[str, Any]
    """Of these, the values of the fields that the record does not hold."""


class FromMessage:
    """A record that may have come in a message of nova's.

    Fields that nova has and nothing here decides by are attributes too, for people's own plugins: as they were
    sent, or else as `unheld` says. They take no part in comparing.
    """

    unheld: ClassVar[Mapping[str, Any]] = _NOTHING
    """Such a field -> what it is by default."""
    sent: ClassVar[Sent | None] = None

    def received(self, names: Collection[str], others: Mapping[str, Any] = _NOTHING) -> Self:
        """The record itself, which from now on knows how it was sent. Only for records that are not shared yet."""
        self.__dict__["sent"] = Sent(frozenset(names), others)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Down to ordinary dicts: who copies a record wants to change it."""
        twin = object.__new__(type(self))
        names = [each.name for each in fields(self)]  # type: ignore[arg-type]  # all of them are dataclasses
        twin.__dict__.update({name: copy.deepcopy(vars(self)[name], memo) for name in names}, sent=self.sent)
        return twin

    def unheld_value(self, name: str) -> Any:
        """A field that the record does not hold."""
        sent: Sent | None = self.__dict__.get("sent")
        if sent is not None and name in sent.others:
            return sent.others[name]
        if name in type(self).unheld:
            return type(self).unheld[name]
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    if not TYPE_CHECKING:  # or no misspelt attribute would be found

        def __getattr__(self, name: str) -> Any:
            return self.unheld_value(name)
