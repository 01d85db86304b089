# SPDX-License-Identifier: Apache-2.0
"""The database server or the broker is killed during builds, moves and unshelves, and comes back after some time.

Every server must be active afterwards, on one host at any look: no living host may count as down for its silence.
"""

import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

from tests.services.crashing_cluster import SHORT, CrashingCluster, wait_until
from tests.soak.clients import Figures, demand, named

from roost.compute.drivers.fake import FakeHypervisors
from roost.errors import DatabaseError
from roost.records.listing import ServerFilters
from roost.records.server import ACTIVE, RESIZED, RUNNING, SHELVED_OFFLOADED

DEFAULTS = """
[DEFAULT]
reserved_host_memory_mb = 0
{more}
[roost_fake]
vcpus = 64
memory_mb = 65536
build_seconds = 3
"""
SHORTER = SHORT.replace("report_interval = 1\n", "report_interval = 10\n") + "build_seconds = 3\n"
"""A host is down after two heartbeats that were not sent."""
OPTIONS = {"short times": SHORTER, "defaults": DEFAULTS}
BUILDS, BATCHES, MOVED = 60, 12, 4
AFTER_SECONDS = 420
"""Patience after the end: the time until a stalled task is looked at, several times."""


def take_away(kind: str, times: str, seconds: float) -> Figures:
    """Kill what is of this kind for so long, with these options; BrokenPromise where a server is lost or doubled."""
    with tempfile.TemporaryDirectory(prefix="roost-away-") as folder:
        Path(folder).chmod(0o755)
        cluster = CrashingCluster(Path(folder), options=OPTIONS[times], agents=10, processes=5)
        try:
            return run(cluster, kind, seconds)
        finally:
            cluster.close()


def run(cluster: CrashingCluster, kind: str, seconds: float) -> Figures:
    moved = prepare(cluster)
    watcher = Watcher(cluster.folder.data / "guests")
    watcher.start()
    built = [uuid for at in range(BATCHES) for uuid in cluster.create(f"built-{at}", BUILDS // BATCHES)]
    for uuid, method in moved.items():
        getattr(cluster.client, method)(uuid)
    time.sleep(1.5)  # half of a build
    cluster.take_away(kind)
    time.sleep(seconds)
    began = time.monotonic()
    cluster.control.restart([kind])
    wait_until(lambda: is_settled(cluster), AFTER_SECONDS, lambda: f"stuck: {cluster.describe()}")
    settled = time.monotonic() - began
    states = {each.uuid: each.vm_state for each in cluster.store.find([*built, *moved])}
    cluster.confirm_all()
    cluster.check()
    watcher.stop()
    demand(not watcher.doubled, f"on two hosts: {named(watcher.doubled)}")
    wanted = {**dict.fromkeys(built, (ACTIVE,)), **dict.fromkeys(moved, (ACTIVE, RESIZED))}
    others = {uuid: state for uuid, state in states.items() if state not in wanted[uuid]}
    lost = [f"{uuid}: {state} after {moved.get(uuid, 'build')}" for uuid, state in others.items()]
    demand(not lost, named(lost))
    figures = {"builds": len(built), "moves": len(moved), "looks": watcher.looks}
    return figures | {"active": sum(states[uuid] == ACTIVE for uuid in built), "settled_after_s": round(settled)}


def prepare(cluster: CrashingCluster) -> dict[str, str]:
    """Servers that run or are shelved, each with what is to be asked for it."""
    ready = cluster.create("moved", 3 * MOVED)
    cluster.settle(120)
    for uuid in ready[2 * MOVED :]:
        cluster.client.shelve_server(uuid)
    wait_until(
        lambda: len(cluster.store.list_page(ServerFilters(vm_states=[SHELVED_OFFLOADED]))) == MOVED,
        60,
        lambda: f"not shelved: {cluster.describe()}",
    )
    methods = ("live_migrate_server", "migrate_server_cold", "unshelve_server")
    return {uuid: methods[at // MOVED] for at, uuid in enumerate(ready)}


def is_settled(cluster: CrashingCluster) -> bool:
    try:
        return not cluster.store.list_unfinished()
    except DatabaseError:  # its connections are of before
        return False


class Watcher(threading.Thread):
    """Looks at the guests of all fake hosts all the time."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._hypervisors, self._ended = FakeHypervisors(folder), threading.Event()
        self.looks = 0
        self.doubled: dict[str, list[str]] = {}
        """Uuid of a guest -> the hosts on which it ran at one moment."""

    def run(self) -> None:
        while not self._ended.wait(0.02):
            running = defaultdict(list)
            for host, guests in self._hypervisors.all_guests().items():
                for uuid, guest in guests.items():
                    if guest.power_state == RUNNING:
                        running[uuid].append(host)
            self.looks += 1
            self.doubled |= {uuid: hosts for uuid, hosts in running.items() if len(hosts) > 1}

    def stop(self) -> None:
        self._ended.set()
        self.join()
