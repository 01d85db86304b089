# SPDX-License-Identifier: Apache-2.0
"""A nova cloud as a scheduler serves it: assembled from nova.conf as it is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy.engine import URL

from roost.clock import Clock
from roost.messages.interface import Notifier, Transport
from roost.messages.oslo import RpcOptions
from roost.model import ServerGroup
from roost.nova_cloud.abandoned_claims import AbandonedClaims
from roost.nova_cloud.candidates import CandidateReader
from roost.nova_cloud.cell_state import CellState
from roost.nova_cloud.claim_journal import ClaimJournal
from roost.nova_cloud.claims import PlacementGranter
from roost.nova_cloud.databases.api_reader import ApiReader
from roost.nova_cloud.databases.cell_reader import CellReader
from roost.nova_cloud.databases.cells import Cell, CellAddresses
from roost.nova_cloud.databases.read_only_engine import open_read_only, parse_nova_url
from roost.nova_cloud.decision_file import decision_file, state_folder
from roost.nova_cloud.host_discovery import HostDiscovery
from roost.nova_cloud.own_claims import OwnClaims
from roost.nova_cloud.placement.allocations import AllocationWriter
from roost.nova_cloud.placement.client import PlacementClient
from roost.nova_cloud.placement.health import PlacementHealth
from roost.nova_cloud.placement.keystone_adapter import make_adapter
from roost.nova_cloud.placement.provider_reader import ProviderReader
from roost.nova_cloud.placement_watch import PlacementWatch
from roost.nova_cloud.service_record import CELL_DATABASE, ServiceRecord
from roost.nova_cloud.source import NovaSource
from roost.nova_cloud.write_rights import RepeatedWrite
from roost.options.settings import Settings
from roost.records.recorder import DecisionRecorder
from roost.scheduler.cloud import BackgroundTask
from roost.scheduler.cloud_options import API_DATABASE, ApiDatabaseOptions, CellDatabaseOptions, CloudOptions
from roost.scheduler.manager import SchedulerManager
from roost.scheduler.options import SchedulerOptions, ServiceOptions
from roost.scheduler.prefilters import PrefilterOptions
from roost.scheduler.replica import HostManager
from roost.services.metrics import Metrics
from roost.store.engine import DatabaseOptions

ABANDONED_CLAIMS_SECONDS = 15.0
"""Between two looks at claims that were not answered."""
MOST_TASKS = 8
"""Threads that call placement beside those of requests: each background task has one."""
PATIENCE_MARGIN_SECONDS = 30.0
"""How much longer than `rpc_response_timeout` it takes until a caller has surely given up."""


class NovaCloud:
    """A `Cloud` over nova's databases and placement, which grants claims.

    The databases are only read, unless an option switches on one of the two writes (`tasks`).
    """

    def __init__(
        self,
        settings: Settings,
        files: Sequence[Path],
        *,
        clock: Clock,
        randomness: random.Random,
        metrics: Metrics,
    ) -> None:
        """`files`: config files, from which keystoneauth reads [placement]. Nothing is connected yet."""
        self._settings, self._clock, self._options = settings, clock, settings.fill(CloudOptions)
        scheduler, self._cell_options = settings.fill(SchedulerOptions), settings.fill(CellDatabaseOptions)
        self._seconds_until_down = scheduler.seconds_until_down
        interval = self._options.placement_read_interval
        health = PlacementHealth(clock.monotonic, interval)
        self._client = PlacementClient(
            make_adapter(files, settings.fill(RpcOptions).executor_thread_pool_size + MOST_TASKS),
            statistics=metrics.placement_called,
            clock=clock.monotonic,
            health=health,
        )
        self.providers = ProviderReader(self._client, clock.monotonic)
        self._watch = PlacementWatch(self.providers, health, clock, interval)
        self._api_engine = open_read_only(
            _api_url(settings), settings.fill(ApiDatabaseOptions).connection_recycle_time
        )
        addresses = self._addresses = CellAddresses(settings.fill(DatabaseOptions).connection, self._cell_options)
        reconcile = self._cell_options.database_reconcile_interval
        self.api = ApiReader(self._api_engine, addresses, clock, reconcile_seconds=reconcile)
        own_claims = OwnClaims()
        self._writes = self._make_writes(randomness)
        self.source = NovaSource(
            self.api,
            self._open_cell,
            self.providers,
            own_claims,
            clock.now,
            self._seconds_until_down,
            metrics.cells_unreadable,
        )
        self.replica = HostManager(self.source, scheduler, clock.now, clock.monotonic, metrics)
        writer = AllocationWriter(
            self._client,
            self.providers,
            checks_claims=self._options.placement_checks_claims,
            randomness=randomness,
            sleep=clock.sleep,
        )
        self._candidates = CandidateReader(
            self._client,
            self.providers,
            settings.fill(PrefilterOptions),
            takes_shared_cpus=not self._options.disable_fallback_pcpu_query,
        )
        patience = settings.fill(RpcOptions).rpc_response_timeout + PATIENCE_MARGIN_SECONDS
        self._decisions = decision_file(settings, clock=clock, randomness=randomness, metrics=metrics)
        self._journal = ClaimJournal(state_folder(self._options), self._seconds_since_epoch, patience)
        self._abandoned = AbandonedClaims(self._journal, self.api, self._client, self._seconds_since_epoch)
        self.granter = PlacementGranter(
            writer, self.api, own_claims, self._candidates, self._journal, self.source.find_pair, clock.now
        )

    def _seconds_since_epoch(self) -> float:
        return self._clock.now().timestamp()

    def _open_cell(self, cell: Cell) -> CellState:
        engine = open_read_only(cell.url)
        reconcile = self._cell_options.database_reconcile_interval
        reader = CellReader(cell, engine, self._clock, reconcile_seconds=reconcile)
        how = self._seconds_until_down, self._clock.monotonic, self._clock.now
        return CellState(cell, reader, engine, *how)

    def _make_writes(self, randomness: random.Random) -> list[BackgroundTask]:
        """The writes that options switch on; only they have connections that can write."""
        tasks, settings, now = [], self._settings, self._clock.now
        if self._options.service_record:
            url = parse_nova_url(settings.fill(DatabaseOptions).connection, CELL_DATABASE)
            record = ServiceRecord(url, settings.fill(ServiceOptions).service_host, now, randomness)
            report_interval = settings.fill(SchedulerOptions).report_interval
            beats = RepeatedWrite(record.beat, lambda: report_interval)
            tasks.append(BackgroundTask("service record", beats.run, beats.seconds, is_writing=True))
        if (interval := self._options.discover_hosts_in_cells_interval) > 0:
            discovery = HostDiscovery(_api_url(settings), self._addresses, now)
            searches = RepeatedWrite(discovery.discover, lambda: interval)
            tasks.append(BackgroundTask("host discovery", searches.run, searches.seconds, is_writing=True))
        return tasks

    @property
    def recorder(self) -> DecisionRecorder | None:
        """Keeps the decisions in a file of this machine; None without a folder for it, or where an option says so."""
        return self._decisions.recorder if self._decisions else None

    def check_databases(self) -> None:
        """Check that nova's API database can be read. A cell that cannot is no reason to serve no other."""
        self.api.read_all()

    def open(self) -> None:
        """Open the journal of claims; whether the databases can be used, the first read finds out."""
        self._journal.open()
        if self._decisions:
            self._decisions.open()

    def find_group(self, uuid: str) -> ServerGroup | None:
        """A server group of nova's API database; None where there is none."""
        return self.api.read_groups([uuid]).get(uuid)

    def read_request_spec(self, instance_uuid: str) -> Any:
        """The RequestSpec object that nova's API database has for an instance."""
        return self.api.read_request_spec(instance_uuid)

    def read_hosts_up(self, topic: str, seconds_until_down: float) -> list[str]:
        """Names of the compute hosts that are up in the replica."""
        with self.replica.lock:
            table = self.replica.table
            return sorted({host for row, (host, _) in enumerate(table.names) if table.numbers["is_up"][row]})

    def older_methods(self, manager: SchedulerManager, transport: Transport, notifier: Notifier | None) -> None:
        """None: a nova that has placement sends messages of version 4."""

    def tasks(self) -> Sequence[BackgroundTask]:
        """Reads of all providers, for freed room shows in no other way, and the writes that options switch on."""
        seconds = self._options.placement_read_interval
        return (
            BackgroundTask("read placement's providers", self._watch.read_providers, lambda: seconds),
            BackgroundTask(
                "release claims without an answer",
                self._abandoned.release,
                lambda: ABANDONED_CLAIMS_SECONDS,
                is_writing=True,
            ),
            *(self._decisions.tasks() if self._decisions else ()),
            *self._writes,
        )

    def unready(self) -> list[str]:
        """That placement does not answer. A cell that is down is left out, as nova does; log and metrics say so."""
        return self._watch.unready()

    def check(self, settings: Settings) -> None:
        """Check the address of the API database."""
        _api_url(settings)

    def reload(self, settings: Settings) -> None:
        """Ask placement for the traits that these options imply, and keep decisions for as long as they say."""
        self._candidates.prefilters = settings.fill(PrefilterOptions)
        if self._decisions:
            self._decisions.reload(settings)

    def close(self) -> None:
        """Close all connections."""
        if self._decisions:
            self._decisions.close()
        self._journal.close()
        self._client.close()
        self._api_engine.dispose()
        self.source.close()


def _api_url(settings: Settings) -> URL:
    return parse_nova_url(settings.fill(ApiDatabaseOptions).connection, API_DATABASE)
