# SPDX-License-Identifier: Apache-2.0
"""Numbered changes: who writes says what changed, who keeps a picture of it reads what is new. See docs/adr/0007.

| subject | key | what changed |
| --- | --- | --- |
| `compute_nodes` | node id | the node came, went, or has another report, other traits or other inventories |
| `allocations` | node id/consumer uuid | the consumer came to the node or left it, and with it what is used there |
| `services` | host | the service came, went, or was disabled, forced down, taken over; heartbeats are no changes |
| `aggregates` | aggregate id | the aggregate came, went, or has other hosts or metadata |
| `servers` | server uuid | the server is somewhere else, or nowhere |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Connection, Engine, Select, bindparam, delete, func, or_, select

from roost.store.bulk import insertion
from roost.store.engine import IDLE_TRANSACTION_SECONDS
from roost.store.schema import changes
from roost.store.statement_batch import Statement, is_key, send
from roost.store.transactions import writing

NODES, USAGE, SERVICES, AGGREGATES, SERVERS = "compute_nodes", "allocations", "services", "aggregates", "servers"

PATIENCE_SECONDS = 2 * IDLE_TRANSACTION_SECONDS
"""For so long a missing number may still turn up. Writers add their changes last, so that they commit at once."""
KEPT_CHANGES = 1_000_000
"""Readers that are further behind read everything anew."""
_LOOKED_BACK = 50_000
"""So many numbers before the last may still be missing when a reader starts."""
_MOST_ASKED_FOR = 500
_MOST_PRUNED = 10_000
"""In one statement."""


class Change(NamedTuple):
    """Something that is not what it was."""

    subject: str
    key: str


def note_changes(connection: Connection, found: Collection[Change]) -> None:
    """Tell the readers: the last thing that a transaction does before it commits."""
    if found:
        connection.execute(*change_notes(connection.dialect.name, found))


def change_notes(dialect: str, found: Collection[Change]) -> Statement:
    """The same as part of a batch, its last."""
    return insertion(dialect, changes, ("subject", "subject_key"), list(found))


def prune(connection: Connection, keep: int = KEPT_CHANGES) -> int:
    """Delete all but the last so many numbers, the oldest of them: how many changes that were; 0 once it is done.

    The last one stays in any case.
    """
    lowest, highest = connection.execute(select(func.min(changes.c.number), func.max(changes.c.number))).one()
    if highest is None:
        return 0
    until = min(highest - max(keep, 1), lowest + _MOST_PRUNED - 1)
    return connection.execute(delete(changes).where(changes.c.number <= until)).rowcount


def prune_all(engine: Engine, keep: int = KEPT_CHANGES) -> None:
    """The same until it is done, each portion for itself: nobody waits long for it."""
    has_more = True
    while has_more:
        with writing(engine) as connection:
            has_more = bool(prune(connection, keep))


def usage_key(node_id: int, consumer_uuid: str) -> str:
    """The key of a change of `allocations`."""
    return f"{node_id}/{consumer_uuid}"


def split_usage_key(key: str) -> tuple[int, str]:
    """Node id and consumer uuid again."""
    node_id, _, consumer_uuid = key.partition("/")
    return int(node_id), consumer_uuid


_FIELDS = select(changes.c.number, changes.c.subject, changes.c.subject_key).order_by(changes.c.number)
_IS_LATER = changes.c.number > bindparam("before", type_=BigInteger())
_LATER = _FIELDS.where(_IS_LATER)


@cache
def _later_or_missing(dialect: str) -> Select[Any]:
    return _FIELDS.where(or_(_IS_LATER, is_key(dialect, changes.c.number, "missing", is_one=False)))


class ChangeReader:
    """What changed since the last look, each change at least once, in whatever order transactions commit.

    Every number up to `highest` was seen, is known to be missing, or has been missing so long that it never comes.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: seconds that only go forward."""
        self._clock = clock
        self.highest = 0
        self._last: Change | None = None
        """What the highest number stands for. While that is there, no later one was pruned, and nobody has put back
        an earlier state of the database, whose numbers would come a second time."""
        self.missing: dict[int, float] = {}
        """Number -> since when it is missed. A transaction that was rolled back leaves such gaps, too."""

    def start(self, connection: Connection) -> None:
        """From here on: whoever reads all rows after this, and then follows the changes, misses none."""
        latest = select(changes.c.number).order_by(changes.c.number.desc()).limit(_LOOKED_BACK)
        numbers = sorted(connection.scalars(latest))
        last = connection.execute(_LATER, {"before": numbers[-1] - 1}).first() if numbers else None
        self._last = Change(last.subject, last.subject_key) if last else None
        is_young = len(numbers) < _LOOKED_BACK  # nothing was pruned yet: what is not there may still come
        self.highest, self.missing = 0 if is_young else numbers[0] - 1, {}
        self._note(numbers)

    def read(self, connection: Connection) -> list[Change] | None:
        """What is new, each once; None where some of it may be gone: `start` again, and read everything."""
        rows = send(connection, [self._unseen(connection.dialect.name)])[0].rows
        there = {number: Change(subject, key) for number, subject, key in rows}
        if self._last is not None and there.get(self.highest) != self._last:
            return None
        found = [change for number, change in there.items() if self._is_new(number)]
        later = [number for number in there if number > self.highest]
        for number in there:
            self.missing.pop(number, None)
        self._note(later)
        self._last = there.get(self.highest)
        return list(dict.fromkeys(found))

    def _unseen(self, dialect: str) -> Statement:
        """The last that was there, and those that were not; where too many are missing, some more that were."""
        before = self.highest - 1
        if len(self.missing) > _MOST_ASKED_FOR:
            return Statement(_LATER, {"before": min(min(self.missing) - 1, before)})
        if self.missing:
            return Statement(_later_or_missing(dialect), {"before": before, "missing": list(self.missing)})
        return Statement(_LATER, {"before": before})

    def _is_new(self, number: int) -> bool:
        return number > self.highest or number in self.missing

    def _note(self, numbers: Sequence[int]) -> None:
        """Numbers in order, all above the highest: between them may be some that are missing."""
        now = self._clock()
        for before, after in pairwise((self.highest, *numbers)):
            self.missing.update(dict.fromkeys(range(before + 1, after), now))
        self.highest = numbers[-1] if numbers else self.highest
        never = [number for number, since in self.missing.items() if now - since > PATIENCE_SECONDS]
        for number in never:
            del self.missing[number]
