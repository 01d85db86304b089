# SPDX-License-Identifier: Apache-2.0
"""Logging: every record becomes one line, with the id of its request and without passwords.

Our own modules log with structlog, as an event with values:

    LOG = structlog.get_logger(__name__)

    with bound(request_id="req-5c1d"):
        LOG.info("placed", instances=2, hosts="h1 h2", milliseconds=0.4)

Libraries, and modules that need no more than a sentence, use the standard library's `logging`. The resulting line:

    2026-11-15T17:31:08.123Z INFO roost.scheduler.manager [req-5c1d] placed instances=2 milliseconds=0.4

A line is text for people, or JSON for programs. Redacted are passwords in URLs, and values whose name says that they
are secret.
"""

from __future__ import annotations

import functools
import json
import logging
import math
import re
import sys
import threading
import traceback
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import structlog
from structlog.contextvars import bind_contextvars, get_contextvars, reset_contextvars
from structlog.stdlib import ProcessorFormatter
from structlog.typing import Processor

from roost.errors import OptionError, nearest
from roost.options.declare import REDACTED
from roost.services.log_handlers import BackgroundHandler, FileHandler, StreamHandler, tolerate_failing_handlers
from roost.services.options import LogOptions

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


MAX_TEXT = 16_384
"""Characters of one value; the rest is cut off, so that lines stay readable."""
MAX_NESTING = 6
"""Levels of a nested value that are shown as structure; deeper ones are shown as text."""
_NEEDS_QUOTES = frozenset(" \"'=\\[]{}")


class LineFormatter(logging.Formatter):
    """Formats records of structlog and of the standard library; where that fails, a line says so."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, without a line end. Never raises: a log call must not fail its caller."""
        try:
            return self.line(_head(record), _body(record))
        except Exception as error:
            problem = f"a record that cannot be shown: {type(error).__name__}"
            place = {"file": str(record.pathname), "line": record.lineno}
            return self.line(_head(record), {"message": problem} | place)

    def line(self, head: Mapping[str, str], body: Mapping[str, Any]) -> str:
        """Compose the line from `head` (time, level and logger) and `body` (the message and its values)."""
        raise NotImplementedError


class TextFormatter(LineFormatter):
    """TIME LEVEL LOGGER [REQUEST] MESSAGE key=value ..."""

    def line(self, head: Mapping[str, str], body: Mapping[str, Any]) -> str:
        """Compose TIME LEVEL LOGGER [REQUEST] MESSAGE key=value ...; without brackets outside of a request."""
        message, request = body.get("message", ""), body.get("request_id")
        words = [*head.values(), f"[{request}]" if request else "", str(message)]
        words += [f"{name}={_quoted(value)}" for name, value in body.items() if name not in ("message", "request_id")]
        return _printable(" ".join(word for word in words if word))


class JsonFormatter(LineFormatter):
    """One JSON object a line, in plain ASCII: {"time": ..., "level": ..., "logger": ..., "message": ..., ...}."""

    def line(self, head: Mapping[str, str], body: Mapping[str, Any]) -> str:
        """Compose a JSON object. A value named as one of the head (time, level, logger) gets an underscore."""
        return json.dumps({**head, **{f"{name}_" if name in head else name: body[name] for name in body}})


def _head(record: logging.LogRecord) -> dict[str, str]:
    moment = datetime.fromtimestamp(record.created, UTC)
    time = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    return {"time": time, "level": record.levelname, "logger": record.name}


def _body(record: logging.LogRecord) -> dict[str, Any]:
    """The message, values bound to the request, values of the record, and the traceback."""
    entry, raised = _event(record) if _is_structured(record) else ({"message": record.getMessage()}, record.exc_info)
    values = {"message": entry.pop("message"), **get_contextvars(), **entry}
    if raised:
        values["raised"] = _raised(raised)
    if record.stack_info or values.get("stack_info"):
        values["stack_info"] = record.stack_info or values["stack_info"]
    return {_shown_name(str(name)): _plain(value, str(name)) for name, value in values.items()}


