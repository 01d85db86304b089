# SPDX-License-Identifier: Apache-2.0
"""Work that keeps a CPU busy: few requests at once may ask for it, and the others are told to come again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from roost.clock import Clock
from roost.errors import RoostError

MOST_AT_ONCE = 2
RETRY_AFTER_SECONDS = 2.0


class Overloaded(RoostError):
    """As much as is allowed at once is under way. `retry_after_seconds`: how long to wait."""

    code = "roost.api.overloaded"

    def __init__(self, message: str, retry_after_seconds: float = RETRY_AFTER_SECONDS) -> None:
        super().__init__(message, f"try again in {retry_after_seconds:.0f} s")
        self.retry_after_seconds = retry_after_seconds


class Deadline:
    """The end of the time that an answer may take."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds, self._at = clock, seconds, clock.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return self._clock.monotonic() > self._at

    def check(self) -> None:
        """Raise Overloaded when the time is over."""
        if self.is_over:
            raise Overloaded(f"The answer takes longer than {self._seconds:.0f} s: ask for less.")


class BoundedWork:
    """Counts what is under way in this process. Thread-safe."""

    def __init__(self, most: int = MOST_AT_ONCE) -> None:
        self._free = threading.Semaphore(most)

    @contextmanager
    def share(self) -> Iterator[None]:
        """Context of one piece of work; Overloaded, without waiting, where enough is under way."""
        if not self._free.acquire(blocking=False):
            raise Overloaded("The service is busy with other questions about the whole fleet.")
        try:
            yield
        finally:
            self._free.release()
