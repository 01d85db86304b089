# SPDX-License-Identifier: Apache-2.0
"""Handlers that write log lines in the background, so that a log call never fails or delays its caller.

A full pipe or a slow disk delays no caller: lines wait in a bounded queue. Nor does a caller see what a handler
raises, not even one of a library.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from logging.handlers import WatchedFileHandler
from typing import TextIO

from roost.best_effort import SWALLOWED

MOST_WAITING = 8 * 1024 * 1024
"""Characters that wait to be written; further lines are dropped."""


class LineWriter:
    """A bounded queue of lines and the daemon thread that writes them. May be shared by threads."""

    def __init__(
        self,
        write: Callable[[str], None],
        on_lost: Callable[[int, Exception | None], None],
        *,
        name: str,
        line_about_dropped: Callable[[int], str] = lambda count: "",
    ) -> None:
        """`write`: writes text; called by one thread at a time. `name`: of that thread.

        `on_lost`: called for lines that are lost, with their number and the error; None: the queue was full.
        `line_about_dropped`: the line that is written in place of so many dropped ones.
        """
        self._name = name
        self._write, self._on_lost, self._line_about_dropped = write, on_lost, line_about_dropped
        self._changed = threading.Condition()
        """Guards everything below, and notifies when it changes. Nothing is written while it is held."""
        self._lines: list[str] = []
        self._waiting = 0
        """Characters of those lines."""
        self._dropped = 0
        """Lines that were dropped and not reported yet."""
        self._queued = self._taken = self._done = 0
        """Lines since the beginning: that were queued, that the thread took of these, that it has written or lost."""
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def put(self, line: str) -> None:
        """Queue a line, with its line end; drop it where too much waits already."""
        with self._changed:
            has_room = self._waiting + len(line) <= MOST_WAITING
            if has_room:
                self._lines.append(line)
                self._waiting += len(line)
                self._queued += 1
                self._changed.notify_all()
            else:
                self._dropped += 1
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        if not has_room:
            self._on_lost(1, None)

    def flush(self, seconds: float) -> bool:
        """Wait until the lines that are queued by now are written, for so long at most; returns whether they are."""
        with self._changed:
            queued = self._queued
            return self._changed.wait_for(lambda: self._done >= queued, seconds)

    def close(self, seconds: float) -> bool:
        """Flush, and end the thread when it has nothing to write; returns whether all lines are written."""
        is_written = self.flush(seconds)
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        return is_written

    def _run(self) -> None:
        while lines := self._take():
            try:
                self._write("".join(lines))
            except Exception as error:
                self._on_lost(len(lines), error)
            with self._changed:
                self._done = self._taken
                self._changed.notify_all()

    def _take(self) -> list[str]:
        """All lines that wait, once there are some; none at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._is_closed)
            lines, self._lines, self._waiting = self._lines, [], 0
            self._taken = self._queued
            if self._dropped:  # while these filled the queue, so after them
                lines.append(self._line_about_dropped(self._dropped))
                self._dropped = 0
            return lines


FLUSH_SECONDS = 2.0
"""How long the end of a process, or a reload, waits for lines that are not written yet."""
STANDARD_ERROR = 2


