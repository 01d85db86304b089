# SPDX-License-Identifier: Apache-2.0
"""Engines for tests that compare the cache with a full scan."""

from functools import partial

from roost.scheduler.full_scan import FullScanEngine
from roost.scheduler.incremental.engine import IncrementalEngine

EAGER = partial(IncrementalEngine, scans_before_caching=0)
"""Caches at the first request of a kind, so that a test need not ask twice."""
FULL_SCAN = FullScanEngine
