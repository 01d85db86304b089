# SPDX-License-Identifier: Apache-2.0
"""Measures one workload: cold requests, a stream, members of a group, memory.

Traces: `trace_bench.py`. Claims: `claims_bench.py`. Messages: `messages_bench.py`. Whole clouds: `boots_bench.py`.
The API: `api_bench.py`. Explanations: `explain_bench.py`.
"""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.api_bench import measure_intake, measure_listing
from benchmarks.boots_bench import measure_boots
from benchmarks.claims_bench import measure_claims
from benchmarks.explain_bench import measure_explain
from benchmarks.fleets import make_fleet
from benchmarks.inputs import make_requests, read_sizes, requester, scheduler_options
from benchmarks.ledger_bench import measure_ledger
from benchmarks.messages_bench import measure_messages
from benchmarks.plain_loops import Chosen, PlainLoops
from benchmarks.recording_bench import measure_recording
from benchmarks.stopwatch import Stopwatch, core_share, median_of, percentile, settled_memory
from benchmarks.trace_bench import TraceBench
from benchmarks.workload import Workload

from roost import Decision, Flavor, NoValidHost, RequestSpec, Scheduler

ROOT = Path(__file__).resolve().parents[1]
MEMORY_RUNS = 5
FILTER_RUNS = 25


def measure(workload: Workload) -> dict[str, Any]:
    """Run a workload; name of each figure in the results -> its value."""
    if workload.kind in _MEASURED_BY:
        return _MEASURED_BY[workload.kind](workload)
    if workload.kind == "trace":
        return TraceBench(workload).figures()
    bench = _Bench(workload)
    with settled_memory():
        bench.run_cold() if workload.kind == "cold" else bench.run_stream(bench.requests.repeats)
    return bench.figures()


def measure_memory(workload: Workload) -> dict[str, Any]:
    """Growth of the resident memory of a fresh process; the median of MEMORY_RUNS processes."""
    command = [sys.executable, "-m", "benchmarks.resident", str(workload.path.resolve())]
    grown = [
        int(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout) for _ in range(MEMORY_RUNS)
    ]
    grown_by = statistics.median(grown)
    return {
        "requests": workload.requests.count if workload.requests else 0,
        "bytes_per_host": round(grown_by / workload.hosts.count, 1),
        "megabytes": round(grown_by / 1e6, 1),
    }


def measure_headroom(workload: Workload) -> dict[str, Any]:
    """Rate at which headroom places instances, and the rate of a stream, in turn on equal fleets.

    Headroom is that of the largest size, the stream's sizes are drawn as in a workload of kind stream.
    """
    bench = _Bench(workload)
    spec = requester(bench.requests)(max((flavor for flavor, _ in read_sizes(bench.requests)), key=_size_of))
    rates, stream_rates = [], []
    with settled_memory():
        for _ in range(bench.requests.repeats):
            bench.run_stream(repeats=1)
            stream_rates.append(bench.watches[-1].per_second)
            scheduler, watch = bench.make_scheduler(), Stopwatch()
            headroom = watch.time(partial(scheduler.headroom, spec))
            rates.append(headroom.fits * watch.per_second)
    ratios = [rate / stream_rate for rate, stream_rate in zip(rates, stream_rates, strict=True)]
    return {
        "requests": bench.requests.count,
        "fits": headroom.fits,
        "per_second": round(statistics.median(rates), 1),
        "stream_per_second": round(statistics.median(stream_rates), 1),
        "ratio_to_stream": round(statistics.median(ratios), 2),
        "ratio_to_stream_of_runs": [round(ratio, 2) for ratio in ratios],
    }


_MEASURED_BY = {
    "memory": measure_memory,
    "headroom": measure_headroom,
    "claims": measure_claims,
    "ledger": measure_ledger,
    "messages": measure_messages,
    "recording": measure_recording,
    "boots": measure_boots,
    "listing": measure_listing,
    "intake": measure_intake,
    "explain": measure_explain,
}
"""Kind of workload -> the function that runs one."""


def _size_of(flavor: Flavor) -> tuple[int, int]:
    return flavor.memory_mb, flavor.vcpus


