# SPDX-License-Identifier: Apache-2.0
"""Several processes that do the same work: started, watched, started again where one dies or hangs.

A worker is the same command with `--worker NUMBER`. It says on its standard output, a line every second or so,
whether it is ready (JSON: a list of reasons why not); one that has begun to speak and falls silent hangs. Its
standard input is its leash: when that ends, because the parent is gone, the worker ends too.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

from roost.clock import Clock
from roost.service.lifecycle import Signals

LOG = logging.getLogger(__name__)
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
MARGIN_SECONDS = 5.0
"""What workers are given to end, beyond what they give their requests."""
_FOR_THE_PARENT = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
STEADY_SECONDS = 60.0
"""A worker that lived so long is no reason to wait before the next one."""
UNUSUAL_SILENCE_SECONDS = 10.0
"""After which a worker no longer counts as ready."""
LONGEST_SILENCE_SECONDS = 60.0
"""After which a worker is killed, and another one takes its place."""
LONGEST_STEP_SECONDS = 5.0
"""Of silence, from one look to the next. Where we were away for longer, the whole machine may have stood still."""


class Worker:
    """One process, and the ones that took its place."""

    def __init__(self, number: int, command: Sequence[str], clock: Clock) -> None:
        self.number, self._command, self._clock = number, [*command, "--worker", str(number)], clock
        self.process: subprocess.Popen[str] | None = None
        self._listener: threading.Thread | None = None
        self.unready: list[str] = ["it has not started"]
        self._pause, self._started, self._next_start = FIRST_PAUSE_SECONDS, 0.0, 0.0
        self._silent_seconds: float | None = None
        """Since it last said something, as far as we were there to listen; None before its first word."""
        self._is_killed = False
        self._is_to_reload = False
        """It was to read its configuration again when it had not begun to speak."""
        self._looked_at = 0.0

    def start(self) -> None:
        """Start the process, and listen to what it says."""
        self.unready, self._started = ["it has not started"], self._clock.monotonic()
        self._silent_seconds, self._is_killed = None, False
        self.process = subprocess.Popen(  # noqa: S603
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",  # somebody's plugin may print anything
            env=_environment(),
            start_new_session=True,  # or Ctrl-C would reach it twice, and the second time means hurry
        )
        name = f"worker {self.number}"
        self._listener = threading.Thread(target=self._listen, args=(self.process,), name=name, daemon=True)
        self._listener.start()

    def look(self, on_end: Callable[[int], None]) -> None:
        """Start it again if it has died or hangs; sooner where it lived long. `on_end` gets its number."""
        now = self._clock.monotonic()
        self._note_silence(min(now - self._looked_at, LONGEST_STEP_SECONDS))
        self._looked_at = now
        if self._is_to_reload:
            self.reload()
        if self.process is not None and self.process.poll() is not None:
            if not self._is_killed:
                LOG.error("worker %d ended by itself (exit code %d)", self.number, self.process.returncode)
            on_end(self.number)
            self._wait_before_next(now, is_steady=now - self._started >= STEADY_SECONDS)
        if self.process is None and now >= self._next_start:
            try:
                self.start()
            except OSError as error:  # no memory or no process left, for now: the others go on
                LOG.error("worker %d cannot be started: %s", self.number, error)
                self._wait_before_next(now, is_steady=False)

    def _note_silence(self, seconds: float) -> None:
        if self.process is None or self._silent_seconds is None:
            return
        self._silent_seconds += seconds
        if self._silent_seconds > UNUSUAL_SILENCE_SECONDS:
            self.unready = [f"it has said nothing for {self._silent_seconds:.0f} s"]
        if self._silent_seconds > LONGEST_SILENCE_SECONDS:
            LOG.error("worker %d hangs: nothing from it for %.0f s; killed", self.number, self._silent_seconds)
            self.process.kill()
            self._silent_seconds, self._is_killed = None, True

    def _wait_before_next(self, now: float, is_steady: bool) -> None:
        self._pause = FIRST_PAUSE_SECONDS if is_steady else min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        self.process, self.unready, self._next_start = None, ["it died, and starts again soon"], now + self._pause

    def reload(self) -> None:
        """Have it read its configuration again. One that is starting would die of the signal, so it is told later."""
        self._is_to_reload = self._silent_seconds is None
        if not self._is_to_reload:
            self.tell(signal.SIGHUP)

    def tell(self, number: signal.Signals) -> None:
        """Send it a signal, if it is there."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def wait(self, seconds: float) -> None:
        """Until it has ended; one that takes longer is killed."""
        if self.process is None:
            return
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            LOG.warning("worker %d did not end in time: killed", self.number)
            self.process.kill()
            self.process.wait()
        if self._listener is not None:
            self._listener.join(MARGIN_SECONDS)

    def _listen(self, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            try:
                reasons = json.loads(line)
            except ValueError:
                continue  # somebody's plugin prints
            if isinstance(reasons, list) and self.process is process:
                self.unready, self._silent_seconds = [str(each) for each in reasons], 0.0
        for end in (process.stdin, process.stdout):
            if end is not None:
                end.close()


class Supervisor:
    """All of them: a service like any other."""

    hangs = False
    """One that hangs is replaced."""

    def __init__(
        self,
        count: int,
        command: Sequence[str],
        clock: Clock,
        seconds_to_end: float,
        on_end: Callable[[int], None] = lambda worker: None,
        read_again: Callable[[], float] | None = None,
    ) -> None:
        """`seconds_to_end`: what they are given to end their requests; 0: as long as it takes.

        `read_again`: reads our own part of the configuration once more, and says what they are given from now on.
        """
        self.workers = [Worker(number, command, clock) for number in range(1, count + 1)]
        self._clock, self._seconds_to_end, self._on_end = clock, seconds_to_end, on_end
        self._read_again = read_again

    def start(self) -> None:
        """All at once."""
        for worker in self.workers:
            worker.start()

    def look_after(self) -> None:
        """Start those anew that died or hang."""
        for worker in self.workers:
            worker.look(self._on_end)

    def unready(self) -> list[str]:
        """What each of them says."""
        return [f"worker {worker.number}: {'; '.join(worker.unready)}" for worker in self.workers if worker.unready]

    def is_alive(self) -> bool:
        """They are watched one by one."""
        return True

    def reload(self) -> None:
        """Each reads the configuration for itself. Where it is wrong, we say so for all of them."""
        if self._read_again is not None:
            self._seconds_to_end = self._read_again()
        for worker in self.workers:
            worker.reload()

    def seconds_to_end(self) -> float:
        """They see to that themselves; one that does not is killed."""
        return 0.0

    def stop(self, is_hurried: bool) -> None:
        """All at once, and wait for the last."""
        for worker in self.workers:
            worker.tell(signal.SIGKILL if is_hurried else signal.SIGTERM)
        seconds = self._seconds_to_end + MARGIN_SECONDS if self._seconds_to_end else 3600.0
        kill_at = self._clock.monotonic() + seconds
        for worker in self.workers:
            worker.wait(max(kill_at - self._clock.monotonic(), 0.0))


def _environment() -> dict[str, str]:
    """What systemd gave us is for us: to it the parent is the service."""
    return {name: value for name, value in os.environ.items() if name not in _FOR_THE_PARENT}


def on_a_leash(signals: Signals) -> None:
    """In a worker: end when the parent is gone."""

    def hold() -> None:
        while sys.stdin.readline():
            pass
        LOG.warning("the parent process is gone: stopping")
        signals.end()

    threading.Thread(target=hold, name="leash", daemon=True).start()


def say_unready(reasons: Sequence[str]) -> None:
    """In a worker: tell the parent."""
    sys.stdout.write(json.dumps(list(reasons)) + "\n")
    sys.stdout.flush()
