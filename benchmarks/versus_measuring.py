# SPDX-License-Identifier: Apache-2.0
"""Put the same requests to nova and to Roost, time both, and note where they choose differently."""

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
from roost.scheduler.build import build_pipeline, read_options
from roost.scheduler.checks import capacity_checks
from roost.scheduler.pipeline import Pipeline
from roost.testing.conformance_cases import build_request, build_table

STREAM_RUNS = 5
MOST_IN_A_STREAM = 5_000
_HOSTS_PER_MESSAGE = 1000
_WARM_UP = 3
_NOVA_SIDE = Path(__file__).with_name("nova_side.py")

Chosen = list[str] | None
"""Host and node; None where no host is left."""
Advance = Callable[[], None]


class Case(NamedTuple):
    """One line of the answer."""

    hosts: int
    kind: str
    """cold: each request to a scheduler that has seen none; stream: one after the other, each consumed."""
    filters: str
    requests: int
    """So many are put to nova."""

    @property
    def steps(self) -> int:
        """Of the progress bar: one per request to nova, and one to warm up."""
        return self.requests + 1


class Nova(Protocol):
    """What is needed of the process that runs nova."""

    def ask(self, case: dict[str, Any], /) -> dict[str, Any]:
        """The answer to a message."""


class NovaProcess(Oracle):
    """The real nova, in a process and an environment of its own."""

    def __init__(self, python: Path) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the process)
        command = [str(python), "-W", "ignore", str(_NOVA_SIDE)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._errors, text=True)


