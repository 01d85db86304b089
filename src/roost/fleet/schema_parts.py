# SPDX-License-Identifier: Apache-2.0
"""Pieces of the published JSON schema: what goes for a record is read from its dataclass."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, get_type_hints

from roost.fleet.field_parsers import COUNTERS, LARGEST_RATIO, METRIC_FIELDS
from roost.hosts import Instance, Inventory
from roost.model import Aggregate, Service, checks
from roost.model.group import POLICIES
from roost.model.resources import STANDARD_CLASSES

Schema = dict[str, Any]

AMOUNT: Schema = {"type": "integer", "minimum": 0, "maximum": checks.MOST}
AT_LEAST_ONE: Schema = {**AMOUNT, "minimum": 1}
RATIO: Schema = {"type": "number", "minimum": 0, "maximum": LARGEST_RATIO}
TEXT: Schema = {"type": "string", "minLength": 1}
NAMES: Schema = {"type": ["array", "string"], "items": TEXT}
SCALARS: Schema = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
RESOURCE_CLASS = f"^({'|'.join(sorted(STANDARD_CLASSES))}|CUSTOM_[A-Z0-9_]+)$"

_BY_TYPE: dict[Any, Schema] = {
    int: AMOUNT,
    int | None: {**AMOUNT, "type": ["integer", "null"]},
    float | None: {"type": ["number", "null"]},
    str: {"type": "string"},
    str | None: {"type": ["string", "null"]},
    bool: {"type": "boolean"},
    bool | None: {"type": ["boolean", "null"]},
    tuple[str, ...]: NAMES,
    Mapping[str, str]: SCALARS,
    Any: {"type": ["string", "integer", "null"]},
}
_BY_NAME: dict[str, Schema] = {
    "policy": {"enum": [*POLICIES, None]},
    "properties": {"type": "object"},
    "rules": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"max_server_per_host": {"type": ["integer", "string"], "minimum": 1, "pattern": "^[0-9]+$"}},
    },
    "resources": {"type": "object", "patternProperties": {RESOURCE_CLASS: AMOUNT}, "additionalProperties": False},
    "allocation_ratio": RATIO,
    "min_unit": AT_LEAST_ONE,
    "max_unit": {**AT_LEAST_ONE, "type": ["integer", "null"]},
    "step_size": AT_LEAST_ONE,
}


def record_schema(kind: type, **changes: Schema) -> Schema:
    """An object with the fields of this dataclass, those without a default required, and no others."""
    hints = get_type_hints(kind)
    properties = {}
    required = []
    for field in dataclasses.fields(kind):
        usual = _BY_NAME.get(field.name) or _BY_TYPE[hints[field.name]]
        properties[field.name] = changes.get(field.name, usual)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            required.append(field.name)
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


def list_of(items: Schema, *, or_null: bool = False) -> Schema:
    """An array of such items."""
    return {"type": ["array", "null"] if or_null else "array", "items": items}


def closed(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    """An object with these properties and no others."""
    return {"type": "object", "additionalProperties": False, "required": [*required], "properties": properties}


def _page_pool() -> Schema:
    return closed(("size_kb", "total"), size_kb=AT_LEAST_ONE, total=AMOUNT, used=AMOUNT, reserved=AMOUNT)


def _numa_cell() -> Schema:
    cpus = list_of(AMOUNT, or_null=True)
    return closed(
        ("id", "memory"),
        id=AMOUNT,
        memory=AMOUNT,
        cpuset=cpus,
        pcpuset=cpus,
        pinned_cpus=cpus,
        cpu_usage=AMOUNT,
        memory_usage=AMOUNT,
        siblings=list_of(cpus, or_null=True),
        mempages=list_of(_page_pool(), or_null=True),
        socket={**AMOUNT, "type": ["integer", "null"]},
        physnets={**NAMES, "type": ["array", "string", "null"]},
        tunneled={"type": ["boolean", "null"]},
    )


_COUNTER: Schema = {"type": ["integer", "string"], "minimum": 0, "pattern": r"^\s*\+?[0-9]{1,15}\s*$"}

TRIPLES = list_of({"type": "array", "items": TEXT, "minItems": 3, "maxItems": 3})
STATS: Schema = {"type": "object", "properties": dict.fromkeys(COUNTERS, _COUNTER)}
METRICS = list_of(
    closed(("name", "value"), **{key: {} for key in METRIC_FIELDS} | {"name": TEXT, "value": {"type": "number"}}),
    or_null=True,
)
SERVICE = record_schema(Service)
AGGREGATE = record_schema(Aggregate, name=TEXT)
INSTANCES = list_of({"anyOf": [TEXT, record_schema(Instance, uuid=TEXT)]})
TRAITS: Schema = {**NAMES, "items": {"type": "string", "pattern": "^[A-Z0-9_]+$"}}
RESOURCES: Schema = {
    "type": "object",
    "patternProperties": {RESOURCE_CLASS: record_schema(Inventory)},
    "additionalProperties": False,
}
PCI_POOLS = list_of(
    {
        "type": "object",
        "required": ["vendor_id", "product_id", "count"],
        "properties": {"count": AMOUNT, "numa_node": {"type": ["integer", "null"], "minimum": -1}},
    },
    or_null=True,
)
NUMA: Schema = {**closed(("cells",), cells=list_of(_numa_cell())), "type": ["object", "null"]}
CANDIDATES = list_of({"type": "object", "properties": {"mappings": {"type": "object"}}})
