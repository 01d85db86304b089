# SPDX-License-Identifier: Apache-2.0
"""The fields of a fleet file: the tables behind the parser, the published JSON schema and the reference page.

SECTIONS has the kind of each section, HOST_FIELDS the fields of a host, with values that an agent reports: stats,
metrics, instances, migrations, CPU.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from roost.errors import FieldError, nearest
from roost.hosts import Instance, MigrationHolding
from roost.hosts.instances import FILE_FIELDS
from roost.hosts.numa_cells import TOPOLOGY
from roost.hosts.pci import POOLS
from roost.hosts.record import INVENTORIES, PERCENTAGES
from roost.model import Aggregate, Flavor, Image, ServerGroup, Service
from roost.model.fields import (
    AMOUNT,
    FLAG,
    MAPPING,
    NAME,
    NUMBER,
    PLAIN_DATA,
    PLAIN_MAPPING,
    RATIO,
    TEXT,
    TRAITS,
    ListOf,
    MappingOf,
    Names,
    PlainData,
    Record,
    refuse_unknown,
)
from roost.model.kinds import MOST, Kind, OfType, OrNull, Parser, Schema, WholeNumber, shown
from roost.model.resources import RESOURCE_CLASS
from roost.model.uuids import NodeUuid, canonical_uuid

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


class MetricRecords(FreeRecords):
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

_REMEDY = "write - and an entry, line by line"
ENTRIES = OrNull(OfType((list,), "is not a list", _REMEDY))
"""A list with unparsed entries; null is allowed."""


def _records(cls: type) -> OrNull:
    """The kind of a list of records of the class; null is an empty list."""
    return OrNull(ListOf(Record(cls), remedy=_REMEDY, types=(list,)), unset=())


AGGREGATES = _records(Aggregate)
NAMED: dict[str, OrNull] = {
    "flavors": _records(Flavor),
    "images": _records(Image),
    "server_groups": _records(ServerGroup),
}
"""Sections of records that requests name -> kind of the section."""
OPTIONS = OrNull(PlainData(then=MappingOf(OrNull(MAPPING, unset={}, is_published=False))), unset={})
"""The kind of `options`: section -> option -> value."""
SECTIONS = ("hosts", "aggregates", *NAMED, "options")

_MOST_MEMOISED = 10_000

Memo = dict[tuple[str, str], Any]
"""(field, text of a list or mapping) -> parsed value."""


class Field(NamedTuple):
    """A field of a table: its kind, and a description for schema and documentation."""

    kind: Kind[Any]
    meaning: str


class FieldTable(Kind[dict[str, Any]]):
    """The kind of a mapping whose keys are fields of the table; the result maps field -> parsed value."""

    def __init__(
        self,
        fields: Mapping[str, Field],
        *,
        required: Mapping[str, str],
        mismatch: str,
        remedy: str,
        unshared: Collection[str] = (),
    ) -> None:
        """`required`: field -> hint if it is missing. `unshared`: fields that are not memoised: seldom equal."""
        self._parsers: dict[str, Parser] = {name: field.kind.strict for name, field in fields.items()}
        self._fields, self._required, self._unshared = fields, required, unshared
        self.mismatch, self.remedy = mismatch, remedy

    def strict(self, value: Any, field: str) -> dict[str, Any]:
        """The parsed fields of one entry; FieldError for the first unknown or invalid field."""
        try:
            return self._parse(value, {})
        except FieldError as error:
            raise error.under(field) from None

    def parse_all(self, entries: list[Any], field: str, uses_up: bool = False) -> list[dict[str, Any]]:
        """All entries, parsed. Equal lists and mappings in them are parsed once and shared.

        `uses_up`: entries are removed from the list while parsing, to save memory.
        """
        remaining = entries if uses_up else [*entries]
        remaining.reverse()
        parsed: list[dict[str, Any]] = []
        memo: Memo = {}
        try:
            while remaining:
                parsed.append(self._parse(remaining.pop(), memo))
        except FieldError as error:
            raise error.under(f"{field}[{len(parsed)}]") from None
        return parsed

    def _parse(self, entry: Any, memo: Memo) -> dict[str, Any]:
        if not isinstance(entry, dict):
            raise self.refusal(entry, "")
        for name, hint in self._required.items():
            if name not in entry:
                raise FieldError(name, "is missing", hint)
        parsed: dict[str, Any] = {}
        for name, value in entry.items():
            parse = self._parsers.get(name)
            if parse is None:
                raise FieldError("", f"unknown field {shown(name)}", nearest(str(name), self._parsers))
            is_shared = isinstance(value, (list, dict)) and name not in self._unshared
            parsed[name] = _parse_memoised(parse, value, name, memo) if is_shared else parse(value, name)
        return parsed

    @property
    def schema(self) -> Schema:
        """An object with the fields as described properties; no other properties are allowed."""
        fields = {name: {**field.kind.schema, "description": field.meaning} for name, field in self._fields.items()}
        required = [*self._required]
        return {"type": "object", "required": required, "additionalProperties": False, "properties": fields}


def _parse_memoised(parse: Parser, value: Any, name: str, memo: Memo) -> Any:
    try:
        key = name, repr(value)
    except (RecursionError, ValueError):  # too deep, or a number too long: the kind raises the error
        return parse(value, name)
    if key not in memo:
        if len(memo) > _MOST_MEMOISED:
            memo.clear()
        memo[key] = parse(value, name)
    return memo[key]


_ANY_WHOLE_NUMBER = WholeNumber(least=-MOST)


HOST_FIELDS: dict[str, Field] = {
    "host": Field(NAME, "service host name; node-[001-200] expands to 200 names"),
    "node": Field(NAME, "hypervisor node name; the host name by default"),
    "uuid": Field(NodeUuid(), "uuid of the node; derived from host and node name by default"),
    "cell": Field(NAME, "name of its nova cell; cell1 by default"),
    "total_usable_ram_mb": Field(AMOUNT, "memory, MiB"),
    "free_ram_mb": Field(_ANY_WHOLE_NUMBER, "free memory, MiB; the total by default; may be negative"),
    "total_usable_disk_gb": Field(AMOUNT, "local disk, GiB"),
    "free_disk_mb": Field(_ANY_WHOLE_NUMBER, "free local disk, MiB; the total by default; may be negative"),
    "disk_mb_used": Field(_ANY_WHOLE_NUMBER, "used local disk, MiB; by default all that is not free"),
    "vcpus_total": Field(AMOUNT, "physical CPUs"),
    "vcpus_used": Field(AMOUNT, "virtual CPUs allocated"),
    "cpu_allocation_ratio": Field(RATIO, "virtual CPUs per physical CPU; 4.0 by default"),
    "ram_allocation_ratio": Field(RATIO, "overcommit ratio of memory; 1.0 by default"),
    "disk_allocation_ratio": Field(RATIO, "overcommit ratio of disk; 1.0 by default"),
    "reserved_vcpus": Field(AMOUNT, "physical CPUs reserved for the host"),
    "reserved_ram_mb": Field(AMOUNT, "memory reserved for the host, MiB"),
    "reserved_disk_gb": Field(AMOUNT, "disk reserved for the host, GiB"),
    "num_instances": Field(AMOUNT, "instances on the host; by default the number in `instances`"),
    "num_io_ops": Field(AMOUNT, "I/O-heavy operations running"),
    "failed_builds": Field(AMOUNT, "consecutive failed builds"),
    "hypervisor_type": Field(OrNull(TEXT), "QEMU by default; an ironic node is allocated as a whole"),
    "hypervisor_version": Field(OrNull(AMOUNT, unset=0), "an integer: 8002000 is 8.2.0"),
    "host_ip": Field(OrNull(TEXT), "address of the host"),
    "supported_instances": Field(TRIPLES, "list of [arch, hypervisor, mode]"),
    "cpu_info": Field(CpuInfo(), "CPU description reported by the agent"),
    "cpu_info_is_dict": Field(FLAG, "pass cpu_info to filters as a mapping, not as text"),
    "stats": Field(Stats(), "free-form statistics of the agent"),
    "metrics": Field(OrNull(MetricRecords()), "list of {name, value}"),
    "service": Field(Record(Service), "{disabled, disabled_reason, forced_down, up or seconds_since_seen}"),
    "aggregates": Field(
        ListOf(Record(Aggregate), remedy="write [ ... ] or - entries"),
        "aggregates it is in, in addition to the section `aggregates`",
    ),
    "instances": Field(
        INSTANCES, "uuids, or {uuid, project_id, flavor_id or flavor, image_props, resources, created_at, ...}"
    ),
    "migrations": Field(
        MIGRATIONS, "what migrations hold there, beside the instances: list of {uuid, instance, resources}"
    ),
    "traits": Field(TRAITS, "trait names"),
    "trust_level": Field(TEXT, "result of the attestation service: trusted, untrusted or unknown"),
    "resources": Field(INVENTORIES, "class -> {total, reserved, allocation_ratio, min_unit, max_unit, step_size}"),
    "allocations": Field(ALLOCATIONS, "class -> amount allocated; by default all that is neither free nor reserved"),
    "pci_pools": Field(PlainData(then=POOLS), "list of {vendor_id, product_id, count, ...}"),
    "numa": Field(OrNull(TOPOLOGY), "{cells: [{id, cpuset, memory, ...}]}"),
    "allocation_candidates": Field(FreeRecords(), "list of {mappings}"),
}

HOST = FieldTable(
    HOST_FIELDS,
    required={"host": "every host has a name"},
    mismatch="is not a host",
    remedy="write host: NAME",
    unshared=("instances", "migrations"),
)
"""The kind of an entry of the section `hosts`."""


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
