# SPDX-License-Identifier: Apache-2.0
"""The numbers of several worker processes, as one: each writes a file, their parent adds the files up.

What a worker counted stays counted when it has ended, or Prometheus would see totals fall. Its gauges go with it.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from roost.clock import Clock, SystemClock
from roost.observe.metric_definitions import MEASURES, SERVICE_READY, TABLE_AGE
from roost.observe.metric_samples import Numbers, rendered, together, without_gauges

_NAMES = frozenset(measure.name for measure in MEASURES)


class WorkerMetrics:
    """What the workers whose files are in this folder have counted. May be shared by threads."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        """Makes the folder where it is missing, and empties it: what is there is of workers long gone."""
        self._folder, self._clock = folder, clock or SystemClock()
        self._ended: Numbers = {}
        self._said: Numbers = {}
        """What the parent knows better."""
        self._lock = threading.Lock()
        """Held while a worker's numbers move from its file into the above: they must not be counted twice."""
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("*.json*"):
            path.unlink(missing_ok=True)

    def worker_ended(self, process: int) -> None:
        """Keep what this worker counted, and forget how it was."""
        path = _path(self._folder, process)
        with self._lock:
            self._ended = together([self._ended, without_gauges(self._read(path))])
            path.unlink(missing_ok=True)

    def service_is(self, ready: bool) -> None:
        """The service as a whole: a worker that has ended cannot say that it is missing."""
        self._said = {SERVICE_READY.name: {(SERVICE_READY.name, ()): float(ready)}}

    def numbers(self) -> Numbers:
        """All of them together."""
        with self._lock:
            running = [self._read(path) for path in sorted(self._folder.glob("*.json"))]
            return together([self._ended, *running]) | self._said

    def render(self) -> bytes:
        """What Prometheus reads, in its text format."""
        return rendered(self.numbers())

    def _read(self, path: Path) -> Numbers:
        """Of one worker; nothing where there is no such file, or not one of ours. A table grows older meanwhile."""
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            written = json.loads(path.read_bytes())
            numbers = _from_json(written["numbers"])
            since = self._clock.monotonic() - written["at"]
            ages = numbers.get(TABLE_AGE.name, {})
            return numbers | {TABLE_AGE.name: {series: age + since for series, age in ages.items()}}
        return {}


def write_numbers(folder: Path, numbers: Numbers, at: float) -> bool:
    """The file of this process, all of it at once; whether it was written. `at`: the clock that only goes forward."""
    path = _path(folder, os.getpid())
    new = path.with_suffix(".json.new")
    try:
        new.write_text(json.dumps({"at": at, "numbers": _to_json(numbers)}))
        new.replace(path)
    except OSError:
        return False
    return True


def _path(folder: Path, process: int) -> Path:
    return folder / f"{process}.json"


def _to_json(numbers: Numbers) -> dict[str, list[list[Any]]]:
    return {
        name: [[part, labels, value] for (part, labels), value in series.items()] for name, series in numbers.items()
    }


def _from_json(written: dict[str, list[list[Any]]]) -> Numbers:
    return {
        name: {(str(part), tuple((k, v) for k, v in labels)): float(value) for part, labels, value in series}
        for name, series in written.items()
        if name in _NAMES
    }
