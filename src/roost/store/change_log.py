# SPDX-License-Identifier: Apache-2.0
"""Numbered changes: writers record what changed, schedulers read what is new and update their replicas from it.

| subject | key | what changed |
| --- | --- | --- |
| `compute_nodes` | node id | the node was added or deleted, or its report, traits or inventories changed |
| `allocations` | node id/consumer uuid | the consumer's allocation on the node changed, and so what is used there |
| `guest_allocations` | node id | pinned CPUs, NUMA memory or PCI devices of the node were claimed or released |
| `services` | host | the service was added, deleted, disabled, enabled, forced down or taken over; not heartbeats |
| `aggregates` | aggregate id | the aggregate was added or deleted, or its hosts or metadata changed |
| `servers` | server uuid | the server is on another host, or on none |

Rows become visible in any order (docs/adr/0007): a gap in the numbers is a transaction that is open still, or was
rolled back. So a `ReadPosition` is the highest number, and the gaps below it. It is a value that fits into one line:
a client can keep it, and go on from there at another process.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise
from typing import Any, NamedTuple, Self

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
    Select,
    and_,
    bindparam,
    delete,
    func,
    or_,
    select,
)

from roost.errors import BadInput
from roost.store.columns import LARGEST_BIGINT
from roost.store.engine import IDLE_TRANSACTION_SECONDS
from roost.store.schema.history import changes
from roost.store.statements import Statement, insert_statement, is_key, send_batch
from roost.store.transactions import writing

NODES, USAGE, GUESTS = "compute_nodes", "allocations", "guest_allocations"
SERVICES, AGGREGATES, SERVERS = "services", "aggregates", "servers"

GAP_TIMEOUT_SECONDS = 2 * IDLE_TRANSACTION_SECONDS
"""How long a reader asks for a missing number in every read; after that its transaction was probably rolled back."""
OVERDUE_SECONDS = 6 * 3600.0
"""How long it asks for the number now and then: a COMMIT can hang in an fsync, in replication or in flow control."""
OVERDUE_CHECK_SECONDS = 5.0
"""How often it asks for some of the overdue numbers."""
_MOST_OVERDUE = 20_000
"""Overdue numbers that are kept; beyond that those are forgotten that were asked for the longest ago."""
KEPT_CHANGES = 1_000_000
"""Numbers that pruning keeps; a reader that is further behind reads all rows again."""
_START_WINDOW = 50_000
"""Numbers before the highest one among which a reader looks for gaps when it starts."""
_MOST_MISSING_KEYS = 500
"""Missing numbers that are asked for one by one; beyond that a whole range is read."""
_MOST_PRUNED = 10_000
"""Numbers that one statement deletes."""


class Change(NamedTuple):
    """A row that changed, without what changed in it."""

    subject: str
    """Table of the row."""
    key: str
    """Key of the row, as text."""


def record_changes(connection: Connection, found: Collection[Change]) -> None:
    """Append changes to the log. The transaction has to commit right after it: readers wait for its numbers."""
    if found:
        connection.execute(*changes_insert(connection.dialect.name, found))


def changes_insert(dialect: str, found: Collection[Change]) -> Statement:
    """The statement that appends changes to the log: the last one of a batch, right before the commit."""
    token = make_token()
    return insert_statement(dialect, changes, ("subject", "subject_key", "token"), [(*each, token) for each in found])


def make_token() -> int:
    """A random number for the changes of one transaction; after a restore, equal numbers have other tokens."""
    return secrets.randbits(62)


def prune(connection: Connection, keep: int = KEPT_CHANGES) -> int:
    """Delete the 10,000 oldest changes, except the last `keep` numbers: how many were deleted; 0: none is left.

    The highest number always stays.
    """
    lowest, highest = connection.execute(select(func.min(changes.c.number), func.max(changes.c.number))).one()
    if highest is None:
        return 0
    until = min(highest - max(keep, 1), lowest + _MOST_PRUNED - 1)
    return connection.execute(delete(changes).where(changes.c.number <= until)).rowcount


def prune_all(engine: Engine, keep: int = KEPT_CHANGES) -> None:
    """Delete all but the last `keep` numbers, in a transaction per 10,000 so that other writers do not wait long."""
    has_more = True
    while has_more:
        with writing(engine) as connection:
            has_more = bool(prune(connection, keep))


def usage_key(node_id: int, consumer_uuid: str) -> str:
    """The key of a change of `allocations`: node id/consumer uuid."""
    return f"{node_id}/{consumer_uuid}"


def split_usage_key(key: str) -> tuple[int, str]:
    """Node id and consumer uuid of a key made by `usage_key`."""
    node_id, _, consumer_uuid = key.partition("/")
    return int(node_id), consumer_uuid


_SELECT_CHANGES = select(changes.c.number, changes.c.subject, changes.c.subject_key, changes.c.token).order_by(
    changes.c.number
)
_IS_LATER = changes.c.number > bindparam("before", type_=BigInteger())
_SELECT_LATER = _SELECT_CHANGES.where(_IS_LATER)


@cache
def _select_later_or_missing(dialect: str) -> Select[Any]:
    return _SELECT_CHANGES.where(or_(_IS_LATER, is_key(dialect, changes.c.number, "missing", is_one=False)))


@cache
def _select_overdue(dialect: str) -> Select[Any]:
    return _SELECT_CHANGES.where(is_key(dialect, changes.c.number, "overdue", is_one=False))


class ChangeReader:
    """Reads each change at least once, in whatever order transactions commit.

    Invariant: every number up to `highest` was read, is in `missing` or in `overdue`, or was missing for
    OVERDUE_SECONDS; docs/adr/0017 has the exception.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: monotonic, in seconds."""
        self._clock = clock
        self.highest = 0
        """The highest number read so far."""
        self._last_row: Any = None
        """Number, subject, key and token of the change with the highest number. While it is in the log, no later one
        was pruned, and the database was not restored to an earlier state, which would assign the same numbers again
        with other tokens."""
        self.missing: dict[int, float] = {}
        """Gaps: number -> clock time at which it was first missed. Its transaction is open, or was rolled back."""
        self.overdue: dict[int, float] = {}
        """Gaps of more than GAP_TIMEOUT_SECONDS, as in `missing`; those that were asked for last are last."""
        self._asks_overdue_at = 0.0
        """Clock time before which no overdue number is asked for."""

    def start(self, connection: Connection) -> None:
        """Set the starting point. A caller that reads all rows after this, then all changes, misses none."""
        latest = select(changes.c.number).order_by(changes.c.number.desc()).limit(_START_WINDOW)
        numbers = sorted(connection.scalars(latest))
        last = connection.execute(_SELECT_LATER, {"before": numbers[-1] - 1}).first() if numbers else None
        self._last_row = tuple(last) if last else None
        is_whole_log = len(numbers) < _START_WINDOW  # numbers before the first one may still be committed
        self.highest, self.missing, self.overdue = 0 if is_whole_log else numbers[0] - 1, {}, {}
        self._advance(numbers)

    def read(self, connection: Connection) -> list[Change] | None:
        """The new changes, without duplicates; None if some may be lost: call `start` and read all rows again."""
        asked = self._due_overdue() if self.overdue else []
        there = self._read_rows(connection, asked)
        if self._last_row is not None and there.get(self.highest) != self._last_row:
            return None
        found = [Change(row[1], row[2]) for number, row in there.items() if self._is_new(number)]
        later = [number for number in there if number > self.highest]
        for number in there:
            self.missing.pop(number, None)
            self.overdue.pop(number, None)
        self._advance(later)
        if self.overdue:
            self._defer_overdue(asked)
        self._last_row = there.get(self.highest)
        return list(dict.fromkeys(found))

    def _read_rows(self, connection: Connection, overdue: list[int]) -> dict[int, Any]:
        """Number -> row: of the last change read, of later ones, missing ones and these overdue ones."""
        dialect = connection.dialect.name
        statements = [self._unread_statement(dialect)]
        if overdue:
            statements.insert(0, Statement(_select_overdue(dialect), {"overdue": overdue}))
        return {row[0]: row for result in send_batch(connection, statements) for row in result.rows}

    def _unread_statement(self, dialect: str) -> Statement:
        """Select the last change read, later ones and missing ones; if many are missing, others between them too."""
        before = self.highest - 1
        if len(self.missing) > _MOST_MISSING_KEYS:
            return Statement(_SELECT_LATER, {"before": min(min(self.missing) - 1, before)})
        if self.missing:
            return Statement(_select_later_or_missing(dialect), {"before": before, "missing": list(self.missing)})
        return Statement(_SELECT_LATER, {"before": before})

    def _is_new(self, number: int) -> bool:
        return number > self.highest or number in self.missing or number in self.overdue

    def _advance(self, numbers: Sequence[int]) -> None:
        """Record numbers that were read, sorted and above the highest, and the gaps between them."""
        now = self._clock()
        for before, after in pairwise((self.highest, *numbers)):
            self.missing.update(dict.fromkeys(range(before + 1, after), now))
        self.highest = numbers[-1] if numbers else self.highest
        overdue = [number for number, since in self.missing.items() if now - since > GAP_TIMEOUT_SECONDS]
        self.overdue.update({number: self.missing.pop(number) for number in overdue})

    def _due_overdue(self) -> list[int]:
        """The overdue numbers to ask for in this read: usually none, now and then those not asked for the longest."""
        if self._clock() < self._asks_overdue_at:
            return []
        return list(islice(self.overdue, _MOST_MISSING_KEYS))

    def _defer_overdue(self, asked: list[int]) -> None:
        """Put overdue numbers that were asked for at the end; forget those of more than OVERDUE_SECONDS."""
        now = self._clock()
        if asked:
            self._asks_overdue_at = now + OVERDUE_CHECK_SECONDS
        for number in asked:
            since = self.overdue.pop(number, None)
            if since is not None and now - since <= OVERDUE_SECONDS:
                self.overdue[number] = since
        for number in list(islice(self.overdue, max(0, len(self.overdue) - _MOST_OVERDUE))):
            del self.overdue[number]


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
