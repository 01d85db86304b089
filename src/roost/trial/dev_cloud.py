# SPDX-License-Identifier: Apache-2.0
"""A whole cloud in one process: API, conductor, scheduler, and an agent with a fake hypervisor for each host.

Database and guests are files of a state directory, messages stay within the process, and a Unix socket lets other
processes of the user in. Clock and randomness are arguments.
"""

from __future__ import annotations

import random
import socket
from dataclasses import replace
from typing import Any

from roost.api.first_users import FIRST_USERS, make_first_users
from roost.api.process import ApiService
from roost.client.interface import METHODS as CLIENT_METHODS
from roost.client.rpc_client import RpcClient
from roost.clock import Clock
from roost.compute.drivers.base import ComputeDriver, HostDescription
from roost.compute.drivers.fake import FakeDriver, FakeHypervisors
from roost.compute.options import FakeDriverOptions
from roost.compute.process import ComputeService
from roost.conductor.process import METHODS as CONDUCTOR_METHODS
from roost.conductor.process import ConductorService
from roost.errors import SchemaError
from roost.messages.context import RequestContext
from roost.messages.in_process import InProcessTransport
from roost.messages.loopback import LoopbackServer
from roost.messages.options import RpcOptions
from roost.model import Decision
from roost.records.decision_codec import decision_from_data
from roost.records.fleet_import import import_fleet
from roost.records.group_catalogue import adopt_group
from roost.records.server_steps import AGENT_METHODS
from roost.records.users import ProjectStore, UserStore
from roost.scheduler.all_options import read_options
from roost.scheduler.manager import METHODS as SCHEDULER_METHODS
from roost.scheduler.process import OwnCloud, SchedulerService
from roost.services.lifecycle import ManagedService
from roost.services.metric_definitions import API, COMPUTE, CONDUCTOR, SCHEDULER
from roost.services.metrics import Metrics
from roost.sources.fleet_file import Fleet
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema_upgrade import upgrade
from roost.trial.fleet import GPU_ALIAS, GROUP, DevFleet, HostKind
from roost.trial.state import StateDirectory

REPORT_SECONDS, DOWN_SECONDS = 2, 5
"""Interval of heartbeats, and without one for how long a host counts as down: short, to see it happen."""
THREADS = 16
"""Messages that each service works on at the same time."""


