# SPDX-License-Identifier: Apache-2.0
"""What if: a fleet as it would be with some things changed. The given fleet itself stays as it is.

A field of a host record is set as if the fleet file had that value, and what depends on it follows: allocated amounts
follow free and used ones, free amounts follow totals and reservations, and instances that leave take along what they
hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import islice
from typing import Any

from roost.errors import MOST_COMPARED, FieldError, UnknownName, nearest
from roost.hosts import HostRecord, HostTable, Instance
from roost.hosts.numa_cells import HostTopology
from roost.hosts.record import Pair
from roost.hosts.table import Run
from roost.model import Aggregate, Service
from roost.model.fields import Record
from roost.model.json_records import to_json
from roost.model.kinds import shown
from roost.model.remedy import AggregateChange, Change, HostChange, OptionChange
from roost.model.resources import DISK_GB, MEMORY_MB, VCPU
from roost.sources.fields import HOST_FIELDS, INSTANCES
from roost.sources.fleet_file import Fleet, check_reservations

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


_COUNTERS = ("io_workload", "failed_builds")
_COUNTER_PREFIX = "num_"


def changed_fleet(fleet: Fleet, changes: Iterable[Change]) -> Fleet:
    """The fleet with hosts and aggregates changed; ValueError if it was not loaded with `keeps_records`.

    Raises UnknownName for a host, field or aggregate that does not exist, FieldError for a value that does not fit.
    Changes of options and requests are left to others: see `changed_options`, `apply_to_request`.
    """
    of_hosts: dict[str, list[HostChange]] = {}
    of_aggregates: dict[str, list[AggregateChange]] = {}
    for change in changes:
        if isinstance(change, HostChange):
            of_hosts.setdefault(change.host, []).append(change)
        elif isinstance(change, AggregateChange):
            of_aggregates.setdefault(change.aggregate, []).append(change)
    if not (of_hosts or of_aggregates):
        return fleet
    _check_records(fleet)
    check_known_hosts(of_hosts, fleet)
    known = fleet.table.known_aggregates
    runs = list(_with_host_changes(fleet.runs, of_hosts, {each.name: each for each in known}))
    if of_aggregates:
        runs, known = _with_aggregate_changes(runs, known, of_aggregates)
    return _of_runs(fleet, runs, known)


def changed_options(changes: Iterable[Change]) -> dict[str, dict[str, Any]]:
    """Section -> option -> value, of the changes that are about options."""
    options: dict[str, dict[str, Any]] = {}
    for each in changes:
        if isinstance(each, OptionChange):
            options.setdefault(each.section, {})[each.name] = each.value
    return options


def with_hosts_like(fleet: Fleet, name: str, count: int) -> Fleet:
    """The fleet with so many more hosts like the named one: empty, enabled and up, in the same aggregates.

    Free PCI devices are those of the named host, because its taken ones are not known.
    """
    _check_records(fleet)
    check_known_hosts([name], fleet)
    taken = {each for pair in fleet.table.names for each in pair}
    numbered = (f"{name}-copy-{number}" for number in range(1, count + len(taken) + 1))
    names = list(islice((each for each in numbered if each not in taken), count))
    record = next(record for record, pairs in fleet.runs if any(name in pair for pair in pairs))
    run = _emptied(record), [(each, each) for each in names]
    return _of_runs(fleet, [*fleet.runs, run], fleet.table.known_aggregates)


def check_known_hosts(names: Iterable[str], fleet: Fleet) -> None:
    """Raise UnknownName for the first name that is neither a host nor a node of the fleet."""
    known = {each for pair in fleet.table.names for each in pair}
    for name in names:
        if name not in known:
            alike = islice((each for each in sorted(known) if abs(len(each) - len(name)) < 3), MOST_COMPARED)
            raise UnknownName(f"unknown host {name!r}", nearest(name, alike))


def _check_records(fleet: Fleet) -> None:
    if len(fleet.table) and not fleet.runs:
        raise ValueError("the fleet has no host records: load it with keeps_records=True")


def _of_runs(fleet: Fleet, runs: Sequence[Run], known: Iterable[Aggregate]) -> Fleet:
    table = HostTable.of_runs(runs)
    table.known_aggregates = tuple(dict.fromkeys((*known, *table.known_aggregates)))
    table.flavors = fleet.table.flavors
    return replace(fleet, table=table, runs=tuple(runs))


# --- hosts ----------------------------------------------------------------------------------------


def _with_host_changes(
    runs: Iterable[Run], changes: Mapping[str, Sequence[HostChange]], known: Mapping[str, Aggregate]
) -> Iterator[Run]:
    """The runs, of which hosts with changes are split off. Hosts of a run with the same changes stay together."""
    for record, pairs in runs:
        parted: dict[tuple[tuple[str, int], ...], list[Pair]] = {}
        found: dict[tuple[tuple[str, int], ...], list[HostChange]] = {}
        for pair in pairs:
            own = [each for name in dict.fromkeys(pair) for each in changes.get(name, ())]
            key = tuple((each.field, id(each.value)) for each in own)
            parted.setdefault(key, []).append(pair)
            found[key] = own
        own_aggregates = {**{each.name: each for each in record.aggregates}, **known}
        for key, group in parted.items():
            yield _changed_record(record, found[key], own_aggregates), group


def _changed_record(record: HostRecord, changes: Sequence[HostChange], known: Mapping[str, Aggregate]) -> HostRecord:
    for change in changes:
        try:
            record = set_field(record, change.field, change.value, known)
        except FieldError as error:
            raise error.under(change.host) from None
        except UnknownName as error:
            raise UnknownName(f"{change.host}: {error.message}", error.hint) from None
    return record


def _emptied(record: HostRecord) -> HostRecord:
    """The record of an equal host without instances and use, whose service is enabled and up."""
    stats = {
        name: value
        for name, value in record.stats.items()
        if name not in _COUNTERS and not name.startswith(_COUNTER_PREFIX)
    }
    return replace(
        record,
        uuid="",
        instances=(),
        migrations=(),
        allocations=None,
        free_ram_mb=record.total_usable_ram_mb - record.reserved_ram_mb,
        free_disk_mb=1024 * (record.total_usable_disk_gb - record.reserved_disk_gb),
        disk_mb_used=None,
        vcpus_used=0,
        num_instances=None,
        num_io_ops=None,
        failed_builds=None,
        stats=stats,
        service=Service(),
        numa=_emptied_topology(record.numa) if record.numa else None,
    )


def _emptied_topology(topology: HostTopology) -> HostTopology:
    cells = (
        replace(
            cell,
            cpu_usage=0,
            memory_usage=0,
            pinned_cpus=frozenset(),
            mempages=tuple(replace(pool, used=0) for pool in cell.mempages),
        )
        for cell in topology.cells
    )
    return HostTopology(tuple(cells))


# --- aggregates -----------------------------------------------------------------------------------


def _with_aggregate_changes(
    runs: Iterable[Run], known: Iterable[Aggregate], changes: Mapping[str, Sequence[AggregateChange]]
) -> tuple[list[Run], tuple[Aggregate, ...]]:
    """Runs and known aggregates with other metadata. Hosts in equal aggregates share one tuple, as before."""
    runs, known = list(runs), tuple(known)
    every = dict.fromkeys([*known, *(each for record, _ in runs for each in record.aggregates)])
    names = {each.name for each in every}
    for name in changes:
        if name not in names:
            raise UnknownName(f"unknown aggregate {name!r}", nearest(name, names))
    changed = {each: _changed_aggregate(each, changes.get(each.name, ())) for each in every}
    shared: dict[int, tuple[Aggregate, ...]] = {}

    def changed_record(record: HostRecord) -> HostRecord:
        if not any(each.name in changes for each in record.aggregates):
            return record
        own = record.aggregates
        return replace(record, aggregates=shared.setdefault(id(own), tuple(changed[each] for each in own)))

    return [(changed_record(record), pairs) for record, pairs in runs], tuple(changed[each] for each in known)


def _changed_aggregate(aggregate: Aggregate, changes: Sequence[AggregateChange]) -> Aggregate:
    def apply(metadata: Mapping[str, str], change: AggregateChange) -> Mapping[str, str]:
        rest = {key: text for key, text in metadata.items() if key != change.key}
        return rest if change.value is None else {**rest, change.key: change.value}

    return replace(aggregate, metadata=reduce(apply, changes, aggregate.metadata)) if changes else aggregate
