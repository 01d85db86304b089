# SPDX-License-Identifier: Apache-2.0
"""The clock that services read time from and sleep with, so that tests can replace it."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Source of time for services: wall clock, monotonic clock, sleeping and waiting."""

    def now(self) -> datetime:
        """The current date and time, in UTC."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary point; never decreases."""

    def sleep(self, seconds: float) -> None:
        """Block for that many seconds."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Block until the event is set, at most that many seconds. Returns whether it is set."""


class SystemClock:
    """The clock of the operating system."""

    def now(self) -> datetime:
        """The current date and time, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since an arbitrary point; never decreases."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block for that many seconds."""
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Block until the event is set, at most that many seconds. Returns whether it is set."""
        return event.wait(seconds)
