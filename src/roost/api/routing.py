# SPDX-License-Identifier: Apache-2.0
"""Routes: one line per URL and method, with the rule of policy that it needs and the microversions that have it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fastapi import Depends, FastAPI, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from roost.api.admission import Admission, check_form
from roost.api.microversions import NEWEST, OLDEST, Microversion

_PROBLEM = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": {
        "type": "object",
        "required": ["code", "message"],
        "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
    },
}
_STATUSES = (400, 401, 403, 404, 405, 406, 408, 409, 413, 414, 415, 429, 500, 503)


@dataclass(frozen=True)
class Route:
    """What answers a method of a URL."""

    method: str
    path: str
    handler: Callable[..., Any]
    rule: str | tuple[str, ...] | None
    """Name of the policy rule; several: of the actions that the body may name; None: public."""
    status: int = 200
    key: str = ""
    """The key of the answer's object; empty: the answer has no body, or none of this form."""
    form: type[BaseModel] | None = None
    """The form of the answer, for OpenAPI."""
    media: str = "application/json"
    """The media type of the answer; empty: it has no body."""
    other_statuses: tuple[int, ...] = ()
    """Further statuses of success, where the body of the request decides."""
    oldest: Microversion = OLDEST
    newest: Microversion = NEWEST
    takes_unscoped: bool = False
    """Whether a token for no project will do: for what leads to one of a project."""

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of its policy rules, one of which must allow a request; empty: public."""
        return (self.rule,) if isinstance(self.rule, str) else self.rule or ()


def add_routes(app: FastAPI, routes: Iterable[Route]) -> None:
    """Add all routes, in their order: the first one that matches answers."""
    for route in routes:
        app.add_api_route(
            route.path,
            route.handler,
            methods=[route.method],
            status_code=route.status,
            response_model=None,
            response_class=JSONResponse if route.media else Response,
            dependencies=[Depends(_admission(route) if route.rules else check_form)],
            name=route.handler.__name__,
            operation_id=f"{route.method.lower()} {route.path}",
            tags=[_tag_of(route.path)],
            responses=_responses_of(route),
            openapi_extra={"security": [{"token": []}] if route.rule else []},
        )


def _admission(route: Route) -> Admission:
    return Admission(route.rules, route.oldest, route.newest, route.takes_unscoped)


def _tag_of(path: str) -> str:
    return path.split("/")[1] or "versions"


def _responses_of(route: Route) -> dict[int | str, dict[str, Any]]:
    """The answers of a route for OpenAPI: its own, and those for errors."""
    own: dict[str, Any] = {"description": "Done" if route.status != 202 else "Begun"}
    if route.form:
        own["model"] = route.form
    elif route.media and route.media != "application/json":
        own["content"] = {route.media: {}}
    elif route.key:
        schema = {"type": "object", "required": [route.key]}
        own["content"] = {"application/json": {"schema": schema}}
    problem = {"description": "Refused", "content": {"application/json": {"schema": _PROBLEM}}}
    statuses = _STATUSES if route.rule else [each for each in _STATUSES if each not in (403, 409)]
    others: dict[int | str, dict[str, Any]] = {key: {"description": "Done"} for key in route.other_statuses}
    return {route.status: own, **others, **dict.fromkeys(statuses, problem)}
