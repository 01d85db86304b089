# SPDX-License-Identifier: Apache-2.0
"""How far a reader has got in a table whose rows the database numbers: the highest number, and the gaps below it.

Rows become visible in any order (docs/adr/0007): a gap is a transaction that is open still, or was rolled back. A
position is a value that fits into one line, so a client can keep it, and go on from there at another process.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

from sqlalchemy import ColumnElement, Connection, and_, or_, select

from roost.errors import BadInput
from roost.store.column_limits import LARGEST_BIGINT

MOST_GAPS = 200
"""Gaps that a position remembers: those with the highest numbers."""
_FORM = re.compile(rf"\d{{1,19}}(-\d{{1,19}}){{0,{MOST_GAPS}}}", re.ASCII)


@dataclass(frozen=True)
class ReadPosition:
    """All rows up to a number were read, but for some."""

    highest: int = 0
    missing: frozenset[int] = frozenset()
    """Numbers below the highest that were not there."""

    def has(self, number: int) -> bool:
        """Whether the row of this number was read, or has been given up."""
        return number <= self.highest and number not in self.missing

    def after(self, number: int) -> ReadPosition:
        """The position after one more row was read; each gap before it is missing."""
        if number <= self.highest:
            return ReadPosition(self.highest, self.missing - {number})
        gap = range(max(self.highest + 1, number - MOST_GAPS), number)
        missing = self.missing.union(gap) if gap else self.missing
        return ReadPosition(number, frozenset(sorted(missing)[-MOST_GAPS:]))

    def without(self, given_up: Collection[int]) -> ReadPosition:
        """The position in which some gaps are no longer waited for."""
        return ReadPosition(self.highest, self.missing.difference(given_up)) if given_up else self

    def __str__(self) -> str:
        gaps = (str(self.highest - each) for each in sorted(self.missing, reverse=True))
        return "-".join((str(self.highest), *gaps))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The position that `str` wrote; BadInput for any other text."""
        numbers = [int(each) for each in text.split("-")] if _FORM.fullmatch(text) else []
        if not numbers or numbers[0] > LARGEST_BIGINT or any(not 0 < each < numbers[0] for each in numbers[1:]):
            raise BadInput(f"{text[:60]!r} is no position")
        highest, *gaps = numbers
        return cls(highest, frozenset(highest - each for each in gaps))


NOWHERE = ReadPosition()


def is_unread(
    number: ColumnElement[int], since: ReadPosition, until: ReadPosition | None = None
) -> ColumnElement[bool]:
    """The condition for rows that were not read at `since`, and, if `until` is given, were read at that."""
    unread: ColumnElement[bool] = number > since.highest
    if since.missing:  # the first condition keeps databases from walking the index from its start
        unread = and_(number >= min(since.missing), or_(unread, number.in_(since.missing)))
    if until is None:
        return unread
    read = number <= until.highest
    return and_(unread, read, number.not_in(until.missing)) if until.missing else and_(unread, read)


def present_position(connection: Connection, number: ColumnElement[int]) -> ReadPosition:
    """The position of a reader that begins now: gaps among the latest numbers may still be committed."""
    latest = select(number).order_by(number.desc()).limit(MOST_GAPS)
    numbers = sorted(connection.scalars(latest))
    if not numbers:
        return NOWHERE
    first, last = max(numbers[0], numbers[-1] - MOST_GAPS), numbers[-1]
    return ReadPosition(last, frozenset(range(first, last)).difference(numbers))
