# SPDX-License-Identifier: Apache-2.0
"""Replays a trace: `Pipeline.place` for each create, `HostTable.release` for each delete, as a service does.

Times are CPU time of this thread, which excludes other processes. Reading that clock after each event costs a
twentieth of a decision. So there are two kinds of runs: one measures all events in total, which gives the decisions
per second; the other measures each event, which gives median and p99.
"""

from __future__ import annotations

import random
import statistics
import time
from array import array
from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import compress, pairwise
from typing import Any, NamedTuple

from benchmarks.fleets import make_fleet
from benchmarks.inputs import find_data, make_flavor, requester, scheduler_options
from benchmarks.replay import Event, read_events
from benchmarks.stopwatch import percentile, settled_memory
from benchmarks.workload import Workload

from roost import NoValidHost, RequestSpec, Scheduler
from roost.errors import BadInput
from roost.scheduler.full_scan import FullScanEngine

Clock = Callable[[], int]
"""Returns nanoseconds."""
Step = tuple[int, RequestSpec | None]
"""Number of a machine, and the request that creates it; None deletes it."""


class Run(NamedTuple):
    """Times of one run, in nanoseconds, and its placements."""

    place_ns: list[int]
    """Time of each create, by the clock of the run."""
    release_ns: list[int]
    """Time of each delete, by the clock of the run."""
    cpu_ns: int
    """CPU time of all events."""
    elapsed_ns: int
    """Wall-clock time of all events."""
    placed: list[tuple[int, str, str]]
    """(machine, host, node) of the machines that exist at the end."""
    refused: int
    """Creates for which no host fits."""

    @property
    def us_per_decision(self) -> float:
        """CPU time in microseconds per create; includes the time of the deletes."""
        return self.cpu_ns / 1000 / len(self.place_ns)


class TraceBench:
    """Repeated runs of a trace, each on a fresh scheduler and the initial fleet."""

    def __init__(self, workload: Workload) -> None:
        assert workload.requests is not None
        self.workload, self.requests = workload, workload.requests
        self.fleet = make_fleet(workload)
        self.events = first_events(workload)
        follow(self.make_scheduler(), self.make_steps()[:100])  # warm-up of Python and numpy

    def make_scheduler(self) -> Scheduler:
        """A fresh scheduler on the initial fleet."""
        return Scheduler(self.fleet, scheduler_options(self.workload), seed=self.workload.seed)

    def make_steps(self) -> list[Step]:
        """The steps of the trace with new requests, as a request caches what was computed for it."""
        flavor_for, request_for = cache(partial(make_flavor, self.requests)), requester(self.requests)
        return [
            (
                each.vm_id,
                request_for(flavor_for(each.vcpus, each.memory_mb)).for_instance(f"vm{each.vm_id}")
                if each.creates
                else None,
            )
            for each in self.events
        ]

    def figures(self) -> dict[str, Any]:
        """Name of each figure -> its median over the runs."""
        runs, whole = [], []
        for _ in range(self.requests.repeats):  # alternating: temporary load on the machine affects both kinds
            whole.append(self.run(time.perf_counter_ns))
            runs.append(self.run(time.thread_time_ns))
        us_per_decision = statistics.median(each.us_per_decision for each in whole)
        return {
            "requests": len(runs[0].place_ns),
            "deletes": len(runs[0].release_ns),
            "refused": runs[0].refused,
            "median_us": median_us(statistics.median(each.place_ns) for each in runs),
            "p99_us": median_us(percentile(each.place_ns, 99) for each in runs),
            "worst_us": median_us(max(each.place_ns) for each in runs),
            "release_us": median_us(statistics.median(each.release_ns or [0]) for each in runs),
            "us_per_decision": round(us_per_decision, 2),
            "per_second": round(1e6 / us_per_decision, 1),
            **self.comparison(),
            "core_share": round(sum(each.cpu_ns for each in whole) / sum(each.elapsed_ns for each in whole), 3),
        }

    def run(self, clock: Clock) -> Run:
        scheduler, steps = self.make_scheduler(), self.make_steps()
        with settled_memory():
            return follow(scheduler, steps, clock)

    def comparison(self) -> dict[str, Any]:
        """Whether a scheduler without caches chooses the same hosts for the first machines; empty if not compared."""
        if not self.requests.compare:
            return {}
        plain, steps = self.make_scheduler(), self.make_steps()[: self.requests.compare]
        plain.pipeline = plain.pipeline.fresh(FullScanEngine)
        return {"same_choice": follow(plain, steps).placed == follow(self.make_scheduler(), steps).placed}


def median_us(figures_ns: Iterable[float]) -> float:
    """The median of times in nanoseconds, in microseconds."""
    return round(statistics.median(figures_ns) / 1000, 1)


def first_events(workload: Workload) -> list[Event]:
    """The first requests.count events of the trace. Raises BadInput where it has fewer."""
    assert workload.requests is not None
    wanted = workload.requests
    events = read_events(find_data(wanted.events, "events"))[: wanted.count]
    if len(events) < wanted.count:
        raise BadInput(f"{workload.name}: {wanted.events} has {len(events)} events", "make requests.count smaller")
    return events


def follow(scheduler: Scheduler, steps: list[Step], clock: Clock = time.perf_counter_ns) -> Run:
    """Run all steps and read the clock after each.

    The row and the placed request of each machine are recorded, as `release` needs them.
    """
    table, alternates = scheduler.table, scheduler.options.max_attempts - 1
    place = partial(
        scheduler.pipeline.place,
        table,
        randomness=random.Random(1),
        clock=time.perf_counter_ns,
        alternates=alternates,
    )
    release = table.release
    placed: dict[int, tuple[int, RequestSpec]] = {}
    refused = 0
    started, spent = time.perf_counter_ns(), time.thread_time_ns()
    readings = array("q", [clock()])
    for machine, spec in steps:
        if spec is None:
            if machine in placed:
                release(*placed.pop(machine))
        else:
            try:
                (chosen,) = place(spec, [spec.instance_uuid]).selections
                placed[machine] = chosen.row, chosen.placed or spec
            except NoValidHost:
                refused += 1
        readings.append(clock())
    cpu_ns, elapsed_ns = time.thread_time_ns() - spent, time.perf_counter_ns() - started
    times = [after - before for before, after in pairwise(readings)]
    return Run(
        list(compress(times, (spec is not None for _, spec in steps))),
        list(compress(times, (spec is None for _, spec in steps))),
        cpu_ns,
        elapsed_ns,
        [(machine, *table.names[row]) for machine, (row, _) in placed.items()],
        refused,
    )
