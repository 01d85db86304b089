# SPDX-License-Identifier: Apache-2.0
"""Puts equal requests to nova and to Roost, times them, and records where the choices differ."""

from __future__ import annotations

import gc
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from benchmarks.stopwatch import percentile
from benchmarks.versus_clocks import TwoClocks
from benchmarks.versus_fleet import FILTERS, SERVICE_DOWN_TIME, WEIGHERS, make_hosts, make_request_records
from conformance.asking import Oracle

from roost import Decision, Fleet, NoValidHost, RequestSpec, Scheduler
from roost.hosts import HostTable
from roost.scheduler.all_options import read_options
from roost.scheduler.build import build_pipeline
from roost.scheduler.checks import capacity_checks
from roost.scheduler.pipeline import Pipeline
from roost.testing.vectors import build_request, build_table

STREAM_RUNS = 5
MOST_IN_A_STREAM = 5_000
_HOSTS_PER_MESSAGE = 1000
_WARM_UP = 3
_NOVA_SIDE = Path(__file__).with_name("nova_side.py")

Chosen = list[str] | None
"""Host and node; None where no host fits."""
Advance = Callable[[], None]


class Case(NamedTuple):
    """One comparison, a row of the report."""

    hosts: int
    kind: str
    """cold: each request to a scheduler that has seen none; stream: one after the other, each consumed."""
    filters: str
    requests: int
    """Number of requests that are put to nova."""

    @property
    def steps(self) -> int:
        """Steps of the progress bar: one per request to nova, and one for the warm-up."""
        return self.requests + 1


class Nova(Protocol):
    """Interface of the process that runs nova."""

    def ask(self, case: dict[str, Any], /) -> dict[str, Any]:
        """Send a message and return the answer."""


class NovaProcess(Oracle):
    """The real nova, in a process with its own environment."""

    def __init__(self, python: Path) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the process)
        command = [str(python), "-W", "ignore", str(_NOVA_SIDE)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._errors, text=True)


