# SPDX-License-Identifier: Apache-2.0
"""A cloud in one process whose servers move: agents of fake hosts, a scheduler, and a conductor's methods."""

import random

from tests.unit.compute.agents import LARGE, SMALL, Agents

from roost.claims.audit import audit
from roost.conductor.abandoned_moves import AbandonedMoves
from roost.conductor.host_records import HostRecords
from roost.conductor.live_migration import LiveMigrations
from roost.conductor.move_options import MoveOptions
from roost.conductor.move_parts import MoveParts
from roost.conductor.moves import ResizesAndColdMigrations
from roost.conductor.rebuild import Rebuilds
from roost.conductor.scheduler_questions import SchedulerQuestions
from roost.conductor.shelving import Shelving
from roost.model import Image
from roost.model.image_properties import parse_properties
from roost.observe.metrics import Metrics
from roost.rpc import RequestContext, RpcOptions, SchedulerClient
from roost.rpc.server_messages import ServerMessages
from roost.scheduler.build import read_options
from roost.scheduler.drivers import find_driver
from roost.scheduler.options import SchedulerOptions, ServiceOptions
from roost.scheduler.replica.ironic_host_manager import make_host_manager
from roost.scheduler.service.endpoints import METHODS, make_endpoints
from roost.scheduler.service.manager import SchedulerManager
from roost.scheduler.service.notifications import RequestNotifications
from roost.servers.tasks import next_work
from roost.wire import NovaObjects

SECONDS_UNTIL_DOWN = 60
ADMIN = RequestContext.new("req-1", "ann", "blue", is_admin=True)
ARM = Image("arm", properties=parse_properties({"hw_architecture": "aarch64"}))
X86 = Image("x86", properties=parse_properties({"hw_architecture": "x86_64"}))


class Catalogue:
    """Flavors and images by name; servers by uuid."""

    def __init__(self, store):
        self._store = store
        self.flavors = {each.name: each for each in (SMALL, LARGE)}
        self.images = {each.id: each for each in (ARM, X86)}

    def find_server(self, context, name_or_uuid):
        return self._store.resolve(name_or_uuid)

    def find_flavor(self, wanted):
        return self.flavors[wanted]

    def find_image(self, wanted):
        return self.images[wanted]

    def describe_server(self, context, server):
        return {"id": server.uuid, "vm_state": server.vm_state, "task_state": server.task_state}


class MovingCloud(Agents):
    """Agents, a scheduler and what a conductor does for moves."""

    def __init__(self, folder, hosts=("a", "b", "c"), move_options=None, options=None, **fake_options):
        super().__init__(folder, hosts, **fake_options)
        settings = read_options([], explicit=options or {"filter_scheduler": {"weight_classes": []}})
        randomness = random.Random(1)
        self.scheduler = self._serve_scheduler(settings, randomness)
        client = SchedulerClient(self.transport, NovaObjects(), RpcOptions())
        self.catalogue = Catalogue(self.store)
        self.parts = MoveParts(
            self.store,
            self.ledger,
            ServerMessages(self.transport, RpcOptions()),
            SchedulerQuestions(client, self.clock, randomness),
            self.catalogue,
            HostRecords(self.engine, self.clock, lambda: SECONDS_UNTIL_DOWN),
            move_options or MoveOptions(),
            randomness,
        )
        kinds = [kind(self.parts) for kind in (ResizesAndColdMigrations, LiveMigrations, Rebuilds, Shelving)]
        internal = {name: method for each in kinds for name, method in each.internal_methods.items()}
        self.conductor.methods.update(internal)
        self.conductor.methods.update({name: method for each in kinds for name, method in each.methods.items()})
        self.abandoned = AbandonedMoves(self.parts, internal)

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

    def ask(self, method, server, **arguments):
        """Call a conductor as a client does; returns the server as it is when all messages were handled."""
        args = {"server": server.uuid, **arguments}
        answer = self.transport.call("conductor", method, "1.0", args, ADMIN, timeout=30)
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

    def give_up(self, server):
        """What the janitor does for a server whose next host is down; returns the server as it is then."""
        server = self.store.get(server.uuid)
        work = next_work(server).work
        self.abandoned.outcomes[work.if_down](server, "the host is down")
        return self.store.get(server.uuid)

    def fault(self, server):
        faults = self.store.read_faults(server.uuid)
        return faults[0] if faults else None

    def findings(self):
        """What the audit of the ledger finds, without regard to age."""
        return [(each.kind, each.subject, each.detail) for each in audit(self.engine, self.clock.now(), -1)]