def _is_structured(record: logging.LogRecord) -> bool:
    """Whether structlog created the record: its message is a mapping then."""
    return isinstance(record.msg, dict) and hasattr(record, "_logger")


def _event(record: logging.LogRecord) -> tuple[dict[str, Any], Any]:
    entry: dict[str, Any] = dict(record.msg)  # type: ignore[arg-type]
    raised, arguments = entry.pop("exc_info", None), entry.pop("positional_args", ())
    event = str(entry.pop("event", ""))
    own = entry.pop("message", None)  # a value that the caller named so
    entry["message"] = event % arguments if arguments else event
    if own is not None:
        entry["message_"] = own
    return entry, raised


def _raised(raised: Any) -> str:
    """Text of the traceback of what `exc_info` holds: True, an exception or a tuple."""
    if raised is True:
        raised = sys.exc_info()
    if isinstance(raised, BaseException):
        raised = (type(raised), raised, raised.__traceback__)
    return "".join(traceback.format_exception(*raised)).rstrip()


def _plain(value: Any, name: str = "", depth: int = 0) -> Any:
    """The value as JSON types, with passwords redacted and texts of bounded length."""
    if value is None or isinstance(value, bool):
        return value
    if name and is_secret_name(name):
        return REDACTED
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, Mapping) and depth < MAX_NESTING:
        return {_shown_name(str(key)): _plain(each, str(key), depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset) and depth < MAX_NESTING:
        return [_plain(each, "", depth + 1) for each in value]
    return _text(value)


@functools.lru_cache(maxsize=1000)
def _shown_name(name: str) -> str:
    """Text of a key; memoised, since the same few keys come with every record."""
    return _text(name)


def _text(value: Any) -> str:
    """Text of a value, redacted first and then cut off: half a password would not be recognised as one."""
    text = str(value)
    shown = redact_secrets(text[: 2 * MAX_TEXT])
    return shown if len(shown) <= MAX_TEXT else f"{shown[:MAX_TEXT]}... ({len(text)} characters)"


def _quoted(value: Any) -> str:
    """Value of key=value: in quotes where its end would be ambiguous."""
    if isinstance(value, str) and value and _NEEDS_QUOTES.isdisjoint(value):
        return value
    return repr(value) if type(value) in (int, float) else json.dumps(value, ensure_ascii=False)


def _printable(line: str) -> str:
    """The line with escapes for all characters that could end it or move the cursor."""
    if line.isprintable():
        return line
    return "".join(each if each.isprintable() else _escaped(each) for each in line)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


_WORD = re.compile(r"\S+", re.ASCII)
_USER = re.compile(r"://[^/:@]*:")
"""The beginning of ://USER:PASSWORD@."""
_SECRET_WORDS = "password|passwd|secret|token|auth_blob|api_key"  # noqa: S105 - names, no values
_SECRET_NAME = re.compile(_SECRET_WORDS, re.IGNORECASE)
_NAMED_SECRET = re.compile(
    rf"((?:{_SECRET_WORDS})\w{{0,40}}[\"']?[ \t]{{0,9}}[=:][ \t]{{0,9}})(\"[^\"]*\"|'[^']*'|[^\s,;)\]}}]+)",
    re.IGNORECASE,
)
"""password=..., "password": "..." and similar. Repetitions are bounded: no text can make it slow."""


def redact_secrets(text: str) -> str:
    """The text with *** in place of passwords."""
    if "://" in text and "@" in text:
        text = _WORD.sub(_redact_url, text)
    if _SECRET_NAME.search(text):
        text = _NAMED_SECRET.sub(rf"\1{REDACTED}", text)
    return text


@functools.lru_cache(maxsize=1000)
def is_secret_name(name: str) -> bool:
    """Whether a value of this name must not be logged."""
    return _SECRET_NAME.search(name) is not None


def _redact_url(match: re.Match[str]) -> str:
    """Redact up to the last @ of the word: a password may contain one, and so may the next URL of a list."""
    word = match[0]
    end = word.rfind("@")
    user = _USER.search(word, 0, end) if end >= 0 else None
    return f"{word[: user.end()]}{REDACTED}{word[end:]}" if user else word
