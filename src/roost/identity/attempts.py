# SPDX-License-Identifier: Apache-2.0
"""Slows down failed sign-ins: after some failures the next attempt has to wait, and longer after each further one.

An attempt counts from its begin: those that are made at the same moment are no more guesses than those that are made
one after another.
"""

from __future__ import annotations

import ipaddress
import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass

from roost.clock import Clock
from roost.errors import TooManyAttempts

MOST_KEYS = 10_000
"""Names, and sources, whose failures are remembered; beyond that the one that failed longest ago is forgotten."""
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
OF_ONE_SOURCE = Patience(free_failures=100, longest_wait_seconds=4.0)
"""For one password tried with many names: the wait is for the address it comes from, not for everybody."""


@dataclass
class _Failures:
    count: int
    last_at: float


class AttemptLimiter:
    """Counts failed sign-ins by user name and by source, in this process. Thread-safe; its memory is bounded."""

    def __init__(self, clock: Clock) -> None:
        """`clock`: whose monotonic time the waits are measured by."""
        self._clock, self._settled = clock, threading.Condition()
        self._names, self._sources = _Tally(OF_ONE_NAME), _Tally(OF_ONE_SOURCE)

    def begin(self, name: str, source: str = "") -> None:
        """Begin an attempt, which `settle` has to end. `source`: the address that it comes from.

        TooManyAttempts, with the time to wait, while sign-ins of this name or from this source have to wait. Blocks
        while so many of them are under way that, if all fail, this one has to wait.
        """
        with self._settled:
            while True:
                now = self._clock.monotonic()
                wait = max(self._names.rest(name, now), self._sources.rest(source, now))
                if wait > 0:
                    raise TooManyAttempts("too many failed sign-ins", wait)
                if self._names.has_room(name, now) and self._sources.has_room(source, now):
                    break
                self._settled.wait()
            self._names.under_way[name] += 1
            self._sources.under_way[source] += 1

    def settle(self, name: str, source: str = "", is_success: bool | None = None) -> None:
        """End an attempt. A success forgives the failures of its name, those of others not; None: it was neither."""
        now = self._clock.monotonic()
        with self._settled:
            for tally, key in ((self._names, name), (self._sources, source)):
                tally.end(key)
                if is_success is False:
                    tally.add(key, now)
            if is_success:
                self._names.forget(name)
            self._settled.notify_all()


class _Tally:
    """Failures by key, the latest last."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._failures: OrderedDict[str, _Failures] = OrderedDict()
        self.under_way: Counter[str] = Counter()
        """Key -> attempts that were begun and not settled."""

    def __len__(self) -> int:
        return len(self._failures)

    def rest(self, key: str, now: float) -> float:
        """How long to wait until the next attempt; 0 or less: none."""
        known = self._known(key, now)
        return 0.0 if known is None else known.last_at + self._patience.wait_seconds(known.count) - now

    def has_room(self, key: str, now: float) -> bool:
        """Whether one more attempt can begin, even if all that are under way fail. A single one always can."""
        known = self._known(key, now)
        failures = self.under_way[key] + (known.count if known else 0)
        return not self.under_way[key] or failures < self._patience.free_failures

    def end(self, key: str) -> None:
        """Count an attempt no longer as under way."""
        self.under_way[key] -= 1
        if not self.under_way[key]:
            del self.under_way[key]

    def _known(self, key: str, now: float) -> _Failures | None:
        known = self._failures.get(key)
        return None if known is None or now - known.last_at >= FORGET_SECONDS else known

    def add(self, key: str, now: float) -> None:
        """Count one more failure."""
        known = self._known(key, now)
        self._failures.pop(key, None)
        self._failures[key] = _Failures(known.count + 1 if known else 1, now)
        while len(self._failures) > MOST_KEYS:
            self._failures.popitem(last=False)

    def forget(self, key: str) -> None:
        """Forgive the failures of a key."""
        self._failures.pop(key, None)


def source_of(address: str) -> str:
    """Whose failures are counted together: of IPv6 a network of 64 bits, for one client has all of its addresses."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return address
    mapped = found.ipv4_mapped  # how a socket for both versions names clients that use IPv4
    return str(mapped or ipaddress.ip_network((found.packed[:8] + bytes(8), 64)))
