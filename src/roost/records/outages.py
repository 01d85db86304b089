# SPDX-License-Identifier: Apache-2.0
"""Whether an agent is alive: its silence counts only while the database took heartbeats.

After an outage of the database every heartbeat is old, although all agents live. So conductors and schedulers, which
decide over silent hosts, write a probe every few seconds. A gap between two probes is an outage: the database was
away, full or read-only, the machine was suspended, or its clock jumped. An agent that was alive when an outage began
is down only if it is still silent `service_down_time` after the end. Without any probe, the clock alone decides.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, insert, null, select, update

from roost.errors import DatabaseConflict
from roost.store.schema.fleet import heartbeat_probes
from roost.store.store_clock import PresentTime
from roost.store.transactions import writing

LOG = logging.getLogger(__name__)
PROBES_UNTIL_DOWN, GAPS_UNTIL_DOWN = 20, 4
"""Probes within the down time, and how many times the shortest gap that is an outage fits into it."""
SHORTEST_PROBE_SECONDS, SHORTEST_GAP_SECONDS = 0.2, 1.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ONLY_ROW = heartbeat_probes.c.id == 1
_PROBE = [select(each).where(_ONLY_ROW).scalar_subquery().label(each.name) for each in heartbeat_probes.c]


def microseconds(moment: datetime) -> int:
    """Microseconds from 1970 to a moment: a whole number, so that a minute is a minute to the microsecond."""
    return (moment - _EPOCH) // _MICROSECOND


def probe_seconds(seconds_until_down: float) -> float:
    """Seconds between two probes of a process."""
    return max(seconds_until_down / PROBES_UNTIL_DOWN, SHORTEST_PROBE_SECONDS)


def longest_gap(seconds_until_down: float) -> float:
    """Seconds between two probes beyond which there was an outage."""
    return max(seconds_until_down / GAPS_UNTIL_DOWN, SHORTEST_GAP_SECONDS)


class Outage(NamedTuple):
    """A time in which no heartbeat could be written."""

    stopped_at: datetime
    """The last moment before it at which the database took a write."""
    resumed_at: datetime


class HeartbeatRule(NamedTuple):
    """Tells living agents from silent ones, as of one moment."""

    now: datetime
    seconds_until_down: float
    outage: Outage | None = None
    """The last one, which may last still."""

    def is_alive(self, seen_us: Any) -> Any:
        """Whether an agent with this last heartbeat, in microseconds since 1970, is alive; or an array of each.

        A heartbeat in the future counts by its distance, too: a clock was set back.
        """
        now_us, down_us = microseconds(self.now), round(self.seconds_until_down * 1_000_000)
        is_recent = abs(now_us - seen_us) <= down_us
        if self.outage is None or now_us - microseconds(self.outage.resumed_at) > down_us:
            return is_recent
        return is_recent | (seen_us >= microseconds(self.outage.stopped_at) - down_us)

    def is_row_up(self, row: Any) -> bool:
        """Whether a row of `services` is up: static, or alive by its last heartbeat or else its creation."""
        last = row.last_seen_up or row.created_at
        return bool(row.is_static or (last is not None and self.is_alive(microseconds(last))))


class ProbeRecord(NamedTuple):
    """The last probe, and the last outage that was found by one."""

    probed_at: datetime
    outage: Outage | None = None

    def outage_at(self, now: datetime, seconds_until_down: float) -> Outage | None:
        """The last outage as of now: one that no probe has ended lasts until now.

        One that begins before all agents have had the time for a heartbeat continues the one before.
        """
        if abs((now - self.probed_at).total_seconds()) <= longest_gap(seconds_until_down):
            return self.outage
        before = self.outage
        is_continued = before and abs((self.probed_at - before.resumed_at).total_seconds()) <= seconds_until_down
        return Outage(before.stopped_at if before and is_continued else self.probed_at, now)


def read_probe(connection: Connection, time: PresentTime) -> tuple[datetime, ProbeRecord | None]:
    """The present time, and the last probe, in one statement; None where there was none."""
    stamp = null() if isinstance(time, datetime) else time.stamp()
    row = connection.execute(select(stamp.label("present"), *_PROBE)).one()
    outage = Outage(row.stopped_at, row.resumed_at) if row.resumed_at else None
    now = time if isinstance(time, datetime) else row.present
    return now, ProbeRecord(row.probed_at, outage) if row.probed_at else None


def read_heartbeat_rule(connection: Connection, time: PresentTime, seconds_until_down: float) -> HeartbeatRule:
    """The rule for agents as of now, which knows the last outage of the database."""
    now, probe = read_probe(connection, time)
    return HeartbeatRule(now, seconds_until_down, probe.outage_at(now, seconds_until_down) if probe else None)


def save_probe(engine: Engine, time: PresentTime, seconds_until_down: float) -> Outage | None:
    """Record that the database takes writes now: the outage that ends with this, None where there was none.

    Several processes do so; a probe just after another one's writes nothing.
    """
    try:
        with writing(engine) as connection:
            now, probe = read_probe(connection, time)
            if probe is None:
                connection.execute(insert(heartbeat_probes).values(id=1, probed_at=now))
                return None
            outage = probe.outage_at(now, seconds_until_down)
            is_new = outage != probe.outage
            if not is_new and now - probe.probed_at < timedelta(seconds=probe_seconds(seconds_until_down) / 2):
                return None
            values = {"probed_at": now} | (outage._asdict() if is_new and outage else {})
            is_unchanged = heartbeat_probes.c.probed_at == probe.probed_at
            done = connection.execute(update(heartbeat_probes).where(_ONLY_ROW, is_unchanged).values(values))
    except DatabaseConflict:  # another process was faster
        return None
    if not (is_new and outage and done.rowcount):
        return None
    seconds = round((now - probe.probed_at).total_seconds())
    LOG.warning("the database took no heartbeats for %d s: hosts are given time for new ones", seconds)
    return outage
