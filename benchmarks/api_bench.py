# SPDX-License-Identifier: Apache-2.0
"""Requests to the API over HTTP: lists of many rows, and servers that are asked for.

A list is timed beside a plain loop of the same run: one SELECT of all columns of the rows, and `json.dumps` of what
comes back, the least that a program does which shows them. Servers are asked for over HTTP and, in turn, by messages
to the same conductors, which is what the API itself does for each of them.
"""

from __future__ import annotations

import http.client
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import cycle
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import yaml
from benchmarks.boots_bench import Cluster, running_cluster
from benchmarks.claims_bench import all_cores, gather_statistics, used_document
from benchmarks.inputs import make_requests
from benchmarks.stopwatch import percentile
from benchmarks.workload import Workload
from sqlalchemy import Engine, bindparam, select, update

from roost import Fleet
from roost.clock import SystemClock
from roost.messages.objects.request import request_to_object
from roost.records.fleet_import import import_fleet
from roost.records.server import ACTIVE, RUNNING, Server
from roost.records.servers import ServerStore
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema.fleet import compute_nodes, services
from roost.store.schema.servers import servers
from roost.trial.plan import ClusterPlan, ClusterShape

NO_BROKER = "rabbit://nobody@127.0.0.1:9/"
"""Lists send no messages."""
LONGEST_SECONDS = 120
WARM_UP_REQUESTS = 20
NEWEST = {"OpenStack-API-Version": "compute 2.100"}
ROWS = {
    "servers": ("/v2.1/servers/detail?all_tenants=True", select(servers).where(servers.c.deleted_at.is_(None))),
    "hypervisors": (
        "/v2.1/os-hypervisors/detail",
        select(compute_nodes, services).join_from(compute_nodes, services, services.c.host == compute_nodes.c.host),
    ),
}
"""What is listed -> path of the list, and the statement that reads the same rows."""

Times = list[float]
"""Milliseconds that each request took."""


class ApiClient:
    """An administrator who is signed in, on one connection."""

    def __init__(self, plan: ClusterPlan) -> None:
        auth = yaml.safe_load(plan.folder.clouds_file.read_text(encoding="utf-8"))["clouds"]["roost"]["auth"]
        self._line = http.client.HTTPConnection(urlsplit(plan.api_address).netloc, timeout=LONGEST_SECONDS)
        self._headers = NEWEST | {"Content-Type": "application/json"}
        user = {"name": auth["username"], "password": auth["password"], "domain": {"id": "default"}}
        project = {"project": {"name": auth["project_name"], "domain": {"id": "default"}}}
        identity = {"methods": ["password"], "password": {"user": user}}
        signed_in = self._send("POST", "/identity/v3/auth/tokens", {"auth": {"identity": identity, "scope": project}})
        self._headers["X-Auth-Token"] = signed_in.headers["X-Subject-Token"]

    def _send(self, method: str, path: str, body: Any = None) -> http.client.HTTPResponse:
        self._line.request(method, path, body and json.dumps(body), self._headers)
        answer = self._line.getresponse()
        self.body = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {self.body[:200]!r}")
        return answer

    def get(self, path: str) -> bytes:
        """The body of a resource."""
        self._send("GET", path)
        return self.body

    def create_server(self) -> None:
        """Ask for a small server; returns when the request is accepted."""
        wanted = {"name": "bench", "flavorRef": "m1.tiny", "networks": "none"}
        self._send("POST", "/v2.1/servers", {"server": wanted})

    def close(self) -> None:
        """End the connection."""
        self._line.close()


# --- lists -------------------------------------------------------------------------------------------


def measure_listing(workload: Workload) -> dict[str, Any]:
    """Run a workload of kind listing; name of each figure -> its value."""
    assert workload.requests is not None
    path, rows = ROWS[str(workload.listing)]
    with all_cores(), api_alone() as plan, closing(ApiClient(plan)) as client, opened(plan) as engine:
        fill(engine, workload)

        def plain() -> str:
            with engine.connect() as connection:
                found = [dict(row) for row in connection.execute(rows).mappings()]
            return json.dumps({workload.listing: found}, default=str)

        count = len(json.loads(client.get(path))[workload.listing])
        expected = workload.requests.count if workload.listing == "servers" else workload.hosts.count
        assert count == expected == len(json.loads(plain())[workload.listing]), (count, expected)
        time_alternately(WARM_UP_REQUESTS, lambda: client.get(path), plain)
        times, plain_times = time_alternately(50 * workload.requests.repeats, lambda: client.get(path), plain)
    return {
        "listed": count,
        "kilobytes": round(len(client.body) / 1000),
        "median_ms": round(statistics.median(times), 1),
        "p99_ms": round(percentile(times, 99), 1),
        "plain_median_ms": round(statistics.median(plain_times), 1),
        "ratio_to_plain": round(statistics.median(times) / statistics.median(plain_times), 2),
    }


@contextmanager
def api_alone() -> Iterator[ClusterPlan]:
    """An API and a private PostgreSQL with durable commits; nothing else is needed to read."""
    with running_cluster(ClusterShape(0, 0, 0, 0, broker=NO_BROKER)) as cluster:
        yield cluster.plan


