# SPDX-License-Identifier: Apache-2.0
"""Throughput of several scheduler processes that claim on one database with durable commits.

Measured is the wall-clock time from the start signal to the last answer. Each run continues with the fleet that the
previous one left; the first, shorter run is a warm-up.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.fleets import fleet_document, group_numbers, make_fleet
from benchmarks.stopwatch import percentile
from benchmarks.workload import Claims, Requests, Workload
from sqlalchemy import Engine, text
from tests.soak.clients import Client, Clients
from tests.store.servers import PostgreSQL, children_of

from roost import Fleet
from roost.records.fleet_import import import_fleet
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema_upgrade import upgrade

WARM_UP_PART = 0.1
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Run(NamedTuple):
    """Totals of one run over all schedulers."""

    seconds: float
    """Wall-clock time."""
    placed: int
    """Placed instances."""
    nowhere: int
    """Requests without a valid host."""
    refusals: int
    """Rejected claims."""
    client_seconds: float
    """CPU time of all schedulers."""
    server_seconds: float
    """CPU time of the database server; 0 for SQLite, which runs inside the schedulers."""
    request_ms: list[float]
    """Latency of each request."""


def measure_claims(workload: Workload) -> dict[str, Any]:
    """Run a workload of kind claims; name of each figure -> its median over the runs."""
    assert workload.requests is not None
    assert workload.claims is not None
    asked, claims = workload.requests, workload.claims
    with all_cores(), database(claims.database) as (address, pid):
        fill(address, workload)
        with Clients() as clients:
            schedulers = start(clients, address, workload)
            run(schedulers, round(asked.count * WARM_UP_PART), pid)
            runs = [run(schedulers, asked.count, pid) for _ in range(asked.repeats)]
            check_durable(address, schedulers)
            for each in schedulers:
                each.finish()
    return figures(asked, claims, runs)


def figures(asked: Requests, claims: Claims, runs: Sequence[Run]) -> dict[str, Any]:
    """The figures of the result, each the median of the runs."""

    def median(of: Any, digits: int = 1) -> float:
        return round(statistics.median(of(each) for each in runs), digits)

    return {
        "database": claims.database,
        "processes": claims.processes,
        "threads": claims.threads,
        "requests": asked.count,
        "instances": asked.instances,
        "per_second": median(lambda each: each.placed / each.seconds),
        "per_second_of_runs": [round(each.placed / each.seconds) for each in runs],
        "nowhere": sum(each.nowhere for each in runs),
        "conflicts_per_1000": median(lambda each: 1000 * each.refusals / each.placed, 2),
        "median_ms": median(lambda each: statistics.median(each.request_ms), 2),
        "p99_ms": median(lambda each: percentile(each.request_ms, 99), 2),
        "client_us": median(lambda each: 1e6 * each.client_seconds / each.placed),
        "server_us": median(lambda each: 1e6 * each.server_seconds / each.placed),
        "core_share": median(
            lambda each: (each.client_seconds + each.server_seconds) / each.seconds / (os.cpu_count() or 1), 3
        ),
    }


@contextmanager
def all_cores() -> Iterator[None]:
    """Allow all cores inside the block; child processes inherit that. The runner pins itself to one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def database(kind: str) -> Iterator[tuple[str, int | None]]:
    """Address of an empty database with durable commits, and the process id of its server (None for SQLite)."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/claims.db", None
        return
    server = PostgreSQL(is_durable=True)
    try:
        yield server.create_database("claims"), server.process.pid
    finally:
        server.stop()


def fill(address: str, workload: Workload) -> None:
    """Create the schema and import the hosts of a workload."""
    engine = open_engine(DatabaseOptions(connection=address), may_create=True)
    upgrade(engine)
    import_fleet(engine, Fleet.load(used_document(workload), keeps_records=True), datetime.now(UTC))
    gather_statistics(engine)
    engine.dispose()


def used_document(workload: Workload) -> dict[str, Any]:
    """The fleet document of a workload with an entry per host, which has its usage."""
    table, groups = make_fleet(workload).table, workload.hosts.groups
    used = {name: table.numbers[name].tolist() for name in ("vcpus_used", "free_ram_mb", "free_disk_mb")}
    hosts = [
        {
            "host": host,
            **groups[group].like,
            **{name: int(values[row]) for name, values in used.items()},
        }
        for row, ((host, _), group) in enumerate(
            zip(table.names, group_numbers(table, 0, len(table)).tolist(), strict=True)
        )
    ]
    return {"hosts": hosts, "aggregates": fleet_document(workload)["aggregates"]}


def gather_statistics(engine: Engine) -> None:
    """Run ANALYZE. Autovacuum would do so within a minute; until then the planner prefers sequential scans."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))


def start(clients: Clients, address: str, workload: Workload) -> list[Client]:
    """Start all schedulers; returns once each has loaded its replica."""
    assert workload.claims is not None
    path = str(workload.path.resolve())
    orders = [{"address": address, "workload": path, "number": at} for at in range(workload.claims.processes)]
    return clients.start("benchmarks.claims_worker", orders)


def run(schedulers: Sequence[Client], requests: int, server: int | None) -> Run:
    """Run `requests` requests, evenly distributed over the schedulers. `server`: process id of the database."""
    runs_before = len(schedulers[0].said("done"))

    def send(line: str, until: str) -> None:
        for each in schedulers:
            each.tell(line)
        for each in schedulers:
            each.wait_for(lambda client: len(client.said(until)) > runs_before, until)

    send(str(max(1, requests // len(schedulers))), until="prepared")
    server_before, started = cpu_seconds(server), time.perf_counter()
    send("go", until="done")
    done = [each.said("done")[-1] for each in schedulers]
    return Run(
        max(each["ended"] for each in done) - started,
        *(sum(each[name] for each in done) for name in ("placed", "nowhere", "refusals", "cpu_seconds")),
        cpu_seconds(server) - server_before,
        [time_ms for each in done for time_ms in each["request_ms"]],
    )


def cpu_seconds(server: int | None) -> float:
    """CPU seconds that a server and its child processes have used so far; 0 for None."""
    if server is None:
        return 0.0
    ticks = 0
    for pid in (server, *children_of(server)):
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(words[11]) + int(words[12])
    return ticks / _TICKS_PER_SECOND


def check_durable(address: str, schedulers: Sequence[Client]) -> None:
    """Raise AssertionError unless the database holds every instance that was reported as placed."""
    reported = sum(message["placed"] for each in schedulers for message in each.said("done"))
    engine = open_engine(DatabaseOptions(connection=address))
    with engine.connect() as connection:
        stored = connection.scalar(text("SELECT COUNT(*) FROM consumers WHERE kind = 'instance'"))
    engine.dispose()
    if reported != stored:
        raise AssertionError(f"{reported} instances were reported as placed, {stored} are in the database")
