# SPDX-License-Identifier: Apache-2.0
"""The replica: a table of hosts kept equal to the databases. `load` once, then `refresh` before each request.

Only what changed is read, by the `FleetReader` of a cloud (Roost's own: `own_source.py`). Which agents are alive is a
column beside the table, with the last heartbeat of each.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

import numpy as np
from sqlalchemy import Connection

from roost.best_effort import best_effort
from roost.errors import DatabaseError
from roost.hosts import HostTable, HostView, Instance
from roost.hosts.encoded import Array, RowArray
from roost.hosts.record import Pair
from roost.hosts.updates import rebuild_table, set_aggregates, set_instances, set_service, set_usage
from roost.model import Aggregate
from roost.records.node_reader import StoredNode
from roost.records.outages import HeartbeatRule, ProbeRecord, read_probe
from roost.scheduler.options import SchedulerOptions
from roost.scheduler.own_source import ChangedNodes, Heartbeat, NodeIndex, moment, read_heartbeats
from roost.sources.documents import gc_paused
from roost.store.store_clock import FollowedClock


class FleetReader(Protocol):
    """Reads nodes, aggregates and heartbeats, over connections that stay open meanwhile."""

    def read_all(self) -> ChangedNodes:
        """Everything. What changes meanwhile is read again by the next `read_changes`."""

    def read_changes(self, table: HostTable, known: NodeIndex, also: Collection[Pair]) -> ChangedNodes | None:
        """What changed since the last read, and the nodes in `also`; None where everything has to be read."""

    def read_flags(self) -> ChangedNodes:
        """The nodes of services that were disabled, enabled, forced down or deleted since the last read."""

    def read_heartbeats(self) -> list[Heartbeat]:
        """The heartbeats that are due to be read now, possibly none."""

    def read_heartbeats_of(self, hosts: Collection[str]) -> list[Heartbeat]:
        """The last heartbeats of these hosts."""


class FleetSource(Protocol):
    """The fleet as a cloud's databases have it."""

    @property
    def follows_instances(self) -> bool:
        """Whether each read finds the instances that came and left, so that messages of agents tell nothing new."""

    @property
    def reads_flags_first(self) -> bool:
        """Whether flags of services are read before each answer, however young the replica is."""

    def opened(self) -> AbstractContextManager[FleetReader]:
        """A reader."""

    def heartbeat_rule(self) -> HeartbeatRule:
        """What tells living agents from silent ones now, by the clock that heartbeats are compared with."""

    def oldest_read_at(self) -> float | None:
        """When the oldest part was read, by the monotonic clock; None: the last refresh has read all of it."""

    def note_applied(self) -> None:
        """The table has what was read last; until then the next `read_changes` returns it once more."""


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


LOG = logging.getLogger(__name__)

_NAMES_IN_A_LINE = 5


class RefreshResult(NamedTuple):
    """What a refresh changed in the table."""

    changed: int
    """Rows that were patched."""
    added: int
    removed: int
    is_full: bool
    """Whether everything was read, and the table is a new object."""


class RefreshMetrics(Protocol):
    """What counts refreshes."""

    def table_refreshed(self, hosts: int, seconds: float, *, is_full: bool, read_at: float) -> None:
        """A refresh took so long; `is_full`: it read everything; `read_at`: when its oldest part was read."""

    def table_refresh_failed(self, seconds: float) -> None:
        """A refresh failed after so long."""


