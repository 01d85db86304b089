# SPDX-License-Identifier: Apache-2.0
"""A process that outlives the command that started it: found again by its pid and the time at which it began."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from roost.clock import Clock
from roost.trial.private_servers import LOOPBACK, is_listening

POLL_SECONDS = 0.05
HEALTH_SECONDS = 2.0
"""For the health page to answer."""
KILL_SECONDS = 10.0
"""After SIGKILL, until a process is gone; it may be writing to a disk."""
_PROC = Path("/proc")


@dataclass(frozen=True)
class ProcessPlan:
    """A process as it is to be started."""

    name: str
    kind: str
    """Such as postgresql or conductor; processes of one kind start and stop together."""
    command: tuple[str, ...]
    log: str
    port: int | None = None
    """Port of the loopback on which it listens, or its health page is."""
    client_port: int | None = None
    """Port of the loopback on which clients reach it, where that is not `port`."""
    has_health_page: bool = False
    """Whether /readyz on `port` says if it is ready; otherwise it is as soon as it listens."""
    ready_command: tuple[str, ...] = ()
    """A command that succeeds as soon as the process is ready, where listening is not enough."""
    stop_signal: int = signal.SIGTERM

    @property
    def address(self) -> str:
        """Where clients reach it, as a URL; empty where they do not."""
        return f"http://{LOOPBACK}:{self.client_port}" if self.client_port else ""

    def to_json(self) -> dict[str, Any]:
        """All fields, as JSON data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """What `to_json` returned."""
        return cls(**data | {name: tuple(data[name]) for name in ("command", "ready_command")})

    def start(self) -> Started:
        """Start it in a session of its own; its output is appended to the log."""
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        null = os.open(os.devnull, os.O_RDONLY)
        try:
            copies = [(os.POSIX_SPAWN_DUP2, source, target) for source, target in ((null, 0), (log, 1), (log, 2))]
            # Not subprocess: it would own the child, and complain about one that is still running.
            pid = os.posix_spawnp(self.command[0], list(self.command), os.environ, file_actions=copies, setsid=True)
        finally:
            os.close(log)
            os.close(null)
        return Started(pid, _start_time(pid))

    def unready(self) -> str:
        """Why it is not ready; empty if it is."""
        if self.ready_command:
            return "" if _succeeds(self.ready_command) else "it does not accept connections yet"
        if self.has_health_page:
            return _problem_of_health_page(self.port)
        return "" if self.port is None or is_listening(self.port) else f"it does not listen on port {self.port} yet"


class Started(NamedTuple):
    """A started process. A later process with the same pid began at another time, so it is not mistaken for it."""

    pid: int
    start_time: str
    """Boot of the machine, and ticks of the kernel's clock since then; empty if it ended at once."""

    def is_alive(self) -> bool:
        """Whether it is still running."""
        with suppress(ChildProcessError):  # a child of this process stays a zombie until it is waited for
            os.waitpid(self.pid, os.WNOHANG)
        return bool(self.start_time) and _start_time(self.pid) == self.start_time

    def send(self, number: int, to_its_group: bool = False) -> None:
        """Send a signal; nothing happens if the process is gone."""
        if self.is_alive():
            with suppress(ProcessLookupError):
                (os.killpg if to_its_group else os.kill)(self.pid, number)

    def left_behind(self) -> list[Started]:
        """Processes of its session that are alive although it has ended, such as a server whose wrapper was killed.

        While there are any, no other process gets its pid: one that has it began a session of its own.
        """
        boot, _, began = self.start_time.partition(" ")
        if boot != _boot() or self.is_alive() or _start_time(self.pid):
            return []
        pids = [int(each.name) for each in _PROC.iterdir() if each.name.isdigit()]
        found = [Started(pid, _start_time(pid)) for pid in pids if _session(pid) == self.pid]
        return [each for each in found if each.start_time and int(each.start_time.split()[1]) >= int(began)]


def stop_processes(stopping: Iterable[tuple[Started, int]], clock: Clock, seconds: float) -> list[Started]:
    """Send each process its signal and wait; returns those that had to be killed after that many seconds."""
    signals = dict(stopping)
    for process, number in signals.items():
        process.send(number)
    left = wait_until_gone(signals, clock, seconds)
    for process in left:
        process.send(signal.SIGKILL, to_its_group=True)
    wait_until_gone(left, clock, KILL_SECONDS)
    return left


def end_left_behind(processes: Iterable[Started], clock: Clock, seconds: float) -> None:
    """End what is left of the sessions of processes that have ended: SIGTERM, and after that many seconds SIGKILL."""
    left = [each for process in processes for each in process.left_behind()]
    for number, patience in ((signal.SIGTERM, seconds), (signal.SIGKILL, KILL_SECONDS)):
        for each in left:
            each.send(number)
        left = wait_until_gone(left, clock, patience)


def wait_until_gone(processes: Iterable[Started], clock: Clock, seconds: float) -> list[Started]:
    """Wait until all have ended, at most that many seconds; returns those that are alive."""
    give_up = clock.monotonic() + seconds
    left = [each for each in processes if each.is_alive()]
    while left and clock.monotonic() < give_up:
        clock.sleep(POLL_SECONDS)
        left = [each for each in left if each.is_alive()]
    return left


def _start_time(pid: int) -> str:
    """When a process began; empty if there is none, or if it has ended and is a zombie.

    The main thread of a process that is killed may be a zombie while others still hold its ports.
    """
    fields = _stat(pid)
    if not fields:
        return ""
    state, threads, ticks = fields[0], int(fields[17]), fields[19]
    return "" if state in "ZX" and threads <= 1 else f"{_boot()} {ticks}"


def _boot() -> str:
    """Identifier of the present boot of the machine."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def _session(pid: int) -> int | None:
    """The session of a process: pid of the process that began it. None if there is no such process."""
    fields = _stat(pid)
    return int(fields[3]) if fields else None


def _stat(pid: int) -> list[str]:
    """What the kernel tells about a process after its name: state, parent, group, session, ...; empty without one."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _succeeds(command: tuple[str, ...]) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0  # noqa: S603


def _problem_of_health_page(port: int | None) -> str:
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/readyz", timeout=HEALTH_SECONDS):
            return ""
    except urllib.error.HTTPError as answer:
        with answer:
            return "; ".join(json.load(answer)["reasons"])
    except (OSError, ValueError):
        return "its health page does not answer"
