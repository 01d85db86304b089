# SPDX-License-Identifier: Apache-2.0
"""Logging: every record becomes one line, with the id of its request and without passwords.

Our own modules log with structlog, as an event with values:

    LOG = structlog.get_logger(__name__)

    with bound(request_id="req-5c1d"):
        LOG.info("placed", instances=2, hosts="h1 h2", milliseconds=0.4)

Libraries, and modules that need no more than a sentence, use the standard library's `logging`. The resulting line:

    2026-11-15T17:31:08.123Z INFO roost.scheduler.service.manager [req-5c1d] placed instances=2 milliseconds=0.4
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

import structlog
from structlog.contextvars import bind_contextvars, reset_contextvars
from structlog.stdlib import ProcessorFormatter
from structlog.typing import Processor

from roost.errors import OptionError, nearest
from roost.observe.log_formatters import JsonFormatter, TextFormatter
from roost.observe.log_handlers import BackgroundHandler, FileHandler, StreamHandler, tolerate_failing_handlers
from roost.observe.options import LogOptions

LEVELS = {
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
    "CRITICAL": logging.CRITICAL,
    "FATAL": logging.CRITICAL,
}
_WITH_OWN_LEVEL: set[str] = set()
"""Loggers whose level was set by `set_up_logging`; global, as loggers are."""


def set_up_logging(options: LogOptions, program: str, stream: TextIO | None = None) -> None:
    """Send every record of this process where the options say. May be called again, with other options.

    No log call waits for the disk or fails (log_handlers.py). `program` names the file where only a folder is given;
    `stream` replaces standard error. OptionError, with nothing changed, where an option is wrong.
    """
    levels = _levels_of(options.default_log_levels)
    handlers = _handlers(options, program, stream)
    _replace_handlers(logging.getLogger(), handlers)
    _set_own_levels(levels)
    set_level("DEBUG" if options.debug else "INFO")
    logging.captureWarnings(True)
    threading.excepthook = _log_thread_failure
    _use_standard_logging()
    tolerate_failing_handlers()


def flush_log() -> None:
    """Wait until what was logged is written, for seconds at most: before something else is printed."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def check_logging(options: LogOptions) -> None:
    """OptionError for an unknown level. Files are not checked: the service may run on another machine."""
    _levels_of(options.default_log_levels)


_PROCESSORS: list[Processor] = [structlog.stdlib.filter_by_level, ProcessorFormatter.wrap_for_formatter]
"""One list for all configurations: loggers that were cached before see a change of it, such as capture_logs()'s."""


def _use_standard_logging() -> None:
    """Configure structlog to log through the standard library."""
    structlog.configure(
        processors=_PROCESSORS,
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


if not structlog.is_configured():  # a program that uses Roost as a library may have configured it
    _use_standard_logging()


def set_level(level: str) -> None:
    """Set the level of the root logger: DEBUG, INFO, WARNING, ERROR or CRITICAL."""
    logging.getLogger().setLevel(_level(level, f"log level {level}"))


class bound:  # noqa: N801 - used as a statement
    """Context manager: every record of this thread carries these values. `request_id` stands before the message.

    Every request enters it; structlog's own `bound_contextvars`, a generator, takes twice as long.
    """

    def __init__(self, **values: Any) -> None:
        self._values = values

    def __enter__(self) -> None:
        self._tokens = bind_contextvars(**self._values)

    def __exit__(self, *_: object) -> None:
        reset_contextvars(**self._tokens)


def _handlers(options: LogOptions, program: str, stream: TextIO | None) -> list[logging.Handler]:
    path = _path(options, program)
    handlers: list[logging.Handler] = [_open(path)] if path else []
    if options.use_stderr or not path:
        handlers.append(StreamHandler(stream or sys.stderr))
    for handler in handlers:
        handler.setFormatter(JsonFormatter() if options.use_json else TextFormatter())
    return handlers


def _path(options: LogOptions, program: str) -> Path | None:
    """Path of the log file; in a folder without a file name it is named for the program, as in nova."""
    if options.log_file:
        return Path(options.log_dir or "") / options.log_file
    return Path(options.log_dir) / f"{program}.log" if options.log_dir else None


def _open(path: Path) -> logging.Handler:
    try:
        return FileHandler(path, encoding="utf-8", errors="backslashreplace")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        hint = "make the folder and let the service's user write there, or unset [DEFAULT] log_file and log_dir"
        raise OptionError(f"the log file {path} cannot be opened: {reason}", hint) from None


def _replace_handlers(logger: logging.Logger, handlers: list[logging.Handler]) -> None:
    """Add the new ones first, so that no record is lost."""
    earlier = logger.handlers[:]
    for handler in handlers:
        logger.addHandler(handler)
    for handler in earlier:
        logger.removeHandler(handler)
        if isinstance(handler, BackgroundHandler):
            handler.close()


def _levels_of(pairs: Iterable[str]) -> dict[str, int]:
    levels = {}
    for pair in pairs:
        name, equals, level = (part.strip() for part in pair.partition("="))
        if not name or not equals:
            raise OptionError(f"[DEFAULT] default_log_levels: {pair!r} is not LOGGER=LEVEL")
        levels[name] = _level(level, f"[DEFAULT] default_log_levels: {pair!r}")
    return levels


def _level(level: str, where: str) -> int:
    try:
        return LEVELS[level.upper()]
    except KeyError:
        raise OptionError(f"{where}: there is no level {level!r}", nearest(level.upper(), LEVELS)) from None


def _set_own_levels(levels: Mapping[str, int]) -> None:
    """Set these levels, and reset those that an earlier call has set."""
    for name in _WITH_OWN_LEVEL - levels.keys():
        logging.getLogger(name).setLevel(logging.NOTSET)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    _WITH_OWN_LEVEL.clear()
    _WITH_OWN_LEVEL.update(levels)


def _log_thread_failure(failure: threading.ExceptHookArgs) -> None:
    """Log an exception that ended a thread as one record, instead of many lines on standard error."""
    name = failure.thread.name if failure.thread else "?"
    raised = failure.exc_value or failure.exc_type
    logging.getLogger("roost.threads").critical("thread %s ended: %s", name, raised, exc_info=failure.exc_value)