def load_steps(hosts: int) -> int:
    """Steps of the progress bar while nova's objects are built."""
    return -(-hosts // _HOSTS_PER_MESSAGE)


class Contest:
    """One fleet, in both."""

    def __init__(self, hosts: int, nova: Nova, advance: Advance) -> None:
        self.hosts, self.nova, self.advance = hosts, nova, advance
        self.about_nova = self.tell("start", service_down_time=SERVICE_DOWN_TIME)
        records = make_hosts(hosts)
        while batch := list(islice(records, _HOSTS_PER_MESSAGE)):
            self.tell("add", hosts=batch)
            advance()
        self.table, _ = build_table(list(make_hosts(hosts)), SERVICE_DOWN_TIME)
        Scheduler(Fleet.load({"hosts": [{"host": "any"}]}))  # every Roost process has its memory set up by this

    def tell(self, action: str, **arguments: Any) -> dict[str, Any]:
        return self.nova.ask({"id": action, "do": action, "with": arguments})

    def measure(self, case: Case) -> dict[str, Any]:
        """All of Roost's requests, then all of nova's: neither is disturbed by the other."""
        self.tell("enable", filters=FILTERS[case.filters], weighers=WEIGHERS)
        self.warm_up(case.filters)
        ours, choices = self.time_stream(case) if case.kind == "stream" else self.time_cold(case)
        theirs, answers, given = self.time_nova(case)
        return {
            "hosts": case.hosts,
            "kind": case.kind,
            "filters": case.filters,
            "hosts_given_to_nova": given,
            "nova": figures([theirs]),
            "roost": figures(ours),
            **compare(answers, choices),
        }

    def warm_up(self, filters: str) -> None:
        """What both do once in their lives is in nobody's time. nova's first request sees few hosts: it is slow."""
        records = make_request_records(filters, _WARM_UP, seed=1)
        for record in records:
            place(make_pipeline(filters), self.table.copy(), build_request(record))
        rows = passing_rows(self.table, build_request(records[0]))
        self.tell("choose", request=records[0], passing=rows[:100], consumes=False)
        self.advance()

    def time_cold(self, case: Case) -> tuple[list[TwoClocks], list[Chosen]]:
        """Each request to a pipeline of its own, on hosts as they were at first: nothing is kept in between."""
        watch, choices, table = TwoClocks(), [], self.table.copy()
        for _, spec in requests_of(case.filters, case.requests):
            asked = partial(decide, make_pipeline(case.filters), table, spec)
            gc.collect()  # what the request before kept: our litter, not Roost's
            decision = watch.time(asked)
            choices.append(chosen_by(decision))
            for each in decision.selections if decision else ():
                table.release(each.row, each.placed)
        return [watch], choices

    def time_stream(self, case: Case) -> tuple[list[TwoClocks], list[Chosen]]:
        """All requests to one pipeline, several times over, each time from an untouched table."""
        length = max(case.requests, min(MOST_IN_A_STREAM, case.hosts))
        specs = [spec for _, spec in requests_of(case.filters, length)]
        watches = []
        for _ in range(STREAM_RUNS):
            watch, pipeline, table = TwoClocks(), make_pipeline(case.filters), self.table.copy()
            choices = [watch.time(partial(place, pipeline, table, spec)) for spec in specs]
            watches.append(watch)
        return watches, choices[: case.requests]

    def time_nova(self, case: Case) -> tuple[TwoClocks, list[Chosen], int]:
        """nova's times and choices, and how many hosts it was given (the median)."""
        watch, answers, given = TwoClocks(), [], []
        table, pipeline, consumes = self.table.copy(), make_pipeline(case.filters), case.kind == "stream"
        for record, spec in requests_of(case.filters, case.requests):
            rows = passing_rows(table, spec)
            answer = self.tell("choose", request=record, passing=rows, consumes=consumes)
            watch.times_us.append(answer["cpu_us"])
            watch.walls_us.append(answer["wall_us"])
            answers.append(answer["chosen"])
            given.append(len(rows))
            if consumes:  # so that the next request finds the capacity that is left
                place(pipeline, table, spec)
            self.advance()
        return watch, answers, round(statistics.median(given))


def requests_of(filters: str, count: int) -> Iterator[tuple[dict[str, Any], RequestSpec]]:
    """The requests as nova's side and as Roost takes them."""
    for record in make_request_records(filters, count):
        yield record, build_request(record)


def make_pipeline(filters: str) -> Pipeline:
    """A fresh one, with nova's default multipliers."""
    rules = {"enabled_filters": list(FILTERS[filters]), "weight_classes": list(WEIGHERS)}
    return build_pipeline(read_options(explicit={"filter_scheduler": rules}))


def decide(pipeline: Pipeline, table: HostTable, spec: RequestSpec) -> Decision | None:
    """What is timed of Roost: capacity, filter, weigh, choose, consume, and the Decision. None: no host is left."""
    try:
        return pipeline.place(
            table, spec, [spec.instance_uuid], randomness=_CHANCE, clock=time.perf_counter_ns, alternates=0
        )
    except NoValidHost:
        return None


def place(pipeline: Pipeline, table: HostTable, spec: RequestSpec) -> Chosen:
    """The choice alone."""
    return chosen_by(decide(pipeline, table, spec))


def chosen_by(decision: Decision | None) -> Chosen:
    """The choice in nova's side's terms."""
    return None if decision is None else [decision.selections[0].host, decision.selections[0].node]


_CHANCE = random.Random(0)


def passing_rows(table: HostTable, spec: RequestSpec) -> list[int]:
    """The hosts that placement would hand to nova: enabled, with room. By row, which is the order of their names."""
    hosts = table.in_the_running()
    for check in capacity_checks(spec):
        hosts = check.survivors(hosts)
    return [int(row) for row in hosts.rows]


def figures(watches: Sequence[TwoClocks]) -> dict[str, Any]:
    """Median and 99th percentile of all requests by both clocks, milliseconds."""
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
    """How many requests went to the same host, and which did not."""
    differences = [
        {"request": at, "nova": nova, "roost": roost}
        for at, (nova, roost) in enumerate(zip(answers, choices, strict=True))
        if nova != roost
    ]
    return {"compared": len(answers), "same": len(answers) - len(differences), "differences": differences}
