# SPDX-License-Identifier: Apache-2.0
"""The clock of the database: times that several machines compare are stamped by one clock, the database server's.

SQLite has no server: all its processes are on one machine, and their own clock is used.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, func, literal, select

from roost.clock import Clock
from roost.store.column_types import MARIADB, UtcTime


class StoreClock:
    """Times of one database; an expression for statements, or a value that is read now."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        """`clock`: used where the database has no server."""
        self._dialect, self._clock = engine.dialect.name, clock

    def stamp(self) -> Any:
        """An SQL expression for the present time in UTC, to be written to a column."""
        if self._dialect == "postgresql":
            return func.timezone("utc", func.clock_timestamp(), type_=UtcTime)
        if self._dialect in MARIADB:
            return func.utc_timestamp(6, type_=UtcTime)
        return literal(self._clock.now(), UtcTime)

    def read(self, connection: Connection) -> datetime:
        """The present time in UTC by the database's clock."""
        found: datetime = connection.execute(select(self.stamp())).scalar_one()
        return found
