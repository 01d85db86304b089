# SPDX-License-Identifier: Apache-2.0
"""The NUMA cells of a host: their CPUs, memory and page pools, and how much of them is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from roost.errors import FieldError
from roost.model import checks
from roost.model.numa import cpus_from_json


@dataclass(frozen=True)
class PagePool:
    """Memory pages of one size."""

    size_kb: int
    total: int
    """Pages, as are the next two."""
    used: int = 0
    reserved: int = 0

    @property
    def free_kb(self) -> int:
        """Memory in pages that are neither used nor reserved, KiB; may be negative."""
        return (self.total - self.used - self.reserved) * self.size_kb

    @property
    def total_kb(self) -> int:
        """Memory in all pages, KiB."""
        return self.total * self.size_kb


@dataclass(frozen=True)
class HostCell:
    """One NUMA node of a host."""

    id: int
    cpuset: frozenset[int]
    """CPUs for guests that share."""
    pcpuset: frozenset[int]
    """CPUs for guests with dedicated ones; in the legacy style the same as cpuset."""
    memory: int
    """MiB, as is memory_usage."""
    cpu_usage: int = 0
    """Guest CPUs placed on the shared ones."""
    memory_usage: int = 0
    pinned_cpus: frozenset[int] = frozenset()
    siblings: tuple[frozenset[int], ...] = ()
    """CPUs that are threads of one core, core by core."""
    mempages: tuple[PagePool, ...] = ()
    socket: int | None = None
    physnets: frozenset[str] = frozenset()
    """Physical networks whose cards hang on this cell."""
    tunneled: bool = False
    """The card for tunnelled networks hangs on this cell."""

    @property
    def free_memory(self) -> int:
        """Memory that no guest uses, MiB; may be negative."""
        return self.memory - self.memory_usage

    @cached_property
    def free_pcpus(self) -> frozenset[int]:
        """Dedicated CPUs on which no guest is pinned."""
        return self.pcpuset - self.pinned_cpus

    @cached_property
    def free_cores(self) -> tuple[tuple[int, ...], ...]:
        """The free dedicated CPUs of each core; a CPU without known siblings is a core of its own."""
        free = self.free_pcpus
        cores = [tuple(sorted(core & free)) for core in self.siblings]
        unlisted = free.difference(chain.from_iterable(self.siblings))
        return (*filter(None, cores), *((cpu,) for cpu in sorted(unlisted)))

    @cached_property
    def threads_per_core(self) -> int:
        """Threads of the largest core, free or not; at least 1."""
        return max((len(core) for core in self.siblings), default=1) or 1

    @cached_property
    def pools(self) -> tuple[PagePool, ...]:
        """Page pools, largest pages first."""
        return tuple(sorted(self.mempages, key=lambda pool: -pool.size_kb))


@dataclass(frozen=True)
class HostTopology:
    """The NUMA cells of a host. Hashable: hosts with equal topologies share one value in the table."""

    cells: tuple[HostCell, ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Numbers only: they distinguish hosts, and hash to the same value in every process that unpickles this.
        return hash(tuple(_hash_key(cell) for cell in self.cells))


def _hash_key(cell: HostCell) -> tuple[Any, ...]:
    pages = tuple((pool.size_kb, pool.total, pool.used) for pool in cell.mempages)
    usage = (cell.cpu_usage, cell.memory_usage, cell.pinned_cpus)
    return (cell.id, cell.memory, cell.cpuset, cell.pcpuset, pages, *usage)


def has_threads(host: HostTopology) -> bool:
    """Whether some core of the host has more than one thread."""
    return any(cell.threads_per_core > 1 for cell in host.cells)


# --- from JSON ------------------------------------------------------------------------------------

_CELL_FIELDS = tuple(HostCell.__dataclass_fields__)
_POOL_FIELDS = tuple(PagePool.__dataclass_fields__)


def host_topology_from_json(data: Any) -> HostTopology:
    """A topology from its JSON object: {"cells": [{"id": 0, "memory": 4096, ...}]}."""
    record = checks.mapping(data, "numa")
    checks.known_keys(record, ("cells",), "numa")
    if "cells" not in record:
        raise FieldError("numa.cells", "is missing", "list the NUMA cells of the host")
    cells = tuple(_cell_from_json(each, where) for where, each in _listed(record["cells"], "numa.cells"))
    if len({cell.id for cell in cells}) < len(cells):
        raise FieldError("numa.cells", "two cells have the same id", "give each its own")
    return HostTopology(cells)


def _cell_from_json(data: Any, where: str) -> HostCell:
    record = checks.mapping(data, where)
    checks.known_keys(record, _CELL_FIELDS, where)
    socket, physnets, tunneled = (record.get(name) for name in ("socket", "physnets", "tunneled"))
    return HostCell(
        id=_amount(record, "id", where),
        cpuset=cpus_from_json(record.get("cpuset"), f"{where}.cpuset"),
        pcpuset=cpus_from_json(record.get("pcpuset"), f"{where}.pcpuset"),
        memory=_amount(record, "memory", where),
        cpu_usage=_amount(record, "cpu_usage", where, 0),
        memory_usage=_amount(record, "memory_usage", where, 0),
        pinned_cpus=cpus_from_json(record.get("pinned_cpus"), f"{where}.pinned_cpus"),
        siblings=_cores_from_json(record.get("siblings"), f"{where}.siblings"),
        mempages=_pools_from_json(record.get("mempages"), f"{where}.mempages"),
        socket=None if socket is None else checks.whole_number(socket, f"{where}.socket"),
        physnets=frozenset(checks.names(physnets or (), f"{where}.physnets")),
        tunneled=tunneled is not None and checks.flag(tunneled, f"{where}.tunneled"),
    )


def _cores_from_json(value: Any, where: str) -> tuple[frozenset[int], ...]:
    cores = tuple(cpus_from_json(core, at) for at, core in _listed(value, where))
    if sum(map(len, cores)) > len(frozenset(chain.from_iterable(cores))):
        raise FieldError(where, "a CPU is in two cores", "list every CPU once")
    return cores


def _pools_from_json(value: Any, where: str) -> tuple[PagePool, ...]:
    pools = tuple(_pool_from_json(pool, at) for at, pool in _listed(value, where))
    if len({pool.size_kb for pool in pools}) < len(pools):
        raise FieldError(where, "two pools have the same page size", "add them up")
    return pools


def _pool_from_json(data: Any, where: str) -> PagePool:
    record = checks.mapping(data, where)
    checks.known_keys(record, _POOL_FIELDS, where)
    size_kb = checks.whole_number(record.get("size_kb"), f"{where}.size_kb", least=1)
    used, reserved = _amount(record, "used", where, 0), _amount(record, "reserved", where, 0)
    return PagePool(size_kb, _amount(record, "total", where), used, reserved)


def _amount(record: Mapping[str, Any], name: str, where: str, default: int | None = None) -> int:
    value = record.get(name)
    if value is None and default is not None:
        return default
    return checks.whole_number(value, f"{where}.{name}")


def _listed(value: Any, where: str) -> list[tuple[str, Any]]:
    """The items of a list, each after its place; None is the empty list."""
    if not isinstance(value, (list, tuple, type(None))):
        raise FieldError(where, f"{checks.shown(value)} is not a list")
    return [(f"{where}[{at}]", each) for at, each in enumerate(value or ())]
