# SPDX-License-Identifier: Apache-2.0
"""Runs several worker processes as one service (ADR 0014)."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Callable, Sequence

from roost.clock import Clock
from roost.service.worker_process import Worker

LOG = logging.getLogger(__name__)
STOP_MARGIN_SECONDS = 5.0
"""What a worker gets to stop, beyond the time that it gives its requests."""
MAX_STOP_SECONDS = 3600.0
"""What a worker gets to stop where its requests may take as long as they need."""


class Supervisor:
    """All workers of a service, as a `ManagedService`: started, checked and stopped together."""

    hangs = False
    """Always: a worker that hangs is killed and restarted."""

    def __init__(
        self,
        count: int,
        command: Sequence[str],
        clock: Clock,
        seconds_to_end: float,
        on_end: Callable[[int], None] = lambda worker: None,
        read_again: Callable[[], float] | None = None,
        listener: socket.socket | None = None,
    ) -> None:
        """`seconds_to_end`: what workers give their requests when they stop; 0: as long as they need.

        `on_end` is called with the number of a worker whose process has ended. `read_again` reads the parent's part
        of the configuration at a reload, and returns the new `seconds_to_end`. `listener`: from which
        all workers take connections; a connection waits there where one of them dies before it has taken it.
        """
        inherited = () if listener is None else (listener.fileno(),)
        self._listener = listener
        self.workers = [Worker(number, command, clock, inherited) for number in range(1, count + 1)]
        self._clock, self._seconds_to_end, self._on_end = clock, seconds_to_end, on_end
        self._read_again = read_again

    def start(self) -> None:
        """Start all workers, without waiting for them to be ready."""
        for worker in self.workers:
            worker.start()

    def look_after(self) -> None:
        """Restart workers that have ended or hang; raise their reason where no restart helps any of them."""
        for worker in self.workers:
            worker.check(self._on_end)
        failures = [worker.lasting_failure for worker in self.workers]
        if failures[0] is not None and all(failures):
            LOG.error("no worker can work, and no restart helps: %s", failures[0])
            raise failures[0]

    def unready(self) -> list[str]:
        """Reasons of each worker that is not ready."""
        return [f"worker {worker.number}: {'; '.join(worker.unready)}" for worker in self.workers if worker.unready]

    def is_alive(self) -> bool:
        """True: workers are checked one by one."""
        return True

    def reload(self) -> None:
        """Have all workers reload; RoostError, and none of them is told, where the configuration is wrong."""
        if self._read_again is not None:
            self._seconds_to_end = self._read_again()
        for worker in self.workers:
            worker.reload()

    def seconds_to_end(self) -> float:
        """0, for no limit: `stop` kills workers that need too long."""
        return 0.0

    def stop(self, is_hurried: bool) -> None:
        """Stop all workers and wait for them; those that need too long are killed, all at the same moment."""
        for worker in self.workers:
            worker.send_signal(signal.SIGKILL if is_hurried else signal.SIGTERM)
        if self._listener is not None:
            self._listener.close()  # no client is to wait in its queue any more
        seconds = self._seconds_to_end + STOP_MARGIN_SECONDS if self._seconds_to_end else MAX_STOP_SECONDS
        kill_at = self._clock.monotonic() + seconds
        for worker in self.workers:
            worker.wait(max(kill_at - self._clock.monotonic(), 0.0))
