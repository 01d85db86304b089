# SPDX-License-Identifier: Apache-2.0
"""Errors of HTTP calls to placement as errors of Roost, in one line each, without tokens and passwords."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from keystoneauth1 import exceptions

from roost.errors import (
    PlacementBadRequest,
    PlacementConflict,
    PlacementError,
    PlacementNotFound,
    PlacementRefused,
    PlacementUnavailable,
)

CAPACITY, GENERATION, CONSUMER = "capacity", "generation", "consumer"
"""Kinds of PlacementConflict."""

LONGEST_DETAIL = 300
"""Characters of placement's own explanation that are repeated in an error."""
_CONCURRENT_UPDATE = "placement.concurrent_update"
_NO_PROVIDER = re.compile(r"resource provider '[^']*' that does not exist")
_ADDRESS = re.compile(r"https?://(?:[^\s/@]*@)?([^\s/'\"?]+)")
_CREDENTIALS_HINT = "look at the credentials in [placement]"


def error_of_status(call: str, status: int, content: bytes) -> PlacementError:
    """The error for an answer that is no success. `call`: method and path, for the message."""
    code, detail = _explanation(content)
    said = f"{call}: placement answered {status}" + (f": {detail}" if detail else "")
    if status == 409:
        return PlacementConflict(_conflict_kind(code, detail), said)
    if status == 400 and _NO_PROVIDER.search(detail):  # deleted since it was chosen: as good as full
        return PlacementConflict(CAPACITY, said)
    if status == 400:
        return PlacementBadRequest(said)
    if status in (401, 403):
        return PlacementRefused(said, _CREDENTIALS_HINT)
    if status == 404:
        return PlacementNotFound(said)
    if status >= 500 or status == 429:
        return PlacementUnavailable(said)
    return PlacementError(said)


def error_of_exception(call: str, error: Exception) -> PlacementError:
    """The error for a call without an answer: no connection, no token, no endpoint, a timeout."""
    where = _ADDRESS.search(str(error))
    at = f" at {where[1].rstrip(':,')}" if where else ""
    if isinstance(error, (exceptions.ConnectTimeout, TimeoutError)):
        return PlacementUnavailable(f"{call}: no answer{at} in time")
    if isinstance(error, (exceptions.EndpointNotFound, exceptions.DiscoveryFailure)):
        hint = "look at region_name, valid_interfaces and service_type in [placement], or set endpoint_override"
        return PlacementUnavailable(f"{call}: keystone knows no endpoint of placement", hint)
    if isinstance(error, exceptions.HTTPClientError):
        text = f"{call}: keystone{at} answered {error.http_status}, and gave no token"
        return PlacementRefused(text, _CREDENTIALS_HINT)
    if isinstance(error, (exceptions.AuthorizationFailure, exceptions.AuthPluginException)):
        return PlacementRefused(f"{call}: no token could be had", _CREDENTIALS_HINT)
    if isinstance(error, exceptions.HttpError):
        return PlacementUnavailable(f"{call}: keystone{at} answered {error.http_status}")
    found = PlacementUnavailable(f"{call}: no connection{at}: {_reason(error)}")
    found.may_be_executed = not any(isinstance(each, ConnectionRefusedError) for each in _chain(error))
    return found


def _conflict_kind(code: str, detail: str) -> str:
    if code != _CONCURRENT_UPDATE:
        return CAPACITY
    return CONSUMER if "consumer generation conflict" in detail else GENERATION


def _explanation(content: bytes) -> tuple[str, str]:
    """(code, detail in one line) of an error that placement explains; empty texts where it does not."""
    try:
        first: Any = json.loads(content)["errors"][0]
        code, detail = str(first.get("code", "")), str(first.get("detail", ""))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return "", ""
    # The first paragraph explains the status, the rest this case.
    return code, " ".join(detail.partition("\n\n")[2].split() or detail.split())[:LONGEST_DETAIL]


def _reason(error: BaseException) -> str:
    """Why a connection failed, in words of the operating system where it gave any."""
    for each in _chain(error):
        if isinstance(each, OSError) and each.strerror:
            return each.strerror
    return type(error).__name__


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that caused it: urllib3 keeps them in arguments and `reason`."""
    seen: set[int] = set()
    waiting: list[Any] = [error]
    while waiting:
        each = waiting.pop()
        if isinstance(each, BaseException) and id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [each.__cause__, each.__context__, getattr(each, "reason", None), *each.args]
