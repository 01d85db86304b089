# SPDX-License-Identifier: Apache-2.0
"""The application, built from the table of URLs in `routes.py`.

A request passes `edge.py` (limits, versions), `Admission` in `call.py` (token, rule), then its handler, which parses,
calls and answers. Errors become answers in `problems.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.routing import Match

from roost.api import versions
from roost.api.call import TOKEN_HEADER, ApiParts, answer
from roost.api.edge import Edge, Exchange, Refusal
from roost.api.problems import Problem, body_of, problem_of, text_of_invalid
from roost.api.roost.events import EventFeed, EventLog
from roost.api.routes import ROUTES
from roost.api.routing import Route, add_routes
from roost.errors import RoostError
from roost.records.decisions import DecisionStore
from roost.services.metrics import Metrics

DESCRIPTION = (
    "Compute v2.1 with microversions, Identity v3 and Image v2 as far as their clients need them; under /roost/v1 "
    "what no other API has: decisions with their reasons, plans, capacity. Microversions are asked for by the header "
    "OpenStack-API-Version: compute 2.N."
)


def build_app(parts: ApiParts, metrics: Metrics, routes: Sequence[Route] = ROUTES) -> Edge:
    """The application with its middleware, for an ASGI server."""
    app = FastAPI(title="Roost", version="1", docs_url=None, redoc_url=None, openapi_url="/openapi.json")
    app.state.parts = parts
    app.state.event_log = EventLog(parts.engine, DecisionStore(parts.engine, parts.servers.times))
    app.state.events = EventFeed(app.state.event_log, parts.clock)
    add_routes(app, routes)
    app.add_exception_handler(RoostError, _answer_error)
    app.add_exception_handler(Refusal, _answer_refusal)
    app.add_exception_handler(Exception, _answer_failure)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_unrouted)
    app.openapi = lambda: _publish(app)  # type: ignore[method-assign] # FastAPI's own way to change the document
    collections = {route.path.split("/")[2] for route in routes if route.path.startswith("/v2.1/")}
    return Edge(app, parts.options, collections, parts.clock, metrics)


def _publish(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of all routes; made at the first request, and kept."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes)
        token = {"type": "apiKey", "in": "header", "name": TOKEN_HEADER}
        document.setdefault("components", {})["securitySchemes"] = {"token": token}
        app.openapi_schema = document
    return app.openapi_schema


def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RoostError)  # noqa: S101 - for mypy
    return _answer(request, problem_of(error))


def _answer_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)  # noqa: S101 - for mypy
    return _answer(request, error.problem)


def _answer_failure(request: Request, error: Exception) -> Response:
    """The answer for a defect; the middleware logs it."""
    exchange: Exchange = request.state.exchange
    return _answer(request, Problem(500, f"Unexpected error; the log has it under {exchange.request_id}."))


def _answer_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - for mypy
    return _answer(request, Problem(400, text_of_invalid(error.errors())))


def _answer_unrouted(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - for mypy
    if error.status_code == 405:
        allowed = {"Allow": ", ".join(_allowed_methods(request))}
        return _answer(request, Problem(405, "The method is not allowed for this resource.", allowed))
    text = "The resource could not be found." if error.status_code == 404 else error.detail
    return _answer(request, Problem(error.status_code, text, error.headers or {}))


def _allowed_methods(request: Request) -> list[str]:
    """The methods that the address of a request has; each is a route of its own."""
    routes = [each for each in request.app.routes if each.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for each in routes for method in each.methods})


def _answer(request: Request, problem: Problem) -> Response:
    exchange: Exchange = request.state.exchange
    exchange.about["refused"] = problem.message[:200]
    headers = dict(problem.headers)
    if problem.status == 401:
        headers["WWW-Authenticate"] = _challenge(request)
    return answer(body_of(request.url.path, problem), problem.status, headers)


def _challenge(request: Request) -> str:
    parts: ApiParts = request.app.state.parts
    address = parts.authenticator.sign_in_address or f"{versions.base_of(request)}/identity"
    return f'Keystone uri="{address}"'
