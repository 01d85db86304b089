# SPDX-License-Identifier: Apache-2.0
"""The NUMA cells of a host: their CPUs, memory and page pools, and how much of them is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Annotated, Any

from roost.errors import FieldError
from roost.model.fields import AT_LEAST_ONE, FLAG, Amount, ListOf, Names, OptionalAmount, Record
from roost.model.kinds import OrNull
from roost.model.numa import CPUS, Cpus


@dataclass(frozen=True)
class PagePool:
    """Memory pages of one size."""

    size_kb: Annotated[int, AT_LEAST_ONE]
    total: Amount
    """Pages, as are the next two."""
    used: Amount = 0
    reserved: Amount = 0

    @property
    def free_kb(self) -> int:
        """Memory in pages that are neither used nor reserved, KiB; may be negative."""
        return (self.total - self.used - self.reserved) * self.size_kb

    @property
    def total_kb(self) -> int:
        """Memory in all pages, KiB."""
        return self.total * self.size_kb


class _PhysicalNetworks(Names):
    """Names of physical networks; null, or another empty value, is none."""

    def strict(self, value: Any, field: str) -> Any:
        """A list, a set or a single text."""
        return super().strict(value or (), field)


def _check_cores(cores: Sequence[frozenset[int]]) -> None:
    if sum(map(len, cores)) > len(frozenset(chain.from_iterable(cores))):
        raise FieldError("", "a CPU is in two cores", "list every CPU once")


def _check_pools(pools: Sequence[PagePool]) -> None:
    if len({pool.size_kb for pool in pools}) < len(pools):
        raise FieldError("", "two pools have the same page size", "add them up")


_CORES = OrNull(ListOf(CPUS, rule=_check_cores), unset=())
_PAGE_POOLS = OrNull(ListOf(Record(PagePool, null_is_absent=True), rule=_check_pools), unset=())
_NETWORKS = OrNull(_PhysicalNetworks(make=frozenset), unset=frozenset())


@dataclass(frozen=True)
class HostCell:
    """One NUMA node of a host."""

    id: Amount
    cpuset: Cpus
    """CPUs for guests that share."""
    pcpuset: Cpus
    """CPUs for guests with dedicated ones; in the legacy style the same as cpuset."""
    memory: Amount
    """MiB, as is memory_usage."""
    cpu_usage: Amount = 0
    """Guest CPUs placed on the shared ones."""
    memory_usage: Amount = 0
    pinned_cpus: Cpus = frozenset()
    siblings: Annotated[tuple[frozenset[int], ...], _CORES] = ()
    """CPUs that are threads of one core, core by core."""
    mempages: Annotated[tuple[PagePool, ...], _PAGE_POOLS] = ()
    socket: OptionalAmount = None
    physnets: Annotated[frozenset[str], _NETWORKS] = frozenset()
    """Physical networks whose cards hang on this cell."""
    tunneled: Annotated[bool, OrNull(FLAG, unset=False)] = False
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


def _check_cells(cells: Sequence[HostCell]) -> None:
    if len({cell.id for cell in cells}) < len(cells):
        raise FieldError("", "two cells have the same id", "give each its own")


_CELL_FIELDS = (
    *("id", "memory", "cpuset", "pcpuset", "pinned_cpus", "cpu_usage", "memory_usage"),
    *("siblings", "mempages", "socket", "physnets", "tunneled"),
)
_CELL = Record(HostCell, _CELL_FIELDS, null_is_absent=True)
_CELLS = OrNull(ListOf(_CELL, rule=_check_cells), unset=(), is_published=False)


@dataclass(frozen=True)
class HostTopology:
    """The NUMA cells of a host. Hashable: hosts with equal topologies share one value in the table."""

    cells: Annotated[tuple[HostCell, ...], _CELLS]

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


TOPOLOGY = Record(HostTopology, hint="list the NUMA cells of the host")
"""{"cells": [{"id": 0, "memory": 4096, ...}]}."""


def host_topology_from_json(data: Any) -> HostTopology:
    """A topology from its JSON object. Errors begin with `numa`, the field of a host."""
    return TOPOLOGY.strict(data, "numa")
