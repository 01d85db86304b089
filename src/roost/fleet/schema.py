# SPDX-License-Identifier: Apache-2.0
"""The published JSON schema of a fleet file, made from the tables that check it."""

from __future__ import annotations

import dataclasses
from typing import Any, get_type_hints

from roost.fleet.fields import HOST_FIELDS
from roost.model import Aggregate, Flavor, Image, ServerGroup
from roost.model.group import POLICIES

_TYPES: dict[Any, dict[str, Any]] = {
    int: {"type": "integer", "minimum": 0},
    str: {"type": "string"},
    bool: {"type": "boolean"},
}
_SPECIAL: dict[str, dict[str, Any]] = {
    "policy": {"enum": [*POLICIES, None]},
    "hosts": {"type": "array", "items": {"type": "string"}},
    "members": {"type": "array", "items": {"type": "string"}},
    "metadata": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
    "extra_specs": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
    "properties": {"type": "object"},
    "rules": {"type": "object", "properties": {"max_server_per_host": {"type": ["integer", "string"]}}},
}


def fleet_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a fleet file."""
    host = {
        "type": "object",
        "required": ["host"],
        "additionalProperties": False,
        "properties": {name: {**field.schema, "description": field.meaning} for name, field in HOST_FIELDS.items()},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Roost fleet file",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "hosts": {"type": ["array", "null"], "items": host},
            "aggregates": _list_of(Aggregate),
            "flavors": _list_of(Flavor),
            "images": _list_of(Image),
            "server_groups": _list_of(ServerGroup),
            "options": {"type": "object", "additionalProperties": {"type": "object"}},
        },
    }


def _list_of(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    properties = {}
    required = []
    for field in dataclasses.fields(kind):
        properties[field.name] = _SPECIAL.get(field.name) or _TYPES.get(hints[field.name], {})
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            required.append(field.name)
    entry = {"type": "object", "additionalProperties": False, "required": required, "properties": properties}
    return {"type": ["array", "null"], "items": entry}
