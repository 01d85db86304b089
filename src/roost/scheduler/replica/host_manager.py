# SPDX-License-Identifier: Apache-2.0
"""Keeps the table of hosts equal to the databases: `load` once, then `refresh` before each request.

Only what changed is read (`fleet_source.py`: for Roost's own database `store_source.py`); this module patches the
table, and `liveness.py` judges heartbeats.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple, Protocol

from roost.best_effort import best_effort
from roost.errors import DatabaseError
from roost.hosts import HostTable, HostView, Instance
from roost.hosts.record import Pair
from roost.hosts.updates import rebuild_table, set_aggregates, set_instances, set_service, set_usage
from roost.model import Aggregate
from roost.records.node_reader import StoredNode
from roost.records.outages import HeartbeatRule
from roost.scheduler.options import SchedulerOptions
from roost.scheduler.replica.changed_nodes import ChangedNodes, NodeIndex
from roost.scheduler.replica.fleet_source import FleetReader, FleetSource
from roost.scheduler.replica.liveness import Liveness
from roost.sources.documents import gc_paused

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
