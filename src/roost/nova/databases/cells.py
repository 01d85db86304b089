# SPDX-License-Identifier: Apache-2.0
"""What was read from a cell's database: rows that changed, those that are gone, and up to which time that is known.

Times of rows come from the clocks of nova's services, have whole seconds on MariaDB, and become visible at the end of
their transaction. So each read goes back some seconds, and rows that were seen with the same content are no change.
What still escapes - a clock that is behind by more than OVERLAP, a transaction that takes longer - is found when all
rows are compared (reconcile).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import DateTime, bindparam

from roost.hosts import Instance
from roost.model import Service


class ReportedNode(NamedTuple):
    """A live row of `compute_nodes`."""

    id: int
    """Row id, which is unique within its cell."""
    fields: Mapping[str, Any]
    """Arguments of `HostRecord`: all but service, aggregates, instances, and what placement knows."""
    updated_at: datetime | None
    """When the row was written last, in UTC; whole seconds on MariaDB. None: never since it was made."""


class NovaComputeRow(NamedTuple):
    """A live row of `services` for nova-compute."""

    id: int
    host: str
    service: Service
    """Its flags; whether it is up follows from `last_seen`."""
    last_seen: datetime | None
    """The last heartbeat in UTC; before the first one, when the row was made."""
    report_count: int
    """Heartbeats so far."""
    version: int
    uuid: str | None


class PlacedInstance(NamedTuple):
    """A live row of `instances` that has a host."""

    instance: Instance
    host: str
    node: str | None
    user_id: str | None
    vm_state: str | None
    task_state: str | None


@dataclass
class CellChanges:
    """What changed since the last read. Applied to what was known before, it gives what the database has now."""

    is_full: bool = False
    """It is everything: what was known before and is not in here is gone."""
    nodes: list[ReportedNode] = field(default_factory=list)
    removed_nodes: set[int] = field(default_factory=set)
    """Row ids of nodes that were reported before and are deleted, or cannot be understood any more."""
    services: dict[str, NovaComputeRow] = field(default_factory=dict)
    """Host -> service that is new, or whose flags or version changed."""
    removed_services: set[str] = field(default_factory=set)
    """Hosts whose service was reported before and is deleted."""
    heartbeats: dict[str, datetime] = field(default_factory=dict)
    """Host -> last heartbeat, for those that moved."""
    instances: dict[str, tuple[PlacedInstance, ...]] = field(default_factory=dict)
    """Host -> all its instances by row id, for hosts where any changed; empty if none is left."""
    problems: list[str] = field(default_factory=list)
    """One line for each row that cannot be understood; it is said once, until the row changes."""

    def __bool__(self) -> bool:
        """Whether anything changed."""
        changed = self.nodes, self.removed_nodes, self.services, self.removed_services, self.heartbeats
        return self.is_full or any(changed) or bool(self.instances or self.problems)


def as_utc(moment: datetime | None) -> datetime | None:
    """A time of nova's databases, which have UTC without a zone, with its zone."""
    return None if moment is None else moment.replace(tzinfo=UTC)


OVERLAP = timedelta(seconds=5)
"""How far a read goes back behind the newest time that was seen."""
IDLE_WINDOW = timedelta(seconds=30)
"""How far a read goes back behind the last read at most, so that the last rows before a quiet time are not read for
ever: it bounds the difference between this machine's clock and those of nova's services."""

SINCE = bindparam("since", type_=DateTime())
"""Parameter of statements, which are built once: building one takes longer than a small result."""


class Watermark:
    """The newest time seen in a table, and when it was read last."""

    def __init__(self) -> None:
        self._newest: datetime | None = None
        self._read_at = datetime(1970, 1, 1)  # without a zone, as in the database

    @property
    def since(self) -> datetime:
        """The time, without a zone as in the database, from which on rows are to be read again."""
        earliest = self._read_at - IDLE_WINDOW
        newest = min(self._newest or earliest, self._read_at)  # a clock that is ahead must not hide the others
        return max(newest - OVERLAP, earliest)

    def advance(self, read_at: datetime, times: Iterable[datetime | None]) -> None:
        """Record a read that began at `read_at`, with the times of its rows, None for a NULL."""
        self._read_at = read_at.astimezone(UTC).replace(tzinfo=None)
        self._newest = max((each for each in (self._newest, *times) if each is not None), default=None)
