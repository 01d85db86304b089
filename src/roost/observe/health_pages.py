# SPDX-License-Identifier: Apache-2.0
"""What a service answers over HTTP: is it alive (/healthz), does it take requests (/readyz), /metrics."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

from roost.observe.exposition import CONTENT_TYPE

LOG = logging.getLogger(__name__)
JSON_TYPE = "application/json"


class Readiness(NamedTuple):
    """Whether the service takes requests; if not, the reasons why."""

    is_ready: bool
    reasons: tuple[str, ...] = ()


class MetricsSource(Protocol):
    """Metrics of one process (`Metrics`) or of several (`WorkerMetrics`)."""

    def service_is(self, ready: bool) -> None:
        """Set the gauge that repeats what /readyz answers."""

    def render(self) -> bytes:
        """All metrics in Prometheus's text format."""


class HttpAnswer(NamedTuple):
    """Status, body and content type of an answer."""

    status: HTTPStatus
    body: bytes
    content_type: str = JSON_TYPE


def json_answer(status: HTTPStatus, **values: Any) -> HttpAnswer:
    """An answer whose body is a JSON object with these values, and a line end."""
    return HttpAnswer(status, json.dumps(values).encode() + b"\n")


class HealthPages:
    """The pages by their paths."""

    def __init__(
        self, readiness: Callable[[], Readiness], metrics: MetricsSource, is_alive: Callable[[], bool]
    ) -> None:
        self._readiness, self._metrics, self._is_alive = readiness, metrics, is_alive
        self._pages = {"/healthz": self._alive, "/readyz": self._ready, "/metrics": self._exposition}

    def answer(self, path: str) -> HttpAnswer:
        """The page at this path, whatever its query. An exception becomes status 500 and a record in the log."""
        page = self._pages.get(path.partition("?")[0])
        if page is None:
            return json_answer(HTTPStatus.NOT_FOUND, error="there is no such page", pages=list(self._pages))
        try:
            return page()
        except Exception as error:
            LOG.exception("health: %s cannot be answered", path)
            return json_answer(HTTPStatus.INTERNAL_SERVER_ERROR, error=f"{type(error).__name__}; the log says more")

    def _alive(self) -> HttpAnswer:
        """503 where this process answers here and hangs elsewhere: it should be restarted."""
        is_alive = self._is_alive()
        return json_answer(HTTPStatus.OK if is_alive else HTTPStatus.SERVICE_UNAVAILABLE, alive=is_alive)

    def _ready(self) -> HttpAnswer:
        """503 with reasons keeps load balancers away until the service takes requests."""
        state = self._state()
        status = HTTPStatus.OK if state.is_ready else HTTPStatus.SERVICE_UNAVAILABLE
        return json_answer(status, ready=state.is_ready, reasons=list(state.reasons))

    def _exposition(self) -> HttpAnswer:
        self._metrics.service_is(self._state().is_ready)
        return HttpAnswer(HTTPStatus.OK, self._metrics.render(), CONTENT_TYPE)

    def _state(self) -> Readiness:
        try:
            return self._readiness()
        except Exception as error:
            LOG.exception("health: whether the service is ready cannot be told")
            return Readiness(False, (f"it cannot be told: {type(error).__name__}; the log says more",))
