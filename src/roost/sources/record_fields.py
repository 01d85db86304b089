# SPDX-License-Identifier: Apache-2.0
"""Sets one field of a host record, as if the fleet file had that value; what depends on the field follows.

Allocated amounts follow free and used ones, free amounts follow totals and reservations, and instances that leave
take along what they hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from roost.errors import FieldError, UnknownName, nearest
from roost.hosts import HostRecord, Instance
from roost.model import Aggregate
from roost.model.fields import Record
from roost.model.json_records import to_json
from roost.model.kinds import shown
from roost.model.resources import DISK_GB, MEMORY_MB, VCPU
from roost.sources.fields import HOST_FIELDS, INSTANCES
from roost.sources.fleet_file import check_reservations

_FIXED = ("host", "node", "uuid", "cpu_info_is_dict")
"""Fields that cannot be set: names of the host, and how the file itself is read."""
_FREED_BY = {
    "total_usable_ram_mb": ("free_ram_mb", 1),
    "reserved_ram_mb": ("free_ram_mb", -1),
    "total_usable_disk_gb": ("free_disk_mb", 1024),
    "reserved_disk_gb": ("free_disk_mb", -1024),
}
"""Field -> the free amount that it changes if that is reported, and by how much per unit."""


def set_field(record: HostRecord, field: str, value: Any, known: Mapping[str, Aggregate]) -> HostRecord:
    """A copy of the record with a field, or a nested entry of one such as `service.disabled`, set to a plain value.

    `known`: aggregates that may be named. Raises FieldError for a bad value, UnknownName for an unknown field.
    """
    name, _, inner = field.partition(".")
    if name in _FIXED:
        raise FieldError(name, "cannot be changed", "it says which host this is, or how the file is read")
    if name not in HOST_FIELDS:
        settable = [each for each in HOST_FIELDS if each not in _FIXED]
        raise UnknownName(f"{shown(name)} is no field of a host", nearest(name, settable))
    if inner:
        value = _with_entry(_plain(record, name, inner), inner, value, field)
    if name == "aggregates":
        return replace(record, aggregates=_aggregates(value, known))
    if name == "instances":
        return _with_instances(record, _instances(record, value))
    parsed = HOST_FIELDS[name].kind.strict(value, name)
    if name == "cpu_info" and isinstance(parsed, Mapping) and not isinstance(record.cpu_info, Mapping):
        parsed = json.dumps(dict(parsed))  # agents report JSON text
    if name in _USE:
        return _with_use(record, name, parsed)
    changed = replace(record, **{name: parsed})
    if name in _FREED_BY:
        check_reservations({each: getattr(changed, each) for each in HostRecord.__slots__})
        changed = _with_free(record, changed, name)
    return changed


def _plain(record: HostRecord, name: str, inner: str) -> Any:
    """The present value of a field as plain data, with the entry at `inner` if other fields imply it."""
    if name == "allocations":
        return dict(record.allocated)
    if name == "resources":
        wanted = {*record.resources, inner.partition(".")[0]}
        return {each: to_json(inventory) for each, inventory in record.inventories.items() if each in wanted}
    if name == "cpu_info" and isinstance(record.cpu_info, str):
        return json.loads(record.cpu_info)
    return to_json(getattr(record, name))


def _with_entry(plain: Any, path: str, value: Any, field: str) -> dict[str, Any]:
    """A copy of a mapping in which the entry at a dotted path is set; mappings on the way are made."""
    if plain is not None and not isinstance(plain, dict):
        raise FieldError(field, "has no entries to set one by one", "set the whole field")
    key, _, inner = path.partition(".")
    found = plain or {}
    return {**found, key: _with_entry(found.get(key), inner, value, field) if inner else value}


# --- use ------------------------------------------------------------------------------------------


_USE: dict[str, tuple[str, Callable[[HostRecord], int], Callable[[int], int]]] = {
    "free_ram_mb": (MEMORY_MB, lambda record: record.ram_mb_left, lambda mb: -mb),
    "free_disk_mb": (DISK_GB, lambda record: record.disk_mb_left, lambda mb: -(mb // 1024)),
    "vcpus_used": (VCPU, lambda record: record.vcpus_taken, lambda count: count),
}
"""Field -> its resource class, its present value, and what a value of it allocates of the class, save a constant."""


def _with_use(record: HostRecord, name: str, value: int) -> HostRecord:
    """A copy of the record with another free or used amount.

    Allocations that follow from the amount need no change. Others are reported, or those of listed instances: they
    change by as much.
    """
    fields: dict[str, Any] = {name: value}
    changed = replace(record, **fields)
    if record.allocations is None and not (record.instances or record.migrations):
        return changed
    resource_class, present, allocates = _USE[name]
    allocated = record.allocated
    more = allocates(value) - allocates(present(record))
    return replace(changed, allocations=allocated | {resource_class: max(0, allocated[resource_class] + more)})


def _with_free(record: HostRecord, changed: HostRecord, name: str) -> HostRecord:
    """The changed record with a free amount that follows the total or the reservation `name`, if it is reported."""
    free, unit = _FREED_BY[name]
    reported = getattr(record, free)
    more = getattr(changed, name) - getattr(record, name)
    fields: dict[str, Any] = {} if reported is None else {free: reported + unit * more}
    return replace(changed, **fields)


# --- instances and aggregates ---------------------------------------------------------------------


def _instances(record: HostRecord, value: Any) -> tuple[Instance, ...]:
    """The instances of a list; one that the host has and that is given by its uuid keeps its details."""
    own = {each.uuid: each for each in record.instances}
    parsed: tuple[Instance, ...] = INSTANCES.strict(value, "instances")
    pairs = zip(value, parsed, strict=True)
    return tuple(own.get(each.uuid, each) if isinstance(given, str) else each for given, each in pairs)


def _with_instances(record: HostRecord, instances: tuple[Instance, ...]) -> HostRecord:
    """A copy of the record with these instances; use that is reported falls by what the others held."""
    staying = {each.uuid for each in instances}
    leaving = replace(record, instances=tuple(each for each in record.instances if each.uuid not in staying))
    gone = {name: sum(each.resources.get(name, 0) for each in leaving.instances) for name in record.inventories}
    changed = replace(record, instances=instances)
    if record.allocations is not None:
        left = {name: max(0, amount - gone.get(name, 0)) for name, amount in record.allocations.items()}
        changed = replace(changed, allocations=left)
    if record.free_ram_mb is not None:
        changed = replace(changed, free_ram_mb=record.free_ram_mb + gone[MEMORY_MB])
    if record.free_disk_mb is not None:
        changed = replace(changed, free_disk_mb=record.free_disk_mb + 1024 * gone[DISK_GB])
    if record.vcpus_used is not None:
        changed = replace(changed, vcpus_used=max(0, record.vcpus_used - gone[VCPU]))
    if record.num_instances is not None:
        count = max(len(instances), record.num_instances - len(leaving.instances))
        changed = replace(changed, num_instances=count)
    return changed


def _aggregates(value: Any, known: Mapping[str, Aggregate]) -> tuple[Aggregate, ...]:
    """All aggregates of a host: names of known ones, and mappings of new ones."""
    found: list[Aggregate] = []
    for at, each in enumerate(value if isinstance(value, (list, tuple)) else [value]):
        if not isinstance(each, str):
            found.append(_AGGREGATE.strict(each, f"aggregates[{at}]"))
        elif each in known:
            found.append(known[each])
        else:
            raise UnknownName(f"unknown aggregate {each!r}", nearest(each, known))
    return tuple(dict.fromkeys(found))


_AGGREGATE = Record(Aggregate)
