# SPDX-License-Identifier: Apache-2.0
"""Every key that the Compute API or Roost's own takes is read by code, or is listed here with the reason (D29)."""

import ast
from pathlib import Path
from typing import get_args

import pytest
from fastapi import FastAPI
from pydantic import BaseModel, RootModel

import roost.api
from roost.api.compute.server_actions import ACTIONS
from roost.api.routes import FLAVORS, FLEET, OWN, SERVERS
from roost.api.routing import add_routes

API = Path(roost.api.__file__).parent
WITHOUT_EFFECT = {
    "LiveMigrate.block_migration": "no disks are copied or shared",
    "NewServer.block_device_mapping": "only an empty list is taken",
    "ServerQuery.not_tags": "no server has tags, so all match",
    "ServerQuery.not_tags_any": "no server has tags, so all match",
    "ServerQuery.soft_deleted": "no server is deleted softly",
    "server_groups.show_limits.reserved": "nothing is reserved",
}
"""Model or handler and field -> why nothing reads it."""
PASSED_ON = {"HostChanges", "PlannedServer", "Rules", "SchedulerHints"}
"""Models that handlers pass on as a whole; what is not known there is refused there."""


def models_of(kind):
    """The models within a type, with those of their fields."""
    found = set()
    waiting = [kind]
    while waiting:
        each = waiting.pop()
        if isinstance(each, type) and issubclass(each, BaseModel):
            if each not in found:
                found.add(each)
                waiting += [field.annotation for field in each.model_fields.values()]
        else:
            waiting += get_args(each)
    return found


def handled():
    """Pairs of a route and what FastAPI has read off its handler."""
    app = FastAPI()
    routes = (*SERVERS, *FLAVORS, *FLEET, *OWN)
    add_routes(app, routes)
    return [(route, added.dependant) for route, added in zip(routes, app.router.routes[-len(routes) :], strict=True)]


HANDLED = handled()
BODIES = {
    model
    for kind in (
        *(action.body for action in ACTIONS.values()),
        *(field.field_info.annotation for _, dependant in HANDLED for field in dependant.body_params),
    )
    for model in models_of(kind)
}
MODELS = BODIES | {
    model
    for _, dependant in HANDLED
    for field in dependant.query_params
    for model in models_of(field.field_info.annotation)
}


def accepted():
    """Model or handler and field -> the module that declares it, and the name to look for."""
    found = {}
    for model in (each for each in MODELS if not issubclass(each, RootModel)):
        found |= {f"{model.__name__}.{name}": (owner_of(model, name).__module__, name) for name in model.model_fields}
    for route, dependant in HANDLED:
        module = route.handler.__module__
        for field in dependant.query_params:
            if not models_of(field.field_info.annotation):
                owner = f"{module.rpartition('.')[2]}.{route.handler.__name__}"
                found[f"{owner}.{field.name}"] = module, field.name
    return found


def owner_of(model, name):
    """The class that declares a field of a model."""
    return next(each for each in model.__mro__ if name in vars(each).get("__annotations__", ()))


def names_read(path):
    """Attributes, variables and texts in a module, but for those that declare something."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def imports_of(path):
    """The modules that a module imports from."""
    return {node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}


@pytest.fixture(scope="module")
def read_by():
    """Module -> names that are read there, in a module that imports from it, or in one that it imports from."""
    paths = {
        ".".join(("roost.api", *path.relative_to(API).with_suffix("").parts)): path for path in API.rglob("*.py")
    }
    names = {module: names_read(path) for module, path in paths.items()}
    imports = {module: imports_of(path) & paths.keys() for module, path in paths.items()}
    users = {module: {each for each in paths if module in imports[each]} for module in paths}
    near = {module: {module, *imports[module], *users[module]} for module in paths}
    return {module: set().union(*(names[each] for each in near[module])) for module in paths}


def test_every_field_is_read_or_listed(read_by):
    fields = accepted()
    assert len(fields) > 200
    unread = {field for field, (module, name) in fields.items() if name not in read_by[module]}
    assert {each for each in unread if each.partition(".")[0] not in PASSED_ON} == WITHOUT_EFFECT.keys()


def test_models_that_are_passed_on_are_dumped_as_a_whole():
    for name in PASSED_ON:
        (model,) = (each for each in MODELS if each.__name__ == name)
        users = [text for path in API.rglob("*.py") if name in (text := path.read_text())]
        assert any("model_dump(" in text for text in users), model


def test_no_body_drops_keys_that_it_does_not_know():
    """Unknown keys are refused, but for hints, which are for filters of the operator's own."""
    lenient = {model.__name__ for model in BODIES if model.model_config.get("extra") != "forbid"}
    assert lenient == {"ActionRequest", "OneExtraSpec", "SchedulerHints"}
