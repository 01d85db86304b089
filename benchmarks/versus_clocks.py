# SPDX-License-Identifier: Apache-2.0
"""The stopwatch of both sides. Imports nothing that is not Python's own: nova's environment has it too."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.stopwatch import Result, Stopwatch


class TwoClocks(Stopwatch):
    """Also keeps the time on the wall of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.walls_us: list[float] = []

    def time(self, action: Callable[[], Result]) -> Result:
        """Call it, note how long it took by both clocks, give back what it gave."""
        before = self.elapsed_us
        result = super().time(action)
        self.walls_us.append(self.elapsed_us - before)
        return result
