# SPDX-License-Identifier: Apache-2.0
"""Metrics of several worker processes, exposed as one: prometheus_client's multiprocess mode (ADR 0012).

Each worker counts into memory-mapped files that are named after its number; their parent adds them up. A worker that
takes the place of another has its number and goes on with its files, so totals never fall and files do not
accumulate. Gauges are deleted when their worker ends.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from prometheus_client import values
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from roost.best_effort import best_effort
from roost.clock import Clock, SystemClock
from roost.observe.exposition import render_metrics
from roost.observe.metric_definitions import SERVICE_READY


def count_in_files(folder: Path, worker: int) -> None:
    """Have metrics that this process creates from now on counted in files of this worker number, in that folder.

    Counters go on from what an earlier process of the number has left there.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    values.ValueClass = values.MultiProcessValue(process_identifier=lambda: worker)  # type: ignore[no-untyped-call]


def find_memory_folder() -> str | None:
    """Folder of a file system in memory, for `WorkerMetrics`; None where there is none.

    A process that writes to a memory-mapped file on a full file system is killed: so not on a disk, if possible.
    """
    candidates = (os.environ.get("RUNTIME_DIRECTORY"), "/dev/shm")  # noqa: S108 - only a new folder in it is used
    return next((each for each in candidates if each and os.access(each, os.W_OK | os.X_OK)), None)


class WorkerMetrics:
    """Metrics of all workers that count in files in this folder. May be shared by threads."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        """Creates the folder where it is missing, and deletes files of an earlier start."""
        self._folder, self._clock = folder, clock or SystemClock()
        self._is_ready: bool | None = None
        self._lock = threading.Lock()
        """Held while files are read or deleted."""
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("*.db"):
            path.unlink()

    @best_effort("metrics")
    def worker_ended(self, worker: int) -> None:
        """Delete the gauges of this worker number; what it has counted stays. May be called twice."""
        with self._lock:
            mark_process_dead(worker, str(self._folder))  # type: ignore[no-untyped-call]

    @best_effort("metrics")
    def service_is(self, ready: bool) -> None:
        """Whether the service as a whole takes requests: a worker that has ended cannot say that it is missing."""
        self._is_ready = ready

    def render(self) -> bytes:
        """Metrics of the workers together, in Prometheus's text format."""
        families = self._read_families()
        if self._is_ready is not None:
            families.append(GaugeMetricFamily(SERVICE_READY.name, SERVICE_READY.meaning, float(self._is_ready)))
        return render_metrics(families, self._clock.monotonic())

    def _read_families(self) -> list[Metric]:
        with self._lock:
            # A file without content was created by a worker this moment.
            files = [str(path) for path in sorted(self._folder.glob("*.db")) if path.stat().st_size]
            return list(MultiProcessCollector.merge(files))  # type: ignore[no-untyped-call]
