# SPDX-License-Identifier: Apache-2.0
"""Runs a service: start, readiness and watchdog for systemd, reload at SIGHUP, stop at SIGTERM or SIGINT.

The first SIGTERM or SIGINT lets running requests end; a second one does not wait for them. `Periodic` repeats a task
at an interval, in a thread of its own.

systemd (Type=notify, WatchdogSec=) is told of states over the socket NOTIFY_SOCKET: `READY=1` (started), `STATUS=...`
(shown by `systemctl status`), `WATCHDOG=1` (heartbeat), `reloading()` and then `READY=1` around a reload,
`STOPPING=1`.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from roost.clock import Clock
from roost.errors import RoostError

LOG = logging.getLogger(__name__)
CHECK_INTERVAL_SECONDS = 1.0
"""Between two checks of readiness, each with a heartbeat for systemd; less where it expects one sooner."""
WATCHDOG_SHARE = 0.4
"""Interval between heartbeats, as a share of the time that systemd allows."""
YOUNG_OBJECTS = 20_000
"""Objects that are allocated, and not freed, until garbage is collected. Python's 700 is less than a few requests in
progress hold, so collections would begin all the time, and find nothing."""


class ManagedService(Protocol):
    """A service that `run_service` can run."""

    hangs: bool
    """Whether `is_alive` was False for too long; to be read without waiting."""

    def start(self) -> None:
        """Begin to work; RoostError where that is not possible."""

    def unready(self) -> list[str]:
        """Reasons why it takes no requests now; empty where it does."""

    def look_after(self) -> None:
        """Housekeeping; called every CHECK_INTERVAL_SECONDS, always by the same thread."""

    def is_alive(self) -> bool:
        """False where it hangs: it has to be restarted. May take seconds."""

    def reload(self) -> None:
        """Apply the changed configuration; RoostError, with nothing applied, where it is wrong."""

    def seconds_to_end(self) -> float:
        """Seconds that running requests get when it stops; 0: as long as they need."""

    def stop(self, is_hurried: bool) -> None:
        """Take no new requests and finish the running ones. `is_hurried`: return now, the process exits after it."""


class DatabaseService(ManagedService, Protocol):
    """A service that works with databases."""

    def check_databases(self) -> None:
        """Check, before anything is started, that the service can work with them; a DatabaseError if not."""


class Signals:
    """Events that signals of the operator set: `stop`, `hurry` (a second stop), `reload`; `any` with each of them."""

    def __init__(self) -> None:
        self.stop, self.hurry, self.reload = threading.Event(), threading.Event(), threading.Event()
        self.any = threading.Event()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Context in which SIGTERM, SIGINT and SIGHUP set the events."""
        wanted = {signal.SIGTERM: self._on_stop, signal.SIGINT: self._on_stop, signal.SIGHUP: self._on_reload}
        before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def end(self) -> None:
        """Ask for a stop, as SIGTERM does."""
        if self.stop.is_set():
            self.hurry.set()
        self.stop.set()
        self.any.set()

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        self.end()

    def _on_reload(self, number: int, frame: FrameType | None) -> None:
        self.reload.set()
        self.any.set()


def run_service(service: ManagedService, clock: Clock, signals: Signals) -> bool:
    """Run the service until a signal stops it; returns False where requests were abandoned and still run."""
    try:
        _start(service)
        _watch(service, clock, signals)
    except RoostError:
        raise  # the command prints it in one line
    except Exception:
        LOG.critical("the service cannot go on", exc_info=True)
        raise
    finally:
        notify("STOPPING=1")
        has_ended = _stop(service, clock, signals)
    return has_ended


def _start(service: ManagedService) -> None:
    try:
        service.start()
    except RoostError as error:
        LOG.error("the service cannot start: %s", error)
        raise
    _spare_long_lived_objects()


