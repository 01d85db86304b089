# SPDX-License-Identifier: Apache-2.0
"""The capacity rule per resource class: allocated + asked <= (total - reserved) x ratio, in the units allowed.

`fits` answers for many hosts as a mask, `fits_row` and `first_shortage` for single rows; the rest says why not. Also
here: whether a host is enabled, and has the right traits; and bare-metal nodes, of which one instance consumes the
entire inventory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from roost.hosts.encoded import BoolArray, FloatArray
from roost.hosts.hosts import Hosts
from roost.hosts.view import HostView
from roost.model.resources import DISK_GB, MEMORY_MB, VCPU

if TYPE_CHECKING:
    from roost.hosts.table import HostTable


DISABLED_TRAIT = "COMPUTE_STATUS_DISABLED"
"""Trait that nova-compute gives to the provider of its host while the service is disabled."""
CAPACITY_FIELDS = ("allocated", "limit", "max_unit", "min_unit", "step_size")
"""A table has one column per field and resource class, such as `limit:VCPU`; in the order of `ClassCapacity`."""
_NAMES_AND_UNITS = {VCPU: ("vcpu", ""), MEMORY_MB: ("ram", " MiB"), DISK_GB: ("disk", " GB")}
"""Resource class -> its short name in messages, and the unit after an amount."""


class ClassCapacity(NamedTuple):
    """How much of one resource class a host has and has allocated, in the unit of the class."""

    allocated: float
    limit: float
    """(total - reserved) x allocation ratio."""
    max_unit: float
    min_unit: float
    step_size: float


def short_name(resource_class: str) -> str:
    """The name of a resource class in messages: `vcpu`, `ram`, `disk`, or the name of any other class unchanged."""
    return _NAMES_AND_UNITS.get(resource_class, (resource_class, ""))[0]


@lru_cache(maxsize=1024)
def columns_of(resource_class: str) -> frozenset[str]:
    """The columns that the capacity of a resource class depends on."""
    return frozenset([f"{field}:{resource_class}" for field in CAPACITY_FIELDS])


def fits(hosts: Hosts, resource_class: str, asked: int) -> BoolArray:
    """A mask: whether each host can allocate the amount `asked` of a resource class."""
    if f"limit:{resource_class}" not in hosts.table.numbers:
        return np.zeros(len(hosts), dtype=np.bool_)
    mask: BoolArray = hosts.column(f"allocated:{resource_class}") <= (hosts.column(f"limit:{resource_class}") - asked)
    mask &= hosts.column(f"max_unit:{resource_class}") >= asked
    if resource_class in hosts.table.granular_classes:
        mask &= hosts.column(f"min_unit:{resource_class}") <= asked
        mask &= asked % hosts.column(f"step_size:{resource_class}") == 0
    return mask


def fits_row(table: HostTable, resource_class: str, asked: int) -> Callable[[int], bool]:
    """A function of a row: whether that host can allocate the amount `asked`.

    Valid as long as the table's `generation` and `granular_classes` stay the same.
    """
    if f"limit:{resource_class}" not in table.numbers:
        return lambda row: False
    if resource_class in table.granular_classes:
        return lambda row: bool(fits(table.one(row), resource_class, asked)[0])
    allocated, limit, max_unit = (
        table.buffers[f"{field}:{resource_class}"] for field in ("allocated", "limit", "max_unit")
    )
    return lambda row: allocated[row] <= limit[row] - asked and max_unit[row] >= asked


def first_shortage(table: HostTable, asked: Mapping[str, int]) -> Callable[[int], int | None]:
    """A function of a row: the position in `asked` of the first amount that does not fit; None if all fit.

    Valid as long as the table's `generation` and `granular_classes` stay the same.
    """
    if any(f"limit:{name}" not in table.numbers or name in table.granular_classes for name in asked):
        tests = [fits_row(table, name, amount) for name, amount in asked.items()]
        return lambda row: next((number for number, fits_on in enumerate(tests) if not fits_on(row)), None)
    buffers = table.buffers
    parts = [
        (
            number,
            amount,
            buffers[f"allocated:{name}"],
            buffers[f"limit:{name}"],
            _max_unit_buffer(table, name, amount),
        )
        for number, (name, amount) in enumerate(asked.items())
    ]

    def first(row: int) -> int | None:
        for number, amount, allocated, limit, max_unit in parts:
            if allocated[row] > limit[row] - amount or (max_unit is not None and max_unit[row] < amount):
                return number
        return None

    return first


def _max_unit_buffer(table: HostTable, resource_class: str, asked: int) -> memoryview[float] | None:
    """The column `max_unit`; None if no host's `max_unit` is below `asked`, as in most fleets: no need to compare.

    A report that changes a `max_unit` raises the table's `generation`.
    """
    column = table.numbers[f"max_unit:{resource_class}"]
    return None if len(column) and column.min() >= asked else table.buffers[f"max_unit:{resource_class}"]


def most_free(hosts: Hosts, resource_class: str) -> float:
    """The largest amount of a resource class that a host could allocate to a single instance; at least 0."""
    if f"limit:{resource_class}" not in hosts.table.numbers:
        return 0
    left: FloatArray = hosts.column(f"limit:{resource_class}") - hosts.column(f"allocated:{resource_class}")
    usable = np.minimum(left, hosts.column(f"max_unit:{resource_class}"))
    return max(0.0, float(usable.max()))


def shortage_summary(hosts: Hosts, resource_class: str, asked: int) -> str:
    """What a group of rejected hosts lacked, for the failure line: `needs 65536 MiB, most free 49152`."""
    unit = _NAMES_AND_UNITS.get(resource_class, ("", ""))[1]
    most = most_free(hosts, resource_class)
    if most >= asked:
        return f"needs {asked}{unit}, which no host gives out in one portion"
    return f"needs {asked}{unit}, most free {most:.0f}"


def host_shortage_reason(host: HostView, resource_class: str, asked: int) -> str:
    """Why one host cannot allocate the amount `asked`; empty if it can."""
    found = capacity_of(host, resource_class)
    return shortage_reason(found, resource_class, asked) if found else missing_class_reason(resource_class, asked)


def capacity_of(host: HostView, resource_class: str) -> ClassCapacity | None:
    """How much of a resource class one host has; None where no host has any."""
    if f"limit:{resource_class}" not in host.table.numbers:
        return None
    return ClassCapacity(*(getattr(host, f"{field}:{resource_class}") for field in CAPACITY_FIELDS))


def missing_class_reason(resource_class: str, asked: int) -> str:
    """The reason against a host that has no inventory of the resource class."""
    return f"{asked} {short_name(resource_class)} asked; the host has none"


def shortage_reason(capacity: ClassCapacity, resource_class: str, asked: int) -> str:
    """Why the amount `asked` does not fit into this capacity, with the numbers; empty if it fits."""
    name, unit = _NAMES_AND_UNITS.get(resource_class, (resource_class, ""))
    if capacity.allocated > capacity.limit - asked:
        left = max(0, capacity.limit - capacity.allocated)
        return f"{asked}{unit} {name} asked; {left:.0f} of {capacity.limit:.0f} left"
    if asked > capacity.max_unit:
        return f"{asked}{unit} {name} asked; one instance may take {capacity.max_unit} at most"
    if asked < capacity.min_unit:
        return f"{asked}{unit} {name} asked; one instance must take {capacity.min_unit} at least"
    if asked % capacity.step_size:
        return f"{asked}{unit} {name} asked; it is given out in steps of {capacity.step_size}"
    return ""


def are_enabled(hosts: Hosts, *, go_by_traits: bool = True) -> BoolArray:
    """A mask: whether the service of each host is enabled, and the host has no trait that says otherwise.

    `go_by_traits`: False where placement was asked already, whose traits may be later than those of the table.
    """
    mask: BoolArray = ~hosts.is_disabled
    column = hosts.table.encoded["traits"]
    is_marked: BoolArray = column.derive(DISABLED_TRAIT, _are_marked)
    return mask & ~is_marked.take(hosts.codes("traits")) if go_by_traits and is_marked.any() else mask


def _are_marked(trait_sets: Sequence[frozenset[str]]) -> BoolArray:
    """Per set of traits, whether it has the trait of disabled hosts."""
    return np.array([DISABLED_TRAIT in each for each in trait_sets], dtype=np.bool_)


def disabled_reason(host: HostView) -> str:
    """Why a host counts as disabled."""
    if not host.is_disabled:
        return f"the host has the trait {DISABLED_TRAIT}: it counts as disabled although its service is enabled"
    said = host.service["disabled_reason"]
    return f"the host is disabled: {said}" if said else "the host is disabled"


def has_traits(hosts: Hosts, required: frozenset[str], forbidden: frozenset[str]) -> BoolArray:
    """A mask: whether each host has all required traits and no forbidden one."""
    return hosts.per_value("traits", lambda traits: required <= traits and not (forbidden & traits))


def traits_reason(host: HostView, required: frozenset[str], forbidden: frozenset[str]) -> str:
    """Which required traits a host lacks and which forbidden ones it has; empty if there are none."""
    missing = sorted(required - host.traits)
    present = sorted(forbidden & host.traits)
    parts = [f"lacks {', '.join(missing)}"] if missing else []
    parts += [f"has the forbidden {', '.join(present)}"] if present else []
    return "; ".join(parts)


NODE_USAGE_COLUMNS = ("free_ram_mb", "free_disk_mb", "vcpus_used")
"""nova's host attributes that change when a node is consumed; the allocated resource classes change as well."""


