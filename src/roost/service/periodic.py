# SPDX-License-Identifier: Apache-2.0
"""Tasks that are done again and again, each in a thread of its own, until somebody says stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from roost.clock import Clock

LOG = logging.getLogger(__name__)


class Periodic:
    """One task. What goes wrong is logged when it begins and when it is over, and the task is tried again."""

    def __init__(self, name: str, task: Callable[[], object], seconds: Callable[[], float], clock: Clock) -> None:
        """`seconds`: from the end of one run to the next; asked each time, so that it may change."""
        self.name, self.is_failing = name, False
        self._task, self._seconds, self._clock = task, seconds, clock
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin with a run at once."""
        self._thread.start()

    def stop(self) -> None:
        """No further run."""
        self._stopped.set()

    def join(self, seconds: float) -> bool:
        """Wait that long for a run under way; whether it is over. After `stop`."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def run_once(self) -> None:
        """Do it now, and tell of a failure once."""
        try:
            self._task()
        except Exception as error:
            if not self.is_failing:
                LOG.error(
                    "%s: failed, and will be tried again: %s", self.name, error, exc_info=_unless_expected(error)
                )
            self.is_failing = True
        else:
            if self.is_failing:
                LOG.info("%s: works again", self.name)
            self.is_failing = False

    def _run(self) -> None:
        while not self._stopped.is_set():
            self.run_once()
            self._clock.wait(self._stopped, self._seconds())


def _unless_expected(error: Exception) -> Exception | None:
    """The traceback of what nobody foresaw."""
    return None if hasattr(error, "hint") else error
