# SPDX-License-Identifier: Apache-2.0
"""Does it fit? Per resource class: used + asked <= (total - reserved) x ratio, in the portions the host allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from roost.hosts.arrays import BoolArray, FloatArray
from roost.hosts.hosts import Hosts
from roost.hosts.view import HostView
from roost.model.resources import DISK_GB, MEMORY_MB, VCPU

if TYPE_CHECKING:
    from roost.hosts.table import HostTable

PARTS = ("allocated", "limit", "max_unit", "min_unit", "step_size")
"""What a host's row says of each resource class."""
WORDS = {VCPU: ("vcpu", ""), MEMORY_MB: ("ram", " MiB"), DISK_GB: ("disk", " GB")}
"""What a resource class is called in front of people, and its unit."""


def word_for(resource_class: str) -> str:
    """The usual three by their short name, all others by their own."""
    return WORDS.get(resource_class, (resource_class, ""))[0]


@lru_cache(maxsize=1024)
def columns_of(resource_class: str) -> frozenset[str]:
    """The columns that say of each host how much it has of the class."""
    return frozenset([f"{part}:{resource_class}" for part in PARTS])


def fits(hosts: Hosts, resource_class: str, asked: int) -> BoolArray:
    """Whether each host can give out this amount."""
    if f"limit:{resource_class}" not in hosts.table.numbers:
        return np.zeros(len(hosts), dtype=np.bool_)
    mask: BoolArray = hosts.column(f"allocated:{resource_class}") <= (hosts.column(f"limit:{resource_class}") - asked)
    mask &= hosts.column(f"max_unit:{resource_class}") >= asked
    if resource_class in hosts.table.portioned:
        mask &= hosts.column(f"min_unit:{resource_class}") <= asked
        mask &= asked % hosts.column(f"step_size:{resource_class}") == 0
    return mask


def fits_row(table: HostTable, resource_class: str, asked: int) -> Callable[[int], bool]:
    """The same question, as a function of one row."""
    if f"limit:{resource_class}" not in table.numbers:
        return lambda row: False
    if resource_class in table.portioned:
        return lambda row: bool(fits(table.one(row), resource_class, asked)[0])
    allocated, limit, max_unit = (
        table.buffers[f"{part}:{resource_class}"] for part in ("allocated", "limit", "max_unit")
    )
    return lambda row: allocated[row] <= limit[row] - asked and max_unit[row] >= asked


def first_lack(table: HostTable, asked: Mapping[str, int]) -> Callable[[int], int | None]:
    """A function of one row: the number of the first of these amounts that it cannot give out; None where it can."""
    if any(f"limit:{name}" not in table.numbers or name in table.portioned for name in asked):
        askers = [fits_row(table, name, amount) for name, amount in asked.items()]
        return lambda row: next((number for number, ask in enumerate(askers) if not ask(row)), None)
    buffers = table.buffers
    parts = [
        (
            number,
            amount,
            buffers[f"allocated:{name}"],
            buffers[f"limit:{name}"],
            _most_at_once(table, name, amount),
        )
        for number, (name, amount) in enumerate(asked.items())
    ]

    def first(row: int) -> int | None:
        for number, amount, allocated, limit, max_unit in parts:
            if allocated[row] > limit[row] - amount or (max_unit is not None and max_unit[row] < amount):
                return number
        return None

    return first


def _most_at_once(table: HostTable, resource_class: str, asked: int) -> memoryview[float] | None:
    """What a row gives to one instance at most; None where every host gives as much as is asked, as most fleets do.

    A report that changes this is noted in the table's `generation`.
    """
    column = table.numbers[f"max_unit:{resource_class}"]
    return None if len(column) and column.min() >= asked else table.buffers[f"max_unit:{resource_class}"]


def most_free(hosts: Hosts, resource_class: str) -> float:
    """The largest amount that any of these hosts could give to one instance."""
    if f"limit:{resource_class}" not in hosts.table.numbers:
        return 0
    left: FloatArray = hosts.column(f"limit:{resource_class}") - hosts.column(f"allocated:{resource_class}")
    usable = np.minimum(left, hosts.column(f"max_unit:{resource_class}"))
    return max(0.0, float(usable.max()))


def shortage(hosts: Hosts, resource_class: str, asked: int) -> str:
    """What the hosts lacked, in one breath."""
    unit = WORDS.get(resource_class, ("", ""))[1]
    most = most_free(hosts, resource_class)
    if most >= asked:
        return f"needs {asked}{unit}, which no host gives out in one portion"
    return f"needs {asked}{unit}, most free {most:.0f}"


def why_not(host: HostView, resource_class: str, asked: int) -> str:
    """Why one host cannot give out this amount."""
    if f"limit:{resource_class}" not in host.table.numbers:
        return has_none(resource_class, asked)
    return lack(Room(*(getattr(host, f"{part}:{resource_class}") for part in PARTS)), resource_class, asked)


class Room(NamedTuple):
    """What one host says of a resource class."""

    allocated: float
    limit: float
    max_unit: float
    min_unit: float
    step_size: float


def has_none(resource_class: str, asked: int) -> str:
    """What to say of a host that does not know the class."""
    name, _ = WORDS.get(resource_class, (resource_class, ""))
    return f"{asked} {name} asked; the host has none"


def lack(room: Room, resource_class: str, asked: int) -> str:
    """Why this amount cannot be given out; empty where it can."""
    name, unit = WORDS.get(resource_class, (resource_class, ""))
    if room.allocated > room.limit - asked:
        left = max(0, room.limit - room.allocated)
        return f"{asked}{unit} {name} asked; {left:.0f} of {room.limit:.0f} left"
    if asked > room.max_unit:
        return f"{asked}{unit} {name} asked; one instance may take {room.max_unit} at most"
    if asked < room.min_unit:
        return f"{asked}{unit} {name} asked; one instance must take {room.min_unit} at least"
    if asked % room.step_size:
        return f"{asked}{unit} {name} asked; it is given out in steps of {room.step_size}"
    return ""


def has_traits(hosts: Hosts, required: frozenset[str], forbidden: frozenset[str]) -> BoolArray:
    """Whether each host has all of the first and none of the second."""
    return hosts.per_value("traits", lambda traits: required <= traits and not (forbidden & traits))


def why_not_traits(host: HostView, required: frozenset[str], forbidden: frozenset[str]) -> str:
    """Which traits are missing or in the way."""
    missing = sorted(required - host.traits)
    present = sorted(forbidden & host.traits)
    parts = [f"lacks {', '.join(missing)}"] if missing else []
    parts += [f"has the forbidden {', '.join(present)}"] if present else []
    return "; ".join(parts)
