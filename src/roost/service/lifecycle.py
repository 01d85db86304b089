# SPDX-License-Identifier: Apache-2.0
"""A service from its first to its last moment: start, tell systemd, reload at SIGHUP, stop at SIGTERM.

The first SIGTERM or SIGINT lets running requests end; a second one does not wait.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from roost.clock import Clock
from roost.errors import RoostError
from roost.observe.systemd import notify, reloading, watchdog_seconds

LOG = logging.getLogger(__name__)
LONGEST_WAIT_SECONDS = 1.0
"""How often somebody looks whether the service is ready, and tells the watchdog that it lives."""
WATCHDOG_SHARE = 0.4
"""Of the time that systemd allows between two signs of life."""


class ManagedService(Protocol):
    """What lives."""

    hangs: bool
    """What `is_alive` said last, the other way round: for those who cannot wait for it."""

    def start(self) -> None:
        """Begin to work; RoostError where that cannot be."""

    def unready(self) -> list[str]:
        """Why it cannot take requests now; empty where it can."""

    def look_after(self) -> None:
        """Called every second or so, by one thread alone: for what has to be seen to now and then."""

    def is_alive(self) -> bool:
        """False where it hangs or cannot go on: to be started anew."""

    def reload(self) -> None:
        """Take up what changed in the configuration; RoostError, and everything as before, where that is wrong."""

    def seconds_to_end(self) -> float:
        """How long running requests are given when it stops; 0: as long as they take."""

    def stop(self, is_hurried: bool) -> None:
        """Take nothing new, and end what is under way. In a hurry: come back at once, the process is about to end."""


class Signals:
    """What the operator wants."""

    def __init__(self) -> None:
        self.stop, self.hurry, self.reload = threading.Event(), threading.Event(), threading.Event()
        self.any = threading.Event()

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Listen to SIGTERM, SIGINT and SIGHUP."""
        wanted = {signal.SIGTERM: self._end, signal.SIGINT: self._end, signal.SIGHUP: self._renew}
        before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def end(self) -> None:
        """As SIGTERM."""
        if self.stop.is_set():
            self.hurry.set()
        self.stop.set()
        self.any.set()

    def _end(self, number: int, frame: FrameType | None) -> None:
        self.end()

    def _renew(self, number: int, frame: FrameType | None) -> None:
        self.reload.set()
        self.any.set()


def run_service(service: ManagedService, clock: Clock, signals: Signals) -> bool:
    """Start the service, and come back when it has ended; False where requests were given up, and still run."""
    try:
        _start(service)
        _watch(service, clock, signals)
    except RoostError:
        raise  # told in a line, by whoever started us
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


def _watch(service: ManagedService, clock: Clock, signals: Signals) -> None:
    was_ready = False
    allowed = watchdog_seconds()
    pause = min(LONGEST_WAIT_SECONDS, allowed * WATCHDOG_SHARE) if allowed else LONGEST_WAIT_SECONDS
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
    except Exception:  # of somebody's plugin, say: no reason to stop answering
        LOG.exception("the configuration was not taken up")
    notify("READY=1")


def _stop(service: ManagedService, clock: Clock, signals: Signals) -> bool:
    """In a thread, so that a second signal, or the time that is given, can end the wait; whether it ended before."""
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
