# SPDX-License-Identifier: Apache-2.0
"""Whether placement answers: when it did last, and why it does not."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from roost.best_effort import best_effort

LOG = logging.getLogger(__name__)
QUIET_SECONDS = 15.0
"""How long no call may have failed before an outage is over: some calls may fail while others succeed."""


class PlacementHealth:
    """Follows the outcome of all calls, from any thread. An outage is two lines in the log: its start and its end.

    An answer is also a refusal such as 404 or 409. No answer, 5xx, and a token that is not accepted are failures.
    """

    def __init__(self, monotonic_clock: Callable[[], float], read_interval: float = 0.0) -> None:
        """`read_interval`: seconds between two reads of all providers, which ask for all that may fail."""
        self._monotonic, self._quiet_seconds = monotonic_clock, max(QUIET_SECONDS, 2 * read_interval)
        self._lock = threading.Lock()
        self.answered_at: float | None = None
        """When placement answered last, by the monotonic clock; None: never."""
        self.trouble = ""
        """Why the last call failed; empty where it did not."""
        self._outage_began: float | None = None
        """When placement answered last before the first failure of an outage; None: there is no outage."""
        self._failed_at, self._recovered_at = 0.0, 0.0
        """The last failure, and the first answer after it."""

    @best_effort("health")
    def note_answer(self) -> None:
        """A call was answered."""
        with self._lock:
            now = self.answered_at = self._monotonic()
            self._recovered_at = now if self.trouble else self._recovered_at
            self.trouble = ""
            began = self._outage_began
            if began is None or now - self._failed_at < self._quiet_seconds:
                return
            self._outage_began = None
        LOG.info("placement answers again, after %.0f s", self._recovered_at - began)

    @best_effort("health")
    def note_failure(self, error: Exception) -> None:
        """A call failed: no answer, an error of placement's own, or no access."""
        with self._lock:
            self.trouble, self._failed_at = str(error), self._monotonic()
            if self._outage_began is not None:
                return
            self._outage_began = self._failed_at if self.answered_at is None else self.answered_at
        LOG.error("placement cannot be used, and is tried again: %s", error)
