# SPDX-License-Identifier: Apache-2.0
"""Best effort, for what only watches requests: records of decisions, metrics, notifications, logs.

It can never fail a request. Each entry of a watcher that a request passes is marked, as a function or as a block:

    @best_effort("metrics")
    def failed(self, seconds: float) -> None: ...

    with best_effort("log"):
        LOG.info("decided", what=decision.summary)

What is raised there is logged with its traceback, once for each place and kind of error, and counted by watcher, for
the metric `roost_watcher_errors_total`. Time is not bounded here: a watcher waits for no disk, broker or database in
the thread of a request, but hands over to a bounded queue (`services/log_handlers.py`, and those of notifications
and records).
"""

from __future__ import annotations

import functools
import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Literal, ParamSpec, TypeVar, get_args

LOG = logging.getLogger(__name__)

Watcher = Literal[
    "access_log", "claim_journal", "decision_record", "health", "log", "metrics", "notifications", "shadow"
]
"""What watches requests; the label of the metric."""
WATCHERS: tuple[str, ...] = get_args(Watcher)
MOST_LOGGED = 1000
"""Different errors that are logged; further ones are counted only."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class SwallowedErrors:
    """What watchers have raised in this process. May be shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._logged: set[tuple[object, ...]] = set()

    def note(self, watcher: Watcher, error: Exception) -> None:
        """Count an error; log it where it is the first of its kind at its place. Never raises."""
        with suppress(Exception):
            if self._is_new(watcher, error):
                LOG.error(
                    "%s: %s is ignored, for it only watches; counted, and not logged again: %s",
                    watcher,
                    type(error).__name__,
                    error,
                    exc_info=error,
                )

    def count(self, watcher: Watcher, errors: int) -> None:
        """Count errors that cannot be logged: those of the log."""
        with self._lock:
            self._counts[watcher] += errors

    def counts(self) -> Mapping[str, int]:
        """Watcher -> how many of its errors were swallowed since the process began."""
        with self._lock:
            return dict(self._counts)

    def _is_new(self, watcher: Watcher, error: Exception) -> bool:
        key = (watcher, type(error), *_place_of(error))
        with self._lock:
            self._counts[watcher] += 1
            is_new = key not in self._logged and len(self._logged) < MOST_LOGGED
            if is_new:
                self._logged.add(key)
            return is_new


def _place_of(error: Exception) -> tuple[str, int]:
    """File and line that raised the error."""
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    return ("", 0) if innermost is None else (innermost.tb_frame.f_code.co_filename, innermost.tb_lineno)


SWALLOWED = SwallowedErrors()
"""Of this process, as loggers are."""


class best_effort:  # noqa: N801 - used as a statement, and as a decorator
    """Swallows what a block or a function of a watcher raises; the function returns None then."""

    __slots__ = ("_watcher",)

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        SWALLOWED.note(self._watcher, error)
        return True

    def __call__(self, function: Callable[Parameters, Result]) -> Callable[Parameters, Result | None]:
        """The function, which raises nothing."""
        watcher = self._watcher

        @functools.wraps(function)
        def attempt(*args: Parameters.args, **more: Parameters.kwargs) -> Result | None:
            try:
                return function(*args, **more)
            except Exception as error:
                SWALLOWED.note(watcher, error)
                return None

        return attempt
