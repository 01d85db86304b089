# SPDX-License-Identifier: Apache-2.0
"""Assembles one conductor process: manager, RPC server, janitor and heartbeat."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from sqlalchemy import Engine

from roost.clock import Clock
from roost.conductor.manager import ConductorManager
from roost.conductor.options import ConductorOptions, ConductorSettings
from roost.messages.interface import RpcServer, Transport
from roost.messages.oslo import RpcOptions
from roost.messages.server_messages import CONDUCTOR_VERSION
from roost.options.settings import Settings
from roost.records.outages import probe_seconds, save_probe
from roost.records.services import save_service_heartbeat
from roost.services.metrics import Metrics
from roost.services.rpc_service import HeartbeatOptions, HostOptions, PeriodicTask, RpcService

BINARY = "nova-conductor"
"""Name of the service in its database record, as operators know it."""
LONGEST_CLEANING_SECONDS = 60.0
"""Most seconds between two searches for leaked claims and old records."""


class ConductorService(RpcService):
    """A conductor as a `ManagedService` of roost.services.lifecycle."""

    binary = BINARY

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
        owned: Sequence[Callable[[], None]] = (),
    ) -> None:
        """`read_again`: reads the configuration once more, for a reload. `owned`: closed last, after the stop."""
        super().__init__(
            settings, engine, transport, clock=clock, metrics=metrics, read_again=read_again, owned=owned
        )
        self._options, self._rpc = settings.fill(ConductorOptions), settings.fill(RpcOptions)
        self._host = settings.fill(HostOptions).service_host
        self._seconds_until_down = settings.fill(HeartbeatOptions).seconds_until_down
        self.manager = ConductorManager(
            ConductorSettings.of(settings),
            engine,
            transport,
            self._rpc,
            clock=clock,
            randomness=randomness,
            metrics=metrics,
        )

    def make_servers(self) -> dict[str, RpcServer]:
        """The server of this conductor; all conductors share its topic."""
        return {
            self._host: self.serve(self._rpc.conductor_topic, self._host, self.manager.methods, CONDUCTOR_VERSION)
        }

    def tasks(self) -> Sequence[PeriodicTask]:
        """The janitor, the probe that it needs, and what removes leaked claims and old records."""
        return (
            PeriodicTask("outage probe", self._probe, lambda: probe_seconds(self._seconds_until_down)),
            PeriodicTask("stalled tasks", self.manager.janitor.run, lambda: self._options.janitor_interval),
            PeriodicTask(
                "guests left behind", self.manager.removal_notices.run, lambda: self._options.janitor_interval
            ),
            PeriodicTask("leaked claims and old records", self.manager.cleaning.run, self._cleaning_seconds),
        )

    def _cleaning_seconds(self) -> float:
        """As often as claims can come of age, so that a short timeout is kept."""
        own = self._options
        return min(LONGEST_CLEANING_SECONDS, max(own.leaked_claim_timeout, own.janitor_interval))

    def _probe(self) -> None:
        """Show that the database takes writes: the janitor judges silent hosts by it."""
        save_probe(self._engine, self.manager.store.times, self._seconds_until_down)

    def send_heartbeat(self) -> None:
        """Send a heartbeat, stamped by the database."""
        stamp = self.manager.store.times.stamp()
        save_service_heartbeat(self._engine, self._host, BINARY, self._rpc.conductor_topic, stamp)
