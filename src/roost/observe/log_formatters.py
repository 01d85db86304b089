# SPDX-License-Identifier: Apache-2.0
"""Formatters that turn any log record into exactly one line: text for people, JSON for programs."""

from __future__ import annotations

import functools
import json
import logging
import math
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from structlog.contextvars import get_contextvars

from roost.observe.log_redaction import is_secret_name, redact_secrets
from roost.options.declare import REDACTED

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
