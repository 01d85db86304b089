# SPDX-License-Identifier: Apache-2.0
"""The fleet of a nova cloud: rows of nova's databases, with room and traits from placement.

A host is in the replica if it has a compute node and a service in a cell that can be read, a host mapping, and a
provider in placement. `CellState` has what is known of each cell. The API database and cells are read before an
answer, providers in the background. Until all providers were read once, hosts have no room in the replica, and
placement is asked for candidates (`placement/candidates.py`).

"Before an answer" means at most `longest_picture_age_seconds` before; flags of services are read before each.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.engine import Engine

from roost.errors import DatabaseError, NoReadableCell
from roost.hosts import HostRecord, HostTable, Instance, Inventory
from roost.hosts.record import Pair
from roost.model import Aggregate, Service
from roost.model.resources import DISK_GB, MEMORY_MB, VCPU
from roost.nova.claims import OwnClaims
from roost.nova.databases.api import ApiReader, ApiState, Cell
from roost.nova.databases.followers import CellReader
from roost.nova.databases.tables import CellChanges, NovaComputeRow, PlacedInstance
from roost.nova.placement.providers import Provider, ProviderReader
from roost.records.aggregates import HostAggregates, aggregates_of_hosts
from roost.records.node_reader import StoredNode
from roost.records.outages import HeartbeatRule, Outage, ProbeRecord, microseconds
from roost.scheduler.own_source import ChangedNodes, Heartbeat, NodeIndex

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
        self.services: dict[str, NovaComputeRow] = {}
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


NO_ROOM = Inventory(0)


class NovaSource:
    """A `FleetSource` over nova's databases and placement. One refresh at a time: the host manager holds its lock."""

    def __init__(
        self,
        api: ApiReader,
        open_cell: Callable[[Cell], CellState],
        providers: ProviderReader,
        own_claims: OwnClaims,
        now: Callable[[], datetime],
        seconds_until_down: float,
        note_unreadable: Callable[[int], None] = lambda count: None,
    ) -> None:
        """`open_cell`: opens the database of a cell. `now`: aware times. `seconds_until_down`: without a heartbeat.

        `note_unreadable`: is told after each read how many cells cannot be read.
        """
        self._api, self._open_cell, self._provider_reader = api, open_cell, providers
        self._own_claims, self._now, self._seconds_until_down = own_claims, now, seconds_until_down
        self._note_unreadable = note_unreadable
        self._api_state: ApiState | None = None
        self._cells: dict[str, CellState] = {}
        self._aggregates: HostAggregates = {}
        self._providers: Mapping[str, Provider] = {}
        self._has_all_providers = False
        self._numbers: dict[str, int] = {}
        """Node uuid -> a number that identifies the node to the host manager; row ids are unique in one cell only."""
        self._pairs: dict[str, Pair] = {}
        self._unapplied: set[str] = set()
        """Nodes that were read and are not in the table yet."""

    follows_instances = True
    """A message may even be wrong: after a live migration the old host lists the instance that it has lost."""
    reads_flags_first = True
    """nova's schedulers read services for each request, so operators rely on it that a host takes no server once the
    API has confirmed that it is disabled."""

    @contextmanager
    def opened(self) -> Iterator[NovaSource]:
        """The source itself, which reads over connections of its own."""
        yield self

    def heartbeat_rule(self) -> HeartbeatRule:
        """What tells living agents from silent ones by the clock of this machine: nova's agents stamp with theirs.

        Outages are those of a cell, which `CellState` takes into account.
        """
        return HeartbeatRule(self._now(), self._seconds_until_down)

    def oldest_read_at(self) -> float | None:
        """When placement's providers were read, by the monotonic clock; None: not yet."""
        return self._provider_reader.read_at

    def note_applied(self) -> None:
        """The table has all that was read."""
        self._unapplied.clear()

    def find_pair(self, node_uuid: str) -> Pair | None:
        """Host and node of a provider; None if the replica does not have it."""
        return self._pairs.get(node_uuid)

    def problems(self) -> list[str]:
        """One line for each cell that cannot be read."""
        return [
            f"cell {state.cell.name} cannot be read: {state.trouble}"
            for state in self._cells.values()
            if state.trouble
        ]

    def close(self) -> None:
        """Close the connections to all cells."""
        for state in self._cells.values():
            state.close()

    # --- reading ---

    def read_all(self) -> ChangedNodes:
        """Everything, from all databases, with the providers that were read so far."""
        self._take_api_state(self._api.read_all())
        for state in self._cells.values():
            state.read(is_full=True)
        self._check_cells()
        self._take_providers()
        found = ChangedNodes(aggregates={int(each.id): each for each in self._known_aggregates()})
        self._compose(found, {uuid for state in self._cells.values() for uuid in state.nodes})
        found.heartbeats = [beat for state in self._cells.values() for beat in state.heartbeats()]
        return found

    def read_changes(self, table: HostTable, known: NodeIndex, also: Collection[Pair]) -> ChangedNodes | None:
        """What changed in nova's databases, in the providers that were read meanwhile, and in `also`."""
        found, changed = ChangedNodes(), self._unapplied
        if (state := self._api.read_changes()) is not None:
            changed |= self._take_api_state(state)
        for cell in self._cells.values():
            changed |= cell.read()
        self._check_cells()
        changed |= self._take_providers() | self._uuids_of(also)
        changed |= self._own_claims.settle(self._written_at, self._now())
        # Compared with the table's, not with those read before: that read may have failed after the API database.
        aggregates = {int(each.id): each for each in self._known_aggregates()}
        if aggregates != known.aggregates:
            found.aggregates = {**dict.fromkeys(known.aggregates), **aggregates}
        self._compose(found, changed)
        return found

    def read_flags(self) -> ChangedNodes:
        """The nodes of services whose flags changed: one statement per cell."""
        found, changed = ChangedNodes(), self._unapplied
        for cell in self._cells.values():
            changed |= cell.read_flags()
        self._check_cells()
        self._compose(found, changed)
        return found

    def read_heartbeats(self) -> list[Heartbeat]:
        """All heartbeats that moved since the last call."""
        return [beat for state in self._cells.values() for beat in state.take_heartbeats()]

    def read_heartbeats_of(self, hosts: Collection[str]) -> list[Heartbeat]:
        """The last heartbeats of these hosts: they were read a moment ago."""
        return [beat for state in self._cells.values() for beat in state.heartbeats() if beat.host in hosts]

    def _uuids_of(self, pairs: Collection[Pair]) -> set[str]:
        """Uuids of the nodes of these names: their rows are composed again, without what was consumed there."""
        wanted = set(pairs)
        return {uuid for uuid, pair in self._pairs.items() if pair in wanted} if wanted else set()

    def _take_providers(self) -> set[str]:
        """Take over the snapshot of placement: the nodes, by uuid, that this concerns."""
        reader, had_all = self._provider_reader, self._has_all_providers
        self._has_all_providers = reader.is_complete  # read once: a background thread sets it
        changes, became_complete = reader.take_changes(), self._has_all_providers and not had_all
        if any(changes):
            self._providers = reader.providers
        if became_complete:
            return {uuid for state in self._cells.values() for uuid in state.nodes}
        return {*changes.changed, *changes.removed}

    def _written_at(self, node_uuid: str) -> datetime | None:
        node = self._find_node(node_uuid)
        return node.written_at if node else None

    def _check_cells(self) -> None:
        """Raise the trouble of a cell if there is no cell left that can be read; else log what is left out."""
        problems = self.problems()
        self._note_unreadable(len(problems))
        if problems and len(problems) == len(self._cells):
            error = NoReadableCell("; ".join(problems))
            error.is_lasting = all(state.is_lasting for state in self._cells.values())
            raise error
        for state in self._cells.values():
            state.report()

    # --- state ---

    def _known_aggregates(self) -> tuple[Aggregate, ...]:
        return self._api_state.aggregates if self._api_state else ()

    def _take_api_state(self, state: ApiState) -> set[str]:
        """Follow cells, host mappings and aggregates: the nodes, by uuid, that this may concern."""
        before, self._api_state = self._api_state, state
        for problem in set(state.problems) - set(before.problems if before else ()):
            LOG.warning("%s", problem)
        wanted = {cell.uuid: cell for cell in state.cells if not cell.is_cell0 and not cell.is_disabled}
        concerned: set[str] = set()
        for uuid in [uuid for uuid, known in self._cells.items() if wanted.get(uuid) != known.cell]:
            concerned |= self._cells[uuid].nodes.keys()
            self._cells.pop(uuid).close()
        for uuid, cell in wanted.items():
            if uuid not in self._cells:
                self._cells[uuid] = self._open_cell(cell)
        self._aggregates = aggregates_of_hosts(list(state.aggregates))
        if before is None or before.host_cells != state.host_cells:
            concerned |= {uuid for known in self._cells.values() for uuid in known.nodes}
        return concerned

    def _compose(self, found: ChangedNodes, uuids: Collection[str]) -> None:
        """Put the records of nodes into `found`; those that are not to be chosen are asked for and not there."""
        for uuid in uuids:
            number = self._numbers.setdefault(uuid, len(self._numbers) + 1)
            found.asked.add(number)
            node = self._find_node(uuid)
            record = self._record_of(uuid, node) if node else None
            if record is None:
                self._pairs.pop(uuid, None)
                continue
            self._pairs[uuid] = record.host, record.nodename
            found.nodes.append(StoredNode(number, record))

    def _find_node(self, uuid: str) -> CellNode | None:
        """A node of a cell that can be read, if its host is mapped to that cell."""
        mapped = self._api_state.host_cells if self._api_state else {}
        for state in self._cells.values():
            node = state.nodes.get(uuid)
            if node is not None and not state.trouble:
                is_mapped = mapped.get(node.host) == state.cell.id
                return node if is_mapped and node.host in state.services else None
        return None

    def _record_of(self, uuid: str, node: CellNode) -> HostRecord | None:
        provider = self._providers.get(uuid)
        if provider is None:
            if self._has_all_providers:
                return None
            provider = Provider(uuid, node.host, {}, {})  # placement is asked what there is
        record = HostRecord(
            **node.fields,
            service=node.state.service_of(node.host, self._now()),
            aggregates=self._aggregates.get(node.host, ()),
            instances=node.state.instances_of(node),
            traits=provider.traits,
            resources=dict.fromkeys((VCPU, MEMORY_MB, DISK_GB), NO_ROOM) | dict(provider.inventories),
            allocations=provider.used,
        )
        return self._own_claims.added_to(record)
