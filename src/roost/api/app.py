# SPDX-License-Identifier: Apache-2.0
"""The application, built from the table of URLs in `routes.py`.

A request passes `edge.py` (limits, versions), `admission.py` (token, rule), then its handler, which parses, calls
and answers. Errors become answers in `problems.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from roost.api import versions
from roost.api.call import ApiParts, answer
from roost.api.edge import Edge, Exchange
from roost.api.problems import Problem, body_of, problem_of, text_of_invalid
from roost.api.routes import ROUTES
from roost.api.routing import Route, add_routes
from roost.errors import RoostError
from roost.observe.metrics import Metrics


def build_app(parts: ApiParts, metrics: Metrics, routes: Sequence[Route] = ROUTES) -> Edge:
    """The application with its middleware, for an ASGI server."""
    app = FastAPI(title="Roost", version="1", docs_url=None, redoc_url=None, openapi_url="/openapi.json")
    app.state.parts = parts
    add_routes(app, routes)
    app.add_exception_handler(RoostError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_unrouted)
    collections = {route.path.split("/")[2] for route in routes if route.path.startswith("/v2.1/")}
    return Edge(app, parts.options, collections, parts.clock, metrics)


def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RoostError)  # noqa: S101 - for mypy
    return _answer(request, problem_of(error))


def _answer_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - for mypy
    return _answer(request, Problem(400, text_of_invalid(error.errors())))


def _answer_unrouted(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - for mypy
    texts = {404: "The resource could not be found.", 405: "The method is not allowed for this resource."}
    return _answer(
        request, Problem(error.status_code, texts.get(error.status_code, error.detail), error.headers or {})
    )


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
