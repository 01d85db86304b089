# SPDX-License-Identifier: Apache-2.0
"""Kinds of structured values that an agent reports for its host: stats, metrics, instances, migrations, CPU."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from roost.errors import FieldError
from roost.hosts import Instance, MigrationHolding
from roost.hosts.instances import FILE_FIELDS
from roost.hosts.record import PERCENTAGES
from roost.model.fields import (
    AMOUNT,
    MAPPING,
    NUMBER,
    PLAIN_DATA,
    PLAIN_MAPPING,
    TEXT,
    ListOf,
    MappingOf,
    Names,
    Record,
    refuse_unknown,
)
from roost.model.kinds import Kind, Schema
from roost.model.resources import RESOURCE_CLASS
from roost.model.uuids import canonical_uuid

_LIST_REMEDY = "write [ ... ] or - entries"


def _check_triple(names: list[str]) -> None:
    if len(names) != 3:
        raise FieldError("", f"{names} is no triple", "write [arch, hypervisor, mode]")


class Triple(Names):
    """A list of architecture, hypervisor type and VM mode."""

    @property
    def schema(self) -> Schema:
        """An array of three strings."""
        return {"type": "array", "items": TEXT.schema, "minItems": 3, "maxItems": 3}


class Stats(Kind[Mapping[str, Any]]):
    """Free-form statistics. Three counters are used by filters and weighers: amounts, or amounts as text."""

    _counters = ("num_instances", "io_workload", "failed_builds")
    _digits = re.compile(r"\s*\+?[0-9]{1,15}\s*")

    def strict(self, value: Any, field: str) -> Mapping[str, Any]:
        """A read-only mapping; the values are unchanged."""
        stats: Mapping[str, Any] = PLAIN_MAPPING.strict(value, field)
        for name in self._counters:
            raw = stats.get(name, 0)
            if not (isinstance(raw, str) and self._digits.fullmatch(raw)):
                AMOUNT.strict(raw, f"{field}.{name}")
        return stats

    @property
    def schema(self) -> Schema:
        """An object whose counters are restricted to amounts."""
        counter = {"type": ["integer", "string"], "minimum": 0, "pattern": f"^{self._digits.pattern}$"}
        return {"type": "object", "properties": dict.fromkeys(self._counters, counter)}


class FreeRecords(Kind[tuple[Mapping[str, Any], ...]]):
    """A list of free-form mappings, such as allocation candidates with their `mappings`."""

    mismatch = "is not a list"
    remedy = _LIST_REMEDY

    def strict(self, value: Any, field: str) -> tuple[Mapping[str, Any], ...]:
        """Read-only mappings; their values are unchanged."""
        if not isinstance(value, (list, tuple)):
            raise self.refusal(value, field)
        PLAIN_DATA.strict(value, field)
        return tuple(MAPPING.strict(each, f"{field}[{at}]") for at, each in enumerate(value))

    @property
    def schema(self) -> Schema:
        """An array of objects."""
        return {"type": "array", "items": {"type": "object", "properties": {"mappings": MAPPING.schema}}}


class MetricList(FreeRecords):
    """Metrics: a list of {name, value, source, timestamp}. Fractions of PERCENTAGES become whole percentages."""

    _fields = ("name", "value", "source", "timestamp")

    def strict(self, value: Any, field: str) -> tuple[Mapping[str, Any], ...]:
        """Mappings with a name and a number."""
        metrics = super().strict(value, field)
        for at, each in enumerate(metrics):
            refuse_unknown(each, self._fields, f"{field}[{at}]")
            TEXT.strict(each.get("name"), f"{field}[{at}].name")
            NUMBER.strict(each.get("value"), f"{field}[{at}].value")
        return tuple(_with_percentage(each) for each in metrics)

    @property
    def schema(self) -> Schema:
        """An array of objects with a name and a value."""
        properties: Schema = {**{name: {} for name in self._fields}, "name": TEXT.schema, "value": NUMBER.schema}
        entry = {"type": "object", "additionalProperties": False, "required": ["name", "value"]}
        return {"type": "array", "items": {**entry, "properties": properties}}


def _with_percentage(metric: Mapping[str, Any]) -> Mapping[str, Any]:
    is_percentage = metric["name"] in PERCENTAGES
    return {**metric, "value": int(metric["value"] * 100)} if is_percentage else metric


class CpuInfo(Kind[str | Mapping[str, Any] | None]):
    """The CPU description: JSON text as agents report it, the mapping in such a text, or null."""

    def strict(self, value: Any, field: str) -> str | Mapping[str, Any] | None:
        """The text, a read-only mapping, or None."""
        if value is None or isinstance(value, str):
            return value
        found: Mapping[str, Any] = PLAIN_MAPPING.strict(value, field)
        return found

    @property
    def schema(self) -> Schema:
        """An object, a string or null."""
        return {"type": ["object", "string", "null"]}


class _InstanceEntry(Kind[Instance]):
    """An instance on the host: its uuid, or a mapping of its fields."""

    _record = Record(Instance, FILE_FIELDS)

    def strict(self, value: Any, field: str) -> Instance:
        """The instance; the id of a flavor that is given with it is its `flavor_id`."""
        if isinstance(value, str) and value:
            return Instance(canonical_uuid(value))
        found = self._record.strict(value, field)
        if found.flavor is None:
            return found
        flavor_id = found.flavor.id if found.flavor_id is None else found.flavor_id
        return replace(found, flavor_id=flavor_id, flavor=replace(found.flavor, id=flavor_id))

    @property
    def schema(self) -> Schema:
        """A string or an object."""
        return {"anyOf": [TEXT.schema, self._record.schema]}


TRIPLES = ListOf(Triple(rule=_check_triple), remedy=_LIST_REMEDY)
INSTANCES = ListOf(_InstanceEntry(), remedy=_LIST_REMEDY)
MIGRATIONS = ListOf(Record(MigrationHolding), remedy=_LIST_REMEDY)
ALLOCATIONS = MappingOf(AMOUNT, key=RESOURCE_CLASS)
