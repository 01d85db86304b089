# SPDX-License-Identifier: Apache-2.0
"""The fleet as columns: one array per numeric attribute, one dictionary-encoded column for any other.

Rows are sorted by (host, node), so that ties are broken in the same way every time. `HostTable` is itself a view of
all its rows (`Hosts`). Changes go through `consume`, `release`, `update` and `updates.py`, which note in a change log
which rows changed in which columns: caches of per-row results are patched from it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import cast

import numpy as np

from roost.errors import BadInput
from roost.hosts.capacity import NODE_USAGE_COLUMNS, WholeNodes
from roost.hosts.encoded import Array, Encoded
from roost.hosts.guests import consume_guest, release_guest
from roost.hosts.hosts import NUMBER_TYPES, Hosts
from roost.hosts.instances import Instance, InstanceIndex, placed_instance
from roost.hosts.numa_cells import OvercommitLimits
from roost.hosts.record import HostRecord, Pair, encoded_values, number_values
from roost.model.flavor import Flavor
from roost.model.group import Aggregate
from roost.model.kinds import IdentityCache, lazy
from roost.model.request import RequestSpec
from roost.model.resources import STANDARD_CLASSES

Run = tuple[HostRecord, list[Pair]]
"""A record, and the (host, node) names of all hosts that are equal to it but for their names."""

_CONSUMED_COLUMNS = frozenset({*NODE_USAGE_COLUMNS, "num_instances", "num_io_ops", "instances"})
"""Columns that every placement changes; in addition there are those of the allocated resource classes."""
_FITTED_COLUMNS = frozenset({"numa", "pci_pools"})
"""Columns that a placement with a NUMA topology or PCI requests changes."""
_INSTANCES_COLUMN, _IO_OPS_COLUMN = frozenset({"instances"}), frozenset({"num_io_ops"})
_Usage = tuple[list[tuple["memoryview[float]", int]], frozenset[str]]
"""What an instance changes on a row: buffers of columns with the difference in each, and the names of all columns."""


def _is_volatile(name: str) -> bool:
    """Whether placements or the clock change a column; other columns change with reports only."""
    return name in _CONSUMED_COLUMNS or name == "is_up" or name.startswith("allocated:")


class _AllocatedColumns(dict[str, str]):
    """Resource class -> name of its `allocated:` column."""

    def __missing__(self, name: str) -> str:
        return f"allocated:{name}"


_ALLOCATED_COLUMN = _AllocatedColumns({name: f"allocated:{name}" for name in STANDARD_CLASSES})


class HostTable(Hosts):
    """All hosts of a fleet, one row per (host, node)."""

    def __init__(self) -> None:
        super().__init__(self, None, {})
        self.names: list[tuple[str, str]] = []
        """(host, node) of each row, sorted."""
        self.uuids: dict[int, str] = {}
        """Row -> node uuid, for rows whose source gave one."""
        self.numbers: dict[str, Array] = {}
        """Numeric column -> its array; read-only while shared with another table."""
        self.buffers = ColumnBuffers(self.numbers)
        """Numeric column -> its memory, to read or change one number at a time."""
        self._usages = IdentityCache[_Usage]()
        """`spec.amounts`, of which there is one object per flavor -> result of `_usage_of`."""
        self.encoded: dict[str, Encoded] = {}
        """Name -> dictionary-encoded column."""
        self.instance_index = InstanceIndex()
        self.packs_numa_cells = False
        """Whether guests fill up the NUMA cells of a host one by one; otherwise they are spread over them."""
        self.known_aggregates: tuple[Aggregate, ...] = ()
        """All aggregates, also those without hosts."""
        self.flavors: Mapping[str, Flavor] = {}
        """Name -> flavor, of the fleet file: for instances that only name theirs."""
        self.wall_clock: Callable[[], datetime] | None = None
        """Gives the time at which an instance is placed; None: that is not recorded."""
        self.granular_classes: frozenset[str] = frozenset()
        """Resource classes for which a host has a min_unit or step_size other than 1."""
        self._are_names_lower: bool | None = None
        """Whether all host names are lower case; None until first needed."""
        self.generation = 0
        """Raised when a column gets a new array, or when a max_unit or a node uuid changes.

        Arrays, buffers and functions of rows that were obtained at an earlier generation are stale.
        """
        self.changes = ChangeLog()

    @lazy
    def whole_nodes(self) -> WholeNodes:
        """Consumes and releases bare-metal nodes of this table."""
        return WholeNodes(self)

    @classmethod
    def of(cls, records: Iterable[HostRecord]) -> HostTable:
        """A table with one row per record."""
        return cls.of_runs((record, [(record.host, record.nodename)]) for record in records)

    @classmethod
    def of_runs(cls, runs: Iterable[Run]) -> HostTable:
        """A table with one row per (host, node) of the runs; equal hosts share one record, which saves memory."""
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

    @classmethod
    def of_columns(
        cls,
        names: list[Pair],
        numbers: Mapping[str, Sequence[float]],
        encoded: Mapping[str, Sequence[object]],
        uuids: Mapping[int, str],
        instances: Iterable[tuple[int, Instance]],
    ) -> HostTable:
        """A table of the columns of another one: a value per row, in its order; instances with their rows."""
        table = cls()
        table.names, table.uuids = names, dict(uuids)
        for name, values in numbers.items():
            table.numbers[name] = np.array(values, dtype=NUMBER_TYPES.get(name, np.dtype(np.float64)))
        table.find_granular_classes()
        for name, objects in encoded.items():
            table.encoded[name] = Encoded(objects)
        for row, instance in instances:
            table.instance_index.put(row, instance)
        return table

    def _fill(self, records: list[HostRecord], repeats: Array) -> None:
        for name, values in number_values(records).items():
            column = np.array(values, dtype=NUMBER_TYPES.get(name, np.dtype(np.float64)))
            is_constant = not _is_volatile(name) and len(column) > 0 and bool((column == column[0]).all())
            # A broadcast view of one number takes no memory until a host gets another number.
            self.numbers[name] = (
                np.broadcast_to(column[0], len(self.names)) if is_constant else np.repeat(column, repeats)
            )
        self.find_granular_classes()
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
            if column.flags.writeable:  # one column at a time, to limit the peak of memory
                column[:] = column[new_order]

    def copy(self) -> HostTable:
        """An independent copy (snapshot). Columns that only reports change are shared copy-on-write."""
        twin = HostTable()
        twin.names, twin.uuids = self.names, self.uuids
        for name, column in self.numbers.items():
            if _is_volatile(name):
                twin.numbers[name] = column.copy()
            else:
                column.flags.writeable = False
                twin.numbers[name] = column
        twin.encoded = {name: column.copy() for name, column in self.encoded.items()}
        self.instance_index.copy_to(twin.instance_index)
        twin.packs_numa_cells = self.packs_numa_cells
        twin.known_aggregates = self.known_aggregates
        twin.flavors, twin.wall_clock = self.flavors, self.wall_clock
        if "whole_nodes" in vars(self):
            self.whole_nodes.copy_to(twin.whole_nodes)
        twin.granular_classes = self.granular_classes
        return twin

    @property
    def metadata_keys(self) -> frozenset[str]:
        """Every metadata key that an aggregate of a host currently has."""
        keys: frozenset[str] = self.encoded["aggregates"].derive("keys", _metadata_keys)
        return keys

    def in_the_running(self) -> Hosts:
        """A view of all hosts for one request, with HostViews and limits of its own."""
        return Hosts(self, None, {})

    def one(self, row: int) -> Hosts:
        """A view of one row."""
        return Hosts(self, np.array([row], dtype=np.intp), {})

    def find_row(self, pair: tuple[str, str]) -> int | None:
        """The row of a (host, node) pair; None if the table does not have it."""
        row = bisect_left(self.names, pair)
        return row if row < len(self.names) and self.names[row] == pair else None

    def rows_of_host(self, host: str) -> range:
        """The rows of a service host, one per node; empty if the table does not have it."""
        return range(bisect_left(self.names, (host, "")), bisect_left(self.names, (host + "\0", "")))

    def rows_of_hosts_ignoring_case(self, hosts: Iterable[str]) -> list[int]:
        """The rows of the named service hosts; upper and lower case are not distinguished."""
        wanted = {host.lower() for host in hosts}
        if self._are_names_lower is None:
            self._are_names_lower = all(host.islower() for host, _ in self.names)
        if self._are_names_lower:
            return [row for host in wanted for row in self.rows_of_host(host)]
        return [row for row, (host, _) in enumerate(self.names) if host.lower() in wanted]

    def rows_of_instance(self, uuid: str) -> tuple[int, ...]:
        """The rows on which an instance runs: none, one, or two during a move."""
        return self.instance_index.rows_of(uuid)

    def hosts_of(self, instances: Iterable[str]) -> tuple[str, ...]:
        """The names of the hosts on which the given instances run, in the order of the instances, each once."""
        rows = [row for uuid in instances for row in self.rows_of_instance(uuid)]
        return tuple(dict.fromkeys(self.names[row][0] for row in rows))

    @property
    def instances(self) -> dict[int, dict[str, Instance]]:
        """Row -> instance uuid -> instance; rows without instances may be missing."""
        return self.instance_index.by_row

    @property
    def flavor_ids(self) -> Encoded:
        """The set of flavor ids on each host, as a column; built on first access and maintained from then on."""
        return self.instance_index.flavor_ids(len(self.names))

    def count_on(self, row: int, uuids: frozenset[str]) -> int:
        """How many of the given instances run on a row. Cost is linear in the instances on the row."""
        return self.instance_index.count_on(row, uuids)

    def consume(self, row: int, spec: RequestSpec, limits: OvercommitLimits | None = None) -> RequestSpec:
        """Consume the resources of one instance on a row, both in nova's attributes and per resource class.

        nova's disk attributes count root and ephemeral disk without swap. A bare-metal node is consumed whole. The
        result is the request as placed - fitted to NUMA cells within `limits`, with its PCI devices - for `release`.
        """
        if self.buffers["is_bare_metal"][row]:
            self.whole_nodes.consume(row)
            touched = frozenset(self.whole_nodes.columns())
        else:
            if spec.numa_topology or spec.pci_requests:
                spec = consume_guest(self, row, spec, limits)
            touched = self._add_usage(row, spec, 1)
            if spec.instance_uuid:
                placed_at = self.wall_clock() if self.wall_clock else None
                self.instance_index.acquire(row, placed_instance(spec, placed_at))
        self.changes.note(row, touched)
        return spec

    def release(self, row: int, spec: RequestSpec) -> None:
        """Undo `consume`: `spec` is the request that it returned."""
        if self.buffers["is_bare_metal"][row]:
            self.whole_nodes.release(row)
            touched = frozenset(self.whole_nodes.columns())
        else:
            touched = self._add_usage(row, spec, -1)
            if spec.numa_topology or spec.pci_devices:
                release_guest(self, row, spec)
            if spec.instance_uuid:
                self.instance_index.release(row, spec.instance_uuid)
        self.changes.note(row, touched)

    def finish_build(self, row: int, spec: RequestSpec) -> RequestSpec:
        """Count a placed instance as built, no longer in `num_io_ops` of its host. Idempotent.

        `spec` is the request that `consume` returned; the result is the request to pass to `release` from now on.
        """
        if spec.is_fully_consumed and not self.buffers["is_bare_metal"][row]:
            self.buffers["num_io_ops"][row] -= 1
            self.changes.note(row, _IO_OPS_COLUMN)
        return spec.changed(is_fully_consumed=False)

    def _add_usage(self, row: int, spec: RequestSpec, sign: int) -> frozenset[str]:
        """Add the usage of an instance to a row (`sign` 1), or subtract it (-1). Returns the columns that changed."""
        amounts = spec.amounts
        differences, touched = self._usages.get(amounts) or self._usages.put(amounts, self._usage_of(spec))
        for buffer, amount in differences:
            buffer[row] += sign * amount
        self.buffers["num_io_ops"][row] += sign * spec.is_fully_consumed
        return touched | _FITTED_COLUMNS if spec.numa_topology is not None or spec.pci_requests else touched

    def _usage_of(self, spec: RequestSpec) -> _Usage:
        """What an instance of this flavor changes on a row.

        A resource class that only children of the host's own provider have is no column here, so no change either.
        """
        differences = [(self.buffers[name], amount) for name, amount in self.amounts_consumed(spec).items()]
        counted = [name for name in spec.amounts if _ALLOCATED_COLUMN[name] in self.numbers]
        return differences, _consumed_columns(*counted)

    def amounts_consumed(self, spec: RequestSpec) -> dict[str, int]:
        """Numeric column -> what one instance of this flavor adds to it on any row but a bare-metal one."""
        flavor = spec.flavor
        changes = {
            "free_ram_mb": -flavor.memory_mb,
            "free_disk_mb": -1024 * (flavor.root_gb + flavor.ephemeral_gb),
            "vcpus_used": flavor.vcpus,
            "num_instances": 1,
            **{_ALLOCATED_COLUMN[name]: amount for name, amount in spec.amounts.items()},
        }
        return {name: amount for name, amount in changes.items() if name in self.numbers}

    def update(self, row: int, report: HostRecord) -> None:
        """Replace everything that is known of a host by a new report."""
        touched = set()
        for name, (value,) in number_values([report], self.resource_classes()).items():
            self.ensure_column(name)
            touched |= self.set_numbers(row, {name: value})
        listed = {each.uuid for each in report.instances}
        if self.instance_index.replace(row, report.instances, set(self.instances.get(row, ())) - listed):
            touched.add("instances")
        for name, (value,) in encoded_values([report]).items():
            if self.encoded[name].set(row, value):
                touched.add(name)
        if report.uuid and self.uuids.get(row) != report.uuid:  # another node with the same name
            self.uuids = self.uuids | {row: report.uuid}
            self.generation += 1
        self.whole_nodes.drop_saved(row)
        self.generation += any(name.startswith("max_unit:") for name in touched)
        self.granular_classes |= {name for name in self.resource_classes() if self._is_granular(name, row)}
        if touched:
            self.changes.note(row, frozenset(touched))

    def ensure_column(self, name: str) -> None:
        """Add a numeric column of a resource class that no host had so far; no effect if it is there."""
        if name not in self.numbers:
            units = 1 if name.startswith(("min_unit:", "step_size:")) else 0
            self._set_column(name, np.full(len(self.names), units, dtype=np.float64))

    def set_numbers(self, row: int, values: Mapping[str, float]) -> set[str]:
        """Set numeric columns of a row and return those that changed; the caller notes them in the change log."""
        touched = {name for name, value in values.items() if self.buffers[name][row] != value}
        for name in touched:
            self.writable_column(name)[row] = values[name]
        return touched

    def writable_column(self, name: str) -> Array:
        """A numeric column for writing: copied first if it is shared with another table (copy-on-write)."""
        if not self.numbers[name].flags.writeable:
            self._set_column(name, self.numbers[name].copy())
        return self.numbers[name]

    def _set_column(self, name: str, column: Array) -> None:
        """Set the array of a column and invalidate everything that refers to the memory of the previous one."""
        self.numbers[name] = column
        self.buffers.pop(name, None)
        self._usages.clear()
        self.generation += 1

    def find_granular_classes(self) -> None:
        """Set `granular_classes`: units other than 1 are so rare that the capacity check skips all other classes."""
        rows = slice(None)
        self.granular_classes = frozenset(name for name in self.resource_classes() if self._is_granular(name, rows))

    def _is_granular(self, resource_class: str, rows: int | slice) -> bool:
        parts = (self.numbers[f"{part}:{resource_class}"][rows] for part in ("min_unit", "step_size"))
        return any(np.any(part != 1) for part in parts)

    def note_image(self, row: int, spec: RequestSpec) -> None:
        """Record the image properties of a placed instance, for weighers that compare images."""
        uuid = str(spec.instance_uuid)
        if spec.image and uuid in self.instances.get(row, {}):
            image_props = {name: spec.image.properties.text_of(name) for name in spec.image.properties}
            if image_props != self.instances[row][uuid].image_props:
                self.instances[row][uuid] = replace(self.instances[row][uuid], image_props=image_props)
                self.changes.note(row, _INSTANCES_COLUMN)

    def set_trust(self, levels: Mapping[str, str]) -> None:
        """Set the trust levels that the attestation service reports; `levels` maps node names to them."""
        for row, (_, node) in enumerate(self.names):
            if node in levels and self.encoded["trust_level"].set(row, levels[node]):
                self.changes.note(row, frozenset({"trust_level"}))

    def resource_classes(self) -> list[str]:
        """Every resource class of which a host has an inventory."""
        return [name.removeprefix("limit:") for name in self.numbers if name.startswith("limit:")]

    def columns_consumed(self, spec: RequestSpec) -> frozenset[str]:
        """The columns that may change on any row, bare-metal ones included, when it consumes the request."""
        allocated = {f"allocated:{name}" for name in (*spec.amounts, *self.resource_classes())}
        return _CONSUMED_COLUMNS | _FITTED_COLUMNS | allocated


def _metadata_keys(values: Iterable[Iterable[Aggregate]]) -> frozenset[str]:
    """Every metadata key of the given sets of aggregates."""
    return frozenset(key for value in values for each in value for key in each.metadata)


@lru_cache(maxsize=1024)
def _consumed_columns(*resource_classes: str) -> frozenset[str]:
    """The columns that a placement changes. Cached, so that equal sets are one object and compare by identity."""
    return _CONSUMED_COLUMNS | {_ALLOCATED_COLUMN[name] for name in resource_classes}


KEPT_CHANGES = 65_536
"""A minute of changes where 10,000 hosts report every 10 seconds."""
MOST_SETS = 512
"""Different sets of columns that are remembered, to keep equal ones once; there are a few dozen."""


class ChangeLog:
    """The latest changes of a table, bounded in number. `version` counts all changes, also those dropped since."""

    def __init__(self, keep: int = KEPT_CHANGES) -> None:
        self.version = 0
        self.aggregates_version = 0
        """The version at which the aggregates of a host last changed; 0: never."""
        self._keep = keep
        self._rows: list[int] = []
        self._columns: list[frozenset[str]] = []
        """Parallel to `_rows`: thousands of tuples would be work for the garbage collector."""
        self._sets: dict[frozenset[str], frozenset[str]] = {}

    def note(self, row: int, columns: frozenset[str]) -> None:
        """Record that a row changed in these columns, which the table has, or in "instances"."""
        self.version += 1
        if "aggregates" in columns:
            self.aggregates_version = self.version
        self._rows.append(row)
        self._columns.append(self._known(columns))
        if len(self._rows) > 2 * self._keep:
            del self._rows[: self._keep], self._columns[: self._keep]

    def _known(self, columns: frozenset[str]) -> frozenset[str]:
        """The set that was noted first of those that equal this one: a set of its own per change takes 400 bytes."""
        if len(self._sets) >= MOST_SETS:
            self._sets.clear()
        return self._sets.setdefault(columns, columns)

    def rows_since(self, version: int) -> dict[int, frozenset[str]] | None:
        """Row -> columns changed after a version, in order of first change; None if some changes were dropped.

        On None the caller must read all rows again.
        """
        if self.version - version == 1:  # fast path: the state after most requests
            return {self._rows[-1]: self._columns[-1]}
        missing = self.version - version
        if missing > self._keep:
            return None
        start = len(self._rows) - missing
        found: dict[int, frozenset[str]] = {}
        for row, columns in zip(self._rows[start:], self._columns[start:], strict=True):
            before = found.get(row)
            found[row] = columns if before is None or before is columns else before | columns
        return found


class ColumnBuffers(dict[str, "memoryview[float]"]):
    """Column name -> buffer of its array, made on first access. An entry is dropped when the array is replaced."""

    def __init__(self, numbers: Mapping[str, Array]) -> None:
        super().__init__()
        self._numbers = numbers

    def __missing__(self, name: str) -> memoryview[float]:
        buffer = self[name] = cast("memoryview[float]", self._numbers[name].data)
        return buffer
