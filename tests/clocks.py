# SPDX-License-Identifier: Apache-2.0
"""Clocks that a test turns."""

from datetime import UTC, datetime, timedelta


class HandClock:
    """Goes forward when it is told to."""

    def __init__(self):
        self.seconds = 1000.0

    def monotonic(self):
        return self.seconds


class SleeplessClock:
    """A `Clock` that stands still until something sleeps; sleeping and waiting take no time, and are recorded."""

    def __init__(self, start=datetime(2026, 11, 15, 12, tzinfo=UTC)):
        self.start, self.seconds, self.slept = start, 1000.0, []

    def now(self):
        return self.start + timedelta(seconds=self.seconds - 1000.0)

    def monotonic(self):
        return self.seconds

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.seconds += seconds

    def wait(self, event, seconds):
        self.sleep(seconds)
        return event.is_set()
