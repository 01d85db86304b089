# SPDX-License-Identifier: Apache-2.0
"""The engine that caches answers per class of request and patches what changed. Start reading at `engine.py`."""

from roost.scheduler.incremental.engine import IncrementalEngine
from roost.scheduler.incremental.request_cache import make_distinguish

__all__ = ["IncrementalEngine", "make_distinguish"]
