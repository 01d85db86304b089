# SPDX-License-Identifier: Apache-2.0
"""The replica of a fleet in Roost's own database: the numbered change log (docs/adr/0007) says what has to be read.

`[scheduler] host_manager` says how nodes of bare metal are read: as all others, or as nova had it before Rocky, a
service host with many nodes, each allocated as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import datetime

from sqlalchemy import Connection, Engine

from roost.hosts import HostTable
from roost.hosts.record import Pair
from roost.records.outages import HeartbeatRule
from roost.scheduler.options import SchedulerOptions
from roost.scheduler.own_source import (
    ChangedNodes,
    Heartbeat,
    NodeIndex,
    PendingReads,
    ReadOptions,
    read_all,
    read_heartbeats,
)
from roost.scheduler.replica import HeartbeatReader, HostManager, RefreshMetrics
from roost.store.change_log import NODES, Change, ChangeReader
from roost.store.store_clock import FollowedClock, StoreClock
from roost.store.transactions import database_errors

_MANY_NODES = 500
"""If more nodes than this plus a quarter of the fleet changed, reading everything is less work."""


class StoreSource:
    """A `FleetSource` over Roost's database."""

    def __init__(
        self,
        engine: Engine,
        seconds_until_down: float,
        reads_bare_metal: bool,
        wall_clock: Callable[[], datetime],
        monotonic_clock: Callable[[], float],
        times: StoreClock | None = None,
    ) -> None:
        """`wall_clock`: aware times; `monotonic_clock`: seconds that only go forward.

        `times`: the clock of the database, with which heartbeats are compared; None: `wall_clock`.
        `reads_bare_metal`: nodes of hypervisor type ironic are read as nova's IronicHostManager read them.
        """
        self._engine, self.reads_bare_metal = engine, reads_bare_metal
        self.monotonic = monotonic_clock
        self.clock = FollowedClock(times, wall_clock, monotonic_clock)
        self.changes = ChangeReader(monotonic_clock)
        self.pending: dict[Change, None] = {}
        """Changes that were seen in the log and are not in the table yet: reading may fail half-way."""
        self.heartbeats = HeartbeatReader(seconds_until_down)

    follows_instances = False
    """nova's agents tell of instances by messages only."""
    reads_flags_first = False
    """They are in the change log, which is read with everything else."""

    @contextmanager
    def opened(self) -> Iterator[_StoreReader]:
        """A reader with a connection of its own."""
        with database_errors(self._engine), self._engine.connect() as connection:
            yield _StoreReader(self, connection)
            connection.commit()  # nothing to commit; after a rollback psycopg drops all prepared statements

    def heartbeat_rule(self) -> HeartbeatRule:
        """What tells living agents from silent ones now, by the clock of the database, which stamps heartbeats."""
        return self.heartbeats.rule(self.clock)

    def oldest_read_at(self) -> None:
        """None: each refresh reads everything that changed."""

    def note_applied(self) -> None:
        """The table has all changes that were read."""
        self.pending.clear()


class _StoreReader:
    """Reads over one connection."""

    def __init__(self, source: StoreSource, connection: Connection) -> None:
        self._source, self._connection = source, connection

    def read_all(self) -> ChangedNodes:
        """All nodes. The change log comes first, so that what changes meanwhile is read again."""
        self._source.changes.start(self._connection)
        self._source.heartbeats.read_clock(self._connection, self._source.clock)
        found = read_all(self._connection, self._options())
        self._source.heartbeats.note_all(self._source.monotonic())
        return found

    def read_changes(self, table: HostTable, known: NodeIndex, also: Collection[Pair]) -> ChangedNodes | None:
        """The nodes that the change log names; None where it has been pruned, or names too many."""
        pending = self._source.pending
        found = self._source.changes.read(self._connection)
        if found is None:
            return None
        pending.update(dict.fromkeys(found))
        ids = (known.ids[pair] for pair in also if pair in known.ids)
        pending.update(dict.fromkeys(Change(NODES, str(number)) for number in ids))
        wanted = PendingReads(pending)
        wanted.resolve(self._connection, known, table)
        if len(wanted.nodes) > _MANY_NODES + len(table.names) // 4:
            return None
        return wanted.read(self._connection, known, self._options())

    def read_flags(self) -> ChangedNodes:
        """None: the change log has them."""
        return ChangedNodes()

    def read_heartbeats(self) -> list[Heartbeat]:
        """The heartbeats that are due to be read now, possibly none."""
        return self._source.heartbeats.read(self._connection, self._source.clock, self._source.monotonic())

    def read_heartbeats_of(self, hosts: Collection[str]) -> list[Heartbeat]:
        """The last heartbeats of these hosts."""
        return read_heartbeats(self._connection, hosts)

    def _options(self) -> ReadOptions:
        source = self._source
        return ReadOptions(source.heartbeat_rule(), source.reads_bare_metal)


class IronicHostManager(HostManager):
    """Reads nodes of hypervisor type `ironic` as nova's manager of this name did, and all other nodes as usual.

    Of an ironic node totals, free amounts and stats are read; instances, metrics, PCI devices and NUMA cells are not,
    and `disk_available_least` does not lower its disk. `HostTable.consume` allocates the whole node to one instance,
    with any host manager.

    With `use_baremetal_filters` the pipeline runs `baremetal_enabled_filters`: see `SchedulerOptions.filters_to_run`.
    """

    reads_bare_metal = True


def make_host_manager(
    engine: Engine,
    options: SchedulerOptions,
    wall_clock: Callable[[], datetime],
    monotonic_clock: Callable[[], float],
    metrics: RefreshMetrics | None = None,
    times: StoreClock | None = None,
) -> HostManager:
    """The host manager that `[scheduler] host_manager` names, in any of nova's spellings, over Roost's database.

    `times`: the clock of the database, with which heartbeats are compared; None: `wall_clock`.
    """
    kind = IronicHostManager if options.is_for_bare_metal else HostManager
    seconds = options.seconds_until_down
    source = StoreSource(engine, seconds, kind.reads_bare_metal, wall_clock, monotonic_clock, times)
    return kind(source, options, wall_clock, monotonic_clock, metrics)
