# SPDX-License-Identifier: Apache-2.0
"""Time, as services are given it. Nothing sleeps or asks for the time but through this: a test can be the clock."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What a service knows of time."""

    def now(self) -> datetime:
        """The time of day, in UTC."""

    def monotonic(self) -> float:
        """Seconds that only go forward, from anywhere."""

    def sleep(self, seconds: float) -> None:
        """Come back after that many seconds."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Come back when the event is set, or after that many seconds; whether it is set."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since some moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for the event, no longer than that."""
        return event.wait(seconds)
