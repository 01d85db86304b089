# SPDX-License-Identifier: Apache-2.0
"""A cloud in one process whose servers move: agents of fake hosts, a scheduler, a conductor."""

import random

from tests.unit.compute.agents import Agents

from roost.all_options import read_options
from roost.claims.audit import audit
from roost.conductor.manager import ConductorManager
from roost.conductor.options import ConductorSettings
from roost.observe.metrics import Metrics
from roost.rpc import RequestContext, RpcOptions
from roost.scheduler.drivers import find_driver
from roost.scheduler.options import SchedulerOptions, ServiceOptions
from roost.scheduler.replica.ironic_host_manager import make_host_manager
from roost.scheduler.service.endpoints import METHODS, make_endpoints
from roost.scheduler.service.manager import SchedulerManager
from roost.scheduler.service.notifications import RequestNotifications

SECONDS_UNTIL_DOWN = 60
ADMIN = RequestContext.new("req-1", "ann", "blue", is_admin=True)
LARGE = {"name": "large", "vcpus": 2, "memory_mb": 4096, "root_gb": 1}
SMALL = {"name": "small", "vcpus": 1, "memory_mb": 1024, "root_gb": 1}
ARM = {"id": "arm", "properties": {"hw_architecture": "aarch64"}}
X86 = {"id": "x86", "properties": {"hw_architecture": "x86_64"}}


class MovingCloud(Agents):
    """Agents, a scheduler and a conductor, without threads of their own."""

    def __init__(self, folder, hosts=("a", "b", "c"), options=None, **fake_options):
        super().__init__(folder, hosts, **fake_options)
        settings = read_options([], explicit={"filter_scheduler": {"weight_classes": []}, "DEFAULT": options or {}})
        self.scheduler = self._serve_scheduler(settings, random.Random(1))
        self.manager = ConductorManager(
            ConductorSettings.of(settings),
            self.engine,
            self.transport,
            RpcOptions(),
            clock=self.clock,
            randomness=random.Random(1),
            metrics=Metrics(METHODS, self.clock),
        )
        self.conductor.methods.update(self.manager.methods)

    def _serve_scheduler(self, settings, randomness):
        """A scheduler without threads of its own, so that it looks at the clock only when it is asked."""
        options = settings.fill(SchedulerOptions)
        replica = make_host_manager(self.engine, options, self.clock.now, self.clock.monotonic)
        driver = find_driver(settings.fill(ServiceOptions).driver)(settings, replica)
        silent, metrics = RequestNotifications(), Metrics(METHODS, self.clock)
        manager = SchedulerManager(driver, replica, self.ledger, silent, metrics, self.clock, randomness)
        server = self.transport.serve("scheduler", "s", make_endpoints(manager, None))
        server.start()
        return server

    def ask(self, method, server, context=ADMIN, **arguments):
        """Call a conductor as a client does; returns the server as it is when all messages were handled."""
        args = {"server": server.uuid, **arguments}
        answer = self.transport.call("conductor", method, "1.0", args, context, timeout=30)
        return answer["plan"][0] if arguments.get("dry_run") else self.store.get(server.uuid)

    def silence(self, *hosts):
        """The agents of these hosts stop; no other service has noticed yet."""
        for host, server in zip(self.hosts, self.rpc_servers, strict=True):
            if host in hosts:
                server.stop()

    def down(self, *hosts):
        """The agents of these hosts stop; the others send heartbeats when it is noticed."""
        self.silence(*hosts)
        self.clock.seconds += 2 * SECONDS_UNTIL_DOWN
        for host in set(self.hosts) - set(hosts):
            self.agents[host].reporter.heartbeat()
        self.clock.seconds += 2  # schedulers read heartbeats once a second

    def clean_up(self, server):
        """A round of the janitor; returns the server as it is then."""
        self.manager.janitor.run()
        return self.store.get(server.uuid)

    def fault(self, server):
        faults = self.store.read_faults(server.uuid)
        return faults[0] if faults else None

    def findings(self):
        """What the audit of the ledger finds, without regard to age."""
        return [(each.kind, each.subject, each.detail) for each in audit(self.engine, self.clock.now(), -1)]
