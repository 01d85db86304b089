# SPDX-License-Identifier: Apache-2.0
"""Assembles one conductor process: manager, RPC server, janitor and heartbeat."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import structlog
from sqlalchemy import Engine

from roost.clock import Clock
from roost.conductor.manager import ConductorEndpoint, ConductorManager
from roost.conductor.options import ConductorOptions, ConductorSettings
from roost.config import Settings, compare
from roost.inventory import save_service_heartbeat
from roost.observe.metrics import Metrics
from roost.rpc import RpcOptions, RpcServer, Transport
from roost.service.options import HeartbeatOptions, HostOptions, StopOptions
from roost.service.periodic import Periodic
from roost.store.schema_upgrade import ensure_current

LOG = structlog.get_logger(__name__)
BINARY = "nova-conductor"
"""Name of the service in its database record, as operators know it."""
MONITOR_SECONDS = 1.0
CLEANING_SECONDS = 60.0
LONGEST_JOIN_SECONDS = 5.0


class ConductorService:
    """A conductor as a `ManagedService` of roost.service.lifecycle."""

    hangs = False
    """Always: a request that takes long keeps no other from being answered."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        transport: Transport,
        *,
        clock: Clock,
        randomness: random.Random,
        metrics: Metrics,
        read_again: Callable[[], Settings] | None = None,
    ) -> None:
        """`read_again`: reads the configuration once more, for a reload."""
        self.settings, self._engine, self._transport = settings, engine, transport
        self._clock, self._metrics, self._read_again = clock, metrics, read_again
        self._options, self._rpc = settings.fill(ConductorOptions), settings.fill(RpcOptions)
        self.manager = ConductorManager(
            ConductorSettings.of(settings),
            engine,
            transport,
            self._rpc,
            clock=clock,
            randomness=randomness,
            metrics=metrics,
        )
        self._server: RpcServer | None = None
        self._tasks: list[Periodic] = []
        self._is_started, self._is_stopping = threading.Event(), threading.Event()

    # --- life --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take messages, and look after stalled tasks."""
        ensure_current(self._engine)
        host = self.settings.fill(HostOptions).service_host
        endpoint = ConductorEndpoint(self.manager.methods)
        topic = self._rpc.conductor_topic
        self._server = self._transport.serve(topic, host, [endpoint], self._metrics.rpc_refused)
        self._server.start()
        self._is_started.set()
        self._tasks = self._make_tasks()
        for task in self._tasks:
            task.start()

    def _make_tasks(self) -> list[Periodic]:
        interval = self.settings.fill(HeartbeatOptions).report_interval
        wanted: tuple[tuple[str, Callable[[], object], Callable[[], float]], ...] = (
            ("sign of life", self.send_heartbeat, lambda: interval),
            ("stalled tasks", self.manager.janitor.run, lambda: self._options.janitor_interval),
            ("leaked claims and old records", self.manager.cleaning.run, lambda: CLEANING_SECONDS),
            ("monitor", self._monitor, lambda: MONITOR_SECONDS),
        )
        return [Periodic(name, run, seconds, self._clock) for name, run, seconds in wanted]

    def send_heartbeat(self) -> None:
        """Send a heartbeat, stamped by the database."""
        host, topic = self.settings.fill(HostOptions).service_host, self._rpc.conductor_topic
        save_service_heartbeat(self._engine, host, BINARY, topic, self.manager.store.times.stamp())

    def _monitor(self) -> None:
        self._metrics.rpc_connection(bool(self._server and self._server.is_connected))
        self._metrics.service_is(not self.unready())

    # --- for run_service ---------------------------------------------------------------------------------

    def unready(self) -> list[str]:
        """Reasons why no request should be sent here now; empty when ready."""
        if self._is_stopping.is_set():
            return ["it is stopping"]
        if not self._is_started.is_set():
            return ["it has not started"]
        is_away = self._server is None or not self._server.is_connected
        reasons = ["messages do not reach it: the broker is away"] if is_away else []
        return reasons + [f"{task.name}: fails" for task in self._tasks if task.is_failing]

    def look_after(self) -> None:
        """Nothing to do: all tasks run in threads of their own."""

    def is_alive(self) -> bool:
        """True: a message that takes long keeps no other from being handled."""
        return True

    def reload(self) -> None:
        """Read the configuration again and say what changes with a restart; RoostError where it is wrong."""
        if self._read_again is None:
            return
        for change in compare(self.settings, self._read_again()):
            LOG.info("option changed", option=f"[{change.group}] {change.name}", result="changes with a restart")

    def seconds_to_end(self) -> float:
        """Seconds that running requests are given to end: `graceful_shutdown_timeout`."""
        return self.settings.fill(StopOptions).graceful_shutdown_timeout

    def stop(self, is_hurried: bool) -> None:
        """Take no new messages, finish those that were taken, then close transport and database."""
        self._is_stopping.set()
        for task in self._tasks:
            task.stop()
        if is_hurried:
            return
        if self._server is not None:
            self._server.stop()
            self._server.wait()
        for task in self._tasks:
            task.join(LONGEST_JOIN_SECONDS)
        self._transport.close()
        self._engine.dispose()
