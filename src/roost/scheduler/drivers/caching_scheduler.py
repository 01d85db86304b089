# SPDX-License-Identifier: Apache-2.0
"""Filters and weighers over a replica that is refreshed now and then."""

from __future__ import annotations

import math

from roost.scheduler.drivers.filter_scheduler import FilterScheduler


class CachingScheduler(FilterScheduler):
    """Refreshes the replica in the periodic task, and where a claim is refused; requests see one another meanwhile.

    It saves reading the change log per request, which is little: see docs/reference/differences.md.
    """

    refreshes_before_refusal = False
    refreshes_periodically = True

    @property
    def longest_age_seconds(self) -> float:
        """Infinite: the replica is never too old."""
        return math.inf
