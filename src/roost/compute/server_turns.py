# SPDX-License-Identifier: Apache-2.0
"""Serialises the work on each server: a deletion waits for the build that it interrupts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

Work = Callable[[], None]
"""Something to do for a server. It must not raise an Exception: other work may wait behind it."""


class ServerTurns:
    """One piece of work per server at a time, in the order in which it came. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, dict[Hashable, Work]] = {}
        """Server uuid -> running work, and then the waiting one, by key."""

    def run(self, uuid: str, key: Hashable, work: Work) -> None:
        """Do the work now, or have the thread that works on the server do it next.

        Work with the key of running or waiting work of the same server is dropped: it is a doubled message.
        """
        with self._lock:
            queue = self._queues.get(uuid)
            if queue is not None:
                queue.setdefault(key, work)
                return
            self._queues[uuid] = {key: work}
        self._empty_queue(uuid)

    def run_if_idle(self, uuid: str, work: Work) -> bool:
        """Do the work now if nothing else is being done for the server; returns whether it was done."""
        with self._lock:
            if uuid in self._queues:
                return False
            self._queues[uuid] = {None: work}
        self._empty_queue(uuid)
        return True

    def _empty_queue(self, uuid: str) -> None:
        try:
            while True:
                with self._lock:
                    queue = self._queues[uuid]
                    if not queue:
                        del self._queues[uuid]
                        return
                    key, work = next(iter(queue.items()))
                work()
                with self._lock:
                    del queue[key]
        except BaseException:
            with self._lock:
                self._queues.pop(uuid, None)
            raise