def load_steps(hosts: int) -> int:
    """Steps of the progress bar while nova's objects are built."""
    return -(-hosts // _HOSTS_PER_MESSAGE)


class Contest:
    """Measurements of nova and Roost on one fleet."""

    def __init__(self, hosts: int, nova: Nova, advance: Advance) -> None:
        self.hosts, self.nova, self.advance = hosts, nova, advance
        self.about_nova = self.send("start", service_down_time=SERVICE_DOWN_TIME)
        records = make_hosts(hosts)
        while batch := list(islice(records, _HOSTS_PER_MESSAGE)):
            self.send("add", hosts=batch)
            advance()
        self.table, _ = build_table(list(make_hosts(hosts)), SERVICE_DOWN_TIME)
        Scheduler(Fleet.load({"hosts": [{"host": "any"}]}))  # configures memory, as in every Roost process

    def send(self, action: str, **arguments: Any) -> dict[str, Any]:
        return self.nova.ask({"id": action, "do": action, "with": arguments})

    def measure(self, case: Case) -> dict[str, Any]:
        """The result of one case: all requests to Roost, then all to nova, so that neither disturbs the other."""
        self.send("enable", filters=FILTERS[case.filters], weighers=WEIGHERS)
        self.warm_up(case.filters)
        roost_watches, choices = self.time_stream(case) if case.kind == "stream" else self.time_cold(case)
        nova_watch, answers, given = self.time_nova(case)
        return {
            "hosts": case.hosts,
            "kind": case.kind,
            "filters": case.filters,
            "hosts_given_to_nova": given,
            "nova": figures([nova_watch]),
            "roost": figures(roost_watches),
            **compare(answers, choices),
        }

    def warm_up(self, filters: str) -> None:
        """Run the one-time initialisation of Roost and nova untimed; nova gets few hosts, as it is slow."""
        records = make_request_records(filters, _WARM_UP, seed=1)
        for record in records:
            place(make_pipeline(filters), self.table.copy(), build_request(record))
        rows = passing_rows(self.table, build_request(records[0]))
        self.send("choose", request=records[0], passing=rows[:100], consumes=False)
        self.advance()

    def time_cold(self, case: Case) -> tuple[list[TwoClocks], list[Chosen]]:
        """Times and choices of Roost, each request with a new pipeline on the initial hosts: no warm caches."""
        watch, choices, table = TwoClocks(), [], self.table.copy()
        for _, spec in requests_of(case.filters, case.requests):
            action = partial(decide, make_pipeline(case.filters), table, spec)
            gc.collect()  # garbage of the previous request is not part of the time
            decision = watch.time(action)
            choices.append(chosen_by(decision))
            for each in decision.selections if decision else ():
                table.release(each.row, each.placed)
        return [watch], choices

    def time_stream(self, case: Case) -> tuple[list[TwoClocks], list[Chosen]]:
        """Times and choices of Roost, all requests with one pipeline; STREAM_RUNS runs on the initial table."""
        length = max(case.requests, min(MOST_IN_A_STREAM, case.hosts))
        specs = [spec for _, spec in requests_of(case.filters, length)]
        watches = []
        for _ in range(STREAM_RUNS):
            watch, pipeline, table = TwoClocks(), make_pipeline(case.filters), self.table.copy()
            choices = [watch.time(partial(place, pipeline, table, spec)) for spec in specs]
            watches.append(watch)
        return watches, choices[: case.requests]

    def time_nova(self, case: Case) -> tuple[TwoClocks, list[Chosen], int]:
        """Times and choices of nova, and the median number of hosts that it was given."""
        watch, answers, given = TwoClocks(), [], []
        table, pipeline, consumes = self.table.copy(), make_pipeline(case.filters), case.kind == "stream"
        for record, spec in requests_of(case.filters, case.requests):
            rows = passing_rows(table, spec)
            answer = self.send("choose", request=record, passing=rows, consumes=consumes)
            watch.times_us.append(answer["cpu_us"])
            watch.walls_us.append(answer["wall_us"])
            answers.append(answer["chosen"])
            given.append(len(rows))
            if consumes:  # the next request needs the remaining capacity
                place(pipeline, table, spec)
            self.advance()
        return watch, answers, round(statistics.median(given))


def requests_of(filters: str, count: int) -> Iterator[tuple[dict[str, Any], RequestSpec]]:
    """Requests as pairs: the record for nova_side.py, and the RequestSpec for Roost."""
    for record in make_request_records(filters, count):
        yield record, build_request(record)


def make_pipeline(filters: str) -> Pipeline:
    """A new pipeline with nova's weighers and default multipliers."""
    rules = {"enabled_filters": list(FILTERS[filters]), "weight_classes": list(WEIGHERS)}
    return build_pipeline(read_options(explicit={"filter_scheduler": rules}))


def decide(pipeline: Pipeline, table: HostTable, spec: RequestSpec) -> Decision | None:
    """The timed call: capacity, filter, weigh, choose, consume, and the Decision; None where no host fits."""
    try:
        return pipeline.place(
            table, spec, [spec.instance_uuid], randomness=_RANDOMNESS, clock=time.perf_counter_ns, alternates=0
        )
    except NoValidHost:
        return None


def place(pipeline: Pipeline, table: HostTable, spec: RequestSpec) -> Chosen:
    """Run a placement and return only the choice."""
    return chosen_by(decide(pipeline, table, spec))


def chosen_by(decision: Decision | None) -> Chosen:
    """The choice of a decision, in the form of nova_side.py."""
    return None if decision is None else [decision.selections[0].host, decision.selections[0].node]


_RANDOMNESS = random.Random(0)


def passing_rows(table: HostTable, spec: RequestSpec) -> list[int]:
    """Rows, sorted by name, of the hosts that placement would return to nova: enabled, with capacity."""
    hosts = table.in_the_running()
    for check in capacity_checks(spec):
        hosts = check.survivors(hosts)
    return [int(row) for row in hosts.rows]


def figures(watches: Sequence[TwoClocks]) -> dict[str, Any]:
    """Median and 99th percentile over all requests, CPU and wall-clock time, in milliseconds."""
    by_clock = {
        "cpu_ms": [each for watch in watches for each in watch.times_us],
        "wall_ms": [each for watch in watches for each in watch.walls_us],
    }
    return {"requests": len(by_clock["cpu_ms"])} | {
        clock: {
            "median": round(statistics.median(times_us) / 1000, 4),
            "p99": round(percentile(times_us, 99) / 1000, 4),
        }
        for clock, times_us in by_clock.items()
    }


def compare(answers: Sequence[Chosen], choices: Sequence[Chosen]) -> dict[str, Any]:
    """The number of requests with equal choices of nova and Roost, and the differences."""
    differences = [
        {"request": at, "nova": nova, "roost": roost}
        for at, (nova, roost) in enumerate(zip(answers, choices, strict=True))
        if nova != roost
    ]
    return {"compared": len(answers), "same": len(answers) - len(differences), "differences": differences}
