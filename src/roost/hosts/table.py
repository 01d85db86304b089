# SPDX-License-Identifier: Apache-2.0
"""The fleet as columns: one array per number, one dictionary-encoded column per anything else.

Rows are sorted by (host, node), so ties are settled the same way every time. `HostTable` is also the view of
all its rows (`Hosts`). Changes go through `consume`, `release` and `update`, and are written to `changes`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from roost.errors import BadInput
from roost.hosts.arrays import Array
from roost.hosts.changes import ChangeLog
from roost.hosts.encoded import Encoded
from roost.hosts.record import HostRecord, Instance
from roost.hosts.rows import encoded_values, number_values
from roost.hosts.running import NUMBER_TYPES, Hosts
from roost.model.request import RequestSpec

Run = tuple[HostRecord, list[tuple[str, str]]]
"""A record and the (host, node) names of all the hosts that are just like it."""

_CONSUMED = frozenset({"free_ram_mb", "free_disk_mb", "vcpus_used", "num_instances", "num_io_ops", "instances"})


class HostTable(Hosts):
    """Every host of the fleet."""

    def __init__(self) -> None:
        super().__init__(self, None, {})
        self.names: list[tuple[str, str]] = []
        """(host, node) of each row."""
        self.uuids: dict[int, str] = {}
        """Row -> node uuid, where one was given."""
        self.numbers: dict[str, Array] = {}
        self.encoded: dict[str, Encoded] = {}
        self.instances: dict[int, dict[str, Instance]] = {}
        self.row_of_instance: dict[str, int] = {}
        self.portioned: set[str] = set()
        """Resource classes that some host gives out with a smallest amount or a step other than 1."""
        self.changes = ChangeLog()

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
        table._sort_rows()
        return table

    def _fill(self, records: list[HostRecord], repeats: Array) -> None:
        for name, values in number_values(records).items():
            dtype = NUMBER_TYPES.get(name, np.dtype(np.float64))
            self.numbers[name] = np.repeat(np.array(values, dtype=dtype), repeats)
        self._note_portions()
        for name, objects in encoded_values(records).items():
            self.encoded[name] = Encoded(objects, repeats)

    def _place_instances(self, records: list[HostRecord], lengths: list[int]) -> None:
        row = 0
        for record, length in zip(records, lengths, strict=True):
            if record.uuid:
                self.uuids[row] = record.uuid
            for instance in record.instances:
                self._add_instance(row, instance)
            row += length

    def _sort_rows(self) -> None:
        order = sorted(range(len(self.names)), key=self.names.__getitem__)
        for earlier, later in pairwise(order):
            if self.names[earlier] == self.names[later]:
                host, node = self.names[later]
                raise BadInput(f"host {host}, node {node} is there twice", "give each pair once")
        if order == list(range(len(order))):
            return
        new_row = {old: new for new, old in enumerate(order)}
        self.names = [self.names[old] for old in order]
        self.uuids = {new_row[old]: uuid for old, uuid in self.uuids.items()}
        self.instances = {new_row[old]: held for old, held in self.instances.items()}
        self.row_of_instance = {uuid: new_row[old] for uuid, old in self.row_of_instance.items()}
        self.numbers = {name: column[order] for name, column in self.numbers.items()}
        for column in self.encoded.values():
            column.codes = column.codes[order]

    def copy(self) -> HostTable:
        """An independent table: what happens to one does not show in the other."""
        twin = HostTable()
        twin.names, twin.uuids = self.names, self.uuids
        twin.numbers = {name: column.copy() for name, column in self.numbers.items()}
        twin.encoded = {name: column.copy() for name, column in self.encoded.items()}
        twin.instances = {row: dict(held) for row, held in self.instances.items()}
        twin.row_of_instance = dict(self.row_of_instance)
        twin.portioned = set(self.portioned)
        return twin

    def in_the_running(self) -> Hosts:
        """All hosts, at the start of a request."""
        return Hosts(self, None, {})

    def find_row(self, pair: tuple[str, str]) -> int | None:
        """The row of this (host, node) pair; None where there is none."""
        row = bisect_left(self.names, pair)
        return row if row < len(self.names) and self.names[row] == pair else None

    def consume(self, row: int, spec: RequestSpec) -> None:
        """Take the resources of one instance from a host, as nova counts them and as they are allocated.

        nova counts root and ephemeral disk, without swap; a bare-metal node goes as a whole.
        """
        if self.numbers["is_bare_metal"][row]:
            self._take_whole_node(row)
        else:
            self._move_usage(row, spec, 1)
            if spec.instance_uuid:
                self._add_instance(row, _instance_of(spec))
        self.changes.note(row, self._columns_touched(spec))

    def release(self, row: int, spec: RequestSpec) -> None:
        """Give back what `consume` took for the same request."""
        if self.numbers["is_bare_metal"][row]:
            self._free_whole_node(row)
        else:
            self._move_usage(row, spec, -1)
            if spec.instance_uuid:
                self._drop_instance(row, spec.instance_uuid)
        self.changes.note(row, self._columns_touched(spec))

    def _move_usage(self, row: int, spec: RequestSpec, sign: int) -> None:
        numbers, flavor = self.numbers, spec.flavor
        numbers["free_ram_mb"][row] -= sign * flavor.memory_mb
        numbers["free_disk_mb"][row] -= sign * 1024 * (flavor.root_gb + flavor.ephemeral_gb)
        numbers["vcpus_used"][row] += sign * flavor.vcpus
        numbers["num_instances"][row] += sign
        numbers["num_io_ops"][row] += sign
        for name, amount in spec.amounts.items():
            if (allocated := numbers.get(f"allocated:{name}")) is not None:
                allocated[row] += sign * amount

    def _take_whole_node(self, row: int) -> None:
        numbers = self.numbers
        numbers["free_ram_mb"][row] = numbers["free_disk_mb"][row] = 0
        numbers["vcpus_used"][row] = numbers["vcpus_total"][row]
        for name in self.resource_classes():
            numbers[f"allocated:{name}"][row] = int(numbers[f"limit:{name}"][row])

    def _free_whole_node(self, row: int) -> None:
        numbers = self.numbers
        numbers["free_ram_mb"][row] = numbers["total_usable_ram_mb"][row]
        numbers["free_disk_mb"][row] = 1024 * numbers["total_usable_disk_gb"][row]
        numbers["vcpus_used"][row] = 0
        for name in self.resource_classes():
            numbers[f"allocated:{name}"][row] = 0

    def update(self, row: int, report: HostRecord) -> None:
        """Replace what is known of a host with a new report."""
        touched = set()
        for name, (value,) in number_values([report], self.resource_classes()).items():
            if name not in self.numbers:  # the first host with this resource class
                units = 1 if name.startswith(("min_unit:", "step_size:")) else 0
                self.numbers[name] = np.full(len(self.names), units, dtype=np.float64)
            if self.numbers[name][row] != value:
                self.numbers[name][row] = value
                touched.add(name)
        for name, (value,) in encoded_values([report]).items():
            if self.encoded[name].set(row, value):
                touched.add(name)
        for uuid in set(self.instances.get(row, ())) - {each.uuid for each in report.instances}:
            self._drop_instance(row, uuid)
        for instance in report.instances:
            self._add_instance(row, instance)
        self._note_portions()
        self.changes.note(row, frozenset(touched | {"instances"}))

    def _note_portions(self) -> None:
        """Almost no host gives out a class in portions other than 1: capacity asks only where one does."""
        self.portioned = {
            name
            for name in self.resource_classes()
            if (self.numbers[f"min_unit:{name}"] != 1).any() or (self.numbers[f"step_size:{name}"] != 1).any()
        }

    def resource_classes(self) -> list[str]:
        """Every resource class that some host has."""
        return [name.removeprefix("limit:") for name in self.numbers if name.startswith("limit:")]

    def _columns_touched(self, spec: RequestSpec) -> frozenset[str]:
        return _CONSUMED | {f"allocated:{name}" for name in spec.amounts}

    def _add_instance(self, row: int, instance: Instance) -> None:
        self.instances.setdefault(row, {})[instance.uuid] = instance
        self.row_of_instance[instance.uuid] = row

    def _drop_instance(self, row: int, uuid: str) -> None:
        self.instances.get(row, {}).pop(uuid, None)
        if self.row_of_instance.get(uuid) == row:
            del self.row_of_instance[uuid]


def _instance_of(spec: RequestSpec) -> Instance:
    assert spec.instance_uuid is not None  # noqa: S101 - the callers ask first
    image_props = spec.image.properties.to_dict() if spec.image else {}
    return Instance(
        uuid=spec.instance_uuid,
        project_id=spec.project_id,
        flavor_id=spec.flavor.id,
        image_props=image_props,
        resources=spec.amounts,
    )
