# SPDX-License-Identifier: Apache-2.0
"""A small cloud in one process: a database in a file, a fleet, a scheduler, and a clock that a test turns."""

import datetime
import random
import threading

from sqlalchemy import select
from tests.store.sqlite_template import open_upgraded

from roost.ledger.ledger import Ledger
from roost.messages.context import RequestContext
from roost.messages.in_process import InProcessTransport
from roost.messages.objects.to_objects import NovaObjects
from roost.messages.options import RpcOptions
from roost.messages.scheduler_client import SchedulerClient
from roost.model import Flavor, RequestSpec
from roost.records.fleet_import import import_fleet
from roost.scheduler.all_options import read_options
from roost.scheduler.cloud import RequestNotifications
from roost.scheduler.drivers import find_driver
from roost.scheduler.manager import METHODS, SchedulerManager
from roost.scheduler.options import SchedulerOptions, ServiceOptions
from roost.scheduler.own_replica import make_host_manager
from roost.scheduler.process import OwnCloud, SchedulerService
from roost.services.metrics import Metrics
from roost.sources.fleet_file import Fleet
from roost.store.schema.fleet import compute_nodes

HOST = {
    "vcpus_total": 16,
    "total_usable_ram_mb": 32768,
    "total_usable_disk_gb": 500,
    "supported_instances": [["x86_64", "qemu", "hvm"]],
}
CONTEXT = RequestContext.new("req-1", "ann", "blue")
UUID = "6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e%02d"


class TurnedClock:
    """Time passes when a test says so; nobody waits."""

    def __init__(self):
        self.seconds = 1000.0
        self.naps = []

    def now(self):
        return datetime.datetime(2026, 11, 15, tzinfo=datetime.UTC) + datetime.timedelta(seconds=self.seconds)

    def monotonic(self):
        return self.seconds

    def sleep(self, seconds):
        self.naps.append(seconds)
        self.seconds += seconds

    def wait(self, event, seconds):
        return event.wait(0.01) if isinstance(event, threading.Event) else True


class Cloud:
    """What a scheduler needs around it."""

    def __init__(self, folder, hosts, options=None, files=(), engine=None, **sections):
        """Hosts: name -> what differs from HOST. `files`: config files. `engine`: of a database with all tables."""
        self.engine = engine or open_upgraded(folder)
        self.clock = TurnedClock()
        listed = [{"host": name, **HOST, **more} for name, more in hosts.items()]
        self.bring({"hosts": listed, **sections})
        self.files, self.settings = list(files), read_options(files, explicit=options or {})
        self.ledger = Ledger(self.engine, now=self.clock.now)
        self.notifications, self.services = [], []
        self.transport = InProcessTransport(
            self.clock, in_callers_thread=True, on_notification=self.notifications.append
        )

    def bring(self, document):
        import_fleet(self.engine, Fleet.load(document, keeps_records=True), self.clock.now())

    def manager(self):
        """A manager with the driver that the options name, and a replica of its own."""
        options = self.settings.fill(SchedulerOptions)
        replica = make_host_manager(self.engine, options, self.clock.now, self.clock.monotonic)
        driver = find_driver(self.settings.fill(ServiceOptions).driver)(self.settings, replica)
        silent = RequestNotifications()
        return SchedulerManager(
            driver, replica, self.ledger, silent, Metrics(METHODS, self.clock), self.clock, random.Random(1)
        )

    def service(self, kind=SchedulerService):
        """A scheduler that takes messages."""
        self.metrics, randomness = Metrics(METHODS, self.clock), random.Random(1)
        self.services.append(
            kind(
                self.settings,
                OwnCloud(self.settings, self.engine, clock=self.clock, randomness=randomness, metrics=self.metrics),
                self.transport,
                clock=self.clock,
                randomness=randomness,
                metrics=self.metrics,
                files=self.files,
                read_again=lambda: read_options(self.files),
            )
        )
        self.services[-1].start()
        return self.services[-1]

    def client(self, **options):
        return SchedulerClient(self.transport, NovaObjects(), RpcOptions(**options))

    def send(self, method, version="4.5", **args):
        """A message as it is, without our client."""
        return self.transport.call("scheduler", method, version, args, CONTEXT, timeout=30)

    def held(self, *uuids):
        """Instance -> hosts that it holds something of, as the ledger says."""
        with self.engine.connect() as connection:
            names = dict(tuple(row) for row in connection.execute(select(compute_nodes.c.uuid, compute_nodes.c.host)))
        return {uuid: sorted(names.get(node, node) for node in nodes) for uuid, nodes in self.holdings(uuids).items()}

    def holdings(self, uuids):
        return self.ledger.read_allocations(list(uuids))

    def close(self):
        for service in self.services:
            service.stop(is_hurried=False)
        self.engine.dispose()


def request(memory_mb=2048, vcpus=2, **more):
    return RequestSpec(flavor=Flavor(vcpus, memory_mb, root_gb=10), **more)


def hosts_of(placement):
    return [selection.host for selection in placement.decision.selections]


def state_of(table):
    """Everything that a table says about its hosts, to compare it with itself later."""
    rows = range(len(table.names))
    numbers = {name: column.tolist() for name, column in table.numbers.items()}
    encoded = {name: [column.at(row) for row in rows] for name, column in table.encoded.items()}
    instances = {row: dict(found) for row, found in table.instances.items() if found}
    return list(table.names), numbers, encoded, instances
