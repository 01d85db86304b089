# SPDX-License-Identifier: Apache-2.0
"""The stopwatch for nova and Roost. Standard library only: nova's environment lacks Roost's packages."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.stopwatch import Result, Stopwatch


class TwoClocks(Stopwatch):
    """A stopwatch that records the CPU time and the wall-clock time of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.walls_us: list[float] = []

    def time(self, action: Callable[[], Result]) -> Result:
        """Call `action`, record its CPU and wall-clock time, and return its result."""
        before = self.elapsed_us
        result = super().time(action)
        self.walls_us.append(self.elapsed_us - before)
        return result
