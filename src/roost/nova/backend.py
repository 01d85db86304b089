# SPDX-License-Identifier: Apache-2.0
"""A nova cloud as a scheduler serves it: assembled from nova.conf as it is.

Placement's providers are read in the background, which also says whether placement can be relied on.

`HeartbeatRow`, for operators, is the row of this scheduler in nova's list of services, in the database of `[database]
connection`, as nova-scheduler keeps one. A row of nova-scheduler on this host is taken over, with its flags as they
are: an operator may have disabled it. Other rows are never written.

`HostDiscovery` maps new compute hosts to their cells: without a host mapping no server can be built on a host.
nova-scheduler does it where `discover_hosts_in_cells_interval` is set; so does `nova-manage cell_v2 discover_hosts`.
Several of them may run at once: the host of a mapping is unique, and the second one finds it there.
"""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.engine import URL
from sqlalchemy.exc import IntegrityError

from roost.clock import Clock
from roost.errors import DatabaseError, DatabaseReadOnly, DatabaseRefused, PlacementRefused, PlacementUnavailable
from roost.messages.interface import Notifier, Transport
from roost.messages.options import RpcOptions
from roost.model import ServerGroup
from roost.nova.claims import AbandonedClaims, ClaimJournal, OwnClaims, PlacementGranter
from roost.nova.databases.api import ApiReader, Cell, CellAddresses, read_cells
from roost.nova.databases.engines import open_for_writing, open_read_only, parse_nova_url, writing
from roost.nova.databases.followers import CellReader
from roost.nova.databases.table_rights import REFUSED_SECONDS, RepeatedWrite, needs_rights
from roost.nova.databases.written_tables import compute_nodes, host_mappings, services
from roost.nova.decision_file import decision_file, state_folder
from roost.nova.placement.allocations import AllocationWriter
from roost.nova.placement.candidates import CandidateReader
from roost.nova.placement.client import PlacementClient, PlacementHealth, make_adapter
from roost.nova.placement.providers import ProviderReader
from roost.nova.source import CellState, NovaSource
from roost.options.settings import Settings
from roost.records.recorder import DecisionRecorder
from roost.scheduler.cloud import BackgroundTask
from roost.scheduler.manager import SchedulerManager
from roost.scheduler.options import (
    API_DATABASE,
    ApiDatabaseOptions,
    CellDatabaseOptions,
    CloudOptions,
    SchedulerOptions,
    ServiceOptions,
)
from roost.scheduler.prefilters import PrefilterOptions
from roost.scheduler.replica import HostManager
from roost.services.metrics import Metrics
from roost.store.options import DatabaseOptions
from roost.store.transactions import map_driver_error

LOG = logging.getLogger(__name__)
_IS_UNMAPPED = (compute_nodes.c.mapped == 0) & (compute_nodes.c.deleted == 0)


class HostDiscovery:
    """Looks for compute nodes that are not mapped in all cells, and maps their hosts."""

    def __init__(self, api_url: URL, addresses: CellAddresses, now: Callable[[], datetime]) -> None:
        """Nothing is connected yet."""
        self._api_engine, self._addresses, self._now = open_for_writing(api_url), addresses, now
        self._refused: dict[str, tuple[datetime, DatabaseError]] = {}

    def discover(self) -> int:
        """Map the new hosts of all cells, and return their number.

        A cell in which that fails does not keep others from it; the errors are raised at the end. DatabaseRefused if
        all cells refuse to be written to; one of several is tried again after REFUSED_SECONDS.
        """
        with writing(self._api_engine, API_DATABASE) as connection:
            cells = read_cells(connection, self._addresses).cells
        searched = [cell for cell in cells if not cell.is_cell0 and not cell.is_disabled]
        mapped, errors = 0, []
        for cell in searched:
            try:
                mapped += self._discover_unless_refused(cell, is_only=len(searched) == 1)
            except DatabaseError as error:
                errors.append(error)
        if errors:
            raise _join(errors, are_all=len(errors) == len(searched))
        return mapped

    def _discover_unless_refused(self, cell: Cell, is_only: bool) -> int:
        """Map the new hosts of a cell; the error of the last attempt again if it refused that a short while ago."""
        if (refused := self._refused.pop(cell.uuid, None)) and not is_only:
            moment, error = refused
            if timedelta(0) <= self._now() - moment < timedelta(seconds=REFUSED_SECONDS):
                self._refused[cell.uuid] = refused
                raise error
        try:
            return self._discover_in(cell)
        except (DatabaseRefused, DatabaseReadOnly) as error:
            self._refused[cell.uuid] = self._now(), error
            raise

    def _discover_in(self, cell: Cell) -> int:
        with self._open(cell) as connection:
            new = connection.scalars(select(compute_nodes.c.host).where(_IS_UNMAPPED).distinct()).all()
        hosts = sorted(host for host in new if host)
        if not hosts:
            return 0
        count, failures = self._map(cell, hosts)
        with self._open(cell) as connection:
            are_mapped = _IS_UNMAPPED & compute_nodes.c.host.in_([host for host in hosts if host not in failures])
            connection.execute(update(compute_nodes).where(are_mapped).values(mapped=1))
        if failures:
            raise _join(list(failures.values()), are_all=True)
        return count

    @contextmanager
    def _open(self, cell: Cell) -> Iterator[Connection]:
        with (
            needs_rights(cell.url, "SELECT, UPDATE", "compute_nodes"),
            writing(open_for_writing(cell.url), cell.option) as connection,
        ):
            yield connection

    def _map(self, cell: Cell, hosts: list[str]) -> tuple[int, dict[str, DatabaseError]]:
        """Write the host mappings that are missing: their number, and why hosts have none all the same."""
        count, failures = 0, {}
        with (
            needs_rights(self._api_engine.url, "SELECT, INSERT", "host_mappings"),
            writing(self._api_engine, API_DATABASE) as connection,
        ):
            for host in hosts:
                try:
                    count += self._map_host(connection, cell, host)
                except IntegrityError as error:
                    problem = map_driver_error(error, self._api_engine.url, API_DATABASE)
                    message = f"host {host} cannot be mapped to cell {cell.name}: {problem.message}"
                    failures[host] = DatabaseError(message, "look at cell_mappings and host_mappings")
        return count, failures

    def _map_host(self, connection: Connection, cell: Cell, host: str) -> bool:
        """Whether a mapping was written; IntegrityError if the host has none and cannot get one."""
        known = select(host_mappings.c.cell_id).where(host_mappings.c.host == host)
        there = connection.scalar(known)
        if there is None:
            row = {"host": host, "cell_id": cell.id, "created_at": self._now().astimezone(UTC).replace(tzinfo=None)}
            try:
                connection.execute(insert(host_mappings).values(row))
            except IntegrityError:
                there = connection.scalar(known)
                if there is None:  # not that another scheduler, or nova-manage, was faster
                    raise
            else:
                LOG.info("host %s is mapped to cell %s", host, cell.name)
                return True
        if there != cell.id:
            LOG.warning("host %s has a node in cell %s, and is mapped to another cell: rename it", host, cell.name)
        return False


