# SPDX-License-Identifier: Apache-2.0
"""Conductor, scheduler and agents of fake hosts in one process; messages are handled where they are sent."""

import random

from tests.unit.compute.agents import Agents

from roost.client.rpc_client import RpcClient
from roost.conductor.process import METHODS as CONDUCTOR_METHODS
from roost.conductor.process import ConductorService
from roost.ledger.audit import audit
from roost.messages.context import RequestContext
from roost.messages.in_process import InProcessTransport
from roost.messages.options import RpcOptions
from roost.records.fleet_import import import_fleet
from roost.scheduler.all_options import read_options
from roost.scheduler.manager import METHODS
from roost.scheduler.process import OwnCloud, SchedulerService
from roost.services.metrics import Metrics
from roost.sources.fleet_file import Fleet

ADMIN = RequestContext.new("req-1", "ann", "blue", is_admin=True)
USER = RequestContext.new("req-2", "bob", "green")
CATALOGUE = {
    "flavors": [
        {"name": "small", "vcpus": 1, "memory_mb": 2048, "root_gb": 1},
        {"name": "huge", "vcpus": 1, "memory_mb": 999999, "root_gb": 1},
    ],
    "images": [
        {"name": "cirros", "id": "6f1a7b0e-3c5b-4c5f-9a53-0c8c1f9d2a01", "min_ram": 512, "min_disk": 1},
        {"name": "windows", "id": "6f1a7b0e-3c5b-4c5f-9a53-0c8c1f9d2a02", "min_ram": 8192},
    ],
    "server_groups": [{"name": "apart", "policy": "anti-affinity"}],
}


class LossyTransport(InProcessTransport):
    """Loses the messages that a test names."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.lost, self.sent, self.before = set(), [], {}

    def cast(self, topic, method, version, args, context, fanout=False):
        self.sent.append((topic, method))
        if method not in self.lost:
            super().cast(topic, method, version, args, context, fanout)

    def call(self, topic, method, version, args, context, timeout, heartbeat_timeout=None):
        self.sent.append((topic, method))
        for hook in self.before.pop(method, []):
            hook()
        return super().call(topic, method, version, args, context, timeout, heartbeat_timeout)


class WholeCloud(Agents):
    """All services but the API, and a client."""

    def __init__(self, folder, hosts=("a", "b", "c"), options=None, memory_mb=8192 + 512, **fake_options):
        sections = {
            "filter_scheduler": {"weight_classes": []},
            "roost": {"stalled_task_timeout": 60, "leaked_claim_timeout": 600},
            **(options or {}),
        }
        self.settings = read_options([], explicit=sections)
        self.conductors, self.schedulers = [], []
        super().__init__(folder, hosts, memory_mb=memory_mb, **fake_options)
        import_fleet(self.engine, Fleet.load(CATALOGUE, keeps_records=True), self.clock.now())
        self.add_scheduler()
        self.add_conductor()

    def make_transport(self):
        return LossyTransport(self.clock, in_callers_thread=True)

    def serve_conductor(self):
        """Later: the real one."""

    def add_scheduler(self):
        known = self._known(METHODS)
        cloud = OwnCloud(self.settings, self.engine, **known)
        made = SchedulerService(self.settings, cloud, self.transport, **known, files=[])
        made._make_tasks = list  # a test runs what is periodic
        made.start()
        self.schedulers.append(made)

    def add_conductor(self):
        made = ConductorService(self.settings, self.engine, self.transport, **self._known(CONDUCTOR_METHODS))
        made._make_tasks = list
        made.start()
        self.conductors.append(made)
        self.janitor, self.cleaning = made.manager.janitor, made.manager.cleaning

    def replace_conductor(self, switch=None):
        """A new conductor in the place of the last one. `switch`: kills it after some call."""
        if self.conductors:
            for server in self.conductors[-1]._servers.values():
                server.stop()
        self.add_conductor()
        parts = self.conductors[-1].manager.parts
        for name in ("store", "ledger", "messages", "scheduler") if switch else ():
            object.__setattr__(parts, name, switch.watch(getattr(parts, name)))

    def _known(self, methods):
        return {"clock": self.clock, "randomness": random.Random(1), "metrics": Metrics(methods, self.clock)}

    def client(self, context=ADMIN):
        return RpcClient(self.transport, RpcOptions(), context)

    def boot(self, count=1, context=ADMIN, **request):
        """Uuids of new servers."""
        wanted = {"name": "web", "flavor": "small", "count": count, **request}
        return [each["id"] for each in self.client(context).create_servers(wanted)["servers"]]

    def show(self, uuid, context=ADMIN):
        return self.client(context).get_server(uuid)

    def states(self, *uuids):
        return [(each["status"], each["host"]) for each in map(self.show, uuids)]

    def pass_time(self, seconds, silent=()):
        """Time goes on; agents on all but the silent hosts send heartbeats."""
        self.clock.seconds += seconds
        self.send_heartbeats(set(self.hosts) - set(silent))

    def fail_builds_on(self, *hosts):
        for host in hosts:
            self.agents[host].real_driver.spawn = refuse

    def findings(self):
        """What the audit of the ledger finds, without regard to age."""
        return [(each.kind, each.subject, each.detail) for each in audit(self.engine, self.clock.now(), -1)]


def refuse(guest, powered_on=True):
    raise RuntimeError("no space left")
