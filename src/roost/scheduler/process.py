# SPDX-License-Identifier: Apache-2.0
"""Assembles one scheduler process: options, the cloud with its replica and granter, driver, manager, RPC server.

It is ready once the replica is loaded and messages reach it. During an outage of database or broker it is not ready,
keeps retrying, and answers what it can. `OwnCloud` is Roost's own cloud: one database has fleet, ledger and services.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from sqlalchemy import Engine

from roost.clock import Clock
from roost.errors import DatabaseError, DatabaseFull, DatabaseReadOnly, DatabaseRefused
from roost.ledger.ledger import Ledger
from roost.messages.interface import Notifier, RpcServer, Transport
from roost.messages.open_transport import check_transport
from roost.messages.options import RpcOptions
from roost.model import ServerGroup
from roost.options.settings import OptionDifference, Settings, compare
from roost.plugins.registry import places_of
from roost.records.catalogue import read_group
from roost.records.decisions import DecisionStore, prune_decisions
from roost.records.options import DecisionOptions
from roost.records.outages import probe_seconds, save_probe
from roost.records.recorder import FLUSH_SECONDS, DecisionRecorder
from roost.records.services import read_hosts_up, save_service_heartbeat
from roost.scheduler.build import keep_freed_memory
from roost.scheduler.cloud import BackgroundTask, Cloud, RequestNotifications
from roost.scheduler.drivers import find_driver
from roost.scheduler.manager import SchedulerManager, make_endpoints
from roost.scheduler.options import SchedulerOptions, ServiceOptions
from roost.scheduler.own_replica import make_host_manager
from roost.services.lifecycle import Periodic
from roost.services.logs import set_up_logging
from roost.services.metrics import Metrics
from roost.services.options import LogOptions
from roost.sources.snapshot import deciding_options
from roost.store.change_log import prune_all
from roost.store.engine import parse_database_url
from roost.store.options import DatabaseOptions
from roost.store.schema_upgrade import ensure_current
from roost.store.store_clock import StoreClock

if TYPE_CHECKING:
    from roost.nova.icehouse.methods import LegacyMethods

DECISION_PRUNE_SECONDS = 300.0


class DecisionKeeping:
    """The record of decisions of one scheduler process."""

    def __init__(
        self, engine: Engine, times: StoreClock, settings: Settings, *, clock: Clock, randomness: random.Random,
        metrics: Metrics,
    ) -> None:  # fmt: skip
        """`times`: stamps the rows."""
        self._engine, self._times, self._options = engine, times, settings.fill(DecisionOptions)
        self.recorder = DecisionRecorder(
            DecisionStore(engine, times),
            settings.fill(ServiceOptions).service_host,
            deciding_options(settings),
            clock,
            randomness,
            metrics.decisions_unrecorded,
        )

    def tasks(self) -> list[BackgroundTask]:
        """Writing what was decided, and removing what is too old."""
        write = BackgroundTask("record decisions", self.recorder.flush, lambda: FLUSH_SECONDS, is_writing=True)
        prune = BackgroundTask("prune old decisions", self._prune, lambda: DECISION_PRUNE_SECONDS, is_writing=True)
        return [write, prune]

    def _prune(self) -> None:
        prune_decisions(self._engine, self._options, self._times)

    def reload(self, settings: Settings) -> None:
        """Decisions are kept for as long as these options say."""
        self._options = settings.fill(DecisionOptions)

    def close(self) -> None:
        """Write decisions that wait, if the database takes them."""
        with suppress(DatabaseError):
            self.recorder.flush()


BINARY = "nova-scheduler"
"""Name of the service in its database record, as operators know it."""
PRUNE_SECONDS = 3600.0


class OwnCloud:
    """A `Cloud` over Roost's database."""

    def __init__(
        self, settings: Settings, engine: Engine, *, clock: Clock, randomness: random.Random, metrics: Metrics
    ) -> None:
        self._settings, self._engine, self._clock = settings, engine, clock
        self._times = StoreClock(engine, clock)
        options = settings.fill(SchedulerOptions)
        self.replica = make_host_manager(engine, options, clock.now, clock.monotonic, metrics, self._times)
        self.granter = self.ledger = Ledger(engine, times=self._times, sleep=clock.sleep, randomness=randomness)
        self._decisions: DecisionKeeping | None = None
        if settings.fill(DecisionOptions).record_decisions:
            shared: dict[str, Any] = {"clock": clock, "randomness": randomness, "metrics": metrics}
            self._decisions = DecisionKeeping(engine, self._times, settings, **shared)
        self._cannot_write = ""
        """Why the database cannot be written; empty where it can."""

    @property
    def recorder(self) -> DecisionRecorder | None:
        """Keeps the decisions; None where an option says so."""
        return self._decisions.recorder if self._decisions else None

    def check_databases(self) -> None:
        """Check that the database has the tables of this version."""
        ensure_current(self._engine)

    def open(self) -> None:
        """Check that the database has the tables of this version."""
        self.check_databases()

    def find_group(self, uuid: str) -> ServerGroup | None:
        """A server group by its uuid; None where there is none."""
        return read_group(self._engine, uuid)

    def read_request_spec(self, instance_uuid: str) -> None:
        """None: requests are not stored."""

    def read_hosts_up(self, topic: str, seconds_until_down: float) -> list[str]:
        """Names of the hosts whose service of a topic is enabled and alive, read now."""
        return read_hosts_up(self._engine, topic, self._times, seconds_until_down)

    def older_methods(
        self, manager: SchedulerManager, transport: Transport, notifier: Notifier | None
    ) -> LegacyMethods:
        """The methods of Icehouse and Juno, which are loaded by name: they stand on the scheduler."""
        methods = import_module("roost.nova.icehouse.methods")
        made: LegacyMethods = methods.LegacyMethods(
            manager, self.ledger, transport, self._engine, notifier, self._clock
        )
        return made

    def tasks(self) -> Sequence[BackgroundTask]:
        """The heartbeat of this service, the record of decisions, and the pruning of what is no longer needed."""
        options = self._settings.fill(SchedulerOptions)
        tasks = [
            BackgroundTask("heartbeat", self._send_heartbeat, lambda: options.report_interval, is_writing=True),
            BackgroundTask(
                "outage probe", self._probe, lambda: probe_seconds(options.seconds_until_down), is_writing=True
            ),
            BackgroundTask(
                "prune old changes", lambda: prune_all(self._engine), lambda: PRUNE_SECONDS, is_writing=True
            ),
        ]
        return [*tasks, *(self._decisions.tasks() if self._decisions else ())]

    def _send_heartbeat(self) -> None:
        topic, host = (
            self._settings.fill(RpcOptions).scheduler_topic,
            self._settings.fill(ServiceOptions).service_host,
        )
        try:
            save_service_heartbeat(self._engine, host, BINARY, topic, self._times)
        except (DatabaseFull, DatabaseReadOnly, DatabaseRefused) as error:
            self._cannot_write = str(error)
            raise
        self._cannot_write = ""

    def _probe(self) -> None:
        """Show that the database takes writes: ComputeFilter judges silent hosts by it."""
        save_probe(self._engine, self._times, self._settings.fill(SchedulerOptions).seconds_until_down)

    def unready(self) -> list[str]:
        """That nothing can be claimed, if the database cannot be written."""
        return [f"nothing can be claimed: {self._cannot_write}"] if self._cannot_write else []

    def check(self, settings: Settings) -> None:
        """Check the address of the database, if it is another one than at the start."""
        connection = settings.fill(DatabaseOptions).connection
        if connection != self._settings.fill(DatabaseOptions).connection:
            parse_database_url(connection)

    def reload(self, settings: Settings) -> None:
        """Decisions are kept for as long as these options say."""
        if self._decisions:
            self._decisions.reload(settings)

    def close(self) -> None:
        """Write decisions that wait, if the database takes them, and close all connections to it."""
        if self._decisions:
            self._decisions.close()
        self._engine.dispose()


