# SPDX-License-Identifier: Apache-2.0
"""Servers from the client's request until they are active, in a whole cloud with a real broker and database.

A server takes from the moment at which its client sends the request to its `launched_at`, which the database stamps;
both clocks are this machine's. Where the time goes is read from the processes' own metrics: how long each kind of
message was handled. What is left is the way of messages, and waiting for a free thread or core.
"""

from __future__ import annotations

import re
import statistics
import tempfile
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.claims_bench import all_cores
from benchmarks.inputs import make_requests
from benchmarks.stopwatch import percentile
from benchmarks.workload import Workload

from roost.client.interface import CloudClient
from roost.client.rpc_client import open_client
from roost.clock import SystemClock
from roost.records.servers import ServerStore
from roost.scheduler.all_options import read_options
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.trial.cluster import ClusterControl
from roost.trial.plan import ClusterPlan, ClusterShape
from roost.trial.state import StateFolder

LONGEST_SECONDS = 120.0
POLL_SECONDS = 0.05
WARM_UP_SERVERS = 40
HANDLED = {
    "create_servers": "conductor: record",
    "build_instances": "conductor: schedule and assign",
    "select_destinations": "of that, scheduler: choose and claim",
    "build_and_run_instance": "agent: build",
}
"""Method -> what it does, on the way of a server."""
_METRIC = re.compile(r'roost_rpc_request_duration_seconds_(sum|count)\{method="(\w+)"\} (\S+)')

Handled = Mapping[str, tuple[float, float]]
"""Method -> seconds that handling it took, and number of messages."""


class Boot(NamedTuple):
    """A server that was asked for."""

    uuid: str
    asked_at: float
    """Seconds since 1970, when the client sent its request."""


def measure_boots(workload: Workload) -> dict[str, Any]:
    """Run a workload of kind boots; name of each figure -> its value."""
    assert workload.boots is not None
    assert workload.requests is not None
    asked = workload.boots
    shape = ClusterShape(asked.conductors, asked.schedulers, workload.hosts.count, asked.agent_processes, apis=0)
    with all_cores(), running_cluster(shape) as cloud:
        boots, sizes = Boots(cloud, asked.clients), sizes_of(workload)
        boots.run(sizes[:WARM_UP_SERVERS])
        before = cloud.read_handled()
        runs = [boots.run(sizes) for _ in range(workload.requests.repeats)]
        after = cloud.read_handled()
    totals = [seconds * 1e3 for run in runs for seconds in run.seconds]
    rates = [run.per_second for run in runs]
    return {
        "clients": asked.clients,
        "per_second": round(statistics.median(rates), 1),
        "per_second_spread": [round(min(rates), 1), round(max(rates), 1)],
        "median_ms": round(statistics.median(totals), 1),
        "p99_ms": round(percentile(totals, 99), 1),
        "active": sum(run.active for run in runs),
        "asked": workload.requests.count * workload.requests.repeats,
        "mean_ms": round(statistics.fmean(totals), 1),
        "where_ms": _mean_times(before, after),
    }


def sizes_of(workload: Workload) -> list[dict[str, int]]:
    """A flavor for each server that is asked for."""
    assert workload.requests is not None
    flavors = [spec.flavor for spec in make_requests(workload.requests, workload.seed)]
    return [{"vcpus": each.vcpus, "memory_mb": each.memory_mb, "root_gb": each.root_gb} for each in flavors]


def _mean_times(
    before: Mapping[str, tuple[float, float]], after: Mapping[str, tuple[float, float]]
) -> dict[str, float]:
    found = {}
    for method, what in HANDLED.items():
        seconds, count = (late - early for late, early in zip(after[method], before[method], strict=True))
        found[what] = round(seconds / count * 1e3, 1) if count else 0.0
    return found


class Cluster:
    """A running cluster: a client, its records, and the metrics of its processes."""

    def __init__(self, plan: ClusterPlan) -> None:
        self.plan = plan
        settings = read_options([plan.folder.config])
        self.client: CloudClient = open_client(settings, [plan.folder.config])
        self._engine = open_engine(DatabaseOptions(connection=plan.database_url))
        self.store = ServerStore(self._engine, SystemClock())

    def read_handled(self) -> Handled:
        """What all processes together have handled since they were started."""
        sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for process in self.plan.processes:
            if process.has_health_page:
                with urllib.request.urlopen(f"http://127.0.0.1:{process.port}/metrics", timeout=10) as page:
                    for part, method, value in _METRIC.findall(page.read().decode()):
                        sums[method][part == "count"] += float(value)
        return {method: (seconds, count) for method, (seconds, count) in sums.items()} | {
            method: (0.0, 0.0) for method in HANDLED if method not in sums
        }

    def close(self) -> None:
        self.client.close()
        self._engine.dispose()


@contextmanager
def running_cluster(shape: ClusterShape) -> Iterator[Cluster]:
    """A cluster in a folder of its own, stopped and removed at the end."""
    with tempfile.TemporaryDirectory(prefix="roost-boots-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL and RabbitMQ have users of their own
        control = ClusterControl(StateFolder(Path(folder)), SystemClock())
        plan = control.start(shape)
        try:
            cluster = Cluster(plan)
            yield cluster
            cluster.close()
        finally:
            control.stop()


class Run(NamedTuple):
    """Servers of one run, all of them active."""

    seconds: Sequence[float]
    per_second: float
    active: int


class Boots:
    """Clients that have servers built, and delete them after each run."""

    def __init__(self, cluster: Cluster, clients: int) -> None:
        self._cluster, self._clients = cluster, clients

    def run(self, sizes: Sequence[Mapping[str, int]], *, is_patient: bool = True) -> Run:
        """A server of each size, by all clients.

        `is_patient`: a client asks for the next server when the last one is active; else as fast as it can.
        """
        boots: list[Boot] = []
        left, lock = iter(sizes), threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    size = next(left, None)
                if size is None:
                    return
                asked_at = time.time()
                (server,) = self._cluster.client.create_servers({"name": "bench", "flavor": size})["servers"]
                boots.append(Boot(server["id"], asked_at))
                if is_patient:
                    self._wait(server["id"])

        threads = [threading.Thread(target=work) for _ in range(self._clients)]
        started = time.monotonic()
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        for boot in boots:
            self._wait(boot.uuid)
        found = self._summarise(boots, time.monotonic() - started)
        self._delete(boots)
        return found

    def _wait(self, uuid: str) -> None:
        give_up = time.monotonic() + LONGEST_SECONDS
        while self._cluster.store.get(uuid).is_busy and time.monotonic() < give_up:
            time.sleep(POLL_SECONDS)

    def _summarise(self, boots: Sequence[Boot], elapsed: float) -> Run:
        servers = {each.uuid: each for each in self._cluster.store.find([boot.uuid for boot in boots])}
        launched = [(boot.asked_at, servers[boot.uuid].launched_at) for boot in boots]
        seconds = [at.timestamp() - asked_at for asked_at, at in launched if at is not None]
        return Run(seconds, len(seconds) / elapsed, len(seconds))

    def _delete(self, boots: Sequence[Boot]) -> None:
        for boot in boots:
            self._cluster.client.delete_server(boot.uuid)
        give_up = time.monotonic() + LONGEST_SECONDS
        while self._cluster.store.list_unfinished() and time.monotonic() < give_up:
            time.sleep(POLL_SECONDS)
