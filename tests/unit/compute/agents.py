# SPDX-License-Identifier: Apache-2.0
"""Agents of fake hosts in one process, without conductor and scheduler: a test plays these."""

import datetime
import random
import threading
import uuid

from sqlalchemy import select
from tests.store.sqlite_template import open_upgraded

from roost.compute.drivers.fake import FakeDriver, FakeHypervisors
from roost.compute.options import ComputeOptions, FakeDriverOptions
from roost.compute.process import ComputeAgent
from roost.compute.reporter import HostReporter
from roost.compute.tracker import ResourceTracker
from roost.ledger.claim import claim_for
from roost.ledger.ledger import Ledger
from roost.messages.context import RequestContext
from roost.messages.dispatcher import AGENT_VERSION, ServerMessages
from roost.messages.in_process import InProcessTransport
from roost.messages.objects.request import request_to_object
from roost.messages.objects.selections import SelectedHost, selection_to_object
from roost.messages.options import RpcOptions
from roost.model import Flavor, RequestSpec
from roost.model.resources import move_of
from roost.records.server import BUILD, Migration, Server, TaskData
from roost.records.server_steps import next_work
from roost.records.servers import ServerStore
from roost.records.services import is_agent_up, save_heartbeats
from roost.services.rpc_service import RpcEndpoint
from roost.store.schema.fleet import compute_nodes

CONTEXT = RequestContext.new("req-1", "ann", "blue")
SMALL, LARGE = Flavor(1, 1024, root_gb=1, name="small"), Flavor(2, 4096, root_gb=1, name="large")
ZONE = "north"
DOWN_SECONDS = 60.0


class TurnedClock:
    """Time passes when a test says so."""

    def __init__(self):
        self.seconds = 0.0

    def now(self):
        return datetime.datetime(2026, 11, 15, tzinfo=datetime.UTC) + datetime.timedelta(seconds=self.seconds)

    def monotonic(self):
        return self.seconds

    def sleep(self, seconds):
        self.seconds += seconds

    def wait(self, event, seconds):
        return event.wait(0.01) if isinstance(event, threading.Event) else True


class Killed(BaseException):
    """The process ends here, as after kill -9."""


class KillSwitch:
    """Kills an agent after the call of this number, of the objects that it watches."""

    WATCHED = (
        *("advance", "spawn", "destroy", "power_on", "power_off", "live_migrate", "claim"),
        *("release", "release_on", "finish_move", "undo_move", "wake", "create", "select", "select_one"),
    )

    def __init__(self, number=None):
        self.number, self.calls = number, 0

    def watch(self, watched):
        return _Watched(watched, self)

    def count(self, call):
        number, self.calls = self.calls, self.calls + 1
        result = call()
        if number == self.number:
            raise Killed
        return result


class _Watched:
    def __init__(self, watched, switch):
        self._watched, self._switch = watched, switch

    def __getattr__(self, name):
        found = getattr(self._watched, name)
        if name not in KillSwitch.WATCHED:
            return found
        return lambda *args, **kwargs: self._switch.count(lambda: found(*args, **kwargs))


class RecordingConductor:
    """Notes the messages that a conductor would get."""

    version = "1.0"

    def __init__(self):
        self.messages = []
        names = "build_instances", "migrate_server", "unshelve_instance", "rebuild_instance", "live_migrate_instance"
        self.methods = {name: self._note(name) for name in names}

    def _note(self, name):
        def method(context, server_uuid, generation):
            self.messages.append((name, server_uuid, generation))

        return method