LOG = structlog.get_logger(__name__)
IDLE_REFRESH_SECONDS = 5.0
"""How often the replica is refreshed without requests, so that the first one after a pause is not late."""
MONITOR_SECONDS = 1.0
LONGEST_JOIN_SECONDS = 5.0
SLOW_REFRESH_SECONDS = 15.0
"""A refresh that takes longer counts as a database outage. A connection attempt may take 10 s."""
LONGEST_HOLD_SECONDS = 60.0
"""How long a thread may hold the replica before the process counts as hung."""


class SchedulerService:
    """The scheduler as a `ManagedService` of roost.services.lifecycle."""

    def __init__(
        self,
        settings: Settings,
        cloud: Cloud,
        transport: Transport,
        *,
        clock: Clock,
        randomness: random.Random,
        metrics: Metrics,
        files: Sequence[Path] = (),
        read_again: Callable[[], Settings] | None = None,
    ) -> None:
        """`read_again`: reads the configuration once more, for a reload. `files`: config files."""
        self.settings, self._cloud, self._transport = settings, cloud, transport
        self._started_with, self._files = settings, files
        self._clock, self._metrics, self._read_again = clock, metrics, read_again
        self._service = settings.fill(ServiceOptions)
        self.replica = cloud.replica
        self._notifications = self.make_notifications()
        driver = find_driver(self._service.driver, places_of(files))
        self.driver = driver(settings, self.replica, files, cloud.find_group, cloud.read_hosts_up)
        self.manager = self.make_manager(randomness)
        self._server: RpcServer | None = None
        self._tasks: list[Periodic] = []
        self._dropped = 0
        self.hangs = False
        self._stuck_since: float | None = None
        """Since when the replica could not be locked; a slow plugin may hold it for a while."""
        self._is_loaded, self._is_stopping = threading.Event(), threading.Event()

    # --- parts -------------------------------------------------------------------------------------------

    def make_notifications(self) -> RequestNotifications:
        """What announces requests."""
        return RequestNotifications.over(self._transport, self._service)

    def make_manager(self, randomness: random.Random) -> SchedulerManager:
        """What answers requests."""
        parts = self.driver, self.replica, self._cloud.granter, self._notifications
        return SchedulerManager(*parts, self._metrics, self._clock, randomness, self._cloud.recorder)

    def make_server(self) -> RpcServer:
        """What takes requests, not started yet."""
        topic = self.settings.fill(RpcOptions).scheduler_topic
        older = self._cloud.older_methods(self.manager, self._transport, self._notifications.unversioned)
        endpoints = make_endpoints(self.manager, older)
        return self._transport.serve(topic, self._service.service_host, endpoints, self._metrics.rpc_refused)

    def background_tasks(self) -> list[BackgroundTask]:
        """What is done beside requests."""
        tasks = [BackgroundTask("monitor", self._monitor, lambda: MONITOR_SECONDS), *self._cloud.tasks()]
        if self.driver.refreshes_before_refusal:
            refresh = self.manager.claims.refresh
            tasks.append(BackgroundTask("look at the fleet", refresh, lambda: IDLE_REFRESH_SECONDS))
        if self._service.periodic_enable:
            run = self.manager.run_periodic_tasks
            tasks.append(BackgroundTask("periodic task of the driver", run, self._seconds_between_tasks))
        return tasks

    # --- life --------------------------------------------------------------------------------------------

    def check_databases(self) -> None:
        """A DatabaseError where the cloud's databases cannot be used."""
        self._cloud.check_databases()

    def start(self) -> None:
        """Load the replica, then take messages."""
        self._cloud.open()
        keep_freed_memory()
        started = self._clock.monotonic()
        self.replica.refresh()  # everything, the first time
        seconds = round(self._clock.monotonic() - started, 3)
        LOG.info("the fleet is read", hosts=len(self.replica.table.names), seconds=seconds)
        self._is_loaded.set()
        self._server = self.make_server()
        self._server.start()
        self._tasks = self._make_tasks()
        for task in self._tasks:
            task.start()

    def _make_tasks(self) -> list[Periodic]:
        return [Periodic(each.name, each.run, each.seconds, self._clock) for each in self.background_tasks()]

    def _seconds_between_tasks(self) -> float:
        seconds = self.settings.fill(ServiceOptions).periodic_task_interval
        return seconds if seconds > 0 else float(threading.TIMEOUT_MAX)

    def _monitor(self) -> None:
        """Update what Prometheus and the health page show: connection, readiness, hangs, losses."""
        now = self._clock.monotonic()
        self._stuck_since = None if self.is_alive() else self._stuck_since or now
        self.hangs = self._stuck_since is not None and now - self._stuck_since >= LONGEST_HOLD_SECONDS
        self._metrics.rpc_connection(bool(self._server and self._server.is_connected))
        self._metrics.service_is(not self.unready())
        dropped = self._notifications.dropped
        self._metrics.notifications_dropped(dropped - self._dropped)
        self._dropped = dropped
        self._metrics.watchers_checked()

    def unready(self) -> list[str]:
        """Reasons why no request should be sent here now; empty when ready."""
        if self._is_stopping.is_set():
            return ["it is stopping"]
        if not self._is_loaded.is_set():
            return ["the fleet is not read yet"]
        reasons = self._replica_problems()
        if self._server is None or not self._server.is_connected:
            reasons.append("messages do not reach it: the broker is away")
        if not reasons:
            reasons += self._cloud.unready()
        if self.hangs:
            reasons.append("it hangs: a request keeps the table of hosts to itself")
        return reasons

    def _replica_problems(self) -> list[str]:
        trouble, since = self.replica.trouble, self.replica.trouble_since
        waited = self._seconds_since(self.replica.refreshing_since)
        if since is None and waited > SLOW_REFRESH_SECONDS:
            trouble, since = "the database does not answer", self._clock.now() - timedelta(seconds=waited)
        return [f"the fleet cannot be read: {trouble}, since {since:%Y-%m-%d %H:%M:%S} UTC"] if since else []

    def look_after(self) -> None:
        """Nothing to do: all tasks run in threads of their own."""

    def is_alive(self) -> bool:
        """Whether the replica can be locked within seconds.

        A slow or missing database is no reason for a restart, unless it takes longer than LONGEST_HOLD_SECONDS.
        """
        return self._lock_is_free(LONGEST_JOIN_SECONDS) or any(
            0 < self._seconds_since(each) < LONGEST_HOLD_SECONDS
            for each in (self.replica.refreshing_since, self.manager.claims.waiting_since)
        )

    def _seconds_since(self, moment: float | None) -> float:
        return 0.0 if moment is None else self._clock.monotonic() - moment

    def _lock_is_free(self, seconds: float) -> bool:
        lock: Any = self.replica.lock
        if not lock.acquire(timeout=seconds):
            return False
        lock.release()
        return True

    def seconds_to_end(self) -> float:
        """Seconds that requests are given to end: `graceful_shutdown_timeout`."""
        return self.settings.fill(ServiceOptions).graceful_shutdown_timeout

    def stop(self, is_hurried: bool) -> None:
        """Take no new messages, answer those that were taken, then close transport and database."""
        self._is_stopping.set()
        for task in self._tasks:
            task.stop()
        if self._server is not None and not is_hurried:
            self._server.stop()
            self._server.wait()
        for task in self._tasks:
            task.join(0.0 if is_hurried else LONGEST_JOIN_SECONDS)
        if not is_hurried:  # requests that are abandoned would fail on it, or block it
            self._transport.close()
            self._cloud.close()

    # --- reload ------------------------------------------------------------------------------------------

    def reload(self) -> None:
        """Apply changed options of the files; RoostError, and no change, where they are wrong."""
        if self._read_again is None:
            return
        settings = self._read_again()
        self._check_addresses(settings)
        changes = compare(self.settings, settings)
        set_up_logging(settings.fill(LogOptions), BINARY)
        try:
            self.manager.reload(settings)
        except Exception:
            set_up_logging(self.settings.fill(LogOptions), BINARY)
            raise
        self._cloud.reload(settings)
        self.settings = settings
        for change in changes:
            LOG.info("option changed", option=f"[{change.group}] {change.name}", result=self._outcome_of(change))
        if not changes:
            LOG.info("configuration read again: nothing changed; what is for oslo.messaging counts from a restart on")

    def _check_addresses(self, settings: Settings) -> None:
        """Check the addresses of broker and databases, which take effect at the next start."""
        check_transport(settings.fill(RpcOptions), self._files)
        self._cloud.check(settings)

    def _outcome_of(self, change: OptionDifference) -> str:
        if change.reloads:
            return "taken up"
        key = change.group, change.name
        is_as_started = self.settings.value(*key) == self._started_with.value(*key)
        return "as it runs" if is_as_started else "changes with a restart"
