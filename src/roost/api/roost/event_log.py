# SPDX-License-Identifier: Apache-2.0
"""Decisions and changes of hosts as events with ids, from which a reader can go on after a lost connection.

The id of an event says what its reader has read by then, gaps included, so one that commits late is neither lost nor
sent twice (docs/adr/0007, 0025).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from sqlalchemy import Connection, Engine, func, select

from roost.errors import BadInput
from roost.records.decisions import DecisionStore, describe_listed
from roost.records.hypervisors import read_changed_hosts
from roost.store.change_log import ReadPosition, present_position
from roost.store.schema import changes, decisions
from roost.store.transactions import database_errors

DECISION, HOST = "decision", "host"
PAGE_SIZE = 500
"""Rows of each table in one read."""
Record = dict[str, Any]


class Event(NamedTuple):
    """Something that happened. `data` None: nothing that is told, but it moves the position."""

    kind: str
    number: int
    project_id: str | None
    data: Record | None


@dataclass(frozen=True)
class EventPosition:
    """How far a reader of events has got."""

    decisions: ReadPosition
    changes: ReadPosition

    def after(self, event: Event) -> EventPosition:
        """The position after one more event."""
        if event.kind == DECISION:
            return replace(self, decisions=self.decisions.after(event.number))
        return replace(self, changes=self.changes.after(event.number))

    @property
    def gaps(self) -> set[tuple[str, int]]:
        """Kind and number of the rows that may still appear."""
        parts = {DECISION: self.decisions, HOST: self.changes}
        return {(kind, number) for kind, part in parts.items() for number in part.missing}

    def without(self, gaps: Collection[tuple[str, int]]) -> EventPosition:
        """The position in which some gaps are no longer waited for."""
        given_up = {kind: [number for of, number in gaps if of == kind] for kind in (DECISION, HOST)}
        return EventPosition(self.decisions.without(given_up[DECISION]), self.changes.without(given_up[HOST]))

    def __str__(self) -> str:
        return f"d{self.decisions}.c{self.changes}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The position that `str` wrote; BadInput for any other text."""
        first, _, second = text.partition(".")
        if not (first.startswith("d") and second.startswith("c")):
            raise BadInput(f"Last-Event-ID: {text[:60]!r} is no id of an event", "send the last one that you got")
        return cls(ReadPosition.parse(first[1:]), ReadPosition.parse(second[1:]))


class EventLog:
    """Reads events of one database. Thread-safe."""

    def __init__(self, engine: Engine, store: DecisionStore) -> None:
        self._engine, self._store = engine, store

    def present(self) -> EventPosition:
        """The position of a reader that begins now."""
        with database_errors(self._engine), self._engine.connect() as connection:
            found = (present_position(connection, each) for each in (decisions.c.id, changes.c.number))
            return EventPosition(*found)

    def read(self, since: EventPosition, until: EventPosition | None = None) -> list[Event]:
        """Some events that a reader at `since` has not read, in order; none is left where there are none.

        `until`: only those that a reader there has read.
        """
        ends = (None, None) if until is None else (until.decisions, until.changes)
        with database_errors(self._engine), self._engine.connect() as connection:
            made = self._store.list_unread(connection, since.decisions, ends[0], PAGE_SIZE)
            changed = read_changed_hosts(connection, since.changes, ends[1], PAGE_SIZE)
        events = [Event(DECISION, row.id, row.project_id, describe_listed(row)) for row in made]
        for each in changed:
            told = {"host": each.host, "node": each.node, "changed": each.what} if each.host else None
            events.append(Event(HOST, each.number, None, told))
        return events

    def is_lost(self, position: EventPosition) -> bool:
        """Whether events after this position are gone: they were removed, or an older database was restored."""
        parts = ((decisions.c.id, position.decisions), (changes.c.number, position.changes))
        with database_errors(self._engine), self._engine.connect() as connection:
            return any(_is_gone(connection, number, part) for number, part in parts)


def _is_gone(connection: Connection, number: Any, position: ReadPosition) -> bool:
    first, last = connection.execute(select(func.min(number), func.max(number))).one()
    if last is None:
        return position.highest > 0
    return bool(first > position.highest + 1 or last < position.highest)
