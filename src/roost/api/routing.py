# SPDX-License-Identifier: Apache-2.0
"""Routes: one line per URL and method, with the rule of policy that it needs and the microversions that have it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from fastapi import Depends, FastAPI, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from roost.api.call import Admission, QueryCheck, check_form
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
    strict_since: Microversion | None = None
    """Since when a query is refused with keys that are not known here, or twice with one that has one value; None:
    they are ignored, as nova does.
    """

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of its policy rules, one of which must allow a request; empty: public."""
        return (self.rule,) if isinstance(self.rule, str) else self.rule or ()


def add_routes(app: FastAPI, routes: Iterable[Route]) -> None:
    """Add all routes, in their order: the first one that matches answers."""
    for route in routes:
        admission = Admission(route.rules, route.oldest, route.newest, route.takes_unscoped)
        app.add_api_route(
            route.path,
            route.handler,
            methods=[route.method],
            status_code=route.status,
            response_model=None,
            response_class=JSONResponse if route.media else Response,
            dependencies=[Depends(admission if route.rules else check_form)],
            name=route.handler.__name__,
            operation_id=f"{route.method.lower()} {route.path}",
            tags=[_tag_of(route.path)],
            responses=_responses_of(route),
            openapi_extra={"security": [{"token": []}] if route.rule else []},
        )
        if route.strict_since:
            added: Any = app.router.routes[-1]
            admission.query_check = QueryCheck(_query_keys(added.dependant.query_params), route.strict_since)


def _query_keys(fields: Iterable[Any]) -> dict[str, bool]:
    """Key of a query -> whether it may be given several times. `fields`: as FastAPI has read them off a handler."""
    found: dict[str, bool] = {}
    for each in fields:
        kind = each.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found |= {info.alias or name: _is_list(info.annotation) for name, info in kind.model_fields.items()}
        else:
            found[each.alias] = _is_list(kind)
    return found


def _is_list(kind: Any) -> bool:
    return get_origin(kind) is list or any(get_origin(each) is list for each in get_args(kind))


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
