# SPDX-License-Identifier: Apache-2.0
"""Roost's own cloud: one database has fleet, ledger and services."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Engine

from roost.clock import Clock
from roost.errors import DatabaseFull, DatabaseReadOnly, DatabaseRefused
from roost.ledger.ledger import Ledger
from roost.messages.interface import Notifier, Transport
from roost.messages.oslo import RpcOptions
from roost.model import ServerGroup
from roost.options.settings import Settings
from roost.records.catalogue import read_group
from roost.records.options import DecisionOptions
from roost.records.outages import probe_seconds, save_probe
from roost.records.recorder import DecisionRecorder
from roost.records.services import read_hosts_up, save_service_heartbeat
from roost.scheduler.legacy.methods import LegacyMethods
from roost.scheduler.options import SchedulerOptions, ServiceOptions
from roost.scheduler.replica.ironic_host_manager import make_host_manager
from roost.scheduler.service.cloud import BackgroundTask
from roost.scheduler.service.decision_keeping import DecisionKeeping
from roost.scheduler.service.manager import SchedulerManager
from roost.services.metrics import Metrics
from roost.store.change_log import prune_all
from roost.store.engine import DatabaseOptions, parse_database_url
from roost.store.schema_upgrade import ensure_current
from roost.store.store_clock import StoreClock

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
        """The methods of Icehouse and Juno."""
        return LegacyMethods(manager, self.ledger, transport, self._engine, notifier, self._clock)

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
