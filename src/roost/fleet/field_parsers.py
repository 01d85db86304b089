# SPDX-License-Identifier: Apache-2.0
"""Takes the fields of a host that are lists or mappings from a file: checked inside, in their proper form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from roost.errors import FieldError
from roost.hosts import Instance, Inventory
from roost.hosts.numa import host_topology_from_json
from roost.hosts.numa_cells import HostTopology
from roost.hosts.pci import Pool, pools_from_json
from roost.model import Aggregate, Service, checks
from roost.model.image_properties import take_properties
from roost.model.json_records import from_json
from roost.model.resources import is_resource_class

LARGEST_RATIO = 1e6
COUNTERS = ("num_instances", "io_workload", "failed_builds")
"""Entries of `stats` that are counted with."""
METRIC_FIELDS = ("name", "value", "source", "timestamp")

_WHOLE = re.compile(r"\s*\+?[0-9]{1,15}\s*")
_TRAIT = re.compile(r"[A-Z0-9_]+")


def take_list(value: Any, field: str) -> list[Any] | tuple[Any, ...]:
    """A list, whatever is in it."""
    if not isinstance(value, (list, tuple)):
        raise FieldError(field, f"{checks.shown(value)} is not a list", "write [ ... ] or - entries")
    return value


def take_id(value: Any, field: str) -> Any:
    """What something is known by: text, a whole number, or nothing."""
    if isinstance(value, bool) or not isinstance(value, (str, int, type(None))):
        raise FieldError(field, f"{checks.shown(value)} is no text and no whole number")
    return value


def take_triples(value: Any, field: str) -> tuple[tuple[str, ...], ...]:
    """Combinations of architecture, hypervisor and mode."""
    triples = tuple(checks.names(each, f"{field}[{at}]") for at, each in enumerate(take_list(value, field)))
    for at, each in enumerate(triples):
        if len(each) != 3:
            raise FieldError(f"{field}[{at}]", f"{list(each)} is no triple", "write [arch, hypervisor, mode]")
    return triples


def take_service(value: Any, field: str) -> Service:
    """The service record."""
    return from_json(Service, value, field)


def take_stats(value: Any, field: str) -> Mapping[str, Any]:
    """Free-form figures, of which three are counted with."""
    stats = checks.mapping(checks.plain_data(value, field), field)
    for name in COUNTERS:
        raw = stats.get(name, 0)
        if not (isinstance(raw, str) and _WHOLE.fullmatch(raw)):
            checks.whole_number(raw, f"{field}.{name}")
    return stats


PERCENTAGES = frozenset(
    {"cpu.user.percent", "cpu.kernel.percent", "cpu.idle.percent", "cpu.iowait.percent", "cpu.percent"}
)


def take_metrics(value: Any, field: str) -> tuple[Mapping[str, Any], ...] | None:
    """Monitored values; null says that there is no list at all."""
    if value is None:
        return None
    metrics = take_records(value, field)
    for at, each in enumerate(metrics):
        checks.known_keys(each, METRIC_FIELDS, f"{field}[{at}]")
        checks.text(each.get("name"), f"{field}[{at}].name")
        checks.number(each.get("value"), f"{field}[{at}].value")
    return tuple(_as_counted(each) for each in metrics)


def _as_counted(metric: Mapping[str, Any]) -> Mapping[str, Any]:
    """Agents report percentages as fractions, and nova counts them in hundredths."""
    if metric["name"] not in PERCENTAGES:
        return metric
    return {**metric, "value": int(metric["value"] * 100)}


def take_records(value: Any, field: str) -> tuple[Mapping[str, Any], ...]:
    """A list of free-form mappings."""
    checks.plain_data(take_list(value, field), field)
    return tuple(checks.mapping(each, f"{field}[{at}]") for at, each in enumerate(value))


def take_aggregates(value: Any, field: str) -> tuple[Aggregate, ...]:
    """Aggregates of one host alone."""
    return tuple(take_aggregate(each, f"{field}[{at}]") for at, each in enumerate(take_list(value, field)))


def take_aggregate(value: Any, field: str) -> Aggregate:
    """One aggregate, as it is written."""
    aggregate = from_json(Aggregate, value, field)
    take_id(aggregate.id, f"{field}.id")
    checks.optional_text(aggregate.uuid, f"{field}.uuid")
    return aggregate


def take_instances(value: Any, field: str) -> tuple[Instance, ...]:
    """What runs on the host: uuids, or records."""
    entries = take_list(value, field)
    return tuple(
        Instance(each) if isinstance(each, str) and each else _instance(each, f"{field}[{at}]")
        for at, each in enumerate(entries)
    )


def _instance(value: Any, field: str) -> Instance:
    instance = from_json(Instance, value, field)
    checks.text(instance.uuid, f"{field}.uuid")
    checks.optional_text(instance.project_id, f"{field}.project_id")
    take_id(instance.flavor_id, f"{field}.flavor_id")
    props = _image_props(checks.mapping(instance.image_props, f"{field}.image_props"), f"{field}.image_props")
    for name, amount in checks.mapping(instance.resources, f"{field}.resources").items():
        _check_class(name, f"{field}.resources.{name}")
        checks.whole_number(amount, f"{field}.resources.{name}")
    return replace(instance, image_props=props)


def _image_props(raw: Mapping[str, Any], field: str) -> dict[str, str]:
    """What the instance's image says, as the texts that weighers compare."""
    try:
        properties = take_properties(raw)
    except FieldError as error:
        raise FieldError(field, error.problem, error.hint) from None
    return {name: properties.text_of(name) for name in properties}


