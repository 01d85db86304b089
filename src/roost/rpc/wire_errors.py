# SPDX-License-Identifier: Apache-2.0
"""Errors on the wire: an exception becomes JSON that names its class, and an exception again at the caller.

nova's client instantiates the named class, so an error for nova has to name one of `nova.exception`, with the
arguments that this class takes: `raise nova_failure("NoValidHost", text, reason=...)`.
"""

from __future__ import annotations

import functools
import json
import traceback
from collections.abc import Mapping
from typing import Any

from roost.errors import MessageError, RemoteFailure, RemoteNoValidHost, RpcError, UnsupportedVersion
from roost.rpc.messages import decode, encode

NOVA = "nova.exception"
DISPATCHER = "oslo_messaging.rpc.dispatcher"
"""Module that nova's clients expect for errors about an unknown version or method."""

EXPECTED = ("NoValidHost", "MaxRetriesExceeded")
"""Errors that are answers: the request was understood, and no host fits."""
UNAVAILABLE = 503
"""`code` of an error that may be gone when the same is asked later: what the server needs is away or full."""


class WireFailure(Exception):
    """Base of exceptions that carry the class name and module of the caller's side."""

    is_expected = True
    """Whether it is an answer; if not, it is logged with its traceback."""
    is_refusal = False
    """Whether no method was run for the message; logged in one line."""

    def __init__(self, message: str, kwargs: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.kwargs = dict(kwargs)


def nova_failure(name: str, message: str, *, is_expected: bool = True, **kwargs: Any) -> WireFailure:
    """An exception that nova's client turns into its own `nova.exception.NAME(message, **kwargs)`."""
    return make_failure(NOVA, name, message, is_expected=is_expected, **{**kwargs, "code": kwargs.get("code", 500)})


def make_failure(module: str, name: str, message: str, *, is_expected: bool = True, **kwargs: Any) -> WireFailure:
    """An exception that the caller sees as one of the class MODULE.NAME."""
    failure = _class_for(module, name)(message, kwargs)
    failure.is_expected = is_expected
    return failure


def is_expected(error: BaseException) -> bool:
    """Whether the error is an answer, such as NoValidHost, and needs no attention."""
    return isinstance(error, WireFailure) and error.is_expected


def make_sendable(error: Exception) -> Exception:
    """The error; where its arguments are not JSON, one of the same class with its text alone."""
    try:
        encode([list(error.args), getattr(error, "kwargs", {})], "an error")
    except MessageError:
        kind = type(error)
        return make_failure(kind.__module__, kind.__name__, str(error)).with_traceback(error.__traceback__)
    return error


def to_wire(error: Exception) -> str:
    """JSON text of the error, in oslo.messaging's form."""
    error = make_sendable(error)
    kind = type(error)
    lines = [] if is_expected(error) else traceback.format_exception(error)
    form = {
        "class": kind.__name__,
        "module": kind.__module__,
        "message": str(error),
        "tb": lines,
        "args": list(error.args),
        "kwargs": getattr(error, "kwargs", {}),
    }
    return json.dumps(form)


def from_wire(text: Any) -> RpcError:
    """The exception for the caller, from oslo.messaging's form; RemoteFailure where that is unreadable."""
    try:
        form = decode(text, max_bytes=None) if isinstance(text, str) else text
    except MessageError:
        form = None
    if not isinstance(form, dict):
        return RemoteFailure("unknown error", f"the server's error cannot be understood: {str(text)[:200]}")
    name, message = str(form.get("class")), str(form.get("message") or "")
    kwargs = form.get("kwargs")
    reason, summary, hint = (_text(kwargs, key) for key in ("reason", "summary", "hint"))
    if name == "UnsupportedVersion":
        return UnsupportedVersion(message)
    lines = form.get("tb")
    trace = [str(line) for line in lines] if isinstance(lines, list) else []
    kind = RemoteNoValidHost if name in EXPECTED else RemoteFailure
    is_unavailable = isinstance(kwargs, dict) and kwargs.get("code") == UNAVAILABLE
    return kind(name, message, reason, trace, summary=summary, hint=hint, is_unavailable=is_unavailable)


def _text(kwargs: Any, key: str) -> str:
    return str(kwargs.get(key) or "") if isinstance(kwargs, dict) else ""


@functools.cache
def _class_for(module: str, name: str) -> type[WireFailure]:
    return type(name, (WireFailure,), {"__module__": module, "__doc__": "An error as the caller sees it."})
