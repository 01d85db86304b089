# SPDX-License-Identifier: Apache-2.0
"""A nova cloud whose hosts have GPUs in providers below their own, and a scheduler that records its decisions."""

import random
import uuid

from tests.flow.cloud import TurnedClock
from tests.nova_cloud.small_cloud import SmallCloud, node_uuid

from roost import Flavor, RequestSpec
from roost.all_options import read_options
from roost.nova_cloud.candidates import CandidateReader
from roost.nova_cloud.claims import PlacementGranter
from roost.nova_cloud.decision_file import decision_file
from roost.nova_cloud.own_claims import OwnClaims
from roost.nova_cloud.source import NovaSource
from roost.observe.metrics import Metrics
from roost.rpc import RequestContext, RpcOptions, SchedulerClient
from roost.rpc.in_process import InProcessTransport
from roost.scheduler.drivers import find_driver
from roost.scheduler.options import SchedulerOptions, ServiceOptions
from roost.scheduler.prefilters import PrefilterOptions
from roost.scheduler.replica import HostManager
from roost.scheduler.service import SchedulerManager
from roost.scheduler.service.endpoints import make_endpoints
from roost.scheduler.service.notifications import RequestNotifications
from roost.wire import NovaObjects

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
        self.metrics = Metrics(clock=self.clock)
        own = OwnClaims()
        self.source = NovaSource(self.api, self.open_cell, placement.reader, own, lambda: self.now, 60)
        self.replica = HostManager(self.source, SchedulerOptions(), lambda: self.now, self.clock.monotonic)
        self.api.read_groups = lambda uuids: {}
        candidates = CandidateReader(placement.client, placement.reader, PrefilterOptions())
        parts = placement.writer, self.api, own, candidates, self.journal, self.source.find_pair
        self.granter = PlacementGranter(*parts, lambda: self.now)
        placement.reader.read_all()
        self.replica.load()
        self._serve()

    def _serve(self):
        self.settings = read_options(explicit={"roost": {"state_directory": str(self.folder)}})
        randomness = random.Random(1)
        self.kept = decision_file(self.settings, clock=self.clock, randomness=randomness, metrics=self.metrics)
        self.kept.open()
        driver = find_driver(self.settings.fill(ServiceOptions).driver)(self.settings, self.replica)
        self.manager = SchedulerManager(
            driver,
            self.replica,
            self.granter,
            RequestNotifications(),
            self.metrics,
            self.clock,
            randomness,
            self.kept.recorder,
        )
        self.transport = InProcessTransport(self.clock, in_callers_thread=True)
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
