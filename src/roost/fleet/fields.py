# SPDX-License-Identifier: Apache-2.0
"""The fields of a host in a fleet file: one table that checks them, publishes their schema and documents them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from roost.errors import FieldError
from roost.hosts import Instance, Inventory
from roost.model import Aggregate, Service, checks
from roost.model.jsonform import from_json
from roost.model.resources import is_resource_class

Taker = Callable[[Any, str], Any]


@dataclass(frozen=True)
class Field:
    """How one field is taken from a file, its JSON schema, and what it means."""

    take: Taker
    schema: Mapping[str, Any]
    meaning: str


def _whole(meaning: str, least: int | None = 0) -> Field:
    floor = -checks.MOST if least is None else least
    schema = {"type": "integer"} | ({} if least is None else {"minimum": least})
    return Field(partial(checks.whole_number, least=floor), schema, meaning)


def _ratio(meaning: str) -> Field:
    return Field(partial(checks.number, least=0, most=1e6), {"type": "number", "minimum": 0}, meaning)


def _text(meaning: str) -> Field:
    return Field(checks.text, {"type": "string", "minLength": 1}, meaning)


def _triples(value: Any, field: str) -> tuple[tuple[str, ...], ...]:
    if not isinstance(value, list):
        raise FieldError(field, f"{checks.shown(value)} is not a list of [arch, hypervisor, mode] triples")
    triples = tuple(checks.names(each, f"{field}[{at}]") for at, each in enumerate(value))
    for at, each in enumerate(triples):
        if len(each) != 3:
            raise FieldError(f"{field}[{at}]", f"{list(each)} is no triple", "write [arch, hypervisor, mode]")
    return triples


def _service(value: Any, field: str) -> Service:
    return from_json(Service, value, field)


def _metrics(value: Any, field: str) -> tuple[Mapping[str, Any], ...] | None:
    if value is None:
        return None
    metrics = _records(value, field)
    for at, each in enumerate(metrics):
        checks.text(each.get("name"), f"{field}[{at}].name")
        checks.number(each.get("value"), f"{field}[{at}].value")
    return metrics


def _records(value: Any, field: str) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(value, (list, tuple)):
        raise FieldError(field, f"{checks.shown(value)} is not a list")
    return tuple(checks.mapping(each, f"{field}[{at}]") for at, each in enumerate(value))


def _aggregates(value: Any, field: str) -> tuple[Aggregate, ...]:
    found = _records(value, field)
    return tuple(from_json(Aggregate, dict(each), f"{field}[{at}]") for at, each in enumerate(found))


def _instances(value: Any, field: str) -> tuple[Instance, ...]:
    if not isinstance(value, list):
        raise FieldError(field, f"{checks.shown(value)} is not a list")
    return tuple(_instance(each, f"{field}[{at}]") for at, each in enumerate(value))


def _instance(value: Any, field: str) -> Instance:
    plain = {"uuid": value} if isinstance(value, str) else dict(checks.mapping(value, field))
    instance = from_json(Instance, plain, field)
    checks.text(instance.uuid, f"{field}.uuid")
    checks.optional_text(instance.project_id, f"{field}.project_id")
    amounts = checks.mapping(instance.resources, f"{field}.resources")
    for name, amount in amounts.items():
        _check_class(name, f"{field}.resources")
        checks.whole_number(amount, f"{field}.resources.{name}")
    return instance


def _check_class(name: str, field: str) -> None:
    if not is_resource_class(name):
        raise FieldError(field, f"{checks.shown(name)} is no resource class", "a standard one, or CUSTOM_NAME")


def _resources(value: Any, field: str) -> dict[str, Inventory]:
    inventories = {}
    for name, amounts in checks.mapping(value, field).items():
        _check_class(name, field)
        inventories[name] = _inventory(amounts, f"{field}.{name}")
    return inventories


def _inventory(value: Any, field: str) -> Inventory:
    inventory = from_json(Inventory, value, field)
    checks.whole_number(inventory.total, f"{field}.total")
    checks.whole_number(inventory.reserved, f"{field}.reserved", most=inventory.total)
    checks.number(inventory.allocation_ratio, f"{field}.allocation_ratio", least=0, most=1e6)
    checks.whole_number(inventory.min_unit, f"{field}.min_unit", least=1)
    checks.whole_number(inventory.step_size, f"{field}.step_size", least=1)
    if inventory.max_unit is not None:
        checks.whole_number(inventory.max_unit, f"{field}.max_unit", least=1)
    return inventory


def _traits(value: Any, field: str) -> frozenset[str]:
    return frozenset(checks.names(value, field))


def _cpu_info(value: Any, field: str) -> Any:
    return value if value is None or isinstance(value, str) else checks.mapping(value, field)


_LIST_OF_OBJECTS = {"type": "array", "items": {"type": "object"}}
_STRINGS = {"type": "array", "items": {"type": "string"}}

HOST_FIELDS: dict[str, Field] = {
    "host": _text("service host name; node-[001-200] stands for 200 of them"),
    "node": _text("hypervisor node name; the host's own by default"),
    "uuid": _text("uuid of the node; made from the names by default"),
    "cell": _text("name of its cell; cell1 by default"),
    "total_usable_ram_mb": _whole("memory, MiB"),
    "free_ram_mb": _whole("memory free, MiB; the total by default; may be negative", least=None),
    "total_usable_disk_gb": _whole("local disk, GiB"),
    "free_disk_mb": _whole("local disk free, MiB; the total by default; may be negative", least=None),
    "vcpus_total": _whole("physical CPUs"),
    "vcpus_used": _whole("virtual CPUs given out"),
    "cpu_allocation_ratio": _ratio("virtual CPUs per physical one; 4.0 by default"),
    "ram_allocation_ratio": _ratio("overcommit of memory; 1.0 by default"),
    "disk_allocation_ratio": _ratio("overcommit of disk; 1.0 by default"),
    "reserved_vcpus": _whole("physical CPUs kept for the host"),
    "reserved_ram_mb": _whole("memory kept for the host, MiB"),
    "reserved_disk_gb": _whole("disk kept for the host, GiB"),
    "num_instances": _whole("instances on the host; as many as are listed by default"),
    "num_io_ops": _whole("I/O-heavy operations running"),
    "failed_builds": _whole("builds that failed in a row"),
    "hypervisor_type": _text("QEMU by default; an ironic node is given out whole"),
    "hypervisor_version": _whole("an integer: 8002000 is 8.2.0"),
    "host_ip": _text("address of the host"),
    "supported_instances": Field(_triples, {"type": "array", "items": _STRINGS}, "list of [arch, hypervisor, mode]"),
    "cpu_info": Field(_cpu_info, {"type": ["object", "string", "null"]}, "what the agent says of the CPU"),
    "cpu_info_is_dict": Field(checks.flag, {"type": "boolean"}, "hand cpu_info to filters as a mapping, not as text"),
    "stats": Field(checks.mapping, {"type": "object"}, "free-form figures of the agent"),
    "metrics": Field(_metrics, {"type": ["array", "null"]}, "list of {name, value}"),
    "service": Field(
        _service, {"type": "object"}, "{disabled, disabled_reason, forced_down, up or seconds_since_seen}"
    ),
    "aggregates": Field(_aggregates, _LIST_OF_OBJECTS, "aggregates it is in, besides the file's own"),
    "instances": Field(
        _instances, {"type": "array"}, "uuids, or {uuid, project_id, flavor_id, image_props, resources}"
    ),
    "traits": Field(_traits, _STRINGS, "names of its traits"),
    "resources": Field(
        _resources,
        {"type": "object"},
        "class -> {total, reserved, allocation_ratio, min_unit, max_unit, step_size}",
    ),
    "pci_pools": Field(_records, _LIST_OF_OBJECTS, "list of {vendor_id, product_id, count, ...}"),
    "numa": Field(
        lambda value, field: None if value is None else checks.mapping(value, field),
        {"type": ["object", "null"]},
        "{cells: [{id, cpuset, memory, ...}]}",
    ),
    "allocation_candidates": Field(_records, _LIST_OF_OBJECTS, "list of {mappings}"),
}
