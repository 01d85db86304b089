# SPDX-License-Identifier: Apache-2.0
"""A nova cloud of three hosts whose databases and placement are in memory."""

import uuid
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from sqlalchemy.engine import make_url

from roost.hosts.record import Inventory
from roost.model import Service
from roost.nova.claims import ClaimJournal, OwnClaims, PlacementGranter
from roost.nova.databases.api import ApiState, Cell
from roost.nova.databases.tables import CellChanges, NovaComputeRow, ReportedNode
from roost.nova.placement.providers import Provider, ProviderChanges
from roost.nova.source import CellState, NovaSource
from roost.scheduler.options import SchedulerOptions
from roost.scheduler.replica import HostManager
from roost.services.metrics import Metrics

HOSTS = {"a": 1, "b": 2, "c": 3}
NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)


def node_uuid(host):
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, host))


class SmallCloud:
    """The replica and granter of a scheduler, and what they read, which a test may change."""

    def __init__(self):
        self.now = NOON
        self.cells = {}
        self.api, self.providers, self.writer = SmallApi(), SmallProviders(), SmallWriter()
        self.cell = self.add_cell(2, HOSTS)
        own = OwnClaims()
        self.metrics = Metrics(clock=self)
        unreadable = self.metrics.cells_unreadable
        self.source = NovaSource(self.api, self.open_cell, self.providers, own, lambda: self.now, 60, unreadable)
        self.replica = HostManager(
            self.source, SchedulerOptions(), lambda: self.now, self.monotonic, metrics=self.metrics
        )
        self.candidates = SmallCandidates()
        self.journal = ClaimJournal(None, self.monotonic, 90)
        self.granter = PlacementGranter(
            self.writer, self.api, own, self.candidates, self.journal, self.source.find_pair, lambda: self.now
        )

    def add_cell(self, number, hosts):
        cell = Cell(number, node_uuid(f"cell{number}"), f"cell{number}", make_url("mysql://nova"))
        self.cells[cell.uuid] = made = SmallCell(hosts, self.now)
        self.api.add_cell(cell, hosts)
        for host in hosts:
            self.providers.put(host)
        return made

    def monotonic(self):
        return self.now.timestamp()

    def open_cell(self, cell):
        engine, clocks = SimpleNamespace(dispose=lambda: None), (self.monotonic, lambda: self.now)
        return CellState(cell, self.cells[cell.uuid], engine, 60, *clocks)


class SmallApi:
    """Stands in for `ApiReader`."""

    def __init__(self):
        self.state, self.is_changed = ApiState((), {}, ()), True

    def add_cell(self, cell, hosts):
        mapped = self.state.host_cells | dict.fromkeys(hosts, cell.id)
        self._set(self.state._replace(cells=(*self.state.cells, cell), host_cells=mapped))

    def unmap(self, host):
        self._set(
            self.state._replace(host_cells={name: at for name, at in self.state.host_cells.items() if name != host})
        )

    def map(self, host):
        self._set(self.state._replace(host_cells=self.state.host_cells | {host: self.state.cells[0].id}))

    def set_aggregates(self, *aggregates):
        self._set(self.state._replace(aggregates=aggregates))

    def _set(self, state):
        self.state, self.is_changed = state, True

    def read_all(self):
        self.is_changed = False
        return self.state

    def read_changes(self):
        return self.read_all() if self.is_changed else None


class SmallCell:
    """Stands in for `CellReader`."""

    def __init__(self, hosts, now):
        self.error, self.heartbeat_reads = None, 0
        self.attempts, self.on_failure = 0, lambda: None
        self.numbers = hosts
        self.all, self.changes = CellChanges(is_full=True), CellChanges()
        for host in hosts:
            self.put_node(host)
            self.put_service(host, Service(), now)

    def put_node(self, host, free_ram_mb=4096, updated_at=NOON - timedelta(hours=1)):
        sizes = {"vcpus_total": 8, "vcpus_used": 1, "total_usable_ram_mb": 8192, "free_ram_mb": free_ram_mb}
        disk = {"total_usable_disk_gb": 100, "free_disk_mb": 102400, "disk_mb_used": 0}
        fields = {"host": host, "node": host, "uuid": node_uuid(host), "cell": "cell", **sizes, **disk}
        for each in (self.all, self.changes):
            each.nodes = [node for node in each.nodes if node.fields["host"] != host]
            each.nodes.append(ReportedNode(self.numbers[host], fields, updated_at))

    def put_service(self, host, service, seen):
        for each in (self.all, self.changes):
            each.services[host] = NovaComputeRow(self.numbers[host], host, service, seen, 1, 74, None)

    def remove_service(self, host):
        del self.all.services[host]
        self.changes.services.pop(host, None)
        self.changes.removed_services.add(host)

    def beat(self, host, seen):
        self.changes.heartbeats[host] = seen

    def read_all(self):
        self._fail()
        self.changes = CellChanges()
        return self.all

    def read_changes(self, heartbeats):
        self._fail()
        self.heartbeat_reads += heartbeats
        found, self.changes = self.changes, CellChanges()
        return found

    def read_flags(self):
        self._fail()
        found = CellChanges(services=self.changes.services, removed_services=self.changes.removed_services)
        self.changes.services, self.changes.removed_services = {}, set()
        return found

    def _fail(self):
        self.attempts += 1
        if self.error:
            self.on_failure()
            raise self.error


class SmallProviders:
    """Stands in for `ProviderReader`."""

    def __init__(self):
        self.providers, self.changed, self.removed = {}, set(), set()
        self.is_complete = True
        self.full_reads, self.read_again = 0, []
        self.read_at = None

    def put(self, host, inventories=None, used=None):
        has = inventories or {"VCPU": Inventory(8), "MEMORY_MB": Inventory(8192), "DISK_GB": Inventory(100)}
        taken = {"VCPU": 1} if used is None else used
        self.providers[node_uuid(host)] = Provider(node_uuid(host), host, has, taken, frozenset({"COMPUTE_NODE"}))
        self.changed.add(node_uuid(host))

    def remove(self, uuid):
        del self.providers[uuid]
        self.removed.add(uuid)

    def read_all(self):
        self.full_reads += 1

    def read_some(self, uuids):
        self.read_again += uuids

    def take_changes(self):
        found = ProviderChanges(frozenset(self.changed), frozenset(self.removed))
        self.changed, self.removed = set(), set()
        return found


class SmallCandidates:
    """Stands in for `CandidateReader`."""

    found = None

    def find(self, spec, table, is_last_look):
        return self.found


class SmallWriter:
    """Stands in for `AllocationWriter`."""

    error = None

    def __init__(self):
        self.read_again = []

    def reread(self, providers):
        self.read_again += providers

    def claim(self, requests):
        if self.error:
            raise self.error
