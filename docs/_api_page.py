# SPDX-License-Identifier: Apache-2.0
"""Generates the reference page of the API from the table of its URLs."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable
from typing import Any, get_type_hints

from docs._markdown import code, join, page, summary, table
from fastapi.params import Query
from pydantic import BaseModel

from roost.api.microversions import NEWEST, OLDEST
from roost.api.routes import ROUTES
from roost.api.routing import Route

SECTIONS = {
    "/v2.1": "Compute",
    "/identity": "Identity",
    "/image": "Images",
    "/roost": "Roost's own",
}
"""Start of a path -> the title of the section that has it; other paths are in the first section."""


def api_page() -> str:
    return page(
        "The API",
        "Every URL of `roost service api`, on one port. `/openapi.json` describes all of it for programs, with the "
        "forms of the bodies. Rules say who may call what: [users and rights](../../how-to/users-and-rights.md) "
        "tells how to change them, `roost policy sample` prints their defaults. "
        "[Use the API](../../how-to/use-the-api.md) shows a session.",
        join("## Versions and health of the API", route_table(routes_of(None))),
        *(
            join(f"## {title}", route_table(routes_of(start)), *details(routes_of(start)))
            for start, title in SECTIONS.items()
        ),
    )


def routes_of(start: str | None) -> list[Route]:
    """The routes whose path begins so; None: those of no section, and those that say which versions there are."""
    found = {each: next((key for key in SECTIONS if each.path.startswith(f"{key}/")), None) for each in ROUTES}
    return [each for each, key in found.items() if key == start]


def route_table(routes: Iterable[Route]) -> str:
    return table(
        ("request", "what it does", "rule", "microversions"),
        [
            (code(f"{each.method} {each.path}"), summary(each.handler), rule_of(each), versions_of(each))
            for each in routes
        ],
    )


def rule_of(route: Route) -> str:
    return ", ".join(map(code, route.rules)) or "public"


def versions_of(route: Route) -> str:
    if route.oldest == OLDEST and route.newest == NEWEST:
        return "all" if route.path.startswith("/v2.1/") else "-"
    return f"{route.oldest} to {route.newest}"


def details(routes: Iterable[Route]) -> Iterable[str]:
    """A section for each route whose answer has a form: its parameters, and an example."""
    for each in routes:
        if each.form is not None:
            parameters = parameter_table(each)
            yield join(
                f"### {each.method} {each.path}",
                inspect.getdoc(each.handler) or "",
                parameters,
                inspect.getdoc(each.form) or "",
                f"```json\n{json.dumps(example_of(each.form), indent=2)}\n```",
            )


def parameter_table(route: Route) -> str:
    """The parameters of the query with their meanings; empty where there are none."""
    hints = get_type_hints(route.handler, include_extras=True)
    found = []
    for name, parameter in inspect.signature(route.handler).parameters.items():
        query = next((each for each in getattr(hints[name], "__metadata__", ()) if isinstance(each, Query)), None)
        if query is not None:
            default = "" if parameter.default is None else code(str(parameter.default).lower())
            found.append((code(name), query.description or "", default or "-"))
    return table(("parameter", "meaning", "default"), found) if found else ""


def example_of(form: type[BaseModel]) -> Any:
    extra = form.model_config["json_schema_extra"]
    assert isinstance(extra, dict)
    return extra["examples"][0]