class _Bench:
    """State of a run: the fleet, the plain loops if they are compared, and the times so far."""

    def __init__(self, workload: Workload) -> None:
        assert workload.requests is not None
        self.workload, self.requests = workload, workload.requests
        self.fleet = make_fleet(workload)
        self.loops = PlainLoops(self.make_scheduler()) if self.requests.compare else None
        self.watches: list[Stopwatch] = []
        """Times of Roost, a stopwatch per run."""
        self.loops_watch = Stopwatch()
        self.agreements: list[bool] = []
        self.weighing_us: list[float] = []
        """Times of the stages weigh and choose, of cold requests."""
        self.choices: list[Chosen] = []
        """Choices of the last run of a stream."""
        place(self.make_scheduler(), self.make_requests()[0])  # warm-up of Python and numpy

    def make_scheduler(self) -> Scheduler:
        """A fresh scheduler on the initial fleet."""
        gc.collect()  # frees the hosts of the previous scheduler, or memory would add up
        return Scheduler(self.fleet, scheduler_options(self.workload), seed=self.workload.seed)

    def make_requests(self) -> list[RequestSpec]:
        return make_requests(self.requests, self.workload.seed)

    def run_cold(self) -> None:
        """Put each request to a fresh scheduler, and immediately after it to the plain loops."""
        watch = Stopwatch()
        self.watches.append(watch)
        for at, spec in enumerate(self.make_requests()):
            decision = watch.time(partial(place, self.make_scheduler(), spec))
            self.weighing_us += [decision.time_us["weigh"] + decision.time_us["choose"]] if decision else []
            chosen = chosen_by(decision)
            if self.loops and at < self.requests.compare:
                self.loops.restore(self.compare(self.loops, spec, chosen))

    def run_stream(self, repeats: int) -> None:
        """Put all requests to one scheduler, in several runs, and the first ones to the plain loops."""
        for _ in range(repeats):
            watch, scheduler = Stopwatch(), self.make_scheduler()
            self.watches.append(watch)
            # Store only names: retained decisions would be work for the garbage collector that no service has.
            self.choices = [chosen_by(watch.time(partial(place, scheduler, spec))) for spec in self.make_requests()]
        if self.loops:
            for spec, chosen in zip(self.make_requests()[: self.requests.compare], self.choices, strict=False):
                self.compare(self.loops, spec, chosen)

    def compare(self, loops: PlainLoops, spec: RequestSpec, chosen: Chosen) -> Chosen:
        expected = self.loops_watch.time(partial(loops.place, spec))
        self.agreements.append(chosen == expected)
        return expected

    def figures(self) -> dict[str, Any]:
        everything = [time_us for watch in self.watches for time_us in watch.times_us]
        found: dict[str, Any] = {
            "requests": self.requests.count,
            "median_us": round(median_of(self.watches), 1),
            "p99_us": round(percentile(everything, 99), 1),
        }
        if self.weighing_us:
            found["weighing_us"] = round(statistics.median(self.weighing_us), 1)
        if self.requests.instances > 1:
            found["per_instance_us"] = round(found["median_us"] / self.requests.instances, 1)
        found |= self.rate()
        if self.workload.times_filters:
            by_filter = self.filter_times()
            found |= {"filters_us": by_filter, "slowest_filter_us": max(by_filter.values())}
        return found | self.comparison() | {"core_share": round(core_share(self.watches), 3)}

    def rate(self) -> dict[str, Any]:
        """Throughput of a stream or group, and the number of placed instances or used hosts; empty if cold."""
        per_second = round(statistics.median(watch.per_second for watch in self.watches), 1)
        hosts = [pair for chosen in self.choices for pair in chosen or ()]
        if self.workload.kind == "group":
            return {"members_per_second": per_second, "hosts_used": len(set(hosts))}
        return {"per_second": per_second, "placed": len(hosts)} if self.workload.kind == "stream" else {}

    def filter_times(self) -> dict[str, float]:
        """Filter name -> median time of its mask on all hosts, in microseconds, over FILTER_RUNS runs."""
        scheduler, spec = self.make_scheduler(), self.make_requests()[0]
        times = {}
        for rule in scheduler.pipeline.rules.filters:
            watch = Stopwatch()
            for _ in range(FILTER_RUNS):
                watch.time(partial(rule.mask, scheduler.table.in_the_running(), spec))
            times[rule.name] = round(median_of([watch]), 1)
        return times

    def comparison(self) -> dict[str, Any]:
        """Medians of plain loops and Roost over the compared requests, their ratio, and whether choices agree."""
        if not self.loops:
            return {}
        plain_us = median_of([self.loops_watch])
        return {
            "plain_loop_median_us": round(plain_us, 1),
            "plain_loop_requests": len(self.agreements),
            "ratio_to_plain_loops": round(plain_us / median_of(self.watches, first=len(self.agreements)), 1),
            "same_choice": all(self.agreements),
        }


def place(scheduler: Scheduler, spec: RequestSpec) -> Decision | None:
    """The timed call: Scheduler.place. Returns None where no host fits."""
    try:
        return scheduler.place(spec)
    except NoValidHost:
        return None


def chosen_by(decision: Decision | None) -> Chosen:
    """The (host, node) pairs of a decision, as the plain loops return them; None for no decision."""
    return None if decision is None else [(each.host, each.node) for each in decision.selections]
