# SPDX-License-Identifier: Apache-2.0
"""Messages between services: sends them, runs the method that one names, turns its result or error into a reply.

Messages about servers, to conductors and agents, all have the same two arguments: uuid and generation.

On the wire an exception is JSON that names its class, and it is an exception again at the caller. nova's client
instantiates the named class, so an error for nova has to name one of `nova.exception`, with the arguments that this
class takes: `raise nova_failure("NoValidHost", text, reason=...)`.

A conductor's errors are sent by class name, message and hint, and raised again at its clients: it runs each method
that they call within `as_client_errors`; the client calls within `as_own_errors`.
"""

from __future__ import annotations

import functools
import inspect
import json
import logging
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from roost.best_effort import best_effort
from roost.errors import (
    BadInput,
    Conflict,
    DatabaseError,
    DatabaseFull,
    HypervisorError,
    IllegalStep,
    MessageError,
    RemoteFailure,
    RemoteNoValidHost,
    RoostError,
    RpcError,
    RpcTimeout,
    RpcUnreachable,
    ServerChanged,
    ServiceUnavailable,
    UnknownName,
    UnsupportedVersion,
)
from roost.messages.context import ENDLESS, CallerPatience, RequestContext, decode, encode
from roost.messages.interface import CallingTransport, Endpoint, Method, OnRefusal, Transport, ignore_refusals
from roost.messages.options import RpcOptions

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


MODULE = "roost.errors"
NO_DATABASE = "the conductor cannot use its database now"
FULL_DATABASE = "the conductor's database is full"
SEE_LOG = "its log says more"
CHANGED = "it was changed at the same time; look at it, then try again"
_REFUSALS = ("Invalid", "UnsupportedPolicyException")
"""Errors with which a scheduler answers a wrong request."""
_SENT: dict[str, type[RoostError]] = {
    each.__name__: each
    for each in (UnknownName, Conflict, IllegalStep, BadInput, HypervisorError, ServiceUnavailable, RoostError)
}
"""Classes that are sent as they are; of others the first of these that they are a subclass of."""


@contextmanager
def as_client_errors(is_admin: bool = False) -> Iterator[None]:
    """On the conductor: raise Roost's errors in a form that the client can raise again, without what is secret.

    `is_admin`: whether the client may see the summary of a decision, which names hosts and their free resources.
    """
    try:
        yield
    except RemoteNoValidHost as error:
        raise _failure("NoValidHost", error, reason=error.reason, summary=error.summary if is_admin else "") from None
    except ServerChanged as error:
        raise _failure("IllegalStep", error, hint=CHANGED) from None
    except DatabaseError as error:  # whose text names address and user
        said = FULL_DATABASE if isinstance(error, DatabaseFull) else NO_DATABASE
        LOG.warning("%s: %s", said, error)
        raise make_failure(MODULE, "ServiceUnavailable", said, hint=SEE_LOG) from None
    except (RpcUnreachable, RpcTimeout) as error:  # of a scheduler or an agent
        raise _failure("ServiceUnavailable", error) from None
    except RemoteFailure as error:
        name = "ServiceUnavailable" if error.is_unavailable else "RoostError"
        raise _failure("BadInput" if error.name in _REFUSALS else name, error) from None
    except RoostError as error:
        name = next(name for name, kind in _SENT.items() if isinstance(error, kind))
        raise _failure(name, error) from None


@contextmanager
def as_own_errors() -> Iterator[None]:
    """On the client: raise the errors of a conductor as the same class; other failures stay a RemoteFailure."""
    try:
        yield
    except RemoteNoValidHost:
        raise
    except RemoteFailure as error:
        if error.name not in _SENT:
            raise
        raise _SENT[error.name](error.message, error.hint) from None


def _failure(name: str, error: RoostError, *, hint: str = "", **more: Any) -> WireFailure:
    return make_failure(MODULE, name, error.message, hint=hint or error.hint, **more)


CONDUCTOR_VERSION, AGENT_VERSION = "1.0", "1.0"
"""Newest versions of the messages that conductors and agents take."""
READ_HEARTBEAT_SECONDS = 10.0
"""How long a caller that only reads waits for a heartbeat: asking again changes nothing, so it may give up early."""


def call_conductor(
    transport: CallingTransport, options: RpcOptions, context: RequestContext, method: str, args: Mapping[str, Any]
) -> Any:
    """Have a conductor change something, and wait for its answer as long as it sends heartbeats."""
    timeout, heartbeat = float(options.long_rpc_timeout), float(options.rpc_response_timeout)
    return transport.call(options.conductor_topic, method, CONDUCTOR_VERSION, args, context, timeout, heartbeat)


def read_from_conductor(
    transport: CallingTransport, options: RpcOptions, context: RequestContext, method: str, args: Mapping[str, Any]
) -> Any:
    """Ask a conductor for something that changes nothing; gives up early where no conductor sends heartbeats."""
    timeout = float(options.rpc_response_timeout)
    heartbeat = min(timeout, READ_HEARTBEAT_SECONDS)
    return transport.call(options.conductor_topic, method, CONDUCTOR_VERSION, args, context, timeout, heartbeat)


class ServerMessages:
    """Sends messages to conductors and agents."""

    def __init__(self, transport: Transport, options: RpcOptions) -> None:
        self._transport, self._options = transport, options

    def wake(self, context: RequestContext, host: str | None, method: str, server_uuid: str, generation: int) -> None:
        """Have the agent on a host, or a conductor if the host is None, go on with a server; does not wait for it."""
        args = {"server_uuid": server_uuid, "generation": generation}
        if host is None:
            self._transport.cast(self._options.conductor_topic, method, CONDUCTOR_VERSION, args, context)
        else:
            self._transport.cast(self.queue_of(host), method, AGENT_VERSION, args, context)

    def call_agent(self, context: RequestContext, host: str, method: str, args: Mapping[str, Any]) -> Any:
        """Ask the agent on a host something, and wait for its answer."""
        timeout = float(self._options.rpc_response_timeout)
        return self._transport.call(self.queue_of(host), method, AGENT_VERSION, args, context, timeout)

    def call_conductor(self, context: RequestContext, method: str, args: Mapping[str, Any]) -> Any:
        """Ask a conductor something, and wait for its answer."""
        return call_conductor(self._transport, self._options, context, method, args)

    def queue_of(self, host: str) -> str:
        """Name of the queue of the agent on a host."""
        return f"{self._options.compute_topic}.{host}"
