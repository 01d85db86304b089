# SPDX-License-Identifier: Apache-2.0
"""Which agents are alive: the last heartbeat of each, as a column beside the table of hosts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import numpy as np
from sqlalchemy import Connection

from roost.hosts import HostTable
from roost.hosts.arrays import Array, RowArray
from roost.records.outages import HeartbeatRule, ProbeRecord, read_probe
from roost.scheduler.replica.heartbeats import Heartbeat, moment, read_heartbeats
from roost.store.store_clock import FollowedClock

SECONDS_BETWEEN_READS = 1.0
"""A host is down after a minute, so a second does not matter; a large fleet sends a thousand heartbeats in it."""
_SLACK = timedelta(seconds=1)
"""A heartbeat may carry a time this long before its transaction is visible."""
_NEVER = np.iinfo(np.int64).min // 2
"""Long ago, and yet no difference to now overflows."""


class Liveness:
    """Finds the rows whose agents came up or went down, by the heartbeats that were noted.

    Times are whole microseconds, so that exactly a minute is no more than a minute.
    """

    def __init__(self) -> None:
        self._last: dict[str, Heartbeat] = {}
        self._table = HostTable()
        self._seen_us: Array = np.empty(0, dtype=np.int64)
        self._is_static: Array = np.empty(0, dtype=np.bool_)
        self._counts_as_up: Array = np.empty(0, dtype=np.bool_)
        """Whether the table has the agent up, regardless of forced_down."""

    def follow(self, table: HostTable) -> None:
        """Judge the rows of this table from now on."""
        self._table = table
        last = [self._last.get(host, Heartbeat(host, None, is_static=False)) for host, _ in table.names]
        seen = [_NEVER if each.seen_us is None else each.seen_us for each in last]
        self._seen_us = np.array(seen, dtype=np.int64)
        self._is_static = np.array([each.is_static for each in last], dtype=np.bool_)
        self._counts_as_up = table.per_value("service", lambda service: bool(service.up))

    def note(self, heartbeats: Iterable[Heartbeat]) -> None:
        """Record new heartbeats."""
        for each in heartbeats:
            if self._last.get(each.host) != each:
                self._last[each.host] = each
                rows = self._table.rows_of_host(each.host)
                self._seen_us[rows.start : rows.stop] = _NEVER if each.seen_us is None else each.seen_us
                self._is_static[rows.start : rows.stop] = each.is_static

    def note_row(self, row: int) -> None:
        """The service of this row was replaced in the table."""
        self._counts_as_up[row] = bool(self._table.encoded["service"].at(row).up)

    def find_changed(self, rule: HeartbeatRule) -> tuple[RowArray, RowArray]:
        """Rows whose agent is up and counts as down in the table, and rows where it is the reverse."""
        is_up = self._is_static | rule.is_alive(self._seen_us)
        return np.flatnonzero(is_up & ~self._counts_as_up), np.flatnonzero(~is_up & self._counts_as_up)


class HeartbeatReader:
    """Reads heartbeats: every second those newer than the newest seen, and all of them now and then.

    Times are those of the database's clock. A heartbeat that became visible late is seen when all are read; one with
    a time in the future, after that clock was set back, does not hide others: the watermark is never later than now.
    """

    def __init__(self, seconds_until_down: float) -> None:
        self._until_down = timedelta(seconds=seconds_until_down)
        self._newest_us: int | None = None
        self._read_at = self._read_all_at = float("-inf")
        self._probe: ProbeRecord | None = None
        """The last probe of the database, as it was read before the heartbeats."""

    def rule(self, clock: FollowedClock) -> HeartbeatRule:
        """What tells living agents from silent ones now."""
        now, seconds = clock.now(), self._until_down.total_seconds()
        return HeartbeatRule(now, seconds, self._probe.outage_at(now, seconds) if self._probe else None)

    def read_clock(self, connection: Connection, clock: FollowedClock) -> None:
        """Read the clock of the database, and its last probe."""
        present, self._probe = read_probe(connection, clock.present)
        clock.note(present)

    def note_all(self, tick: float) -> None:
        """All heartbeats were read at this time of the monotonic clock."""
        self._read_at = self._read_all_at = tick

    def read(self, connection: Connection, clock: FollowedClock, tick: float) -> list[Heartbeat]:
        """The heartbeats that are due to be read now, possibly none; the clock of the database is read with them."""
        if tick - self._read_at < SECONDS_BETWEEN_READS:
            return []
        is_time_for_all = tick - self._read_all_at >= self._until_down.total_seconds() / 2
        self.read_clock(connection, clock)
        now = clock.now()
        newest = now - self._until_down if self._newest_us is None else moment(self._newest_us)
        since = None if is_time_for_all else min(newest, now) - _SLACK
        found = read_heartbeats(connection, since=since)
        seen = [each.seen_us for each in found if each.seen_us is not None]
        self._newest_us = max((*seen, self._newest_us or 0)) or None
        self._read_at = tick
        self._read_all_at = tick if is_time_for_all else self._read_all_at
        return found
