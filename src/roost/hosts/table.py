# SPDX-License-Identifier: Apache-2.0
"""The fleet as columns: one array per number, one dictionary-encoded column per anything else.

Rows are sorted by (host, node), so ties are settled the same way every time. `HostTable` is also the view of
all its rows (`Hosts`). Changes go through `consume`, `release` and `update`, and are written to `changes`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import cast

import numpy as np

from roost.errors import BadInput
from roost.hosts.arrays import Array
from roost.hosts.bare_metal import TAKEN_COLUMNS, WholeNodes
from roost.hosts.encoded import Encoded
from roost.hosts.guest_fit import let_go, take_in
from roost.hosts.hosts import NUMBER_TYPES, Hosts
from roost.hosts.instance_index import InstanceIndex
from roost.hosts.numa import OvercommitLimits
from roost.hosts.record import HostRecord, Instance, PlacedInstance
from roost.hosts.record_columns import encoded_values, number_values
from roost.hosts.row_changes import ChangeLog
from roost.model.aggregate import Aggregate
from roost.model.lazy import IdentityCache, lazy
from roost.model.request import RequestSpec
from roost.model.resources import STANDARD_CLASSES

Run = tuple[HostRecord, list[tuple[str, str]]]
"""A record and the (host, node) names of all the hosts that are just like it."""

_CONSUMED = frozenset({*TAKEN_COLUMNS, "num_instances", "num_io_ops", "instances"})
_FITTED = frozenset({"numa", "pci_pools"})
_INSTANCES = frozenset({"instances"})


def _changes_all_the_time(name: str) -> bool:
    """Whether a placement, or the clock, changes this column, and not only a report."""
    return name in _CONSUMED or name == "is_up" or name.startswith("allocated:")


class _Buffers(dict[str, "memoryview[float]"]):
    """Column -> its memory: one number of it costs half of what an array takes to give it out."""

    def __init__(self, numbers: Mapping[str, Array]) -> None:
        super().__init__()
        self._numbers = numbers

    def __missing__(self, name: str) -> memoryview[float]:
        cells = self[name] = cast("memoryview[float]", self._numbers[name].data)
        return cells


class _AllocatedColumns(dict[str, str]):
    """Resource class -> column of what is allocated of it."""

    def __missing__(self, name: str) -> str:
        return f"allocated:{name}"


_ALLOCATED = _AllocatedColumns({name: f"allocated:{name}" for name in STANDARD_CLASSES})


class HostTable(Hosts):
    """Every host of the fleet."""

    def __init__(self) -> None:
        super().__init__(self, None, {})
        self.names: list[tuple[str, str]] = []
        """(host, node) of each row."""
        self.uuids: dict[int, str] = {}
        """Row -> node uuid, where one was given."""
        self.numbers: dict[str, Array] = {}
        self.buffers = _Buffers(self.numbers)
        """The same columns, to read or change one number at a time."""
        self._usages = IdentityCache[list[tuple["memoryview[float]", int]]]()
        """By the amounts that are asked for, which are worked out once per flavor: what an instance changes."""
        self.encoded: dict[str, Encoded] = {}
        self.instance_index = InstanceIndex()
        self.packs_numa_cells = False
        """Whether guests fill up NUMA cells one by one; otherwise they are spread over them."""
        self.known_aggregates: tuple[Aggregate, ...] = ()
        """All aggregates there are, also those no host is in."""
        self.portioned: frozenset[str] = frozenset()
        """Resource classes that some host gives out with a smallest amount or a step other than 1."""
        self._are_names_lower: bool | None = None
        """Whether no host has a capital in its name, once somebody asked."""
        self.generation = 0
        """How often a column was replaced by another array, or what one instance may take, or a uuid changed.

        Who holds on to either has to look again.
        """
        self.changes = ChangeLog()

    @lazy
    def whole_nodes(self) -> WholeNodes:
        """What bare-metal nodes were before they were taken."""
        return WholeNodes(self)

    @classmethod
    def of(cls, records: Iterable[HostRecord]) -> HostTable:
        """A table with one row per record."""
        return cls.of_runs((record, [(record.host, record.nodename)]) for record in records)

    @classmethod
    def of_runs(cls, runs: Iterable[Run]) -> HostTable:
        """A table from runs of hosts that are alike: memory is that of the columns, not of the records."""
        table = cls()
        records, lengths = [], []
        for record, names in runs:
            table.names.extend(names)
            records.append(record)
            lengths.append(len(names))
        repeats = np.array(lengths, dtype=np.intp)
        table._fill(records, repeats)
        table._place_instances(records, lengths)
        table.known_aggregates = tuple({each: None for record in records for each in record.aggregates})
        table._sort_rows()
        return table

    def _fill(self, records: list[HostRecord], repeats: Array) -> None:
        for name, values in number_values(records).items():
            column = np.array(values, dtype=NUMBER_TYPES.get(name, np.dtype(np.float64)))
            is_constant = not _changes_all_the_time(name) and len(column) > 0 and bool((column == column[0]).all())
            # A number that all hosts share takes no memory until one of them gets another.
            self.numbers[name] = (
                np.broadcast_to(column[0], len(self.names)) if is_constant else np.repeat(column, repeats)
            )
        self._note_portions()
        for name, objects in encoded_values(records).items():
            self.encoded[name] = Encoded(objects, repeats)

    def _place_instances(self, records: list[HostRecord], lengths: list[int]) -> None:
        row = 0
        for record, length in zip(records, lengths, strict=True):
            if record.uuid:
                self.uuids[row] = record.uuid
            for instance in record.instances:
                self.instance_index.put(row, instance)
            row += length

    def _sort_rows(self) -> None:
        order = sorted(range(len(self.names)), key=self.names.__getitem__)
        for earlier, later in pairwise(order):
            if self.names[earlier] == self.names[later]:
                host, node = self.names[later]
                raise BadInput(f"host {host}, node {node} is there twice", "give each pair once")
        if order == list(range(len(order))):
            return
        new_row = {old: new for new, old in enumerate(order)} if self.uuids or self.instances else {}
        self.names = [self.names[old] for old in order]
        self.uuids = {new_row[old]: uuid for old, uuid in self.uuids.items()}
        self.instance_index.renumber(new_row)
        new_order = np.array(order, dtype=np.intp)
        for column in (*self.numbers.values(), *(each.codes for each in self.encoded.values())):
            if column.flags.writeable:  # one at a time: two copies of all columns would be the peak of memory
                column[:] = column[new_order]

    def copy(self) -> HostTable:
        """An independent table: what happens to one does not show in the other.

        Columns that change only by reports are shared, and read-only, until one of the two gets a report.
        """
        twin = HostTable()
        twin.names, twin.uuids = self.names, self.uuids
        for name, column in self.numbers.items():
            if _changes_all_the_time(name):
                twin.numbers[name] = column.copy()
            else:
                column.flags.writeable = False
                twin.numbers[name] = column
        twin.encoded = {name: column.copy() for name, column in self.encoded.items()}
        self.instance_index.copy_to(twin.instance_index)
        twin.packs_numa_cells = self.packs_numa_cells
        twin.known_aggregates = self.known_aggregates
        if "whole_nodes" in vars(self):
            self.whole_nodes.copy_to(twin.whole_nodes)
        twin.portioned = self.portioned
        return twin

    @property
    def metadata_keys(self) -> frozenset[str]:
        """Every metadata key that an aggregate of a host has now."""
        keys: frozenset[str] = self.encoded["aggregates"].derive("keys", _metadata_keys)
        return keys

    def in_the_running(self) -> Hosts:
        """All hosts, at the start of a request."""
        return Hosts(self, None, {})

    def one(self, row: int) -> Hosts:
        """One host, alone."""
        return Hosts(self, np.array([row], dtype=np.intp), {})

    def find_row(self, pair: tuple[str, str]) -> int | None:
        """The row of this (host, node) pair; None where there is none."""
        row = bisect_left(self.names, pair)
        return row if row < len(self.names) and self.names[row] == pair else None

    def rows_of_host(self, host: str) -> range:
        """The rows of a service host: one, or one per node."""
        return range(bisect_left(self.names, (host, "")), bisect_left(self.names, (host + "\0", "")))

    def rows_called(self, hosts: Iterable[str]) -> list[int]:
        """The rows of these service hosts, capitals or not."""
        wanted = {host.lower() for host in hosts}
        if self._are_names_lower is None:
            self._are_names_lower = all(host.islower() for host, _ in self.names)
        if self._are_names_lower:
            return [row for host in wanted for row in self.rows_of_host(host)]
        return [row for row, (host, _) in enumerate(self.names) if host.lower() in wanted]

    def rows_of_instance(self, uuid: str) -> tuple[int, ...]:
        """Where an instance runs: nowhere, on one host, or on two while it moves."""
        return self.instance_index.rows_of(uuid)

    def hosts_of(self, instances: Iterable[str]) -> tuple[str, ...]:
        """Names of the hosts that these instances are on, each once, in their order."""
        rows = [row for uuid in instances for row in self.rows_of_instance(uuid)]
        return tuple(dict.fromkeys(self.names[row][0] for row in rows))

    @property
    def instances(self) -> dict[int, dict[str, Instance]]:
        """Row -> uuid -> instance, for rows that have some."""
        return self.instance_index.by_row

    @property
    def flavor_ids(self) -> Encoded:
        """The flavor ids of the instances on each host, as a column; maintained once a filter has asked for it."""
        return self.instance_index.flavor_ids(len(self.names))

    def count_on(self, row: int, uuids: frozenset[str]) -> int:
        """How many of these instances run on one host. Costs as much as there are instances on it."""
        return self.instance_index.count_on(row, uuids)

    def consume(self, row: int, spec: RequestSpec, limits: OvercommitLimits | None = None) -> RequestSpec:
        """Take the resources of one instance from a host, as nova counts them and as they are allocated.

        nova counts root and ephemeral disk, without swap; a bare-metal node goes as a whole. Gives back the request
        as it was placed - fitted to NUMA cells within `limits`, with its PCI devices - which is what `release` takes.
        """
        if self.buffers["is_bare_metal"][row]:
            self.whole_nodes.take(row)
        else:
            if spec.numa_topology or spec.pci_requests:
                spec = take_in(self, row, spec, limits)
            self._move_usage(row, spec, 1)
            if spec.instance_uuid:
                self.instance_index.hold(row, _instance_of(spec))
        self.changes.note(row, self.columns_touched(row, spec))
        return spec

    def release(self, row: int, spec: RequestSpec) -> None:
        """Give back what `consume` took: the request is the one that it gave."""
        if self.buffers["is_bare_metal"][row]:
            self.whole_nodes.free(row)
        else:
            self._move_usage(row, spec, -1)
            if spec.numa_topology or spec.pci_devices:
                let_go(self, row, spec)
            if spec.instance_uuid:
                self.instance_index.release(row, spec.instance_uuid)
        self.changes.note(row, self.columns_touched(row, spec))

    def _move_usage(self, row: int, spec: RequestSpec, sign: int) -> None:
        amounts = spec.amounts
        for cells, amount in self._usages.get(amounts) or self._usages.put(amounts, self._usage_of(spec)):
            cells[row] += sign * amount
        self.buffers["num_io_ops"][row] += sign * spec.is_fully_consumed

    def _usage_of(self, spec: RequestSpec) -> list[tuple[memoryview[float], int]]:
        """The columns that change with every instance of this flavor, each with by how much."""
        flavor = spec.flavor
        moved = {
            "free_ram_mb": -flavor.memory_mb,
            "free_disk_mb": -1024 * (flavor.root_gb + flavor.ephemeral_gb),
            "vcpus_used": flavor.vcpus,
            "num_instances": 1,
            **{_ALLOCATED[name]: amount for name, amount in spec.amounts.items()},
        }
        return [(self.buffers[name], amount) for name, amount in moved.items() if name in self.numbers]

    def update(self, row: int, report: HostRecord) -> None:
        """Replace what is known of a host with a new report."""
        touched = set()
        for name, (value,) in number_values([report], self.resource_classes()).items():
            if name not in self.numbers:  # the first host with this resource class
                units = 1 if name.startswith(("min_unit:", "step_size:")) else 0
                self._set_column(name, np.full(len(self.names), units, dtype=np.float64))
            touched |= self.put_numbers(row, {name: value})
        listed = {each.uuid for each in report.instances}
        if self.instance_index.replace(row, report.instances, set(self.instances.get(row, ())) - listed):
            touched.add("instances")
        for name, (value,) in encoded_values([report]).items():
            if self.encoded[name].set(row, value):
                touched.add(name)
        if report.uuid and self.uuids.get(row) != report.uuid:  # another node under the same name
            self.uuids = self.uuids | {row: report.uuid}
            self.generation += 1
        self.whole_nodes.forget(row)
        self.generation += any(name.startswith("max_unit:") for name in touched)
        self.portioned |= {name for name in self.resource_classes() if self._is_portioned(name, row)}
        if touched:
            self.changes.note(row, frozenset(touched))

    def put_numbers(self, row: int, values: Mapping[str, float]) -> set[str]:
        """Set columns of one row, without a word to the log: those that had another value."""
        touched = {name for name, value in values.items() if self.buffers[name][row] != value}
        for name in touched:
            self.own(name)[row] = values[name]
        return touched

    def own(self, name: str) -> Array:
        """A numeric column to be written to: from now on this table's alone."""
        if not self.numbers[name].flags.writeable:
            self._set_column(name, self.numbers[name].copy())
        return self.numbers[name]

    def _set_column(self, name: str, column: Array) -> None:
        """Another array, or a first one: what refers to the memory of the one before is forgotten."""
        self.numbers[name] = column
        self.buffers.pop(name, None)
        self._usages.clear()
        self.generation += 1

    def _note_portions(self) -> None:
        """Almost no host gives out a class in portions other than 1: capacity asks only where one does."""
        everywhere = slice(None)
        self.portioned = frozenset(name for name in self.resource_classes() if self._is_portioned(name, everywhere))

    def _is_portioned(self, resource_class: str, rows: int | slice) -> bool:
        parts = (self.numbers[f"{part}:{resource_class}"][rows] for part in ("min_unit", "step_size"))
        return any(np.any(part != 1) for part in parts)

    def note_image(self, row: int, spec: RequestSpec) -> None:
        """Note what the image of a placed instance says, for weighers that compare images."""
        uuid = str(spec.instance_uuid)
        if spec.image and uuid in self.instances.get(row, {}):
            image_props = {name: spec.image.properties.text_of(name) for name in spec.image.properties}
            if image_props != self.instances[row][uuid].image_props:
                self.instances[row][uuid] = replace(self.instances[row][uuid], image_props=image_props)
                self.changes.note(row, _INSTANCES)

    def set_trust(self, levels: Mapping[str, str]) -> None:
        """Note what the attestation service says, by node name."""
        for row, (_, node) in enumerate(self.names):
            if node in levels and self.encoded["trust_level"].set(row, levels[node]):
                self.changes.note(row, frozenset({"trust_level"}))

    def resource_classes(self) -> list[str]:
        """Every resource class that some host has."""
        return [name.removeprefix("limit:") for name in self.numbers if name.startswith("limit:")]

    def columns_touched(self, row: int, spec: RequestSpec) -> frozenset[str]:
        """The columns in which this host changes when it takes in, or lets go, such an instance."""
        if self.buffers["is_bare_metal"][row]:
            return frozenset(self.whole_nodes.columns())
        if spec.numa_topology is not None or spec.pci_requests:
            return _columns_of(*spec.amounts) | _FITTED
        return _TOUCHED.get(spec.amounts) or _TOUCHED.put(spec.amounts, _columns_of(*spec.amounts))

    def columns_consumed(self, spec: RequestSpec) -> frozenset[str]:
        """The columns in which any host may change when it takes in such an instance."""
        return _CONSUMED | _FITTED | {f"allocated:{name}" for name in (*spec.amounts, *self.resource_classes())}


def _metadata_keys(values: Iterable[Iterable[Aggregate]]) -> frozenset[str]:
    """Every key that some aggregate has."""
    return frozenset(key for value in values for each in value for key in each.metadata)


@lru_cache(maxsize=1024)
def _columns_of(*amounts: str) -> frozenset[str]:
    """The very same set for all sizes: comparing two equal ones takes longer than all else that is done with them."""
    return _CONSUMED | {_ALLOCATED[name] for name in amounts}


_TOUCHED = IdentityCache[frozenset[str]]()
"""By the amounts that are asked for: the columns that such a placement changes."""


def _instance_of(spec: RequestSpec) -> Instance:
    """A stub of an instance on its way: what its image says is noted once it is there (`note_image`)."""
    return PlacedInstance(
        str(spec.instance_uuid),
        spec.project_id,
        spec.flavor.id,
        resources=spec.amounts,
        image_ref=spec.image.id if spec.image else None,
        flavor=spec.flavor,
    )
