# SPDX-License-Identifier: Apache-2.0
"""Pausing garbage collection while a fleet is loaded: millions of objects are allocated, none is garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Context manager that disables garbage collection, which takes a third of the time of loading a large fleet."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