class Agents:
    """Agents on some fake hosts, with store, ledger and transport."""

    def __init__(self, folder, hosts=("a", "b"), engine=None, **fake_options):
        """`engine`: of a database with all tables; by default a new one in the folder."""
        self.engine, self.clock = engine or open_upgraded(folder), TurnedClock()
        self.hosts, self.fake_options = hosts, FakeDriverOptions(**fake_options)
        self.transport = self.make_transport()
        self.store, self.ledger = ServerStore(self.engine, self.clock), Ledger(self.engine, now=self.clock.now)
        self.hypervisors = FakeHypervisors()
        self.agents, self.rpc_servers = {}, []
        self.serve_conductor()
        self.start()

    def make_transport(self):
        return InProcessTransport(self.clock, in_callers_thread=True)

    def serve_conductor(self):
        self.conductor = RecordingConductor()
        self.transport.serve("conductor", "c", [self.conductor]).start()

    def send_heartbeats(self, hosts):
        """The agents on these hosts say that they are alive."""
        save_heartbeats(self.engine, sorted(hosts), self.store.times)

    def start(self, switch=None):
        """Start new agents in the place of those that ran."""
        switch = switch or KillSwitch()
        for server in self.rpc_servers:
            server.stop()
        self.rpc_servers = []
        for host in self.hosts:
            driver = FakeDriver(host, self.hypervisors, self.fake_options, self.clock, random.Random(1))
            tracker = ResourceTracker(host, self.store, self.ledger, ComputeOptions())
            reporter = HostReporter(host, driver, tracker, self.engine, self.clock)
            messages = ServerMessages(self.transport, RpcOptions())
            watched = (switch.watch(each) for each in (driver, self.store, self.ledger, messages))
            parts = *watched, reporter, switch.watch(tracker), ComputeOptions(), self.clock
            agent = ComputeAgent(host, *parts, self.is_up)
            agent.real_driver = driver
            self.agents[host] = agent
            tracker.rebuild()
            reporter.report()
            self.rpc_servers.append(
                self.transport.serve("compute", host, [RpcEndpoint(agent.methods, AGENT_VERSION)])
            )
        for server in self.rpc_servers:
            server.start()

    def is_up(self, host):
        return is_agent_up(self.engine, host, self.clock.now(), DOWN_SECONDS)

    def recover(self):
        for agent in self.agents.values():
            agent.recover()

    def close(self):
        self.transport.close()
        self.engine.dispose()

    # --- what conductor and scheduler do -----------------------------------------------------------------

    def request(self, flavor=SMALL, image=None, **more):
        return RequestSpec(flavor=flavor, image=image, project_id="blue", user_id="ann", **more)

    def create(self, host=None, flavor=SMALL, **more):
        """A server that is to be built, on the given host if there is one."""
        spec = self.request(flavor, **more)
        task = TaskData(action=BUILD, request_id="req-1")
        server = Server(str(uuid.uuid4()), "web", None, request_spec=request_to_object(spec), task=task)
        self.store.create([server])
        server = self.store.get(server.uuid)
        if host is not None:
            self.ledger.claim([claim_for(server.spec, self.node_uuid(host))])
            server = self.assign(server, host)
        return server

    def assign(self, server, host):
        task = TaskData(**{**vars(server.task), "target": self.selection(host)})
        return self.store.advance(server, "assign", task=task)

    def selection(self, host, limits=None):
        return selection_to_object(SelectedHost(host, host, self.node_uuid(host), "", limits or {}, None, ZONE))

    def node_uuid(self, host):
        with self.engine.connect() as connection:
            return connection.scalar(select(compute_nodes.c.uuid).where(compute_nodes.c.host == host))

    def build(self, host="a", **more):
        """A server that runs on a host."""
        server = self.create(host, **more)
        self.resume(server)
        return self.store.get(server.uuid)

    def begin(self, server, step, **more):
        """The first step of an operation; more: task data."""
        return self.store.advance(server, step, task=TaskData(**{"vm_state": server.vm_state, **more}))

    def begin_move(self, server, step, action, target, flavor=None, **more):
        """The first step of a move, with its claim and its migration record."""
        spec = server.spec.changed(flavor=flavor) if flavor else server.spec
        source = (server.host, server.node)
        migration = Migration(str(uuid.uuid4()), server.uuid, action, "pre-migrating", *source, target, target)
        self.ledger.start_move(move_of(server.uuid), claim_for(spec, self.node_uuid(target)))
        task = TaskData(
            **{
                "action": action,
                "vm_state": server.vm_state,
                "source": source,
                "migration_uuid": migration.uuid,
                "target": self.selection(target),
                "flavor": request_to_object(spec)["nova_object.data"]["flavor"] if flavor else None,
                **more,
            }
        )
        return self.store.advance(server, step, task=task, also=self.store.create_migration(migration))

    def resume(self, server):
        """Send the message that the server waits for, as the janitor does; returns the server as it is then."""
        server = self.store.get(server.uuid)
        due = next_work(server)
        if due is not None:
            self.send(due.host, due.work.method, server)
        return self.store.get(server.uuid)

    def send(self, host, method, server):
        ServerMessages(self.transport, RpcOptions()).wake(CONTEXT, host, method, server.uuid, server.generation)

    # --- what there is -----------------------------------------------------------------------------------

    def guests(self, host):
        """Uuid -> power state of the guests on a host."""
        return {guest.uuid: guest.power_state for guest in self.agents[host].real_driver.list_guests()}

    def places(self, server):
        """Hosts of all guests of a server."""
        return [host for host in self.hosts if server.uuid in self.guests(host)]

    def held(self, server):
        """Host -> MiB of memory that the server holds there; and the same for its move."""
        found = self.ledger.read_holdings([server.uuid, move_of(server.uuid)])
        return tuple(
            {node.host: node.amounts["MEMORY_MB"] for node in found.get(consumer, {}).values()}
            for consumer in (server.uuid, move_of(server.uuid))
        )

    def status_of_move(self, server):
        return self.store.list_migrations(server.uuid)[0].status
