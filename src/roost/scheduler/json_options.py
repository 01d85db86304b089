# SPDX-License-Identifier: Apache-2.0
"""The JSON file of options that nova before Ocata handed to its filters: `scheduler_json_config_location`.

Filters find what it says in `config_options` of the request. Its modification time is checked at most every five
minutes, and it is read again if it is newer. A file that is no JSON object counts as empty; an error is logged.
"""

from __future__ import annotations

import json
import logging
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from roost.clock import Clock

LOG = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 300.0
MOST_BYTES = 1 << 20
MOST_LEVELS = 64
NOTHING: Mapping[str, Any] = MappingProxyType({})


class JsonOptionsFile:
    """The contents of the file, at most five minutes old. An empty path means no file."""

    def __init__(self, path: str | Path, clock: Clock) -> None:
        self._path = Path(path) if str(path) else None
        self._clock = clock
        self._lock = threading.Lock()
        self._looked_at: float | None = None
        self._modified_ns = -1
        self._values = NOTHING

    def values(self) -> Mapping[str, Any]:
        """The options; empty where there is no file, or none that can be read."""
        if self._path is None:
            return NOTHING
        with self._lock:
            now = self._clock.monotonic()
            if self._looked_at is None or now - self._looked_at >= SECONDS_BETWEEN_LOOKS:
                self._looked_at = now
                self._look(self._path)
            return self._values

    def _look(self, path: Path) -> None:
        """Read the file if it is newer than the values; a missing file leaves them as they are."""
        try:
            state = path.stat()
            if state.st_mtime_ns <= self._modified_ns:
                return
            if not stat.S_ISREG(state.st_mode):
                raise ValueError("it is no file")
            self._values = MappingProxyType(_read(path))
        except OSError as error:
            LOG.error("%s: cannot be read: %s; its options stay as they were", path, error.strerror or error)
            return
        except (ValueError, RecursionError) as error:
            LOG.error("%s: %s; it counts as empty until it is written anew", path, _reason(error))
            self._values = NOTHING
        self._modified_ns = state.st_mtime_ns


def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES >> 20} MiB")
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError(f"it holds a {type(values).__name__}, not an object")
    if _levels(values) > MOST_LEVELS:
        raise ValueError(f"it is nested deeper than {MOST_LEVELS} levels")
    return values


def _levels(values: dict[str, Any]) -> int:
    """The nesting depth, counted level by level without recursion."""
    level: list[Any] = [values]
    depth = 0
    while level:
        depth += 1
        inner = [each.values() if isinstance(each, dict) else each for each in level]
        level = [one for some in inner for one in some if isinstance(one, (dict, list))]
    return depth


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return f"it is nested deeper than {MOST_LEVELS} levels"
    return f"it is no JSON: {error}" if isinstance(error, (json.JSONDecodeError, UnicodeDecodeError)) else str(error)
