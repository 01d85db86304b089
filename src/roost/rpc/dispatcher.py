# SPDX-License-Identifier: Apache-2.0
"""Finds the method for a message, runs it, and turns its result or any exception into a reply."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from roost.best_effort import best_effort
from roost.errors import MessageError, RoostError
from roost.rpc.context import ENDLESS, CallerPatience, RequestContext
from roost.rpc.interface import Endpoint, Method, OnRefusal, ignore_refusals
from roost.rpc.messages import encode
from roost.rpc.wire_errors import DISPATCHER, WireFailure, is_expected, make_failure, make_sendable

LOG = logging.getLogger(__name__)


class Reply(NamedTuple):
    """What goes back to the caller: a result that is JSON, or an error that can be sent."""

    context: RequestContext
    """Its `answered` is to be called when the reply was sent."""
    result: Any = None
    failure: Exception | None = None


class _Parameters(NamedTuple):
    """Parameters of a method besides the context."""

    signature: inspect.Signature
    needed: frozenset[str]
    named: frozenset[str]

    @classmethod
    def of(cls, method: Method) -> _Parameters:
        signature = inspect.signature(method)
        own = list(signature.parameters.values())[1:]
        named = [each for each in own if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
        needed = frozenset(each.name for each in named if each.default is each.empty)
        return cls(signature, needed, frozenset(each.name for each in named))


class Dispatcher:
    """Finds the method for a message, by name and version, and runs it."""

    def __init__(self, endpoints: Sequence[Endpoint], on_refusal: OnRefusal = ignore_refusals) -> None:
        self._on_refusal = on_refusal
        self._served = [(parse_version(each.version), each.methods) for each in endpoints]
        self._parameters: dict[Method, _Parameters] = {}

    def answer(
        self, message: Mapping[str, Any], context: Mapping[str, Any], patience: CallerPatience = ENDLESS
    ) -> Reply:
        """Run the method that the message names. An exception is logged once and becomes the failure of the reply."""
        caller = RequestContext.from_dict(context, patience)
        try:
            return Reply(caller, self._run(message, caller))
        except Exception as error:
            _log(message, context, error)
            return Reply(caller, failure=make_sendable(error))

    def _run(self, message: Mapping[str, Any], caller: RequestContext) -> Any:
        try:
            name, version, args = _parts(message)
            method = self._find(name, version)
            self._check_arguments(name, method, caller, args)
        except Exception:
            self._on_refusal()
            raise
        result = method(caller, **args)
        encode(result, f"the result of {name}")
        return result

    def _find(self, name: str, version: str) -> Method:
        """Method of an endpoint with the same major version and no older minor one: oslo.messaging's rule."""
        major, minor = parse_version(version)
        candidates = [methods for served, methods in self._served if served[0] == major and minor <= served[1]]
        for methods in candidates:
            if name in methods:
                return methods[name]
        if candidates:
            raise _refusal("NoSuchMethod", f"Endpoint does not support RPC method {name}")
        served = ", ".join(f"{major}.{minor}" for (major, minor), _ in self._served)
        problem = f"Endpoint does not support RPC version {version}. Attempted method: {name}; served here: {served}"
        raise _refusal("UnsupportedVersion", problem)

    def _check_arguments(self, name: str, method: Method, caller: RequestContext, args: Mapping[str, Any]) -> None:
        """MessageError for wrong arguments; checked before the call, whose own TypeErrors mean something else."""
        parameters = self._parameters.get(method)
        if parameters is None:
            parameters = self._parameters[method] = _Parameters.of(method)
        if parameters.needed <= args.keys() <= parameters.named:
            return
        try:
            parameters.signature.bind(caller, **args)
        except TypeError as error:
            raise MessageError(f"{name}: {error}") from None


def parse_version(text: str) -> tuple[int, int]:
    """Major and minor of a version such as "4.5"."""
    major, dot, minor = text.partition(".")
    if not (dot and major.isdecimal() and minor.isdecimal() and len(text) < 20):
        raise MessageError(f"{text[:40]!r} is no version", 'it looks like "4.5"')
    return int(major), int(minor)


def _parts(message: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Method, version and arguments of a message."""
    name, version = message.get("method"), message.get("version", "1.0")
    args = message.get("args", {})
    if not isinstance(name, str) or not name:
        raise MessageError("the message names no method")
    if not isinstance(version, str):
        raise MessageError(f"{name}: the version is no text")
    if not isinstance(args, dict):
        raise MessageError(f"{name}: the arguments are no object")
    if message.get("namespace") is not None:
        raise _refusal("UnsupportedVersion", f"Endpoint does not support RPC namespace. Attempted method: {name}")
    return name, version, args


def _refusal(name: str, problem: str) -> WireFailure:
    """A failure that is logged in one line, of a class that nova's clients know."""
    failure = make_failure(DISPATCHER, name, problem)
    failure.is_refusal = True
    return failure


@best_effort("log")
def _log(message: Mapping[str, Any], context: Mapping[str, Any], error: Exception) -> None:
    method, request_id = str(message.get("method"))[:80], str(context.get("request_id", ""))[:80]
    if isinstance(error, RoostError) or getattr(error, "is_refusal", False):
        LOG.warning("%s %s: %s", method, request_id, error)
    elif is_expected(error):
        LOG.debug("%s %s: %s", method, request_id, error)
    else:
        LOG.error("%s %s failed", method, request_id, exc_info=error)
