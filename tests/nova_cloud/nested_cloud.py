# SPDX-License-Identifier: Apache-2.0
"""A nova cloud whose hosts have GPUs in providers below their own, and a scheduler that records its decisions."""

import random
import uuid

from tests.flow.cloud import TurnedClock
from tests.nova_cloud.small_cloud import SmallCloud, node_uuid

from roost import Flavor, RequestSpec
from roost.messages.context import RequestContext
from roost.messages.in_process import InProcessTransport
from roost.messages.objects.to_objects import NovaObjects
from roost.messages.options import RpcOptions
from roost.messages.scheduler_client import SchedulerClient
from roost.nova.claims import ClaimJournal, OwnClaims, PlacementGranter
from roost.nova.decision_file import decision_file
from roost.nova.placement.allocations import AllocationWriter
from roost.nova.placement.candidates import CandidateReader
from roost.nova.placement.client import PlacementHealth
from roost.nova.placement.providers import ProviderReader
from roost.nova.source import NovaSource
from roost.scheduler.all_options import read_options
from roost.scheduler.cloud import RequestNotifications
from roost.scheduler.drivers import find_driver
from roost.scheduler.manager import SchedulerManager, make_endpoints
from roost.scheduler.options import SchedulerOptions, ServiceOptions
from roost.scheduler.prefilters import PrefilterOptions
from roost.scheduler.replica import HostManager
from roost.services.metrics import Metrics

ROOM = {"VCPU": 8, "MEMORY_MB": 8192, "DISK_GB": 100}
PLAIN, VGPU = {}, {"resources:VGPU": "1"}


class NestedCloud(SmallCloud):
    """nova's databases in memory; the real placement; a scheduler with a state folder, asked by messages."""

    def __init__(self, server, placement, folder, hosts, children):
        """`server`, `placement`: of the fixtures `placement` and `cloud`. `children`: how many GPUs each host has."""
        super().__init__()
        self.clock, self.folder = TurnedClock(), folder
        self.now = self.clock.now()
        names = {f"gpu{number:02}": 100 + number for number in range(hosts)}
        self.add_cell(3, names)
        roots = [(node_uuid(name), name, None, ROOM) for name in names]
        gpus = [
            (str(uuid.uuid4()), f"{name}_gpu{number}", node_uuid(name), {"VGPU": 1})
            for name in names
            for number in range(children)
        ]
        server.add_providers(roots + gpus)
        self.placement, self.metrics = placement, Metrics(clock=self.clock)
        self.journal = ClaimJournal(folder, lambda: self.now.timestamp(), 90)
        self.journal.open()
        self._connect(OwnClaims())
        self.replica.load()
        self._serve()

    def _connect(self, own):
        """Replica and granter over the real placement."""
        self.health = PlacementHealth(self.clock.monotonic)
        client = self.placement.open_client(
            self.placement.real_port, statistics=self.metrics.placement_called, health=self.health
        )
        reader = ProviderReader(client)
        self.source = NovaSource(self.api, self.open_cell, reader, own, lambda: self.now, 60)
        self.replica = HostManager(
            self.source, SchedulerOptions(), lambda: self.now, self.clock.monotonic, self.metrics
        )
        self.api.read_groups = lambda uuids: {}
        candidates, writer = CandidateReader(client, reader, PrefilterOptions()), AllocationWriter(client, reader)
        parts = writer, self.api, own, candidates, self.journal, self.source.find_pair
        self.granter = PlacementGranter(*parts, lambda: self.now)
        reader.read_all()

    def _serve(self):
        options = {"roost": {"state_directory": str(self.folder)}, "notifications": {"notification_format": "both"}}
        self.settings = read_options(explicit=options)
        randomness = random.Random(1)
        self.kept = decision_file(self.settings, clock=self.clock, randomness=randomness, metrics=self.metrics)
        self.kept.open()
        driver = find_driver(self.settings.fill(ServiceOptions).driver)(self.settings, self.replica)
        self.notifications = []
        self.transport = InProcessTransport(
            self.clock, in_callers_thread=True, on_notification=self.notifications.append
        )
        self.manager = SchedulerManager(
            driver,
            self.replica,
            self.granter,
            RequestNotifications.over(self.transport, self.settings.fill(ServiceOptions)),
            self.metrics,
            self.clock,
            randomness,
            self.kept.recorder,
        )
        self.transport.serve("scheduler", "one", make_endpoints(self.manager, None)).start()
        self.client = SchedulerClient(self.transport, NovaObjects(), RpcOptions())

    def place(self, extra_specs=PLAIN):
        """The uuid of a new instance, and the host that the scheduler answers."""
        spec = RequestSpec(flavor=Flavor(1, 512, 5, extra_specs=extra_specs), project_id="p", user_id="u")
        new = str(uuid.uuid4())
        ((chosen, *_),) = self.client.select_destinations(self._context(new), spec, [new], True, True)
        return new, chosen.host

    def _context(self, new):
        return RequestContext.new(f"req-{new}", "u", "p")

    def close(self):
        self.transport.close()
        self.kept.close()
        self.journal.close()
