# SPDX-License-Identifier: Apache-2.0
"""A cloud of Icehouse's time in one process: a scheduler, its database, and agents that note what they are told."""

import datetime
import random

from sqlalchemy import select
from tests.store.sqlite_template import open_upgraded
from tests.store.writers import Writer, uuid_like, writing

from roost.ledger.ledger import Ledger
from roost.messages.context import RequestContext
from roost.messages.in_process import InProcessTransport
from roost.nova.icehouse.methods import LegacyMethods
from roost.options.read import read_settings
from roost.scheduler.all_options import option_owners
from roost.scheduler.cloud import RequestNotifications
from roost.scheduler.drivers import find_driver
from roost.scheduler.manager import SchedulerManager
from roost.scheduler.options import LiveMigrationOptions, SchedulerOptions
from roost.scheduler.own_replica import make_host_manager
from roost.services.metrics import Metrics
from roost.store.schema.fleet import compute_nodes, inventories
from roost.store.schema.servers import servers

NOW = datetime.datetime(2026, 11, 15, 12, 0, tzinfo=datetime.UTC)
ASKED_BY = RequestContext.new("req-1", "u1", "p1")
FLAVOR = {"id": 1, "flavorid": "s", "name": "small", "vcpus": 2, "memory_mb": 2048, "root_gb": 10, "ephemeral_gb": 0}
FLAVOR |= {"swap": 0, "extra_specs": {}}
ONE, TWO, THREE = (uuid_like(number) for number in (1, 2, 3))


class StandingClock:
    """Time stands still."""

    def now(self):
        return NOW

    def monotonic(self):
        return 0.0

    def sleep(self, seconds):
        pass

    def wait(self, event, seconds):
        return event.is_set()


class Agent:
    """Notes what it is told; objects to live migrations with `objection`, where it has one."""

    version = "3.0"

    def __init__(self, name):
        self.name, self.told, self.objection = name, [], None
        names = ("run_instance", "prep_resize", "live_migration", "check_can_live_migrate_destination")
        self.methods = {name: self._noting(name) for name in names}

    def _noting(self, method):
        def note(context, **args):
            self.told.append((method, args))
            if method.startswith("check") and self.objection:
                raise self.objection
            return {"checked_by": self.name}

        return note


class Cloud:
    """Everything that a test looks at."""

    def __init__(self, folder, hosts, driver="filter_scheduler", **options):
        """`hosts`: name -> columns of its node."""
        self.engine = open_upgraded(folder)
        with writing(self.engine) as writer:
            self.nodes = {name: _add_host(writer, name, **columns) for name, columns in hosts.items()}
        self.notifications = []
        self.transport = InProcessTransport(in_callers_thread=True, on_notification=self.notifications.append)
        self.agents = {name: Agent(name) for name in hosts}
        for name, agent in self.agents.items():
            self.transport.serve("compute", name, [agent]).start()
        self.settings = _settings(options)
        self.ledger = Ledger(self.engine, sleep=lambda seconds: None)
        self.manager = self._manager(driver)
        self.announcer = self.transport.notifier("scheduler.here", ["notifications"])
        self.older = LegacyMethods(
            self.manager, self.ledger, self.transport, self.engine, self.announcer, StandingClock()
        )

    def _manager(self, driver):
        clock = StandingClock()
        replica = make_host_manager(self.engine, self.settings.fill(SchedulerOptions), clock.now, clock.monotonic)
        replica.load()
        chooser, silent = find_driver(driver)(self.settings, replica), RequestNotifications()
        return SchedulerManager(chooser, replica, self.ledger, silent, Metrics(), clock, random.Random(1))

    def close(self):
        self.transport.close()
        self.engine.dispose()

    def add_servers(self, *uuids, **columns):
        with writing(self.engine) as writer:
            for uuid in uuids:
                writer.server(uuid, **columns)

    def drop_server(self, uuid):
        with writing(self.engine) as writer:
            writer.drop_server(uuid)

    def state(self, uuid):
        """(vm_state, task_state) in its record."""
        with self.engine.connect() as connection:
            found = connection.execute(select(servers.c.vm_state, servers.c.task_state).where(servers.c.uuid == uuid))
            return tuple(found.one())

    def told(self, method):
        """(host, arguments) of every message of this kind that reached an agent."""
        return [(name, args) for name, agent in self.agents.items() for told, args in agent.told if told == method]

    def events(self, *priorities):
        return [each.event_type for each in self.notifications if not priorities or each.priority in priorities]

    def holders(self, *uuids):
        """Instance -> hosts on which the ledger says that it holds something."""
        names = {f"n-{name}-"[:36]: name for name in self.nodes}
        return {
            uuid: sorted(names[node] for node in held) for uuid, held in self.ledger.read_allocations(uuids).items()
        }

    def vcpus_taken(self):
        """Host -> CPUs that somebody holds there, the sources of moves included."""
        with self.engine.connect() as connection:
            wanted = select(compute_nodes.c.host, inventories.c.used).join_from(compute_nodes, inventories)
            return dict(connection.execute(wanted.where(inventories.c.resource_class == "VCPU")).all())


def _add_host(writer: Writer, name, vcpus=8, **columns):
    is_up = columns.pop("is_up", True)
    writer.service(name, **({} if is_up else {"is_static": False}))
    return writer.node(name, resources={"VCPU": vcpus, "MEMORY_MB": 32768, "DISK_GB": 500}, **columns)


def _settings(options):
    known = {"max_attempts": "scheduler", "migrate_max_retries": "DEFAULT", "enabled_filters": "filter_scheduler"}
    explicit = {}
    for name, value in options.items():
        explicit.setdefault(known[name], {})[name] = value
    owners = dict.fromkeys([*option_owners(), LiveMigrationOptions])
    return read_settings(list(owners), explicit=explicit)


def request_spec(*uuids, flavor=FLAVOR, **more):
    """As the conductor of Icehouse sends it."""
    properties = {"uuid": uuids[0] if uuids else None, "project_id": "p1", "memory_mb": 2048, "vm_state": "building"}
    return {
        "image": {},
        "instance_properties": properties | more.pop("instance_properties", {}),
        "instance_type": dict(flavor),
        "num_instances": len(uuids),
        "instance_uuids": list(uuids),
        **more,
    }
