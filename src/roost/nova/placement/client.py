# SPDX-License-Identifier: Apache-2.0
"""Calls of placement's HTTP API: made as `[placement]` of nova.conf says, with errors of one line, and its health.

All calls have the same microversion; answers come back as decoded JSON. Errors are Roost's, without tokens and
passwords. `PlacementHealth` says whether placement answers: when it did last, and why it does not.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import requests
from keystoneauth1 import exceptions
from keystoneauth1.adapter import Adapter
from structlog.contextvars import get_contextvars

from roost.best_effort import best_effort
from roost.errors import (
    PlacementBadRequest,
    PlacementConflict,
    PlacementError,
    PlacementNotFound,
    PlacementRefused,
    PlacementUnavailable,
)
from roost.nova.keystone import CONNECTIONS, KeystoneSection

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


LOG = logging.getLogger(__name__)
QUIET_SECONDS = 15.0
"""How long no call may have failed before an outage is over: some calls may fail while others succeed."""


class PlacementHealth:
    """Follows the outcome of all calls, from any thread. An outage is two lines in the log: its start and its end.

    An answer is also a refusal such as 404 or 409. No answer, 5xx, and a token that is not accepted are failures.
    """

    def __init__(self, monotonic_clock: Callable[[], float], read_interval: float = 0.0) -> None:
        """`read_interval`: seconds between two reads of all providers, which ask for all that may fail."""
        self._monotonic, self._quiet_seconds = monotonic_clock, max(QUIET_SECONDS, 2 * read_interval)
        self._lock = threading.Lock()
        self.answered_at: float | None = None
        """When placement answered last, by the monotonic clock; None: never."""
        self.trouble = ""
        """Why the last call failed; empty where it did not."""
        self._outage_began: float | None = None
        """When placement answered last before the first failure of an outage; None: there is no outage."""
        self._failed_at, self._recovered_at = 0.0, 0.0
        """The last failure, and the first answer after it."""

    @best_effort("health")
    def note_answer(self) -> None:
        """A call was answered."""
        with self._lock:
            now = self.answered_at = self._monotonic()
            self._recovered_at = now if self.trouble else self._recovered_at
            self.trouble = ""
            began = self._outage_began
            if began is None or now - self._failed_at < self._quiet_seconds:
                return
            self._outage_began = None
        LOG.info("placement answers again, after %.0f s", self._recovered_at - began)

    @best_effort("health")
    def note_failure(self, error: Exception) -> None:
        """A call failed: no answer, an error of placement's own, or no access."""
        with self._lock:
            self.trouble, self._failed_at = str(error), self._monotonic()
            if self._outage_began is not None:
                return
            self._outage_began = self._failed_at if self.answered_at is None else self.answered_at
        LOG.error("placement cannot be used, and is tried again: %s", error)


MICROVERSION = "1.36"
CONNECT_SECONDS, READ_SECONDS = 10.0, 60.0
"""How long to wait for a connection, and for the whole answer."""
ANSWER_LIMIT_BYTES = 256 * 1024 * 1024
"""Candidates of 1,000 hosts are about 1 MB."""

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_REQUEST_ID = re.compile(r"[\w-]{1,100}")
_NO_RETRIES = {"connect_retries": 0, "status_code_retries": 0}
"""For calls that write: a lost answer must not lead to a second write before it is known what the first did."""

Statistics = Callable[[str, str, int, float], None]
"""Called after each call with method, kind of path (uuids as {uuid}), status (0: no answer) and seconds."""
Item = TypeVar("Item")
Result = TypeVar("Result")


class _ThreadState(threading.local):
    seconds = 0.0


