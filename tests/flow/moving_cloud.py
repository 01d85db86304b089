# SPDX-License-Identifier: Apache-2.0
"""A cloud in one process whose servers move and whose agents go silent."""

from tests.flow.whole_cloud import ADMIN, WholeCloud

SECONDS_UNTIL_DOWN = 60
LARGE = {"name": "large", "vcpus": 2, "memory_mb": 4096, "root_gb": 1}
SMALL = {"name": "small", "vcpus": 1, "memory_mb": 1024, "root_gb": 1}
ARM = {"id": "arm", "properties": {"hw_architecture": "aarch64"}}
X86 = {"id": "x86", "properties": {"hw_architecture": "x86_64"}}


class MovingCloud(WholeCloud):
    """A whole cloud, with the moves of a server as calls."""

    def __init__(self, folder, hosts=("a", "b", "c"), options=None, **fake_options):
        super().__init__(folder, hosts, {"DEFAULT": options or {}}, **fake_options)

    @property
    def manager(self):
        """Of the last conductor."""
        return self.conductors[-1].manager

    @property
    def scheduler(self):
        """The RPC server of the scheduler."""
        return self.schedulers[-1]._server

    def ask(self, method, server, context=ADMIN, **arguments):
        """Call a conductor as a client does; returns the server as it is when all messages were handled."""
        args = {"server": server.uuid, **arguments}
        answer = self.transport.call("conductor", method, "1.0", args, context, timeout=30)
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
        self.send_heartbeats(set(self.hosts) - set(hosts))
        self.clock.seconds += 2  # schedulers read heartbeats once a second

    def clean_up(self, server):
        """A round of the janitor; returns the server as it is then."""
        self.manager.janitor.run()
        return self.store.get(server.uuid)

    def fault(self, server):
        faults = self.store.read_faults(server.uuid)
        return faults[0] if faults else None
