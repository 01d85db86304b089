# SPDX-License-Identifier: Apache-2.0
"""Machines come and go as in a trace: `Pipeline.place` for each that comes, `HostTable.release` for each that goes.

That is what a service does for a request, whose uuid comes with it, and which is forgotten once it is answered.

What counts is the CPU time of this thread, so that others on the machine do not. Asking for it after each event costs
a twentieth of a decision. So there are two kinds of runs: of one, the time of all events together is taken, which
gives the decisions per second; of the other, the time of each event, which gives median and p99.
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
"""Nanoseconds."""
Step = tuple[int, RequestSpec | None]
"""The number of a machine, and the request for it; None where it goes."""


class Run(NamedTuple):
    """What one run took, nanoseconds."""

    place_ns: list[int]
    """Of each create, by the clock that it was given."""
    release_ns: list[int]
    """Of each delete."""
    cpu_ns: int
    """Of all events, CPU time."""
    elapsed_ns: int
    """Of all events, by the clock on the wall."""
    placed: list[tuple[int, str, str]]
    """Who is where at the end: machine, host, node."""
    refused: int

    @property
    def us_per_decision(self) -> float:
        """Creates are decisions; what the deletes took is part of their price."""
        return self.cpu_ns / 1000 / len(self.place_ns)


class TraceBench:
    """A trace on a fleet, several times over, each time from an untouched fleet."""

    def __init__(self, workload: Workload) -> None:
        assert workload.requests is not None
        self.workload, self.requests = workload, workload.requests
        self.fleet = make_fleet(workload)
        self.events = first_events(workload)
        follow(self.make_scheduler(), self.make_steps()[:100])  # what Python and numpy do once is not ours to time

    def make_scheduler(self) -> Scheduler:
        """A scheduler that has seen no request."""
        return Scheduler(self.fleet, scheduler_options(self.workload), seed=self.workload.seed)

    def make_steps(self) -> list[Step]:
        """Fresh requests: each keeps what was worked out for it."""
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
        """The median of the runs, of each figure."""
        runs, whole = [], []
        for _ in range(self.requests.repeats):  # in turns: a machine that is slow for a while is so for both kinds
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
        """Whether a scheduler that works out each answer anew puts the first machines on the same hosts."""
        if not self.requests.compare:
            return {}
        plain, steps = self.make_scheduler(), self.make_steps()[: self.requests.compare]
        plain.pipeline = plain.pipeline.fresh(FullScanEngine)
        return {"same_choice": follow(plain, steps).placed == follow(self.make_scheduler(), steps).placed}


def median_us(figures_ns: Iterable[float]) -> float:
    """The median of nanoseconds, in microseconds."""
    return round(statistics.median(figures_ns) / 1000, 1)


def first_events(workload: Workload) -> list[Event]:
    """As many as the workload asks for."""
    assert workload.requests is not None
    asked = workload.requests
    events = read_events(find_data(asked.events, "events"))[: asked.count]
    if len(events) < asked.count:
        raise BadInput(f"{workload.name}: {asked.events} has {len(events)} events", "make requests.count smaller")
    return events


def follow(scheduler: Scheduler, steps: list[Step], clock: Clock = time.perf_counter_ns) -> Run:
    """All steps, one by one; the clock is read after each.

    Of each machine its row and the request as placed are kept: what `release` takes.
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
    held: dict[int, tuple[int, RequestSpec]] = {}
    refused = 0
    started, spent = time.perf_counter_ns(), time.thread_time_ns()
    readings = array("q", [clock()])
    for machine, spec in steps:
        if spec is None:
            if machine in held:
                release(*held.pop(machine))
        else:
            try:
                (chosen,) = place(spec, [spec.instance_uuid]).selections
                held[machine] = chosen.row, chosen.placed or spec
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
        [(machine, *table.names[row]) for machine, (row, _) in held.items()],
        refused,
    )