class PlacementClient:
    """Calls placement. May be shared by threads.

    `error_of_status` and `error_of_exception` say which errors a call may raise.
    """

    def __init__(
        self,
        adapter: Adapter,
        *,
        threads: int = CONNECTIONS,
        statistics: Statistics = lambda method, kind, status, seconds: None,
        clock: Callable[[], float] = time.monotonic,
        connect_seconds: float = CONNECT_SECONDS,
        read_seconds: float | None = None,
        answer_limit_bytes: int = ANSWER_LIMIT_BYTES,
        health: PlacementHealth | None = None,
    ) -> None:
        """`adapter`: from `make_adapter`. `threads`: calls that `map` makes at the same time.

        `read_seconds`: how long an answer may take; None: [placement] timeout, or 60. `health`: hears of the outcome
        of each call.
        """
        self._adapter, self._statistics, self._clock = adapter, statistics, clock
        self._read_seconds = read_seconds or getattr(adapter.session, "timeout", None) or READ_SECONDS
        self._connect_seconds = min(connect_seconds, self._read_seconds)
        self._answer_limit_bytes = answer_limit_bytes
        self._health = health
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="placement")
        self._state = _ThreadState()

    def get(self, path: str, query: Iterable[tuple[str, str]] = ()) -> dict[str, Any]:
        """The decoded answer of a GET. `query`: names and values. A connection that is lost is tried once more."""
        parameters = urlencode(sorted(query), safe=":,")
        url = f"{path}?{parameters}" if parameters else path
        try:
            return self._call("GET", url)
        except PlacementError as error:
            is_lost = isinstance(error.__cause__, exceptions.ConnectFailure)
            if not is_lost or isinstance(error.__cause__, exceptions.ConnectTimeout):
                raise
        return self._call("GET", url)

    def post(self, path: str, body: object) -> dict[str, Any]:
        """The decoded answer of a POST; empty where it has none."""
        return self._call("POST", path, body)

    def put(self, path: str, body: object) -> dict[str, Any]:
        """The decoded answer of a PUT; empty where it has none."""
        return self._call("PUT", path, body)

    def delete(self, path: str) -> None:
        """Delete what the path names; PlacementNotFound where it is not there."""
        self._call("DELETE", path)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """The function's result for each item, in parallel; the first error, where there is one.

        For functions that make calls. They must not use `map` themselves.
        """
        items = list(items)
        if len(items) < 2:
            return [function(each) for each in items]
        started = self._clock()
        try:
            # Each call in the context of this thread, which has the request id.
            contexts = [copy_context() for _ in items]
            return list(self._pool.map(lambda context, item: context.run(function, item), contexts, items))
        finally:
            self._state.seconds += self._clock() - started

    @property
    def seconds(self) -> float:
        """Seconds that the calling thread has waited for placement, in total; subtract to get a request's share."""
        return self._state.seconds

    def close(self) -> None:
        """End the threads of `map`; calls that are under way are finished first."""
        self._pool.shutdown()

    def _call(self, method: str, url: str, body: object = None) -> dict[str, Any]:
        try:
            answer = self._ask(method, url, body)
        except PlacementError as error:
            self._note_outcome(error)
            raise
        self._note_outcome()
        return answer

    def _note_outcome(self, error: PlacementError | None = None) -> None:
        """Tell the health whether placement has answered; a refusal such as 404 or 409 is an answer."""
        if self._health is None:
            return
        if isinstance(error, (PlacementUnavailable, PlacementRefused)):
            self._health.note_failure(error)
        else:
            self._health.note_answer()

    def _ask(self, method: str, url: str, body: object) -> dict[str, Any]:
        """The decoded answer; a PlacementError where it is no success. A token that expired is replaced once."""
        call = f"{method} {url.partition('?')[0]}"
        status, content = self._send(method, url, body)
        if status == 401:  # the token expired: nothing was executed
            self._adapter.invalidate()
            status, content = self._send(method, url, body)
        if not 200 <= status < 300:
            raise error_of_status(call, status, content)
        return self._decode(call, content)

    def _send(self, method: str, url: str, body: object) -> tuple[int, bytes]:
        """Status and content of an answer. PlacementError, with its cause, where there is none."""
        started, status = self._clock(), 0
        more: dict[str, Any] = {} if method == "GET" else dict(_NO_RETRIES)
        if body is not None:
            more["json"] = body
        try:
            response = self._adapter.request(
                url,
                method,
                headers=self._headers(),
                timeout=(self._connect_seconds, self._read_seconds),
                stream=True,  # so that its length can be limited
                raise_exc=False,
                allow_reauth=False,  # this class does it, whatever the plugin
                log=False,
                **more,
            )
            with response:
                status = response.status_code
                content = self._read_body(response, started + self._read_seconds)
            return status, content
        except (exceptions.ClientException, requests.RequestException, TimeoutError) as error:
            raise error_of_exception(f"{method} {url.partition('?')[0]}", error) from error
        finally:
            self._note(method, url, status, self._clock() - started)

    def _headers(self) -> dict[str, str]:
        headers = {"OpenStack-API-Version": f"placement {MICROVERSION}", "Accept": "application/json"}
        request_id = str(get_contextvars().get("request_id", ""))  # as in Roost's own log
        if _REQUEST_ID.fullmatch(request_id):
            headers["X-Openstack-Request-Id"] = request_id
        return headers

    def _read_body(self, response: requests.Response, deadline: float) -> bytes:
        body = bytearray()
        for chunk in response.iter_content(65536):
            body += chunk
            if len(body) > self._answer_limit_bytes:
                raise PlacementError(
                    f"{response.request.method}: the answer exceeds {self._answer_limit_bytes} bytes"
                )
            if self._clock() > deadline:
                raise TimeoutError
        return bytes(body)

    def _decode(self, call: str, content: bytes) -> dict[str, Any]:
        if not content:
            return {}
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise PlacementError(f"{call}: the answer is no JSON object", "is it placement that answers there?")
        return answer

    def _note(self, method: str, url: str, status: int, seconds: float) -> None:
        self._state.seconds += seconds
        self._statistics(method, _UUID.sub("{uuid}", url.partition("?")[0]), status, seconds)


def quoted(uuid: str) -> str:
    """A uuid, or any other text, as a part of a path."""
    return quote(uuid, safe="")


PLACEMENT = KeystoneSection(
    "placement", "placement", ("internal", "public"), "write there what nova-scheduler's nova.conf has"
)
"""With nova's defaults."""
describe_placement = PLACEMENT.describe


def make_adapter(files: Sequence[Path], callers: int = 1) -> Adapter:
    """An HTTP session for placement; OptionError where [placement] of these config files is wrong.

    `callers`: threads that may call at the same time, besides those of `PlacementClient.map`.
    """
    return PLACEMENT.make_adapter(files, callers + CONNECTIONS)
