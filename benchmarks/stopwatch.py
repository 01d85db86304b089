# SPDX-License-Identifier: Apache-2.0
"""Times of single calls on one core, and statistics of many."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Result = TypeVar("Result")


class Stopwatch:
    """Times calls one by one in CPU time of this thread, which excludes the time that other processes run."""

    def __init__(self) -> None:
        self.times_us: list[float] = []
        self.elapsed_us = 0.0

    def time(self, action: Callable[[], Result]) -> Result:
        """Call `action`, record its CPU and elapsed time, and return its result."""
        before, start = time.perf_counter_ns(), time.thread_time_ns()
        result = action()
        end, after = time.thread_time_ns(), time.perf_counter_ns()
        self.times_us.append((end - start) / 1000)
        self.elapsed_us += (after - before) / 1000
        return result

    @property
    def per_second(self) -> float:
        """Calls per second of CPU time."""
        return 1e6 * len(self.times_us) / sum(self.times_us)


def percentile(numbers: Sequence[float], percent: int) -> float:
    """The nearest-rank percentile: the smallest number that at least `percent` % of them do not exceed."""
    return sorted(numbers)[max(0, -(-len(numbers) * percent // 100) - 1)]


def core_share(watches: Sequence[Stopwatch]) -> float:
    """CPU time divided by elapsed time: 1 on an idle machine, less where other processes shared the core."""
    return sum(sum(each.times_us) for each in watches) / sum(each.elapsed_us for each in watches)


def median_of(watches: Sequence[Stopwatch], first: int | None = None) -> float:
    """The median time in microseconds over all calls, or over the `first` ones of each watch."""
    return statistics.median(time_us for each in watches for time_us in each.times_us[:first])


@contextmanager
def settled_memory() -> Iterator[None]:
    """Exempt the objects that exist now from garbage collection inside the block; the collector stays on."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
