# SPDX-License-Identifier: Apache-2.0
"""Conductor, scheduler and fake agents in one process, on any database, for tests that go the whole road."""

import random
import time
from contextlib import ExitStack

from roost.clock import SystemClock
from roost.compute.drivers.fake import FakeHypervisors
from roost.compute.drivers.registry import make_drivers
from roost.compute.process import ComputeService
from roost.conductor.process import ConductorService
from roost.messages.context import RequestContext
from roost.messages.dispatcher import ServerMessages
from roost.messages.in_process import InProcessTransport
from roost.messages.options import RpcOptions
from roost.records.servers import ServerStore
from roost.scheduler.all_options import read_options
from roost.scheduler.process import OwnCloud, SchedulerService
from roost.services.metrics import Metrics
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema_upgrade import upgrade

ADMIN = RequestContext.new("req-test", "ann", "blue", is_admin=True)
POLL_SECONDS = 0.02


class OneProcessCloud:
    """A cloud of fake hosts `cn0001`, `cn0002`, ... As a context manager it is started and stopped."""

    def __init__(self, address, agents, options=None, seed=1, clock=None, transport=None):
        """`options`: section -> option -> value. `transport`: between the services; default: one of its own."""
        self.clock, self.seed = clock or SystemClock(), seed
        self.engine = open_engine(DatabaseOptions(connection=address), may_create=True)
        upgrade(self.engine)
        self.settings = read_options(explicit=options or {})
        self.transport = transport or InProcessTransport(self.clock)
        self.store = ServerStore(self.engine, self.clock)
        self.hypervisors = FakeHypervisors()
        self.messages = ServerMessages(self.transport, self.settings.fill(RpcOptions))
        self.names = [f"cn{number:04}" for number in range(1, agents + 1)]
        self._ends = ExitStack()

    def __enter__(self):
        parts = self.settings, self.engine, self.transport
        common = {"clock": self.clock, "metrics": Metrics()}
        chance = {"clock": self.clock, "randomness": self._random("drivers")}
        drivers = make_drivers(self.settings, self.names, self.hypervisors, **chance)
        self.compute = ComputeService(*parts, drivers, randomness=self._random("compute"), **common)
        cloud = OwnCloud(self.settings, self.engine, randomness=self._random("ledger"), **common)
        self.scheduler = SchedulerService(
            self.settings, cloud, self.transport, randomness=self._random("scheduler"), **common
        )
        self.conductor = ConductorService(*parts, randomness=self._random("conductor"), **common)
        for service in (self.compute, self.scheduler, self.conductor):
            service.start()
            self._ends.callback(service.stop, False)
        return self

    def __exit__(self, *error):
        self._ends.close()
        self.engine.dispose()

    def _random(self, name):
        return random.Random(f"{self.seed} {name}")

    def call(self, method, **args):
        """Ask the conductor, as an admin."""
        return self.messages.call_conductor(ADMIN, method, args)

    def wait_for(self, uuid, seconds=60.0):
        """The server as soon as nothing is being done to it; AssertionError if that takes longer."""
        give_up = time.monotonic() + seconds
        while (server := self.store.get(uuid)).is_busy:
            assert time.monotonic() < give_up, server
            time.sleep(POLL_SECONDS)
        return self.call("get_server", server=uuid)

    def settle(self, seconds=60.0):
        """Return as soon as no server has a task; AssertionError if that takes longer."""
        give_up = time.monotonic() + seconds
        while busy := self.store.list_unfinished():
            assert time.monotonic() < give_up, busy[:3]
            time.sleep(POLL_SECONDS)

    def guests(self):
        """(host, uuid) of all guests that hypervisors have."""
        return sorted(
            (host, guest.uuid) for host, agent in self.compute.agents.items() for guest in agent.driver.list_guests()
        )
