# SPDX-License-Identifier: Apache-2.0
"""The row of this scheduler in nova's list of services: for operators, who see it with `compute service list`.

nova-scheduler keeps such a row in the database of `[database] connection`. A row of nova-scheduler on this host is
taken over, with its flags as they are: an operator may have disabled it. Other rows are never written.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.engine import URL
from sqlalchemy.exc import IntegrityError

from roost.nova_cloud.databases.writing_engine import open_for_writing, writing
from roost.nova_cloud.databases.written_tables import services
from roost.nova_cloud.write_rights import needs_rights

BINARY, TOPIC = "nova-scheduler", "scheduler"
VERSION = 74
"""The version of nova 34's services; a cloud with newer services gets theirs."""
CELL_DATABASE = "[database] connection"


class ServiceRecord:
    """Keeps the row: one `beat` every `report_interval` seconds."""

    def __init__(self, url: URL, host: str, now: Callable[[], datetime], randomness: random.Random) -> None:
        """`url`: of `[database] connection`, with its own user. `host`: of this service. Nothing is connected yet."""
        self._engine, self._host, self._now, self._randomness = open_for_writing(url), host, now, randomness

    def beat(self) -> None:
        """Say that this scheduler is up; DatabaseRefused without the right to write, or another DatabaseError."""
        with (
            needs_rights(self._engine.url, "SELECT, INSERT, UPDATE", "services"),
            writing(self._engine, CELL_DATABASE) as connection,
        ):
            if not self._update(connection):
                self._insert(connection)

    def _update(self, connection: Connection) -> bool:
        """Count a heartbeat in the row that is there; False where there is none."""
        now = self._moment()
        is_own = (services.c.host == self._host) & (services.c.binary == BINARY) & (services.c.deleted == 0)
        beat = {"report_count": services.c.report_count + 1, "last_seen_up": now, "updated_at": now}
        return connection.execute(update(services).where(is_own).values(beat)).rowcount > 0

    def _insert(self, connection: Connection) -> None:
        now, number = self._moment(), uuid.UUID(int=self._randomness.getrandbits(128), version=4)
        newest = connection.scalar(select(func.max(services.c.version)).where(services.c.deleted == 0))
        who = {"host": self._host, "binary": BINARY, "topic": TOPIC, "uuid": str(number)}
        flags = {"disabled": False, "forced_down": False, "deleted": 0}
        beat = {"report_count": 1, "last_seen_up": now, "created_at": now, "updated_at": now}
        try:
            connection.execute(insert(services).values(version=max(VERSION, newest or 0), **who, **flags, **beat))
        except IntegrityError:  # another worker of this service was faster
            self._update(connection)

    def _moment(self) -> datetime:
        """The time, without a zone as in the database."""
        return self._now().astimezone(UTC).replace(tzinfo=None)
