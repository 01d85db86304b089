# SPDX-License-Identifier: Apache-2.0
"""Runs several worker processes as one service (ADR 0014), and exposes their metrics as one (ADR 0012).

A worker is the parent's own command with `--worker NUMBER`. Every second or so it writes a heartbeat to its standard
output: a line of JSON, the list of reasons why it is not ready. Where it ends for a reason that no restart helps, it
writes that as its last line (`report_lasting_failure`). Its standard input is a pipe from the parent: when that
closes, the parent is gone and the worker stops.

For metrics (prometheus_client's multiprocess mode) each worker counts into memory-mapped files that are named after
its number; their parent adds them up. A worker that takes the place of another has its number and goes on with its
files, so totals never fall and files do not accumulate. Gauges are deleted when their worker ends.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from prometheus_client import values
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from roost.best_effort import best_effort
from roost.clock import Clock, SystemClock
from roost.errors import BadInput, DatabaseError, RoostError
from roost.services.lifecycle import Signals
from roost.services.metric_definitions import SERVICE_READY, render_metrics

LOG = logging.getLogger(__name__)
FIRST_BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 30.0
STABLE_SECONDS = 60.0
"""A worker that ran this long is restarted with the first backoff, however often it failed before."""
UNREADY_AFTER_SECONDS = 10.0
"""Without a heartbeat for this long, a worker is not ready."""
HEARTBEAT_TIMEOUT_SECONDS = 60.0
"""Without a heartbeat for this long, a worker is killed and restarted."""
MAX_STEP_SECONDS = 5.0
"""Counted between two checks at most: where the parent was suspended for longer, so were its workers, probably."""
LISTENER_SECONDS = 5.0
_CANNOT_WORK = "cannot_work"
_FOR_THE_PARENT = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class Worker:
    """The worker of one number. Its process is restarted when it ends or hangs, with exponential backoff."""

    def __init__(self, number: int, command: Sequence[str], clock: Clock, inherited: Collection[int] = ()) -> None:
        """`inherited`: descriptors of the parent that its processes have too."""
        self.number, self._command, self._clock = number, [*command, "--worker", str(number)], clock
        self._inherited = inherited
        self.process: subprocess.Popen[str] | None = None
        self._listener: threading.Thread | None = None
        self.lasting_failure: RoostError | None = None
        """Why it ended the last time, if no restart helps; None if one may, and from a heartbeat on."""
        self._reported_failure: RoostError | None = None
        """What the present process reported as the reason of its end."""
        self.unready: list[str] = ["it has not started"]
        """Reasons why it is not ready; empty where it is."""
        self._backoff, self._started, self._next_start = FIRST_BACKOFF_SECONDS, 0.0, 0.0
        self._silent_seconds: float | None = None
        """Since its last heartbeat, counted by `check`; None before the first one."""
        self._is_killed = False
        self._reload_is_pending = False
        self._checked_at = 0.0

    def start(self) -> None:
        """Start the process and a thread that reads its heartbeats. OSError where the system cannot start it."""
        self.unready, self._started = ["it has not started"], self._clock.monotonic()
        self._silent_seconds, self._is_killed, self._reported_failure = None, False, None
        self.process = subprocess.Popen(  # noqa: S603
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",  # a plugin may print anything
            env={name: value for name, value in os.environ.items() if name not in _FOR_THE_PARENT},
            pass_fds=self._inherited,
            start_new_session=True,  # or Ctrl-C would reach it twice, and the second time means hurry
        )
        name = f"worker {self.number}"
        self._listener = threading.Thread(target=self._listen, args=(self.process,), name=name, daemon=True)
        self._listener.start()

    def check(self, on_end: Callable[[int], None]) -> None:
        """Kill the process if it hangs, and restart it if it has ended and its backoff is over.

        To be called every second or so. `on_end` is called with the worker's number when its process has ended.
        """
        now = self._clock.monotonic()
        self._count_silence(min(now - self._checked_at, MAX_STEP_SECONDS))
        self._checked_at = now
        if self._reload_is_pending:
            self.reload()
        if self.process is not None and self.process.poll() is not None:
            if self._listener is not None and not self._is_killed:
                self._listener.join(LISTENER_SECONDS)  # its last line may be the reason
            self.lasting_failure = self._reported_failure
            if not self._is_killed:
                LOG.error("worker %d ended by itself (exit code %d)", self.number, self.process.returncode)
            on_end(self.number)
            self._back_off(now, is_stable=now - self._started >= STABLE_SECONDS)
        if self.process is None and now >= self._next_start:
            try:
                self.start()
            except OSError as error:  # no memory or no process left, for now: the other workers go on
                LOG.error("worker %d cannot be started: %s", self.number, error)
                self._back_off(now, is_stable=False)

    def _count_silence(self, seconds: float) -> None:
        if self.process is None or self._silent_seconds is None:
            return
        self._silent_seconds += seconds
        if self._silent_seconds > UNREADY_AFTER_SECONDS:
            self.unready = [f"it has said nothing for {self._silent_seconds:.0f} s"]
        if self._silent_seconds > HEARTBEAT_TIMEOUT_SECONDS:
            LOG.error("worker %d hangs: nothing from it for %.0f s; killed", self.number, self._silent_seconds)
            self.process.kill()
            self._silent_seconds, self._is_killed = None, True

    def _back_off(self, now: float, is_stable: bool) -> None:
        self._backoff = FIRST_BACKOFF_SECONDS if is_stable else min(2 * self._backoff, MAX_BACKOFF_SECONDS)
        self.process, self.unready, self._next_start = None, ["it died, and starts again soon"], now + self._backoff

    def reload(self) -> None:
        """Have it reload its configuration; after its first heartbeat, for before that SIGHUP would end it."""
        self._reload_is_pending = self._silent_seconds is None
        if not self._reload_is_pending:
            self.send_signal(signal.SIGHUP)

    def send_signal(self, number: signal.Signals) -> None:
        """Send its process a signal, if there is one."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def wait(self, seconds: float) -> None:
        """Come back when its process has ended; one that needs longer than `seconds` is killed."""
        if self.process is None:
            return
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            LOG.warning("worker %d did not end in time: killed", self.number)
            self.process.kill()
            self.process.wait()
        if self._listener is not None:
            self._listener.join(LISTENER_SECONDS)

    def _listen(self, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            try:
                said = json.loads(line)
            except ValueError:
                continue  # printed by a plugin
            if self.process is not process:
                continue
            if isinstance(said, list):
                self.unready, self._silent_seconds = [str(each) for each in said], 0.0
                self.lasting_failure = None
            else:
                self._reported_failure = _decode_failure(said) or self._reported_failure
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def report_readiness(reasons: Sequence[str]) -> None:
    """In a worker: send the parent a heartbeat with the reasons why this worker is not ready; none where it is."""
    sys.stdout.write(json.dumps(list(reasons)) + "\n")
    sys.stdout.flush()


def report_lasting_failure(error: RoostError) -> None:
    """In a worker: tell the parent that the worker ends because of this error, and no restart helps."""
    said = {"code": error.code, "message": error.message, "hint": error.hint}
    sys.stdout.write(json.dumps({_CANNOT_WORK: said}) + "\n")
    sys.stdout.flush()


def _decode_failure(said: object) -> RoostError | None:
    """The error of `report_lasting_failure`, of the kind that has its exit code; None for what a plugin printed."""
    found = said.get(_CANNOT_WORK) if isinstance(said, dict) else None
    if not isinstance(found, dict):
        return None
    is_input = str(found.get("code")).startswith(BadInput.code)
    return (BadInput if is_input else DatabaseError)(str(found.get("message")), str(found.get("hint", "")))


def stop_with_parent(signals: Signals) -> None:
    """In a worker: stop as at SIGTERM when the parent is gone, however it ended."""

    def wait_for_end() -> None:
        while sys.stdin.readline():
            pass
        LOG.warning("the parent process is gone: stopping")
        signals.end()

    threading.Thread(target=wait_for_end, name="parent", daemon=True).start()


STOP_MARGIN_SECONDS = 5.0
"""What a worker gets to stop, beyond the time that it gives its requests."""
MAX_STOP_SECONDS = 3600.0
"""What a worker gets to stop where its requests may take as long as they need."""


class Supervisor:
    """All workers of a service, as a `ManagedService`: started, checked and stopped together."""

    hangs = False
    """Always: a worker that hangs is killed and restarted."""

    def __init__(
        self,
        count: int,
        command: Sequence[str],
        clock: Clock,
        seconds_to_end: float,
        on_end: Callable[[int], None] = lambda worker: None,
        read_again: Callable[[], float] | None = None,
        listener: socket.socket | None = None,
    ) -> None:
        """`seconds_to_end`: what workers give their requests when they stop; 0: as long as they need.

        `on_end` is called with the number of a worker whose process has ended. `read_again` reads the parent's part
        of the configuration at a reload, and returns the new `seconds_to_end`. `listener`: from which
        all workers take connections; a connection waits there where one of them dies before it has taken it.
        """
        inherited = () if listener is None else (listener.fileno(),)
        self._listener = listener
        self.workers = [Worker(number, command, clock, inherited) for number in range(1, count + 1)]
        self._clock, self._seconds_to_end, self._on_end = clock, seconds_to_end, on_end
        self._read_again = read_again

    def start(self) -> None:
        """Start all workers, without waiting for them to be ready."""
        for worker in self.workers:
            worker.start()

    def look_after(self) -> None:
        """Restart workers that have ended or hang; raise their reason where no restart helps any of them."""
        for worker in self.workers:
            worker.check(self._on_end)
        failures = [worker.lasting_failure for worker in self.workers]
        if failures[0] is not None and all(failures):
            LOG.error("no worker can work, and no restart helps: %s", failures[0])
            raise failures[0]

    def unready(self) -> list[str]:
        """Reasons of each worker that is not ready."""
        return [f"worker {worker.number}: {'; '.join(worker.unready)}" for worker in self.workers if worker.unready]

    def is_alive(self) -> bool:
        """True: workers are checked one by one."""
        return True

    def reload(self) -> None:
        """Have all workers reload; RoostError, and none of them is told, where the configuration is wrong."""
        if self._read_again is not None:
            self._seconds_to_end = self._read_again()
        for worker in self.workers:
            worker.reload()

    def seconds_to_end(self) -> float:
        """0, for no limit: `stop` kills workers that need too long."""
        return 0.0

    def stop(self, is_hurried: bool) -> None:
        """Stop all workers and wait for them; those that need too long are killed, all at the same moment."""
        for worker in self.workers:
            worker.send_signal(signal.SIGKILL if is_hurried else signal.SIGTERM)
        if self._listener is not None:
            self._listener.close()  # no client is to wait in its queue any more
        seconds = self._seconds_to_end + STOP_MARGIN_SECONDS if self._seconds_to_end else MAX_STOP_SECONDS
        kill_at = self._clock.monotonic() + seconds
        for worker in self.workers:
            worker.wait(max(kill_at - self._clock.monotonic(), 0.0))


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
