# SPDX-License-Identifier: Apache-2.0
"""Tasks that are repeated at an interval, each in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from roost.clock import Clock

LOG = logging.getLogger(__name__)


class Periodic:
    """A task and its thread, repeated whether it fails or not. The first failure and the recovery are logged."""

    def __init__(self, name: str, task: Callable[[], object], seconds: Callable[[], float], clock: Clock) -> None:
        """`seconds` returns the time from the end of a run to the next one, and is called after each run."""
        self.name, self.is_failing = name, False
        self._task, self._seconds, self._clock = task, seconds, clock
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread, which begins with a run."""
        self._thread.start()

    def stop(self) -> None:
        """Start no further run; one that is running goes on."""
        self._stopped.set()

    def join(self, seconds: float) -> bool:
        """After `stop`: wait that long for a running task; returns whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def run_once(self) -> None:
        """Run the task in this thread, and log a failure that is new."""
        try:
            self._task()
        except Exception as error:
            if not self.is_failing:
                LOG.error("%s: failed, and will be tried again: %s", self.name, error, exc_info=_traceback_of(error))
            self.is_failing = True
        else:
            if self.is_failing:
                LOG.info("%s: works again", self.name)
            self.is_failing = False

    def _run(self) -> None:
        while not self._stopped.is_set():
            self.run_once()
            self._clock.wait(self._stopped, self._seconds())


def _traceback_of(error: Exception) -> Exception | None:
    """The error, for its traceback; None where it is one of ours, whose text says all."""
    return None if hasattr(error, "hint") else error
