# SPDX-License-Identifier: Apache-2.0
"""The published JSON schema of a fleet file, made from the tables that check it."""

from __future__ import annotations

from typing import Any

from roost.fleet.fields import HOST_FIELDS
from roost.fleet.schema_parts import AGGREGATE, Schema, list_of, record_schema
from roost.model import Flavor, Image, ServerGroup


def fleet_schema() -> Schema:
    """JSON Schema (draft 2020-12) of a fleet file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Roost fleet file",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "hosts": list_of(_host_schema(), or_null=True),
            "aggregates": list_of(AGGREGATE, or_null=True),
            "flavors": list_of(record_schema(Flavor), or_null=True),
            "images": list_of(record_schema(Image), or_null=True),
            "server_groups": list_of(record_schema(ServerGroup), or_null=True),
            "options": {"type": ["object", "null"], "additionalProperties": {"type": "object"}},
        },
    }


def _host_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["host"],
        "additionalProperties": False,
        "properties": {name: {**field.schema, "description": field.meaning} for name, field in HOST_FIELDS.items()},
    }
