# SPDX-License-Identifier: Apache-2.0
"""Locks by provider: one process never has two claims for the same provider in flight.

Placement grants one room twice if two claims for it arrive at the same moment.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager


class ProviderLocks:
    """A lock per provider, which exists only while a thread holds it or waits for it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._users: Counter[str] = Counter()

    @contextmanager
    def hold(self, uuids: Iterable[str]) -> Iterator[None]:
        """Hold the locks of all these providers, taken in one order, so that threads cannot deadlock."""
        with ExitStack() as held:
            for uuid in sorted(set(uuids)):
                held.enter_context(self._hold_one(uuid))
            yield

    @contextmanager
    def _hold_one(self, uuid: str) -> Iterator[None]:
        with self._guard:
            lock = self._locks.setdefault(uuid, threading.Lock())
            self._users[uuid] += 1
        try:
            with lock:
                yield
        finally:
            with self._guard:
                self._users[uuid] -= 1
                if not self._users[uuid]:
                    del self._users[uuid], self._locks[uuid]
