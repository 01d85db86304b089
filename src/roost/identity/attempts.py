# SPDX-License-Identifier: Apache-2.0
"""Slows down failed sign-ins: after some failures the next attempt has to wait, and longer after each further one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from roost.clock import Clock
from roost.errors import TooManyAttempts

MOST_NAMES = 10_000
"""Names whose failures are remembered; beyond that the one that failed longest ago is forgotten."""
FORGET_SECONDS = 900.0
"""Without a failure for that long, all is forgiven."""


@dataclass(frozen=True)
class Patience:
    """How many failures are free, and how long the wait after them may become; it doubles from one second."""

    free_failures: int
    longest_wait_seconds: float

    def wait_seconds(self, failures: int) -> float:
        """How long the next attempt has to wait after so many failures."""
        beyond = failures - self.free_failures
        return 0.0 if beyond < 0 else min(2.0 ** min(beyond, 30), self.longest_wait_seconds)


OF_ONE_NAME = Patience(free_failures=5, longest_wait_seconds=60.0)
"""A stranger can keep a user from signing in, so the wait stays short; it still leaves 1,440 guesses a day."""
OF_ALL_NAMES = Patience(free_failures=100, longest_wait_seconds=4.0)
"""For one password tried with many names."""


@dataclass
class _Failures:
    count: int
    last_at: float


class AttemptLimiter:
    """Counts failed sign-ins by user name and overall, in this process. Thread-safe; its memory is bounded."""

    def __init__(self, clock: Clock, of_name: Patience = OF_ONE_NAME, of_all: Patience = OF_ALL_NAMES) -> None:
        """`clock`: whose monotonic time the waits are measured by."""
        self._clock, self._of_name, self._of_all = clock, of_name, of_all
        self._lock = threading.Lock()
        self._by_name: OrderedDict[str, _Failures] = OrderedDict()
        self._overall = _Failures(0, 0.0)

    def check(self, name: str) -> None:
        """TooManyAttempts, with the time to wait, while somebody who calls himself so has to wait."""
        now = self._clock.monotonic()
        with self._lock:
            own = self._by_name.get(name, _Failures(0, 0.0))
            waits = (_rest(own, self._of_name, now), _rest(self._overall, self._of_all, now))
        if (wait := max(waits)) > 0:
            raise TooManyAttempts("too many failed sign-ins", wait)

    def note_failure(self, name: str) -> None:
        """An attempt under this name has failed."""
        now = self._clock.monotonic()
        with self._lock:
            own = self._by_name.pop(name, _Failures(0, now))
            self._by_name[name] = _next(own, now)
            self._overall = _next(self._overall, now)
            while len(self._by_name) > MOST_NAMES:
                self._by_name.popitem(last=False)

    def note_success(self, name: str) -> None:
        """Somebody has signed in under this name: its failures are forgiven, those under others are not."""
        with self._lock:
            self._by_name.pop(name, None)


def _rest(failures: _Failures, patience: Patience, now: float) -> float:
    if now - failures.last_at >= FORGET_SECONDS:
        return 0.0
    return failures.last_at + patience.wait_seconds(failures.count) - now


def _next(failures: _Failures, now: float) -> _Failures:
    return _Failures(1 if now - failures.last_at >= FORGET_SECONDS else failures.count + 1, now)
