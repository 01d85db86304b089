# SPDX-License-Identifier: Apache-2.0
"""Several schedulers, each a process, claim on one database that waits for the disk at every commit.

What counts is the time on the wall from the moment when all are told to go to the last answer: that is what a service
gives. Each run goes on where the one before ended, as in life; the first, a short one, does not count.
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
from roost.inventory import import_fleet
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema_upgrade import upgrade

WARM_UP_PART = 0.1
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Run(NamedTuple):
    """One run of all requests."""

    seconds: float
    """On the wall."""
    placed: int
    """Instances."""
    nowhere: int
    refusals: int
    client_seconds: float
    """CPU time of all schedulers."""
    server_seconds: float
    """CPU time of the database server; 0 where it is part of the schedulers."""
    request_ms: list[float]
    """Of each request, from the question to the answer."""


def measure_claims(workload: Workload) -> dict[str, Any]:
    """The median of the runs, of each figure."""
    assert workload.requests is not None
    assert workload.claims is not None
    asked, claims = workload.requests, workload.claims
    with all_cores(), database(claims.database) as (address, pid):
        fill(address, workload)
        with Clients() as clients:
            schedulers = start(clients, address, workload)
            run(schedulers, round(asked.count * WARM_UP_PART), pid)
            runs = [run(schedulers, asked.count, pid) for _ in range(asked.repeats)]
            check_all_is_there(address, schedulers)
            for each in schedulers:
                each.finish()
    return figures(asked, claims, runs)


def figures(asked: Requests, claims: Claims, runs: Sequence[Run]) -> dict[str, Any]:
    """What is printed."""

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
    """The other workloads keep to one core; this is about many processes, which inherit what we may use."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def database(kind: str) -> Iterator[tuple[str, int | None]]:
    """Address of an empty database whose commits wait for the disk, and the server's process."""
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
    """Tables and hosts."""
    engine = open_engine(DatabaseOptions(connection=address), may_create=True)
    upgrade(engine)
    import_fleet(engine, Fleet.load(used_document(workload), keeps_records=True), datetime.now(UTC))
    gather_statistics(engine)
    engine.dispose()


def used_document(workload: Workload) -> dict[str, Any]:
    """The hosts of the workload one by one, each with what is used of it."""
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
    """PostgreSQL does so by itself a minute after the import; before that it reads whole tables for a few rows."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))


def start(clients: Clients, address: str, workload: Workload) -> list[Client]:
    """All schedulers, with their pictures of the fleet."""
    assert workload.claims is not None
    path = str(workload.path.resolve())
    orders = [{"address": address, "workload": path, "number": at} for at in range(workload.claims.processes)]
    return clients.start("benchmarks.claims_worker", orders)


def run(schedulers: Sequence[Client], requests: int, server: int | None) -> Run:
    """So many requests, shared out evenly."""
    runs_before = len(schedulers[0].said("done"))

    def tell(line: str, until: str) -> None:
        for each in schedulers:
            each.tell(line)
        for each in schedulers:
            each.wait_for(lambda client: len(client.said(until)) > runs_before, until)

    tell(str(max(1, requests // len(schedulers))), until="prepared")
    server_before, started = cpu_seconds(server), time.perf_counter()
    tell("go", until="done")
    done = [each.said("done")[-1] for each in schedulers]
    return Run(
        max(each["ended"] for each in done) - started,
        *(sum(each[name] for each in done) for name in ("placed", "nowhere", "refusals", "cpu_seconds")),
        cpu_seconds(server) - server_before,
        [time_ms for each in done for time_ms in each["request_ms"]],
    )


def cpu_seconds(server: int | None) -> float:
    """CPU time of a server and its processes up to now."""
    if server is None:
        return 0.0
    ticks = 0
    for pid in (server, *children_of(server)):
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(words[11]) + int(words[12])
    return ticks / _TICKS_PER_SECOND


def check_all_is_there(address: str, schedulers: Sequence[Client]) -> None:
    """A claim that is not in the database was not made."""
    told = sum(word["placed"] for each in schedulers for word in each.said("done"))
    engine = open_engine(DatabaseOptions(connection=address))
    with engine.connect() as connection:
        there = connection.scalar(text("SELECT COUNT(*) FROM consumers WHERE kind = 'instance'"))
    engine.dispose()
    if told != there:
        raise AssertionError(f"{told} instances were told that they are placed, {there} are in the database")