def take_resources(value: Any, field: str) -> dict[str, Inventory]:
    """Resource class -> how much of it there is."""
    inventories = {}
    for name, amounts in checks.mapping(value, field).items():
        _check_class(name, f"{field}.{name}")
        inventories[name] = _inventory(amounts, f"{field}.{name}")
    return inventories


def _inventory(value: Any, field: str) -> Inventory:
    inventory = from_json(Inventory, value, field)
    checks.whole_number(inventory.total, f"{field}.total")
    checks.whole_number(inventory.reserved, f"{field}.reserved", most=inventory.total)
    checks.number(inventory.allocation_ratio, f"{field}.allocation_ratio", least=0, most=LARGEST_RATIO)
    checks.whole_number(inventory.min_unit, f"{field}.min_unit", least=1)
    checks.whole_number(inventory.step_size, f"{field}.step_size", least=1)
    if inventory.max_unit is not None:
        checks.whole_number(inventory.max_unit, f"{field}.max_unit", least=1)
    return inventory


def _check_class(name: str, field: str) -> None:
    if not is_resource_class(name):
        raise FieldError(field, f"{checks.shown(name)} is no resource class", "a standard one, or CUSTOM_NAME")


def take_traits(value: Any, field: str) -> frozenset[str]:
    """Names of traits."""
    names = checks.names(value, field)
    for at, each in enumerate(names):
        if not _TRAIT.fullmatch(each):
            raise FieldError(
                f"{field}[{at}]", f"{checks.shown(each)} is no trait", "capitals, digits and underscores"
            )
    return frozenset(names)


def take_cpu_info(value: Any, field: str) -> Any:
    """Text as agents report it, or the mapping that it stands for."""
    return (
        value if value is None or isinstance(value, str) else checks.mapping(checks.plain_data(value, field), field)
    )


def take_pci_pools(value: Any, field: str) -> tuple[Pool, ...]:
    """Devices that are alike, counted."""
    try:
        return pools_from_json(checks.plain_data(value, ""))
    except FieldError as error:
        raise error.under(field) from None


def take_numa(value: Any, field: str) -> HostTopology | None:
    """The NUMA cells."""
    return None if value is None else host_topology_from_json(value)
