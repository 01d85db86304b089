# SPDX-License-Identifier: Apache-2.0
"""Errors as HTTP answers: the status of each class of error, and the body that clients of each API expect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

from roost.api.bounded_work import Overloaded
from roost.api.microversions import VersionNotOffered
from roost.errors import (
    BadInput,
    ClaimRejected,
    Conflict,
    DatabaseConflict,
    DatabaseError,
    DatabaseFull,
    Forbidden,
    HypervisorError,
    IdentityUnavailable,
    IllegalStep,
    NoValidHost,
    RemoteNoValidHost,
    RoostError,
    RpcError,
    ServerChanged,
    ServiceUnavailable,
    SignInRefused,
    TokenRefused,
    TooManyAttempts,
    UnknownName,
)

_STATUS: tuple[tuple[type[RoostError], int], ...] = (
    (VersionNotOffered, 406),
    (TokenRefused, 401),
    (SignInRefused, 401),
    (Forbidden, 403),
    (TooManyAttempts, 429),
    (UnknownName, 404),
    (Conflict, 409),
    (IllegalStep, 409),
    (ServerChanged, 409),
    (ClaimRejected, 409),
    (NoValidHost, 400),
    (RemoteNoValidHost, 400),
    (BadInput, 400),
    (DatabaseConflict, 503),
    (DatabaseError, 503),
    (IdentityUnavailable, 503),
    (ServiceUnavailable, 503),
    (RpcError, 503),
    (HypervisorError, 503),
    (Overloaded, 503),
)
"""Class of an error -> status; the first class that fits counts. Any other error is a 500."""

_FAULTS = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    409: "conflictingRequest",
    413: "overLimit",
    415: "badMediaType",
    429: "overLimit",
    501: "notImplemented",
    503: "serviceUnavailable",
}
"""Status -> the key of a compute fault; `computeFault` for any other."""

_SAID_INSTEAD: tuple[tuple[type[RoostError], str], ...] = (
    (DatabaseFull, "The service's database is full: nothing can be changed until there is room in it."),
    (DatabaseError, "The service cannot use its database now: try again later."),
    (IdentityUnavailable, "The service cannot ask Keystone now: try again later."),
)
"""Class of an error whose text names addresses or users -> what is said in its place; the first that fits."""
RETRY_AFTER_SECONDS = 5
"""After which a client may ask again where something that the service needs is away."""


class Problem(NamedTuple):
    """An answer that says what is wrong."""

    status: int
    message: str
    headers: Mapping[str, str] = {}


def problem_of(error: RoostError) -> Problem:
    """The answer for an error."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if status == 503 else {}
    if isinstance(error, TooManyAttempts | Overloaded):
        headers["Retry-After"] = str(max(1, round(error.retry_after_seconds)))
    message = next((text for kind, text in _SAID_INSTEAD if isinstance(error, kind)), str(error))
    return Problem(status, message, headers)


def body_of(path: str, problem: Problem) -> dict[str, Any]:
    """The body of an answer, as clients of the API at this path expect it."""
    if path.startswith(("/identity", "/image", "/roost")):
        title = HTTPStatus(problem.status).phrase
        return {"error": {"code": problem.status, "title": title, "message": problem.message}}
    fault: dict[str, Any] = {"code": problem.status, "message": problem.message}
    return {_FAULTS.get(problem.status, "computeFault"): fault}


def text_of_invalid(errors: Sequence[Mapping[str, Any]]) -> str:
    """One line about the first value of a request that is not as it should be."""
    first = errors[0]
    where = ".".join(str(each) for each in first.get("loc", ()) if each not in ("body", "query", "path"))
    what = str(first.get("msg", "is wrong")).removeprefix("Value error, ")
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    place = f"Invalid input for field/attribute {where}. " if where else "Invalid input. "
    return f"{place}{what}{more}"
