# SPDX-License-Identifier: Apache-2.0
"""A cluster of real processes that are killed at chosen points, and what must be true when they are back."""

import signal
import sys
import time
from collections import defaultdict
from pathlib import Path

from tests.services import crash_points

from roost.claims.audit import audit
from roost.client import open_client
from roost.clock import SystemClock
from roost.cluster.control import DIED, ClusterControl
from roost.cluster.plan import ClusterShape
from roost.cluster.state_folder import StateFolder
from roost.compute.drivers.fake import FakeHypervisors
from roost.errors import RpcError, ServerChanged, UnknownName
from roost.scheduler.build import read_options
from roost.servers import ServerStore
from roost.servers.states import ACTIVE, DELETED, ERROR, RUNNING
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions

PATIENCE_SECONDS = 60
SHORT = """
[DEFAULT]
report_interval = 1
service_down_time = 20
rpc_response_timeout = 3
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

    def __init__(self, folder: Path, more="", **shape):
        """`shape`: of ClusterShape. `more`: lines for [DEFAULT]."""
        self.armed = folder / "armed"
        self.armed.mkdir(parents=True)
        options = folder / "short.conf"
        options.write_text(SHORT.format(more=more))
        self.told = []
        self.folder = StateFolder(folder / "cluster")
        self.control = ClusterControl(self.folder, SystemClock(), self.told.append)
        program = (sys.executable, crash_points.__file__, str(self.armed))
        self.plan = self.control.start(ClusterShape(**shape, config_files=(options,), program=program))
        self.engine = open_engine(DatabaseOptions(connection=self.plan.database_url))
        self.store = ServerStore(self.engine, SystemClock())
        files = [self.folder.config, options]
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

    def dead(self):
        return [each.name for each in self.control.status() if each.state == DIED]

    def wait_for_deaths(self, count, seconds=20):
        wait_until(lambda: len(self.dead()) >= count, seconds, lambda: f"dead: {self.dead()}; {self.describe()}")

    def restart_dead(self):
        """Restart all that were killed, and come back when they are ready; their names."""
        names = self.dead()
        self.control.restart(names)
        return names

    # --- servers -----------------------------------------------------------------------------------------

    def create(self, name, count=1, **more):
        """Uuids of servers that are being built."""
        request = {"name": name, "flavor": FLAVOR, "image": None, "count": count, **more}
        return [each["id"] for each in self.client.create_servers(request)["servers"]]

    def settle(self, seconds=PATIENCE_SECONDS):
        """Wait until nothing is being done to any server."""
        wait_until(lambda: not self.store.list_unfinished(), seconds, lambda: f"stuck: {self.describe()}")

    def try_to(self, method, *arguments, **named):
        """Ask for a change; an error that a caller has to expect while processes die is the answer."""
        try:
            return getattr(self.client, method)(*arguments, **named)
        except (RpcError, ServerChanged, UnknownName) as error:
            return error

    def confirm_all(self):
        for server in self.store.list_servers(vm_state="resized"):
            self.client.confirm_resize(server.uuid)
        self.settle()

    def describe(self):
        return ", ".join(
            f"{each.name} {each.vm_state}/{each.task_state} on {each.host}" for each in self.store.list_unfinished()
        )

    # --- what must be true -------------------------------------------------------------------------------

    def check(self):
        """No server is stuck or unexplained, none runs twice or not at all, and the ledger is clean."""
        everything = self.store.list_servers(limit=None)
        guests = self.running_guests()
        left = [each for each in everything if each.vm_state != DELETED]
        for server in left:
            assert server.task_state is None, server
            assert server.vm_state in (ACTIVE, ERROR), server
            if server.vm_state == ACTIVE:
                assert guests.get(server.uuid) == [server.host], (server, guests.get(server.uuid))
            else:
                assert self.store.read_faults(server.uuid), server
        active = {each.uuid for each in left if each.vm_state == ACTIVE}
        strangers = {uuid: hosts for uuid, hosts in guests.items() if uuid not in active}
        assert not strangers, f"guests of no active server: {strangers}"
        assert self.findings() == []
        return {"active": len(active), "errors": len(left) - len(active)}

    def findings(self):
        return audit(self.engine, SystemClock().now(), 0)

    def running_guests(self):
        """Uuid -> hosts that have a guest of it."""
        found = defaultdict(list)
        for host, guests in FakeHypervisors(self.folder.data / "guests").all_guests().items():
            for uuid, guest in guests.items():
                assert guest.power_state == RUNNING, (host, guest)
                found[uuid].append(host)
        return found


def wait_until(is_so, seconds, describe):
    give_up = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < give_up, describe()
        time.sleep(0.05)