class TolerantLogger(logging.Logger):
    """A logger whose callers never see what a handler or a filter raises; the other handlers get the record."""

    def handle(self, record: logging.LogRecord) -> None:
        """Pass the record to the filters, and then to the handlers."""
        try:
            super().handle(record)
        except Exception as error:  # of a filter
            SWALLOWED.note("log", error)

    def callHandlers(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        """Pass the record to all handlers, of this logger and of those above it."""
        handlers = _handlers_of(self)
        for handler in handlers or ([logging.lastResort] if logging.lastResort else []):
            if record.levelno >= handler.level:
                try:
                    handler.handle(record)
                except Exception as error:
                    SWALLOWED.note("log", error)


def _handlers_of(logger: logging.Logger) -> list[logging.Handler]:
    found, each = list(logger.handlers), logger
    while each.propagate and each.parent is not None:
        each = each.parent
        found += each.handlers
    return found


def tolerate_failing_handlers(package: str = "") -> None:
    """Make all loggers tolerant, also later ones; `package`: only those that its modules have by now."""
    if not package:
        logging.setLoggerClass(_tolerant(logging.getLoggerClass()))
    for name, logger in list(logging.Logger.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and f"{name}.".startswith(f"{package}." if package else ""):
            with suppress(TypeError):  # its class is too different
                logger.__class__ = _tolerant(type(logger))


_TOLERANT: dict[type[logging.Logger], type[logging.Logger]] = {}
"""Class of loggers -> the tolerant one that is else like it."""


def _tolerant(kind: type[logging.Logger]) -> type[logging.Logger]:
    """A tolerant class of loggers, else like this one: libraries, structlog among them, have classes of their own."""
    if issubclass(kind, TolerantLogger):
        return kind
    if kind not in _TOLERANT:
        _TOLERANT[kind] = type(f"Tolerant{kind.__name__}", (TolerantLogger, kind), {})
    return _TOLERANT[kind]


class BackgroundHandler(logging.Handler):
    """Formats a record in the caller's thread, whose request it names, and writes it in a thread of its own.

    Lines that cannot be written are dropped and counted, with one line on standard error.
    """

    has_failed = False

    def createLock(self) -> None:  # noqa: N802 - logging's own name
        """Called by logging when the handler is made."""
        super().createLock()
        self._writer = LineWriter(
            self.write, self._note_lost, name="log", line_about_dropped=self._line_about_dropped
        )

    def write(self, text: str) -> None:
        """Write lines; called in the background."""
        raise NotImplementedError

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the record as a line."""
        try:
            self._writer.put(self.format(record) + "\n")
        except Exception as error:
            self._note_lost(1, error)

    def flush(self) -> None:
        """Wait for what is queued, for FLUSH_SECONDS at most."""
        self._writer.flush(FLUSH_SECONDS)

    def close(self) -> None:
        """Write what is queued, within FLUSH_SECONDS; what is left then is lost."""
        if self._writer.close(FLUSH_SECONDS):
            super().close()
        else:  # whoever closes the stream would wait for its writer, too
            logging.Handler.close(self)

    def _note_lost(self, lines: int, error: Exception | None) -> None:
        SWALLOWED.count("log", lines)
        if error is not None and not self.has_failed:
            self.has_failed = True
            _report(f"roost: the log cannot be written: {error}\n")

    def _line_about_dropped(self, count: int) -> str:
        text = "%d lines of the log were dropped: they could not be written fast enough"
        record = logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, (count,), None)
        return self.format(record) + "\n"


class StreamHandler(BackgroundHandler, logging.StreamHandler[TextIO]):
    """Writes to standard error, or to a stream that stands for it."""

    def write(self, text: str) -> None:
        """Write lines."""
        if self.stream is sys.__stderr__:  # Python's own end would wait for a thread that is within the stream
            data = memoryview(text.encode(errors="backslashreplace"))
            while data:
                data = data[os.write(STANDARD_ERROR, data) :]
        else:
            self.stream.write(text)
            self.stream.flush()


class FileHandler(BackgroundHandler, WatchedFileHandler):
    """Appends to a file, and reopens it when it was moved away."""

    def write(self, text: str) -> None:
        """Write lines; OSError where they cannot be, or the file cannot be reopened."""
        self.reopenIfNeeded()
        if self.stream is None:  # the last attempt to reopen it failed
            self.stream = self._open()
        self.stream.write(text)
        self.stream.flush()


def _report(text: str) -> None:
    """Write to standard error, if it takes something now."""
    with suppress(Exception):
        writable = select.select([], [STANDARD_ERROR], [], 0)[1]
        if writable:
            os.write(STANDARD_ERROR, text.encode(errors="replace"))
