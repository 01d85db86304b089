# SPDX-License-Identifier: Apache-2.0
"""The nearest miss of an amount: how much was asked for, and the most that a host has free."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roost.errors import nearest
from roost.filters.core import CoreFilter
from roost.filters.disk import DiskFilter
from roost.filters.ram import RamFilter
from roost.hosts import capacity
from roost.hosts.arrays import FloatArray, RowArray
from roost.model.resources import DISK_GB, MEMORY_MB, VCPU
from roost.scheduler.explain.obstacles import Obstacle

_UNITS = {VCPU: "CPUs", MEMORY_MB: "MiB of memory", DISK_GB: "GB of disk"}
Miss = tuple[str, int | None]
"""The sentence, and the row of the host that it is about; None if it is about none."""


class _Room(NamedTuple):
    """What one instance asks for, and what each of some rows has for it."""

    asked: float
    unit: str
    free: FloatArray
    most_of_one: FloatArray
    """The most that one instance may take there, however much is free."""


def amount_miss(obstacle: Obstacle) -> Miss | None:
    """What was asked for, and the host that has most of it free; None if the check is about something else."""
    rows = obstacle.only if len(obstacle.only) else obstacle.rejected
    resource_class = _resource_class(obstacle)
    if resource_class is None:
        room = _room_by_filter(obstacle, rows)
    elif not _is_anywhere(obstacle, resource_class):
        return _missing_class(obstacle, resource_class), None
    else:
        room = _room_by_capacity(obstacle, rows, resource_class)
    return None if room is None else _sentence(obstacle, rows, room)


def _resource_class(obstacle: Obstacle) -> str | None:
    if not obstacle.check.is_about_room:
        return None
    short_names = {capacity.short_name(each): each for each in obstacle.spec.amounts}
    return short_names.get(obstacle.check.name)


def _is_anywhere(obstacle: Obstacle, resource_class: str) -> bool:
    """Whether a host has the resource class at all."""
    numbers = obstacle.among.instance.table.numbers
    return f"limit:{resource_class}" in numbers and bool((numbers[f"max_unit:{resource_class}"] > 0).any())


def _missing_class(obstacle: Obstacle, resource_class: str) -> str:
    known = set(obstacle.among.instance.table.resource_classes())
    hint = nearest(resource_class, known - {resource_class})
    asked = f"needs {obstacle.spec.amounts[resource_class]:,} {_UNITS.get(resource_class, resource_class)}"
    return f"{asked}; no host has any" + (f"; {hint}" if hint.startswith("did you mean") else "")


def _room_by_capacity(obstacle: Obstacle, rows: RowArray, resource_class: str) -> _Room:
    hosts, name = obstacle.hosts(rows), resource_class
    free = np.maximum(0, hosts.column(f"limit:{name}") - hosts.column(f"allocated:{name}"))
    return _Room(obstacle.spec.amounts[name], _UNITS.get(name, name), free, hosts.column(f"max_unit:{name}"))


def _room_by_filter(obstacle: Obstacle, rows: RowArray) -> _Room | None:
    """As the older filters count it; they matter where capacity is not checked."""
    hosts, flavor, rule = obstacle.hosts(rows), obstacle.spec.flavor, obstacle.check.rule
    if isinstance(rule, RamFilter):
        return _Room(flavor.memory_mb, "MiB of memory", rule.usable_mb(hosts), hosts.total_usable_ram_mb)
    if isinstance(rule, DiskFilter):
        return _Room(flavor.disk_mb, "MiB of disk", rule.usable_mb(hosts), 1024 * hosts.total_usable_disk_gb)
    if isinstance(rule, CoreFilter):
        free = hosts.vcpus_total * rule.ratios(hosts) - hosts.vcpus_used
        return _Room(flavor.vcpus, "CPUs", free, hosts.vcpus_total)
    return None


def _sentence(obstacle: Obstacle, rows: RowArray, room: _Room) -> Miss | None:
    usable = np.minimum(room.free, room.most_of_one)
    at = int(np.nanargmax(usable)) if not np.isnan(usable).all() else 0
    if not usable[at] < room.asked:
        return None  # it is given out in steps, or not in such small amounts: the reason of the check says it
    row, name = int(rows[at]), obstacle.names(rows[at : at + 1])
    found = f"most free is {room.free[at]:,.0f} on {name}"
    if room.free[at] >= room.asked:
        found = f"the most that one instance may take is {room.most_of_one[at]:,.0f}, on {name}"
    passes = "passes everything else" if len(obstacle.only) else "fails other checks, too"
    return f"needs {room.asked:,.0f} {room.unit}; {found}, which {passes}", row
