# SPDX-License-Identifier: Apache-2.0
"""Time of an explanation, relative to a full scan of the same request in the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.fleets import make_fleet
from benchmarks.inputs import make_requests, scheduler_options
from benchmarks.stopwatch import Stopwatch, median_of, settled_memory
from benchmarks.workload import Workload

from roost import RequestSpec, Scheduler
from roost.questions.blockers import find_blockers
from roost.questions.funnel import find_explained_instance
from roost.scheduler.all_options import read_options
from roost.scheduler.build import Preparation
from roost.scheduler.full_scan import FullScanEngine
from roost.scheduler.search import StageTimes

EXPLANATIONS = 5
"""Requests that are explained in full, with a sentence per host: that takes a hundred times as long."""


def measure_explain(workload: Workload) -> dict[str, Any]:
    """Run a workload of kind explain; name of each figure -> its value."""
    assert workload.requests is not None
    options = scheduler_options(workload)
    scheduler = Scheduler(make_fleet(workload), options, seed=workload.seed, engine=FullScanEngine)
    preparation = Preparation(read_options((), options), scheduler.pipeline.plugin_names)
    specs = [preparation.complete(each) for each in make_requests(workload.requests, workload.seed)]
    scan(scheduler, specs[0])  # warm-up of Python and numpy
    blockers(scheduler, specs[0])
    scans, found, explanations = Stopwatch(), Stopwatch(), Stopwatch()
    blocked: list[float] = []
    with settled_memory():
        for spec in specs:
            scans.time(partial(scan, scheduler, spec))
            blocked.append(found.time(partial(blockers, scheduler, spec)))
        for spec in specs[:EXPLANATIONS]:
            explanations.time(partial(scheduler.explain, spec))
    return {
        "requests": len(specs),
        "blocked_hosts": round(statistics.median(blocked)),
        "scan_us": round(median_of([scans]), 1),
        "blockers_us": round(median_of([found]), 1),
        "blockers_to_scan": round(statistics.median(ratios(scans, found)), 2),
        "explain_us": round(median_of([explanations]), 1),
    }


def scan(scheduler: Scheduler, spec: RequestSpec) -> int:
    """Put the checks to the hosts that are left, one after the other, and weigh these: the best one is found."""
    pipeline, table = scheduler.pipeline, scheduler.table
    search = pipeline.engine.search(table, spec, [None], StageTimes(time.perf_counter_ns))
    left = search.narrow(spec, 0)
    if left:
        search.rank(1)
    return left


def blockers(scheduler: Scheduler, spec: RequestSpec) -> int:
    """Put every check to all hosts; how many hosts one of them rejects."""
    found = find_blockers(find_explained_instance(scheduler.pipeline, scheduler.table, spec))
    return int((found.counts() > 0).sum())


def ratios(scans: Stopwatch, found: Stopwatch) -> Iterator[float]:
    """Per request, the time of its blockers relative to that of its scan."""
    return (blocked / scanned for scanned, blocked in zip(scans.times_us, found.times_us, strict=True))
