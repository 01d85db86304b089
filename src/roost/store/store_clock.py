# SPDX-License-Identifier: Apache-2.0
"""The clock of the database: times that several machines compare are stamped by one clock, the database server's.

So a clock that is wrong on the machine of an agent or of a scheduler changes nothing. SQLite has no server: all its
processes are on one machine, and their own clock is used.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, func, literal, select

from roost.clock import Clock
from roost.store.columns import MARIADB, UtcTime


def given_or_present(dialect: str, given: str) -> str:
    """SQL text: a time, or on PostgreSQL the present one by the database's clock where the time is NULL."""
    if dialect != "postgresql":
        return given
    return f"coalesce(CAST({given} AS timestamp), timezone('utc', clock_timestamp()))"


class StoreClock:
    """Times of one database; an expression for statements, or a value that is read now."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        """`clock`: used where the database has no server."""
        self._dialect, self._clock = engine.dialect.name, clock

    @property
    def has_server(self) -> bool:
        """Whether the database has a clock of its own."""
        return self._dialect != "sqlite"

    def stamp(self) -> Any:
        """An SQL expression for the present time in UTC, to be written to a column."""
        if self._dialect == "postgresql":
            return func.timezone("utc", func.clock_timestamp(), type_=UtcTime)
        if self._dialect in MARIADB:
            return func.utc_timestamp(6, type_=UtcTime)
        return literal(self._clock.now(), UtcTime)

    def read_or_none(self, connection: Connection) -> datetime | None:
        """The present time, in a round trip on MariaDB; None on PostgreSQL, where `given_or_present` stamps rows."""
        if self._dialect == "postgresql":
            return None
        return self.read(connection) if self.has_server else self._clock.now()

    def read(self, connection: Connection) -> datetime:
        """The present time in UTC by the database's clock."""
        found: datetime = connection.execute(select(self.stamp())).scalar_one()
        return found


PresentTime = StoreClock | datetime
"""The clock of the database, or a fixed time, as tests and tools have it."""


def read_time(time: PresentTime, connection: Connection) -> datetime:
    """The present time in UTC."""
    return time.read(connection) if isinstance(time, StoreClock) else time


def read_time_or_none(time: PresentTime, connection: Connection) -> datetime | None:
    """The present time in UTC; None by the clock of PostgreSQL, which stamps rows by itself (`given_or_present`)."""
    return time.read_or_none(connection) if isinstance(time, StoreClock) else time


def stamp_of(time: PresentTime) -> Any:
    """The present time to be written to a column: an SQL expression, or the fixed time."""
    return time.stamp() if isinstance(time, StoreClock) else time


class FollowedClock:
    """The present time by the clock of the database without a round trip: as it was last read, and what passed since.

    What passed is measured by the monotonic clock, so it does not matter how wrong the clock of this machine is.
    """

    def __init__(
        self,
        times: StoreClock | None,
        wall_clock: Callable[[], datetime],
        monotonic_clock: Callable[[], float],
    ) -> None:
        """`times`: the clock to follow; None, or that of a database without a server: `wall_clock` is asked."""
        self._times = times if times is not None and times.has_server else None
        self._wall_clock, self._monotonic = wall_clock, monotonic_clock
        self._read: tuple[datetime, float] | None = None

    def now(self) -> datetime:
        """The present time in UTC."""
        if self._read is None:
            return self._wall_clock()
        time, tick = self._read
        return time + timedelta(seconds=self._monotonic() - tick)

    @property
    def present(self) -> PresentTime:
        """The clock that is followed, to be read with other things; or the time now, where none is."""
        return self._wall_clock() if self._times is None else self._times

    def note(self, time: datetime) -> None:
        """Take over what `present` was read as just now."""
        if self._times is not None:
            self._read = time, self._monotonic()
