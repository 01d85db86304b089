# SPDX-License-Identifier: Apache-2.0
"""Handlers that write in the background, and loggers whose handlers may raise: a log call never fails or delays its
caller.
"""

from __future__ import annotations

import logging
import os
import select
import sys
from contextlib import suppress
from logging.handlers import WatchedFileHandler
from typing import TextIO

from roost.best_effort import SWALLOWED
from roost.services.line_writer import LineWriter

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
