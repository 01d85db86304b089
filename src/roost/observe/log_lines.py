# SPDX-License-Identifier: Apache-2.0
"""How a record of the log becomes one line, whatever is in it: text for people, JSON for programs."""

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

from roost.observe.log_redaction import HIDDEN, is_secret_name, without_secrets

LONGEST_TEXT = 16_384
"""Characters of one value that are kept: a line must stay something that people and programs can read."""
DEEPEST = 6
"""Levels of a nested value that are shown as they are; what is deeper is shown as text."""
_NEEDS_QUOTES = frozenset(" \"'=\\[]{}")


class Lines(logging.Formatter):
    """Turns records of structlog and of the standard library into lines; one that cannot be shown still is a line."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, without its end. Never raises: a log call must not fail its caller."""
        try:
            return self.line(_head(record), _body(record))
        except Exception as error:
            problem = f"a record that cannot be shown: {type(error).__name__}"
            place = {"file": str(record.pathname), "line": record.lineno}
            return self.line(_head(record), {"message": problem} | place)

    def line(self, head: Mapping[str, str], body: Mapping[str, Any]) -> str:
        """`head`: time, level and logger. `body`: the message and all that belongs to it."""
        raise NotImplementedError


class TextLines(Lines):
    """TIME LEVEL LOGGER [REQUEST] MESSAGE key=value ..."""

    def line(self, head: Mapping[str, str], body: Mapping[str, Any]) -> str:
        """As above; without brackets where no request is at work."""
        message, request = body.get("message", ""), body.get("request_id")
        words = [*head.values(), f"[{request}]" if request else "", str(message)]
        words += [f"{name}={_quoted(value)}" for name, value in body.items() if name not in ("message", "request_id")]
        return _printable(" ".join(word for word in words if word))


class JsonLines(Lines):
    """One JSON object a line, in plain ASCII: {"time": ..., "level": ..., "logger": ..., "message": ..., ...}."""

    def line(self, head: Mapping[str, str], body: Mapping[str, Any]) -> str:
        """What a record carries cannot change its time, level and logger."""
        return json.dumps({**head, **{f"{name}_" if name in head else name: body[name] for name in body}})


def _head(record: logging.LogRecord) -> dict[str, str]:
    moment = datetime.fromtimestamp(record.created, UTC)
    time = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    return {"time": time, "level": record.levelname, "logger": record.name}


def _body(record: logging.LogRecord) -> dict[str, Any]:
    """The message, what is bound to the request, what came with the record, and what was raised."""
    entry, raised = _event(record) if _is_structured(record) else ({"message": record.getMessage()}, record.exc_info)
    values = {"message": entry.pop("message"), **get_contextvars(), **entry}
    if raised:
        values["raised"] = _raised(raised)
    if record.stack_info or values.get("stack_info"):
        values["stack_info"] = record.stack_info or values["stack_info"]
    return {_shown_name(str(name)): _plain(value, str(name)) for name, value in values.items()}


def _is_structured(record: logging.LogRecord) -> bool:
    """Whether structlog wrote it, so that the message is a mapping."""
    return isinstance(record.msg, dict) and hasattr(record, "_logger")


def _event(record: logging.LogRecord) -> tuple[dict[str, Any], Any]:
    entry: dict[str, Any] = dict(record.msg)  # type: ignore[arg-type]
    raised, arguments = entry.pop("exc_info", None), entry.pop("positional_args", ())
    event = str(entry.pop("event", ""))
    own = entry.pop("message", None)  # somebody's value of that name
    entry["message"] = event % arguments if arguments else event
    if own is not None:
        entry["message_"] = own
    return entry, raised


def _raised(raised: Any) -> str:
    """The traceback, as text."""
    if raised is True:
        raised = sys.exc_info()
    if isinstance(raised, BaseException):
        raised = (type(raised), raised, raised.__traceback__)
    return "".join(traceback.format_exception(*raised)).rstrip()


def _plain(value: Any, name: str = "", depth: int = 0) -> Any:
    """What JSON can say, without passwords; texts of bounded length."""
    if value is None or isinstance(value, bool):
        return value
    if name and is_secret_name(name):
        return HIDDEN
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, Mapping) and depth < DEEPEST:
        return {_shown_name(str(key)): _plain(each, str(key), depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset) and depth < DEEPEST:
        return [_plain(each, "", depth + 1) for each in value]
    return _text(value)


@functools.lru_cache(maxsize=1000)
def _shown_name(name: str) -> str:
    """Names are few and come again with every record."""
    return _text(name)


def _text(value: Any) -> str:
    """Passwords are hidden before the end is cut off, or one that is cut in two would not look like one."""
    text = str(value)
    shown = without_secrets(text[: 2 * LONGEST_TEXT])
    return shown if len(shown) <= LONGEST_TEXT else f"{shown[:LONGEST_TEXT]}... ({len(text)} characters)"


def _quoted(value: Any) -> str:
    """A value of key=value: in quotes where it would not be clear what belongs to it."""
    if isinstance(value, str) and value and _NEEDS_QUOTES.isdisjoint(value):
        return value
    return repr(value) if type(value) in (int, float) else json.dumps(value, ensure_ascii=False)


def _printable(line: str) -> str:
    """With an escape for everything that could end the line or move the cursor."""
    if line.isprintable():
        return line
    return "".join(each if each.isprintable() else _escaped(each) for each in line)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
