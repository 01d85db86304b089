# SPDX-License-Identifier: Apache-2.0
"""Times of single calls on one core, and what to make of many of them."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Result = TypeVar("Result")


class Stopwatch:
    """Times calls one by one, in CPU time of this thread: what other processes take of the core does not count."""

    def __init__(self) -> None:
        self.times_us: list[float] = []
        self.elapsed_us = 0.0

    def time(self, action: Callable[[], Result]) -> Result:
        """Call it, note how long it took, give back what it gave."""
        before, start = time.perf_counter_ns(), time.thread_time_ns()
        result = action()
        end, after = time.thread_time_ns(), time.perf_counter_ns()
        self.times_us.append((end - start) / 1000)
        self.elapsed_us += (after - before) / 1000
        return result

    @property
    def per_second(self) -> float:
        """Calls in a second of the core."""
        return 1e6 * len(self.times_us) / sum(self.times_us)


def percentile(numbers: Sequence[float], percent: int) -> float:
    """The smallest of the numbers that so many percent of them do not exceed."""
    return sorted(numbers)[max(0, -(-len(numbers) * percent // 100) - 1)]


def core_share(watches: Sequence[Stopwatch]) -> float:
    """Part of the elapsed time in which the core was ours: 1 on a quiet machine."""
    return sum(sum(each.times_us) for each in watches) / sum(each.elapsed_us for each in watches)


def median_of(watches: Sequence[Stopwatch], first: int | None = None) -> float:
    """The median time of all calls, or of the first so many of each watch, microseconds."""
    return statistics.median(time_us for each in watches for time_us in each.times_us[:first])


@contextmanager
def settled_memory() -> Iterator[None]:
    """Keep the garbage collector on, as it is in life, but off the objects of the set-up."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