class HostManager:
    """One scheduler's replica of the fleet.

    **Threads.** Any method may be called from any thread: each takes `lock`. A caller that places on `table` holds it
    while choosing and consuming, because a refresh may replace the table (hosts were added or removed).

    **Consumed but not claimed yet.** nova up to Ocata protects this from older rows by comparing times. Here a row
    that is read replaces the one in the table. A refresh while a claim is in flight may thus undo the consumption for
    a moment: the ledger decides, and the claim shows at the next refresh. After a refused claim the rows are reread
    (`refresh(also=...)`). As in nova since Pike, `num_io_ops` of an instance in flight is seen inside its request,
    and by other requests when the agent reports it.

    **Database outage.** `refresh` raises a DatabaseError, the table stays as it was, and the next refresh reads what
    this one did not.
    """

    reads_bare_metal = False
    """Whether nodes of hypervisor type ironic are read as nova's IronicHostManager read them."""

    def __init__(
        self,
        source: FleetSource,
        options: SchedulerOptions,
        wall_clock: Callable[[], datetime],
        monotonic_clock: Callable[[], float],
        metrics: RefreshMetrics | None = None,
    ) -> None:
        """`wall_clock`: aware times; `monotonic_clock`: seconds that only go forward."""
        self.lock = threading.RLock()
        self._source, self._options = source, options
        self._now, self._monotonic, self._metrics = wall_clock, monotonic_clock, metrics
        self.trouble = ""
        """Why the databases could not be read by the last refresh; empty where they could."""
        self.trouble_since: datetime | None = None
        """Since when each refresh failed; None where the last one did not."""
        self.refreshing_since: float | None = None
        """Since when, by the monotonic clock, the database is read; None while it is not."""
        if options.seconds_until_down != options.service_down_time:
            LOG.warning(
                "service_down_time (%d s) is not more than report_interval (%d s): raised to %d s",
                *(options.service_down_time, options.report_interval, options.seconds_until_down),
            )
        self._table = HostTable.of([])
        self._known = NodeIndex()
        self._liveness = Liveness()
        self._is_loaded = False
        self._hosts_with_known_instances: set[str] = set()
        """Hosts whose instances an agent's message or a read from the database has confirmed since the last load."""

    @property
    def table(self) -> HostTable:
        """All hosts; another object after hosts were added or removed."""
        return self._table

    def node_id(self, row: int) -> int:
        """The database id of the node in this row."""
        return self._known.ids[self._table.names[row]]

    # --- reading -----------------------------------------------------------------------------------------

    def load(self) -> RefreshResult:
        """Read everything."""
        with self.lock, self._source.opened() as reader:
            return self._load(reader)

    def refresh(self, also: Collection[Pair] = ()) -> RefreshResult:
        """Read what changed; `also`: nodes to read in any case, such as those on which a claim was refused."""
        started = self.refreshing_since = self._monotonic()
        try:
            found = self._refresh(also)
        except Exception as error:
            self.trouble = str(error) or type(error).__name__
            self.trouble_since = self.trouble_since or self._now()
            if self._metrics:
                self._metrics.table_refresh_failed(self._monotonic() - started)
            raise
        finally:
            self.refreshing_since = None
        self.trouble, self.trouble_since = "", None
        if self._metrics:
            seconds, oldest = self._monotonic() - started, self._source.oldest_read_at()
            read_at = started if oldest is None else min(started, oldest)
            self._metrics.table_refreshed(len(self._table.names), seconds, is_full=found.is_full, read_at=read_at)
        return found

    def refresh_flags(self) -> None:
        """Read flags of services, where the source has that read before each answer; nothing else."""
        if not self._source.reads_flags_first:
            return
        with self.lock:
            with self._source.opened() as reader:
                found = reader.read_flags()
            if found.asked:
                self._patch(found, self._source.heartbeat_rule())

    def _refresh(self, also: Collection[Pair]) -> RefreshResult:
        with self.lock:
            with self._source.opened() as reader:
                found = reader.read_changes(self._table, self._known, also) if self._is_loaded else None
                if found is None:
                    return self._load(reader)
                self._read_heartbeats(reader, found)
                rule = self._source.heartbeat_rule()
            return self._patch(found, rule)

    def _load(self, reader: FleetReader) -> RefreshResult:
        self._is_loaded = False  # until it is done
        with gc_paused():
            self._replace(reader.read_all())
        self._is_loaded = True
        return RefreshResult(0, len(self._table.names), 0, is_full=True)

    def _read_heartbeats(self, reader: FleetReader, found: ChangedNodes) -> None:
        """Read heartbeats; one that seems overdue is read by host name before the host counts as down."""
        found.heartbeats += reader.read_heartbeats()
        self._liveness.note(found.heartbeats)
        _, silent = self._liveness.find_changed(self._source.heartbeat_rule())
        if len(silent):
            hosts = {self._table.names[row][0] for row in silent.tolist()}
            self._liveness.note(reader.read_heartbeats_of(hosts))

    # --- into the table ----------------------------------------------------------------------------------

    def _replace(self, found: ChangedNodes) -> None:
        """Replace the table by a new one of what was read."""
        before, known = self._known.ids, NodeIndex()
        known.put_aggregates(found.aggregates)
        known.put(found.nodes)
        table = HostTable.of([node.record for node in found.nodes])
        table.known_aggregates = tuple(known.aggregates.values())
        table.packs_numa_cells = self._options.packing_host_numa_cells_allocation_strategy
        table.wall_clock = self._now
        table.instance_index.complete_from(self._table.instance_index)
        self._table, self._known = table, known
        self._liveness.note(found.heartbeats)
        self._liveness.follow(table)
        self._source.note_applied()
        self._hosts_with_known_instances.clear()
        self._log_findings(found, before.keys() - known.ids.keys())

    def _patch(self, found: ChangedNodes, rule: HeartbeatRule) -> RefreshResult:
        """Patch the table with what was read; liveness is judged as of the moment of reading."""
        table, version = self._table, self._table.changes.version
        self._patch_aggregates(found.aggregates)
        new = [node for node in found.nodes if not self._patch_node(node)]
        for node_id, usage in found.usage.items():
            row = table.find_row(self._known.pairs[node_id])
            if row is not None:
                set_usage(table, row, usage)
        changed = table.changes.rows_since(version)
        gone = self._known.find_gone(found.asked, found.nodes)
        self._known.drop(gone)
        self._known.put(found.nodes)
        if gone or new:
            self._reshape(gone, new)
        flipped = self._follow_liveness(rule)
        self._source.note_applied()
        self._log_findings(found, gone)
        count = table.changes.version - version if changed is None else len(changed)
        return RefreshResult(count + flipped, len(new), len(gone), is_full=False)

    def _patch_node(self, node: StoredNode) -> bool:
        """Patch a node's row with its report; False where the table does not have the node."""
        row = self._table.find_row((node.record.host, node.record.nodename))
        if row is not None:
            aggregates = self._known.of_host.get(node.record.host, ())  # those in the record may be older
            self._table.update(row, replace(node.record, aggregates=aggregates))
            self._liveness.note_row(row)
        return row is not None

    def _reshape(self, gone: Collection[Pair], new: Sequence[StoredNode]) -> None:
        rows = {row for pair in gone if (row := self._table.find_row(pair)) is not None}
        of_host = self._known.of_host
        records = [replace(node.record, aggregates=of_host.get(node.record.host, ())) for node in new]
        self._table = rebuild_table(self._table, rows, records)
        self._liveness.follow(self._table)

    def _follow_liveness(self, rule: HeartbeatRule) -> int:
        """Set hosts up or down by their heartbeats; returns how many changed."""
        risen, silent = (rows.tolist() for rows in self._liveness.find_changed(rule))
        services = self._table.encoded["service"]
        for rows, up in ((risen, True), (silent, False)):
            for row in rows:
                set_service(self._table, row, replace(services.at(row), up=up))
                self._liveness.note_row(row)
            if rows:
                names = _some(self._table.names[row][0] for row in rows)
                LOG.info("%s: %s", "compute service is up" if up else "compute service was not heard of", names)
        return len(risen) + len(silent)

    @best_effort("log")
    def _log_findings(self, found: ChangedNodes, gone: Collection[Pair]) -> None:
        """Log what an operator should know of what was read."""
        if found.notes.without_service:
            LOG.warning("no compute service record for host %s", _some(found.notes.without_service))
        if found.notes.with_more_disk:
            LOG.warning("more disk than the database says is free on %s", _some(found.notes.with_more_disk))
        for host, node in sorted(gone):
            LOG.info("removing dead compute node %s:%s", host, node)

    # --- aggregates --------------------------------------------------------------------------------------

    def update_aggregates(self, aggregates: Aggregate | Iterable[Aggregate]) -> None:
        """Take over these aggregates as they are now: their hosts, names and metadata."""
        listed = [aggregates] if isinstance(aggregates, Aggregate) else list(aggregates)
        with self.lock:
            self._patch_aggregates({int(each.id): each for each in listed})

    def delete_aggregate(self, aggregate: Aggregate) -> None:
        """Remove this aggregate; no error if it is unknown."""
        with self.lock:
            self._patch_aggregates({int(aggregate.id): None})

    def _patch_aggregates(self, found: Mapping[int, Aggregate | None]) -> None:
        for host in self._known.put_aggregates(found):
            for row in self._table.rows_of_host(host):
                set_aggregates(self._table, row, self._known.of_host.get(host, ()))
        known = tuple(self._known.aggregates.values())
        if tuple(map(id, known)) != tuple(map(id, self._table.known_aggregates)):
            self._table.known_aggregates = known  # only then: answers are cached for as long as it is the same object

    # --- instances ---------------------------------------------------------------------------------------

    def update_instance_info(self, host: str, instances: Collection[Instance]) -> None:
        """Add instances that the agent reports to be on its host; for a host without known ones they are all."""
        with self.lock:
            row = self._row_reported_on(host)
            if row is None:
                return
            if self._knows_instances(host, row) or len(instances) > 1:
                set_instances(self._table, row, instances, ())
                self._hosts_with_known_instances.add(host)
            else:
                self._read_instances(host, "it was not known")
                for row in self._table.rows_of_host(host):  # the message may know more of an instance
                    there = self._table.instances.get(row, {})
                    set_instances(self._table, row, [each for each in instances if each.uuid in there], ())

    def delete_instance_info(self, host: str, uuid: str) -> None:
        """Remove an instance that the agent reports to have left its host."""
        with self.lock:
            row = self._row_reported_on(host)
            if row is None:
                return
            if self._knows_instances(host, row):
                set_instances(self._table, row, (), [uuid])
                self._hosts_with_known_instances.add(host)
            else:
                self._read_instances(host, "it was not known")

    def sync_instance_info(self, host: str, uuids: Collection[str]) -> None:
        """Compare with the complete list of the agent; where it differs, reread from the database."""
        with self.lock:
            row = self._row_reported_on(host)
            if row is None:
                return
            if not self._knows_instances(host, row):
                self._read_instances(host, "it was not known")
            elif set(self._table.instances.get(row, ())) == set(uuids):
                self._hosts_with_known_instances.add(host)
            else:
                self._read_instances(host, "its agent knows of others")

    def _row_reported_on(self, host: str) -> int | None:
        """The row that a message about a host's instances is for; None where none is, or messages are not tracked."""
        if self._source.follows_instances:
            return None
        rows = self._table.rows_of_host(host)
        if not self._options.track_instance_changes or self._is_bare_metal(rows):
            return None
        if len(rows) != 1:  # a message does not name the node: the database does
            LOG.info("instances of host %s: %d nodes, nothing to do", host, len(rows))
            return None
        return rows[0]

    def _is_bare_metal(self, rows: range) -> bool:
        return self.reads_bare_metal and any(self._table.numbers["is_bare_metal"][rows.start : rows.stop])

    def _knows_instances(self, host: str, row: int) -> bool:
        return host in self._hosts_with_known_instances or bool(self._table.instances.get(row))

    def _read_instances(self, host: str, why: str) -> None:
        try:
            self._refresh(also=[self._table.names[row] for row in self._table.rows_of_host(host)])
        except DatabaseError as error:
            # In an outage each host's message would be a line; the next message about the host leads here again.
            LOG.debug("instances of host %s could not be read: %s", host, error)
            return
        LOG.info("instances of host %s were read from the database: %s", host, why)
        self._hosts_with_known_instances.add(host)

    # --- asking ------------------------------------------------------------------------------------------

    def get_compute_nodes_by_host_or_node(
        self, host: str | None, node: str | None, cell: str | None = None
    ) -> list[HostView]:
        """The nodes of a host, or a node, or both; of the first nova cell that has some, unless one is named."""
        with self.lock:
            table = self._table
            rows: Iterable[int] = range(len(table.names)) if host is None else table.rows_of_host(host)
            found = [HostView(table, row) for row in rows if node is None or table.names[row][1] == node]
            cells = sorted({each.cell_uuid for each in found}) if cell is None else [cell]
            return [each for each in found if cells and each.cell_uuid == cells[0]]


def _some(names: Iterable[str]) -> str:
    """The first names of many, in one line."""
    listed = list(names)
    more = len(listed) - _NAMES_IN_A_LINE
    return ", ".join(listed[:_NAMES_IN_A_LINE]) + (f" and {more} more" if more > 0 else "")
