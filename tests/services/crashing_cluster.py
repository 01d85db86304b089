# SPDX-License-Identifier: Apache-2.0
"""A cluster of real processes that are killed at chosen points, and what must be true when they are back."""

import signal
import sys
import time
from collections import defaultdict
from pathlib import Path

from tests.services import crash_points

from roost.client.rpc_client import open_client
from roost.clock import SystemClock
from roost.compute.drivers.fake import FakeHypervisors
from roost.errors import BadInput, ProcessFailed, RpcTimeout, RpcUnreachable, ServerChanged
from roost.ledger.audit import audit
from roost.records.listing import ServerFilters
from roost.records.server import ACTIVE, DELETED, ERROR, RUNNING
from roost.records.servers import ServerStore
from roost.scheduler.all_options import read_options
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.trial.cluster import DIED, ClusterControl
from roost.trial.plan import ClusterShape
from roost.trial.state import StateFolder

PATIENCE_SECONDS, CLEAN_SECONDS = 60, 20
"""For tasks, and for what they leave: a leaked claim lasts twice its timeout at most, until the next search."""
SHORT = """
[DEFAULT]
report_interval = 1
service_down_time = 20
rpc_response_timeout = 2
long_rpc_timeout = 10
reserved_host_memory_mb = 0
{more}
[roost]
janitor_interval = 0.5
stalled_task_timeout = 1.5
leaked_claim_timeout = 5
[roost_fake]
vcpus = 64
memory_mb = 65536
"""
FLAVOR = {"name": "small", "vcpus": 1, "memory_mb": 512, "root_gb": 1}


