# SPDX-License-Identifier: Apache-2.0
"""A whole cloud on hosts with libvirt: PostgreSQL, RabbitMQ, a conductor, a scheduler, and an agent for each host."""

import contextlib
import json
import subprocess
import urllib.request

from tests.nova_stack.processes import StackError, wait_for
from tests.rpc.broker import RabbitMQ
from tests.services.stack import ROOST
from tests.store.servers import PostgreSQL

from roost.trial.private_servers import free_port

FLAVORS = [
    {"name": "tiny", "vcpus": 1, "memory_mb": 32, "root_gb": 0},
    {"name": "small", "vcpus": 1, "memory_mb": 64, "root_gb": 0},
    {"name": "huge", "vcpus": 64, "memory_mb": 32, "root_gb": 0},
]
DOWN_SECONDS = 5
"""A host without heartbeats counts as down after so long."""


class Service:
    """One `roost service NAME`, with its own configuration and log."""

    def __init__(self, cloud, service, name, more=""):
        self.name, self.port = name, free_port()
        port_option = "health_port" if service == "scheduler" else f"{service}_health_port"
        config = cloud.folder / f"{name}.conf"
        config.write_text(cloud.config_text(name) + f"[roost]\n{port_option} = {self.port}\n{more}")
        self.log = cloud.folder / f"{name}.log"
        self._command = [*ROOST, "service", service, "--config-file", str(config)]
        self.process = None

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def is_ready(self):
        if self.process.poll() is not None:
            raise StackError(f"{self.name} has ended; see {self.log}")
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5).status == 200
        return False

    def kill(self):
        """Kill -9."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self):
        """Gracefully; its exit code."""
        if self.process is None:
            return 0
        self.process.terminate()
        return self.process.wait(timeout=60)


class VmCloud:
    """The services, and the command `roost` for them: `with VmCloud(folder, hosts) as cloud:`."""

    def __init__(self, folder, hosts):
        self.folder, self.hosts = folder, hosts
        self._broker, self._database = RabbitMQ(), PostgreSQL()
        self._connection = self._database.create_database("vms")
        (folder / "roost.conf").write_text(self.config_text("client"))
        self.services = [Service(self, "conductor", "conductor"), Service(self, "scheduler", "scheduler")]
        self.agents = {host.name: Service(self, "compute", host.name, agent_text(host)) for host in hosts}

    def config_text(self, name):
        """What all services and commands have in common."""
        return (
            f"[DEFAULT]\nhost = {name}\ntransport_url = {self._broker.address()}\ncontrol_exchange = roost_vms\n"
            f"compute_driver = libvirt.LibvirtDriver\nreport_interval = 1\nservice_down_time = {DOWN_SECONDS}\n"
            f"reserved_host_memory_mb = 0\n[database]\nconnection = {self._connection}\n"
        )

    def __enter__(self):
        try:
            fleet = self.folder / "fleet.json"
            fleet.write_text(json.dumps({"hosts": [], "flavors": FLAVORS}))
            self.roost("db", "upgrade")
            self.roost("fleet", "import", str(fleet))
            self.start(*self.services, *self.agents.values())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def start(self, *services):
        """Start services, and wait until all are ready."""
        for service in services:
            service.start()
        for service in services:
            wait_for(f"{service.name} is ready", service.is_ready, seconds=60)

    def roost(self, *words, code=0):
        """What a command prints."""
        command = [*ROOST, *words, "--config-file", str(self.folder / "roost.conf")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode != code:
            raise StackError(f"roost {' '.join(words)}: exit code {done.returncode}: {done.stderr}{done.stdout}")
        return done.stdout if code == 0 else done.stderr

    def server(self, name):
        """A server, as `roost server show` has it."""
        return json.loads(self.roost("server", "show", name, "-f", "json"))

    def close(self):
        """End all processes; virtual machines go on."""
        for service in (*self.services, *self.agents.values()):
            service.kill()
        self._broker.stop()
        self._database.stop()


def agent_text(host):
    """The options of an agent for one of several daemons on a machine."""
    return (
        f"[libvirt]\nconnection_uri = {host.uri}\nvirt_type = qemu\nlive_migration_inbound_addr = 127.0.0.1\n"
        "host_vcpus = 4\nhost_memory_mb = 1024\nhost_disk_gb = 10\n"
    )
