# SPDX-License-Identifier: Apache-2.0
"""What if: a fleet as it would be with some things changed. The given fleet itself stays as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import islice
from typing import Any

from roost.errors import MOST_COMPARED, FieldError, UnknownName, nearest
from roost.hosts import HostRecord, HostTable
from roost.hosts.numa_cells import HostTopology
from roost.hosts.record import Pair
from roost.hosts.table import Run
from roost.model import Aggregate, Service
from roost.model.remedy import AggregateChange, Change, HostChange, OptionChange
from roost.sources.fleet_file import Fleet
from roost.sources.record_fields import set_field

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