class CrashingCluster:
    """Conductors, schedulers and agents of fake hosts, whose guests are files."""

    def __init__(self, folder: Path, more="", options=SHORT, **shape):
        """`shape`: of ClusterShape. `more`: lines for [DEFAULT] in `options`."""
        self.armed = folder / "armed"
        self.armed.mkdir(parents=True)
        file = folder / "short.conf"
        file.write_text(options.format(more=more))
        self.told = []
        self.folder = StateFolder(folder / "cluster")
        self.control = ClusterControl(self.folder, SystemClock(), self.told.append)
        program = (sys.executable, crash_points.__file__, str(self.armed))
        self.plan = self.control.start(ClusterShape(**shape, apis=0, config_files=(file,), program=program))
        self.engine = open_engine(DatabaseOptions(connection=self.plan.database_url))
        self.store = ServerStore(self.engine, SystemClock())
        files = [self.folder.config, file]
        self.client = open_client(read_options(files), files)

    def close(self):
        self.client.close()
        self.engine.dispose()
        self.control.stop(10)

    # --- killing -----------------------------------------------------------------------------------------

    def arm(self, *points):
        """Have the next process that gets to one of these points killed there."""
        assert set(points) <= set(crash_points.POINTS)
        for point in points:
            (self.armed / point).touch()

    def disarm(self):
        """Points that were not reached."""
        left = [file.name for file in self.armed.iterdir()]
        for name in left:
            (self.armed / name).unlink(missing_ok=True)
        return left

    def kill(self, name):
        self.folder.started(name).process.send(signal.SIGKILL)

    def take_away(self, kind):
        """Kill the database server or the broker, with all of its processes, and come back when it is gone."""
        started = self.folder.started(kind).process
        started.send(signal.SIGKILL, to_its_group=True)
        wait_until(lambda: not started.is_alive() and not started.left_behind(), 20, lambda: f"{kind} does not end")

    def dead(self):
        return [each.name for each in self.control.status() if each.state == DIED]

    def wait_for_crashes(self, seconds=20):
        """Wait until each armed point was reached, then restart what was killed there."""

        def are_over():
            return not any(self.armed.iterdir())

        wait_until(are_over, seconds, lambda: f"not reached: {self.disarm()}; {self.describe()}")
        self.restart_dead()

    def restart_dead(self):
        """Restart all that were killed, and come back when they are ready."""
        for _ in range(len(crash_points.POINTS)):
            names = self.dead()
            try:
                self.control.restart(names)
            except ProcessFailed:  # it reached an armed point as soon as it was back
                continue
            return
        raise AssertionError(f"{names} cannot be restarted: {self.told[-20:]}")

    # --- servers -----------------------------------------------------------------------------------------

    def create(self, name, count=1):
        """Uuids of servers that are being built; a request that died with its conductor is made again."""
        try:
            created = self.client.create_servers(request_for(name, count))["servers"]
        except (RpcTimeout, RpcUnreachable):
            self.restart_dead()
            names = {f"{name}-{number}" for number in range(1, count + 1)} if count > 1 else {name}
            found = [each.uuid for each in self.store.list_page(limit=None) if each.name in names]
            return found or self.create(name, count)
        return [each["id"] for each in created]

    def settle(self, seconds=PATIENCE_SECONDS):
        """Wait until nothing is being done to any server, and restart what is killed meanwhile."""

        def is_settled():
            if self.dead():
                self.restart_dead()
            return not self.store.list_unfinished()

        wait_until(is_settled, seconds, lambda: f"stuck: {self.describe()}")

    def try_to(self, method, *arguments, **named):
        """Ask for a change; an error that a caller has to expect while processes die is the answer."""
        try:
            return getattr(self.client, method)(*arguments, **named)
        except (BadInput, RpcTimeout, RpcUnreachable, ServerChanged) as error:
            return error

    def confirm_all(self):
        for server in self.store.list_page(ServerFilters(vm_states=["resized"])):
            self.client.confirm_resize(server.uuid)
        self.settle()

    def describe(self):
        return ", ".join(
            f"{each.name} {each.vm_state}/{each.task_state} on {each.host}" for each in self.store.list_unfinished()
        )

    # --- what must be true -------------------------------------------------------------------------------

    def check(self):
        """No server is stuck or unexplained, none runs twice or not at all, the ledger is clean; how many there are.

        What agents and janitors put right within seconds is waited for.
        """
        wait_until(lambda: not self.problems(), CLEAN_SECONDS, lambda: "; ".join(self.problems()))
        left = [each.vm_state for each in self.store.list_page(limit=None) if each.vm_state != DELETED]
        return {"active": left.count(ACTIVE), "errors": left.count(ERROR)}

    def problems(self):
        """What must not be, once nothing is being done to any server."""
        servers = [each for each in self.store.list_page(limit=None) if each.vm_state != DELETED]
        guests = self.guests()
        found = [f"{each.kind} {each.subject} {each.host}: {each.detail}" for each in self.findings()]
        for server in servers:
            state = f"{server.name} {server.vm_state}/{server.task_state} on {server.host}"
            if server.task_state is not None or server.vm_state not in (ACTIVE, ERROR):
                found.append(f"stuck: {state}")
            elif server.vm_state == ERROR and not self.store.read_faults(server.uuid):
                found.append(f"no reason for: {state}")
            elif server.vm_state == ACTIVE and guests.get(server.uuid) != [(server.host, RUNNING)]:
                found.append(f"{state}, its guests: {guests.get(server.uuid)}")
        known = {each.uuid for each in servers}
        return found + [
            f"guest {uuid} of no server on {where}" for uuid, where in guests.items() if uuid not in known
        ]

    def findings(self):
        return audit(self.engine, SystemClock().now(), 0)

    def guests(self):
        """Uuid -> hosts that have a guest of it, with its power state."""
        found = defaultdict(list)
        for host, guests in FakeHypervisors(self.folder.data / "guests").all_guests().items():
            for uuid, guest in guests.items():
                found[uuid].append((host, guest.power_state))
        return found


def request_for(name, count=1):
    """A request for small servers."""
    return {"name": name, "flavor": FLAVOR, "image": None, "count": count}


def wait_until(is_so, seconds, describe):
    give_up = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < give_up, describe()
        time.sleep(0.05)