def _join(errors: list[DatabaseError], are_all: bool) -> DatabaseError:
    """One error that says all of them; it is a refusal only if `are_all`, and each of them is one."""
    refusals = (DatabaseRefused, DatabaseReadOnly)
    if len(errors) == 1 and (are_all or not isinstance(errors[0], refusals)):
        return errors[0]
    is_refusal = are_all and all(isinstance(each, refusals) for each in errors)
    return (DatabaseRefused if is_refusal else DatabaseError)("; ".join(dict.fromkeys(map(str, errors))), "")


SILENCE_SECONDS = 60.0
"""How long placement may be silent, or its providers not be read, before no request should be sent here; or four
times the interval of reads, if that is longer."""


class PlacementWatch:
    """Repeats the read of all providers, and gives the reasons of placement for not being ready."""

    def __init__(self, providers: ProviderReader, health: PlacementHealth, clock: Clock, interval: float) -> None:
        """`interval`: seconds between two reads of all providers."""
        self._providers, self._health, self._clock = providers, health, clock
        self._longest_silence = max(SILENCE_SECONDS, 4 * interval)
        self._started_at, self._read_trouble = clock.monotonic(), ""

    def read_providers(self) -> None:
        """Read all providers. That placement cannot be used is no error here: PlacementHealth has logged it."""
        try:
            self._providers.read_all()
        except (PlacementUnavailable, PlacementRefused) as error:
            self._read_trouble = str(error)
        else:
            self._read_trouble = ""

    def unready(self) -> list[str]:
        """That placement does not answer, or that its providers could not be read for long; empty when ready.

        Providers that were not read yet are no reason: until then requests ask placement.
        """
        answered_at, read_at = self._health.answered_at, self._providers.read_at
        if answered_at is None:
            why = self._health.trouble or "it was not asked yet"
            return [f"placement has not answered{self._since(self._started_at)}, the start: {why}"]
        if self._is_long_ago(answered_at):
            why = self._health.trouble or "a call is not answered"
            return [f"placement does not answer{self._since(answered_at)}: {why}"]
        if read_at is not None and self._is_long_ago(read_at):
            why = self._read_trouble or "the read takes longer"
            return [f"placement's providers could not be read{self._since(read_at)}: {why}"]
        return []

    def _is_long_ago(self, moment: float) -> bool:
        return self._clock.monotonic() - moment > self._longest_silence

    def _since(self, moment: float) -> str:
        began = self._clock.now() - timedelta(seconds=self._clock.monotonic() - moment)
        return f" since {began:%Y-%m-%d %H:%M:%S} UTC"


BINARY, TOPIC = "nova-scheduler", "scheduler"
VERSION = 74
"""The version of nova 34's services; a cloud with newer services gets theirs."""
CELL_DATABASE = "[database] connection"


class HeartbeatRow:
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
            record = HeartbeatRow(url, settings.fill(ServiceOptions).service_host, now, randomness)
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