class WholeNodes:
    """Consumes and releases whole rows of a table, and restores the usage columns as they were before."""

    def __init__(self, table: HostTable) -> None:
        self._table = table
        self._before: dict[int, list[dict[str, float]]] = {}
        """Row -> stack of column values, one entry per `consume` that is not released yet."""

    def consume(self, row: int) -> None:
        """Give the node to one instance: all of its memory, disk, CPUs and inventory is used afterwards."""
        numbers = self._table.numbers
        earlier = {name: numbers[name].item(row) for name in self.columns()}
        self._before.setdefault(row, []).append(earlier)
        numbers["free_ram_mb"][row] = numbers["free_disk_mb"][row] = 0
        numbers["vcpus_used"][row] = numbers["vcpus_total"][row]
        for name in self._table.resource_classes():
            numbers[f"allocated:{name}"][row] = int(numbers[f"limit:{name}"][row])

    def release(self, row: int) -> None:
        """Undo one `consume`; a node that was in use before this table existed becomes entirely free."""
        numbers, earlier = self._table.numbers, self._before.get(row)
        numbers["free_ram_mb"][row] = numbers["total_usable_ram_mb"][row]
        numbers["free_disk_mb"][row] = 1024 * numbers["total_usable_disk_gb"][row]
        numbers["vcpus_used"][row] = 0
        for name in self._table.resource_classes():
            numbers[f"allocated:{name}"][row] = 0
        for name, value in earlier.pop().items() if earlier else ():
            numbers[name][row] = value

    def drop_saved(self, row: int) -> None:
        """Drop the saved column values of a row: a report has replaced them."""
        self._before.pop(row, None)

    def columns(self) -> list[str]:
        """The columns that `consume` and `release` write."""
        return [*NODE_USAGE_COLUMNS, *(f"allocated:{name}" for name in self._table.resource_classes())]

    def copy_to(self, twin: WholeNodes, row_of: Mapping[int, int] | None = None) -> None:
        """Copy the saved column values to another table.

        `row_of` maps rows of this table to rows of the other one and leaves out the rest; None: all, unchanged.
        """
        saved = self._before.items()
        twin._before |= {
            row if row_of is None else row_of[row]: list(earlier)
            for row, earlier in saved
            if row_of is None or row in row_of
        }
