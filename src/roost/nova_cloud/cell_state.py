# SPDX-License-Identifier: Apache-2.0
"""What is known of one cell: its nodes, services and instances, followed by reading what changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.engine import Engine

from roost.errors import DatabaseError
from roost.hosts import Instance
from roost.model import Service
from roost.nova_cloud.databases.cell_changes import CellChanges, ComputeService, PlacedInstance
from roost.nova_cloud.databases.cell_reader import CellReader
from roost.nova_cloud.databases.cells import Cell
from roost.records.outages import Outage, ProbeRecord, microseconds
from roost.scheduler.own_source import Heartbeat

LOG = logging.getLogger(__name__)
HEARTBEAT_SECONDS = 5.0
"""How often heartbeats are read: a host is down after a minute, and a read before each answer would fetch many."""
RETRY_FACTOR = 2.0
"""A cell that could not be read is retried after this many times the seconds that its failure took: a connection that
is refused delays no request, and one that times out must not delay each."""


@dataclass(frozen=True)
class CellNode:
    """A compute node of a cell."""

    state: CellState
    fields: Mapping[str, Any]
    """Arguments of `HostRecord` that its row gives."""
    written_at: datetime | None
    """When its row was written last."""

    @property
    def host(self) -> str:
        """The name of its service."""
        return str(self.fields["host"])


class CellState:
    """Nodes, services and instances of a cell. Not thread-safe: the source reads under the lock of the replica."""

    def __init__(
        self,
        cell: Cell,
        reader: CellReader,
        engine: Engine,
        seconds_until_down: float,
        monotonic_clock: Callable[[], float],
        wall_clock: Callable[[], datetime],
    ) -> None:
        self.cell, self._reader, self._engine = cell, reader, engine
        self._seconds_until_down, self._monotonic = seconds_until_down, monotonic_clock
        self._now = wall_clock
        self._read_heartbeats_at = -HEARTBEAT_SECONDS
        self.trouble = ""
        """Why it could not be read last time; empty where it could."""
        self.is_lasting = False
        """Whether somebody has to change something before it can be read: rights, or the address."""
        self._retry_at = 0.0
        self._is_reported = False
        """Whether the log says that it is left out."""
        self.nodes: dict[str, CellNode] = {}
        """Uuid -> node."""
        self.services: dict[str, ComputeService] = {}
        self._uuids: dict[int, str] = {}
        self._instances: dict[str, tuple[PlacedInstance, ...]] = {}
        self._last_seen: dict[str, datetime] = {}
        self._moved: set[str] = set()
        """Hosts whose heartbeat moved since `take_heartbeats`."""
        self._read_at: datetime | None = None
        """When it could be read last."""
        self._stalled_at: datetime | None = None
        """The newest heartbeat, where none came after it for longer than an outage may go unnoticed."""
        self._outage: Outage | None = None
        """The last time in which its agents could not write heartbeats, as far as it was seen here."""

    def read(self, is_full: bool = False) -> set[str]:
        """Read what changed, or everything: uuids of the nodes that this concerns. After a failure it may wait."""
        tick = self._monotonic()
        is_due = is_full or tick - self._read_heartbeats_at >= HEARTBEAT_SECONDS

        def read() -> CellChanges:
            changes = self._reader.read_all() if is_full else self._reader.read_changes(heartbeats=is_due)
            self._read_heartbeats_at = tick if is_due else self._read_heartbeats_at
            return changes

        concerned = self._attempt(read)
        if is_due and not self.trouble:
            self._look_for_stall()
        return concerned

    def read_flags(self) -> set[str]:
        """Read which services are out of service: uuids of the nodes that this concerns."""
        return self._attempt(self._reader.read_flags)

    def _attempt(self, read: Callable[[], CellChanges]) -> set[str]:
        """Take over what it reads; after a failure the cell is left out, and some attempts are skipped."""
        tick = self._monotonic()
        if self.trouble and tick < self._retry_at:
            return set()
        try:
            changes = read()
        except DatabaseError as error:
            self._retry_at = self._monotonic() + RETRY_FACTOR * (self._monotonic() - tick)
            is_new, self.trouble, self.is_lasting = not self.trouble, str(error), error.is_lasting
            return set(self.nodes) if is_new else set()
        concerned = self._apply(changes)
        was_away, read_before, self._read_at = bool(self.trouble), self._read_at, self._now()
        if not was_away:
            return concerned
        self.trouble = ""
        if read_before is not None:
            self._note_outage(read_before)
        return set(self.nodes) | concerned

    def _look_for_stall(self) -> None:
        """Notice that no agent wrote for some time, though it could be read: a full disk, a read-only database."""
        newest = max(self._last_seen.values(), default=None)
        if newest is None:
            return
        if self._stalled_at is not None and newest > self._stalled_at:
            self._note_outage(self._stalled_at)
        expected_since = max(newest, self._outage.resumed_at) if self._outage else newest
        is_stalled = (self._now() - expected_since).total_seconds() > self._seconds_until_down / 2
        self._stalled_at = newest if is_stalled else None

    def _note_outage(self, stopped_at: datetime) -> None:
        """Heartbeats can be written again: silence since then is not that of the agents."""
        before, now = self._outage, self._now()
        self._outage = ProbeRecord(stopped_at, before).outage_at(now, self._seconds_until_down)
        if self._outage != before:
            seconds = round((now - stopped_at).total_seconds())
            LOG.warning("cell %s took no heartbeats for %d s: its hosts are given time", self.cell.name, seconds)
            self._moved |= self.services.keys()

    def report(self) -> None:
        """Log that the cell is left out, or that it is not any more: once each."""
        if self.trouble and not self._is_reported:
            LOG.warning("cell %s is left out: it cannot be read: %s", self.cell.name, self.trouble)
        elif self._is_reported and not self.trouble:
            LOG.info("cell %s can be read again", self.cell.name)
        self._is_reported = bool(self.trouble)

    def close(self) -> None:
        """Close the connections to its database."""
        self._engine.dispose()

    def _apply(self, changes: CellChanges) -> set[str]:
        """Take over what changed: uuids of the nodes that this concerns."""
        concerned = set(self.nodes) if changes.is_full else set()
        if changes.is_full:
            self.nodes, self._uuids, self.services, self._instances, self._last_seen = {}, {}, {}, {}, {}
        for problem in changes.problems:
            LOG.warning("cell %s: %s", self.cell.name, problem)
        for number in changes.removed_nodes:
            if (gone := self._uuids.pop(number, None)) is not None:
                del self.nodes[gone]
                concerned.add(gone)
        for node in changes.nodes:
            uuid = str(node.fields["uuid"])
            self._uuids[node.id] = uuid
            self.nodes[uuid] = CellNode(self, node.fields, node.updated_at)
            concerned.add(uuid)
        return concerned | self._nodes_of(self._apply_hosts(changes))

    def _apply_hosts(self, changes: CellChanges) -> set[str]:
        """Take over services, heartbeats and instances: the hosts whose records change by that."""
        for host in changes.removed_services:
            self.services.pop(host, None)
        for host, service in changes.services.items():
            self.services[host] = service
            if service.last_seen is not None:
                self._last_seen[host] = service.last_seen
        self._last_seen.update(changes.heartbeats)
        self._moved |= changes.heartbeats.keys() | changes.services.keys()
        self._instances.update(changes.instances)
        return {*changes.removed_services, *changes.services, *changes.instances}

    def _nodes_of(self, hosts: Collection[str]) -> set[str]:
        return {uuid for uuid, node in self.nodes.items() if node.host in hosts} if hosts else set()

    # --- parts of host records ---

    def service_of(self, host: str, now: datetime) -> Service:
        """The service of a host, up if its last heartbeat is near enough."""
        seen = self._last_heartbeat(host)
        is_up = seen is not None and abs((now - seen).total_seconds()) <= self._seconds_until_down
        return replace(self.services[host].service, up=is_up)

    def _last_heartbeat(self, host: str) -> datetime | None:
        """The last heartbeat of a host; the end of the last outage, if the host was up when that began."""
        seen, outage = self._last_seen.get(host), self._outage
        if seen is None or outage is None or seen < outage.stopped_at - timedelta(seconds=self._seconds_until_down):
            return seen
        return max(seen, outage.resumed_at)

    def instances_of(self, node: CellNode) -> tuple[Instance, ...]:
        """The instances on a node; an instance whose row names no node is on every node of its host."""
        name = node.fields["node"]
        return tuple(each.instance for each in self._instances.get(node.host, ()) if each.node in (None, "", name))

    def heartbeats(self) -> list[Heartbeat]:
        """The last heartbeats of all hosts."""
        return self._heartbeats_of(self.services)

    def take_heartbeats(self) -> list[Heartbeat]:
        """The heartbeats that moved since the last call."""
        moved, self._moved = self._moved, set()
        return self._heartbeats_of(moved)

    def _heartbeats_of(self, hosts: Collection[str]) -> list[Heartbeat]:
        seen = ((host, self._last_heartbeat(host)) for host in hosts)
        return [Heartbeat(host, microseconds(last) if last else None, is_static=False) for host, last in seen]