def _spare_long_lived_objects() -> None:
    """Leave what the service has now out of collections: a full one would look at 10,000 hosts, for 90 ms."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)


def _watch(service: ManagedService, clock: Clock, signals: Signals) -> None:
    was_ready = False
    allowed = watchdog_seconds()
    pause = min(CHECK_INTERVAL_SECONDS, allowed * WATCHDOG_SHARE) if allowed else CHECK_INTERVAL_SECONDS
    while not signals.stop.is_set():
        service.look_after()
        reasons = service.unready()
        if reasons and was_ready:
            LOG.info("not ready: %s", "; ".join(reasons))
        elif not reasons and not was_ready:
            LOG.info("ready")
            notify("READY=1")
        was_ready = not reasons
        if allowed and service.is_alive():
            notify("WATCHDOG=1")
        if signals.reload.is_set():
            signals.reload.clear()
            _reload(service)
        if not signals.reload.is_set() and not signals.stop.is_set():
            clock.wait(signals.any, pause)
            signals.any.clear()


def _reload(service: ManagedService) -> None:
    notify(reloading())
    try:
        service.reload()
    except RoostError as error:
        LOG.error("the configuration was not taken up: %s", error)
    except Exception:  # of a plugin, for example: no reason to stop answering
        LOG.exception("the configuration was not taken up")
    notify("READY=1")


def _stop(service: ManagedService, clock: Clock, signals: Signals) -> bool:
    """Stop the service; returns whether it has stopped before a second signal or `seconds_to_end` ended the wait."""
    LOG.info("stopping")
    give_up = clock.monotonic() + (service.seconds_to_end() or float("inf"))
    done = threading.Thread(target=service.stop, args=(False,), name="stop", daemon=True)
    done.start()
    while done.is_alive() and not signals.hurry.is_set() and clock.monotonic() < give_up:
        done.join(0.05)
    has_ended = not done.is_alive()
    if not has_ended:
        LOG.warning("stopping at once: running requests are given up")
        service.stop(True)
    LOG.info("stopped")
    return has_ended


class Periodic:
    """A task and its thread, repeated whether it fails or not. The first failure and the recovery are logged."""

    def __init__(self, name: str, task: Callable[[], object], seconds: Callable[[], float], clock: Clock) -> None:
        """`seconds` returns the time from the end of a run to the next one, and is called after each run."""
        self.name, self.is_failing = name, False
        self._task, self._seconds, self._clock = task, seconds, clock
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread, which begins with a run."""
        self._thread.start()

    def stop(self) -> None:
        """Start no further run; one that is running goes on."""
        self._stopped.set()

    def join(self, seconds: float) -> bool:
        """After `stop`: wait that long for a running task; returns whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def run_once(self) -> None:
        """Run the task in this thread, and log a failure that is new."""
        try:
            self._task()
        except Exception as error:
            if not self.is_failing:
                LOG.error("%s: failed, and will be tried again: %s", self.name, error, exc_info=_traceback_of(error))
            self.is_failing = True
        else:
            if self.is_failing:
                LOG.info("%s: works again", self.name)
            self.is_failing = False

    def _run(self) -> None:
        while not self._stopped.is_set():
            self.run_once()
            self._clock.wait(self._stopped, self._seconds())


def _traceback_of(error: Exception) -> Exception | None:
    """The error, for its traceback; None where it is one of ours, whose text says all."""
    return None if hasattr(error, "hint") else error


SEND_TIMEOUT_SECONDS = 1.0


def notify(state: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send this state; returns whether it was sent. Does nothing without systemd, and never raises."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    if address.startswith("@"):  # an abstract socket of Linux: no file, its name begins with a zero byte
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(SEND_TIMEOUT_SECONDS)
            sender.sendto(state.encode(errors="replace"), address)
    except (OSError, ValueError):
        return False
    return True


def reloading() -> str:
    """The state to send before a reload; READY=1 ends it."""
    return f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}"


def watchdog_seconds(environment: Mapping[str, str] = os.environ) -> float | None:
    """Seconds within which systemd expects WATCHDOG=1; None where it expects none of this process."""
    microseconds, process = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not _is_number(microseconds) or int(microseconds) == 0:
        return None
    if process and process != str(os.getpid()):
        return None
    return int(microseconds) / 1_000_000


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20
