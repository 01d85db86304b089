# SPDX-License-Identifier: Apache-2.0
"""The published JSON schema of a fleet file, generated from the kinds that parse it."""

from __future__ import annotations

from roost.fleet.fields import HOST
from roost.fleet.sections import AGGREGATES, NAMED, OPTIONS
from roost.model.fields import ListOf
from roost.model.kinds import OrNull, Schema


def fleet_schema() -> Schema:
    """JSON Schema (draft 2020-12) of a fleet file."""
    sections = {"hosts": OrNull(ListOf(HOST)), "aggregates": AGGREGATES, **NAMED, "options": OPTIONS}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Roost fleet file",
        "type": "object",
        "additionalProperties": False,
        "properties": {name: kind.schema for name, kind in sections.items()},
    }