@contextmanager
def opened(plan: ClusterPlan) -> Iterator[Engine]:
    """The database of a cluster."""
    engine = open_engine(DatabaseOptions(connection=plan.database_url))
    try:
        yield engine
    finally:
        engine.dispose()


def fill(engine: Engine, workload: Workload) -> None:
    """Import the hosts of a workload and, where servers are listed, one that is active for each of its requests."""
    assert workload.requests is not None
    import_fleet(engine, Fleet.load(used_document(workload), keeps_records=True), SystemClock().now())
    if workload.listing == "servers":
        specs = make_requests(workload.requests, workload.seed)
        uuids = [str(uuid4()) for _ in specs]
        store = ServerStore(engine, SystemClock())
        store.create(
            [
                Server(
                    uuid, f"server-{number}", None, project_id=spec.project_id, request_spec=request_to_object(spec)
                )
                for number, (uuid, spec) in enumerate(zip(uuids, specs, strict=True))
            ]
        )
        activate(engine, uuids)
    gather_statistics(engine)


def activate(engine: Engine, uuids: list[str]) -> None:
    """Make servers what they are once they are built, on all hosts in turn."""
    state = {"vm_state": ACTIVE, "task_state": None, "power_state": RUNNING, "launched_at": SystemClock().now()}
    built = update(servers).where(servers.c.uuid == bindparam("own"))
    with engine.begin() as connection:
        nodes = connection.execute(select(compute_nodes.c.host, compute_nodes.c.hypervisor_hostname)).all()
        places = [{"own": uuid, "host": host, "node": node} for uuid, (host, node) in zip(uuids, cycle(nodes))]
        connection.execute(built.values(state | {"host": bindparam("host"), "node": bindparam("node")}), places)


def time_alternately(count: int, *calls: Callable[[], object]) -> list[Times]:
    """Make each call so many times, in turn, so that load on the machine affects all; the times of each."""
    times: list[Times] = [[] for _ in calls]
    for _ in range(count):
        for call, own in zip(calls, times, strict=True):
            own.append(timed(call))
    return times


def timed(call: Callable[[], object]) -> float:
    """Milliseconds that a call takes."""
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1000


# --- servers that are asked for ----------------------------------------------------------------------


def measure_intake(workload: Workload) -> dict[str, Any]:
    """Run a workload of kind intake; name of each figure -> its value."""
    assert workload.boots is not None
    assert workload.requests is not None
    asked, count = workload.boots, workload.requests.count
    shape = ClusterShape(asked.conductors, asked.schedulers, workload.hosts.count, asked.agent_processes)
    with all_cores(), running_cluster(shape) as cluster:
        clients = [ApiClient(cluster.plan) for _ in range(asked.clients)]
        by_http = [each.create_server for each in clients]
        wanted = {"name": "bench", "flavor": "m1.tiny"}
        by_messages = [lambda: cluster.client.create_servers(wanted)] * asked.clients
        ways = [Intake(cluster, calls) for calls in (by_http, by_messages)]

        def run_all(count: int) -> list[tuple[Times, float]]:
            found = [way.run(count) for way in ways]
            for each in clients:
                each.close()  # the API closes connections that are idle; the next request opens one
            return found

        run_all(WARM_UP_REQUESTS)
        runs = [run_all(count) for _ in range(workload.requests.repeats)]
    http_ms = [ms for (times, _), _ in runs for ms in times]
    rates = [(count / seconds, count / direct) for (_, seconds), (_, direct) in runs]
    return {
        "clients": asked.clients,
        "per_second": round(statistics.median(rate for rate, _ in rates), 1),
        "median_ms": round(statistics.median(http_ms), 1),
        "p99_ms": round(percentile(http_ms, 99), 1),
        "direct_per_second": round(statistics.median(direct for _, direct in rates), 1),
        "rate_ratio": round(statistics.median(rate / direct for rate, direct in rates), 2),
    }


class Intake:
    """Clients that ask for servers, each as soon as its last request was accepted."""

    def __init__(self, cluster: Cluster, calls: list[Callable[[], object]]) -> None:
        """`calls`: what each client does to ask for a server."""
        self._cluster, self._calls = cluster, calls

    def run(self, count: int) -> tuple[Times, float]:
        """Ask for so many servers: what each request took, and seconds until all were accepted.

        Comes back when all servers are built, so that one run does not slow down the next.
        """
        times: Times = []
        numbers, lock = iter(range(count)), threading.Lock()

        def work(call: Callable[[], object]) -> None:
            while True:
                with lock:
                    if next(numbers, None) is None:
                        return
                times.append(timed(call))

        threads = [threading.Thread(target=work, args=(call,)) for call in self._calls]
        started = time.perf_counter()
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        seconds = time.perf_counter() - started
        assert len(times) == count, "a client failed"
        self._wait_until_built()
        return times, seconds

    def _wait_until_built(self) -> None:
        give_up = time.monotonic() + LONGEST_SECONDS
        while self._cluster.store.list_unfinished() and time.monotonic() < give_up:
            time.sleep(0.1)