class DevCloud:
    """The services of a cloud, from `start` to `stop`."""

    def __init__(
        self,
        state: StateDirectory,
        hosts: int | None,
        *,
        clock: Clock,
        randomness: random.Random,
        usual_hosts: int,
        port: int = 0,
        listener: socket.socket | None = None,
    ) -> None:
        """Sets up the database, or upgrades one that an older Roost made.

        `hosts`: how many; None: as many as there were, or else `usual_hosts`. BadInput where the state has another
        number of them. `port`: of the API; 0: any free one. `listener`: where it takes requests, in place of that.
        """
        self.state, self.clock, self._randomness = state, clock, randomness
        self.fleet = DevFleet.of(state.count_hosts(hosts, usual_hosts))
        self.is_new = not state.read_facts()
        self.settings = read_options(explicit=_options(state, port))
        self.engine = open_engine(self.settings.fill(DatabaseOptions), may_create=True)
        try:
            self._set_up()
        except BaseException:
            self.engine.dispose()
            raise
        self.transport = InProcessTransport(clock, threads=THREADS)
        self.client: RpcClient
        """Asks in the name of the first administrator; there from the start on."""
        self.hypervisors = FakeHypervisors(state.guest_folder)
        self.metrics: dict[str, Metrics] = {
            SCHEDULER: Metrics(SCHEDULER_METHODS, clock, (SCHEDULER,)),
            CONDUCTOR: Metrics(CONDUCTOR_METHODS, clock, (CONDUCTOR,)),
            COMPUTE: Metrics(AGENT_METHODS, clock, (COMPUTE,)),
            API: Metrics((), clock, (API,)),
        }
        """Service -> what it counts."""
        self.scheduler = self._make_scheduler()
        parts = self.settings, self.engine, self.transport
        self.conductor = ConductorService(*parts, **self._shared(CONDUCTOR))
        self.agents = ComputeService(*parts, self._make_drivers(), **self._shared(COMPUTE))
        self.api = ApiService(*parts, clock=clock, metrics=self.metrics[API], listener=listener)
        self._loopback: LoopbackServer | None = None

    def _set_up(self) -> None:
        """Make or upgrade the tables, and put the fleet into new ones."""
        try:
            upgrade(self.engine)
        except SchemaError as error:
            raise SchemaError(error.message, f"{error.hint}, or begin anew: {self.state.fresh_command}") from None
        if self.is_new:
            import_fleet(self.engine, Fleet.load(self.fleet.document, keeps_records=True), self.clock.now())
            self.state.write_facts({"hosts": len(self.fleet.kinds)})

    # --- parts -------------------------------------------------------------------------------------------

    def _shared(self, service: str) -> dict[str, Any]:
        """Arguments that all services take: clock, randomness, and the metrics of this one."""
        return {"clock": self.clock, "randomness": self._randomness, "metrics": self.metrics[service]}

    def _make_scheduler(self) -> SchedulerService:
        shared = self._shared(SCHEDULER)
        self._own_cloud = OwnCloud(self.settings, self.engine, **shared)
        return SchedulerService(self.settings, self._own_cloud, self.transport, **shared)

    def _make_drivers(self) -> dict[str, ComputeDriver]:
        """A fake hypervisor for each host but the one that is down."""
        base = self.settings.fill(FakeDriverOptions)
        return {
            host: _KindDriver(host, kind, self.hypervisors, base, self.clock, self._randomness)
            for host, kind in self.fleet.kinds.items()
            if host != self.fleet.down
        }

    @property
    def services(self) -> tuple[ManagedService, ...]:
        """All services, in the order in which they start: agents first, which report the hosts to choose from."""
        return self.agents, self.scheduler, self.conductor, self.api

    # --- life --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all services, and open the socket when they are ready."""
        for service in self.services:
            service.start()
        make_first_users(self.engine, self.clock, self.state.clouds_file, self.api.address)
        context = self._admin_context()
        adopt_group(self.engine, GROUP, context.project_id, context.user_id)
        self.client = RpcClient(self.transport, self.settings.fill(RpcOptions), context)
        topic = self.settings.fill(RpcOptions).conductor_topic
        self._loopback = LoopbackServer(self.state.socket, self.transport, {topic: CLIENT_METHODS})
        self._loopback.start()

    def _admin_context(self) -> RequestContext:
        """The caller of the requests that the process makes itself: who `openstack` signs in as."""
        admin = FIRST_USERS[0]
        user, project = UserStore(self.engine, self.clock), ProjectStore(self.engine, self.clock)
        ids = user.find(admin.name).id, project.find(admin.project).id
        return RequestContext.new("req-roost-dev", *ids, is_admin=True)

    def stop(self, is_hurried: bool = False) -> None:
        """Close the socket, stop all services, then close what they share.

        `is_hurried`: do not wait for running requests, which go on using what is shared.
        """
        if self._loopback:
            self._loopback.stop()
        for service in (self.api, self.conductor, self.agents, self.scheduler):
            service.stop(is_hurried)
        if not is_hurried:
            self.transport.close()
            self.engine.dispose()

    def look_after(self) -> None:
        """Housekeeping of all services; to be called every second."""
        for service in self.services:
            service.look_after()

    # --- use ---------------------------------------------------------------------------------------------

    def latest_decision_about(self, server: str) -> Decision | None:
        """What the scheduler decided last about the server of this uuid; None if nothing is recorded."""
        if self._own_cloud.recorder is not None:
            self._own_cloud.recorder.flush()
        found = self.client.list_decisions({"server": server, "limit": 1})
        return decision_from_data(self.client.get_decision(str(found[0]["id"]))["data"]) if found else None

    def kill_host(self, host: str) -> None:
        """A host loses power: its agent ends, and its guests are gone. The next start brings it back, empty."""
        self.agents.drop_agent(host)
        for uuid in self.hypervisors.guests_on(host):
            self.hypervisors.remove(host, uuid)

    def facts(self) -> dict[str, Any]:
        """What a script needs to use the cloud, as JSON data."""
        return {
            "state_directory": str(self.state.path),
            "socket": str(self.state.socket),
            "api": self.api.address,
            "clouds_yaml": str(self.state.clouds_file),
            "database": self.settings.fill(DatabaseOptions).connection,
            "log_file": str(self.state.log_file),
            "hosts": len(self.fleet.kinds),
        }


class _KindDriver(FakeDriver):
    """The fake hypervisor of a host of some kind: its size, its devices and its traits."""

    def __init__(
        self,
        host: str,
        kind: HostKind,
        hypervisors: FakeHypervisors,
        options: FakeDriverOptions,
        clock: Clock,
        randomness: random.Random,
    ) -> None:
        gpus = f'{{"vendor_id": "10de", "product_id": "20b0", "count": {kind.gpus}}}'
        own = replace(
            options,
            vcpus=kind.vcpus,
            memory_mb=kind.memory_mb,
            local_gb=kind.local_gb,
            pci_devices=(gpus,) if kind.gpus else (),
        )
        super().__init__(host, hypervisors, own, clock, randomness)
        self._traits = frozenset(kind.traits)

    def describe(self) -> HostDescription:
        """What the host has, with the traits of its kind."""
        found = super().describe()
        return replace(found, traits=found.traits | self._traits)


def _options(state: StateDirectory, port: int) -> dict[str, dict[str, Any]]:
    return {
        "DEFAULT": {
            "host": "roost-dev",
            "transport_url": "in-process://",
            "compute_driver": "fake",
            "osapi_compute_listen_port": port,
            "report_interval": REPORT_SECONDS,
            "service_down_time": DOWN_SECONDS,
        },
        "database": {"connection": f"sqlite:///{state.database_file}", "sqlite_synchronous": False},
        "pci": {"alias": [GPU_ALIAS]},
        "roost": {"health_port": -1},
    }
