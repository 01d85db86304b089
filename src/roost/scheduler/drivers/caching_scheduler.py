# SPDX-License-Identifier: Apache-2.0
"""Filters and weighers over a picture of the fleet that is renewed now and then."""

from __future__ import annotations

import math

from roost.scheduler.drivers.filter_scheduler import FilterScheduler


class CachingScheduler(FilterScheduler):
    """Looks at the fleet in its periodic task alone, and when a claim is refused; requests see one another meanwhile.

    It saves a look at the log of changes per request, which is little: see docs/reference/differences.md.
    """

    looks_again = False

    @property
    def longest_age_seconds(self) -> float:
        """A picture is never too old."""
        return math.inf

    def run_periodic_tasks(self) -> None:
        """Look at the fleet."""
        self.scheduler.look()
