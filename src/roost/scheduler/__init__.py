# SPDX-License-Identifier: Apache-2.0
"""Prefilter, capacity, filter, weigh, choose, claim. Start reading at `pipeline.py`."""

from roost.scheduler.full_scan import FullScanEngine
from roost.scheduler.incremental.engine import IncrementalEngine
from roost.scheduler.pipeline import Pipeline

__all__ = ["FullScanEngine", "IncrementalEngine", "Pipeline"]
