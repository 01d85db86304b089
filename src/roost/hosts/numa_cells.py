# SPDX-License-Identifier: Apache-2.0
"""NUMA cells of a host - CPUs, memory, page pools, usage - and one cell of an instance on one of them.

`fit_cell` says whether the instance cell fits, and which pages and CPUs it gets; `pin_cpus` chooses host CPUs for its
dedicated CPUs; `first_obstacle` is one sentence, with the numbers, on why it fits on no cell of the host.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from typing import Annotated, Any, NamedTuple

from roost.errors import FieldError
from roost.model.cpu_policy import ANY, LARGE, SMALL
from roost.model.fields import AT_LEAST_ONE, FLAG, Amount, ListOf, Names, OptionalAmount, Record
from roost.model.kinds import OrNull
from roost.model.numa import CPUS, Cpus, InstanceCell, InstanceTopology


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


Core = tuple[int, ...]
"""The free CPUs of one core."""


class Pins(NamedTuple):
    """Host CPUs that a guest gets on one NUMA cell."""

    cpus: tuple[int, ...] = ()
    """One host CPU for each dedicated guest CPU, in the order of the guest's CPUs."""
    reserved: frozenset[int] = frozenset()
    """Host CPUs for the emulator threads."""


def pin_cpus(host: HostCell, count: int, thread_policy: str | None, overhead: int) -> Pins | None:
    """Host CPUs for `count` dedicated guest CPUs and `overhead` emulator CPUs; None if there are not enough.

    As many threads per core as possible are used, so that a guest stays on few cores. With policy `isolate` it gets
    one CPU per core, with `require` at least two.
    """
    if count == 0:
        return Pins() if _may_pin_nothing(host, thread_policy, overhead) else None
    if thread_policy == "isolate":
        return _pin_isolated(host, count, overhead)
    least = 2 if thread_policy == "require" else 1
    for threads in range(host.threads_per_core, least - 1, -1):
        if pins := _pin_per_core(host.free_cores, threads, count, overhead):
            return pins
    if thread_policy == "require":
        return None
    return _pin_per_core([(cpu,) for core in host.free_cores for cpu in core], 1, count, overhead)


def _may_pin_nothing(host: HostCell, thread_policy: str | None, overhead: int) -> bool:
    """Whether a cell of a mixed guest whose dedicated CPUs are all in other cells is accepted; as strict as nova."""
    if overhead or thread_policy == "isolate":
        return False
    return thread_policy != "require" or any(len(core) >= 2 for core in host.free_cores)


def _pin_per_core(cores: Sequence[Core], threads: int, count: int, overhead: int) -> Pins | None:
    """`threads` CPUs from each core that has that many free; None if these are fewer than `count`."""
    chosen = [cpu for core in cores if len(core) >= threads for cpu in core[:threads]][:count]
    if len(chosen) < count:
        return None
    taken = frozenset(chosen)
    return _with_reserved(chosen, (cpu for core in cores for cpu in core if cpu not in taken), overhead)


def _pin_isolated(host: HostCell, count: int, overhead: int) -> Pins | None:
    """One CPU from each entirely free core, whose other threads stay idle; None if there are too few such cores."""
    threads = host.threads_per_core
    if threads > 1 and host.pcpuset != host.cpuset:
        return None  # the other threads may be shared CPUs, which cannot be kept idle
    whole = [core for core in host.free_cores if len(core) >= threads][:count]
    if len(whole) < count:
        return None
    touched = frozenset(whole)
    untouched = (cpu for core in host.free_cores if core not in touched for cpu in core)
    return _with_reserved([core[0] for core in whole], untouched, overhead)


def _with_reserved(chosen: Iterable[int], left: Iterable[int], overhead: int) -> Pins | None:
    """The pins with the first `overhead` of the CPUs `left` reserved; None if there are fewer."""
    reserved = tuple(islice(left, overhead))
    return Pins(tuple(chosen), frozenset(reserved)) if len(reserved) == overhead else None


@dataclass(frozen=True)
class OvercommitLimits:
    """How far the shared CPUs and the memory of a NUMA cell may be overcommitted."""

    cpu_ratio: float
    """Guest CPUs per shared host CPU."""
    ram_ratio: float
    """Guest memory per host memory."""


def fit_cell(
    host: HostCell, cell: InstanceCell, overhead: int, limits: OvercommitLimits | None
) -> InstanceCell | None:
    """The instance cell as it would be on the host cell, or None if it does not fit.

    `overhead` is the number of dedicated CPUs that the emulator threads need in addition to the guest's own.
    """
    page_size = choose_page_size(host, cell) if cell.pagesize is not None else None
    if page_size is None and (cell.pagesize is not None or not has_memory(host, cell)):
        return None
    if not has_shared_cpus(host, cell):
        return None
    pinning: tuple[tuple[int, int], ...] = ()
    reserved: frozenset[int] = frozenset()
    if cell.is_pinned:
        if not has_free_pcpus(host, cell, overhead):
            return None
        pins = pin_cpus(host, len(cell.pcpuset), cell.cpu_thread_policy, overhead)
        if pins is None:
            return None
        pinning, reserved = tuple(zip(sorted(cell.pcpuset), pins.cpus, strict=True)), pins.reserved
    if not within_limits(host, cell, limits):
        return None
    return dataclasses.replace(cell, id=host.id, pagesize=page_size, cpu_pinning=pinning, cpuset_reserved=reserved)


def pools_for(host: HostCell, page_size: int) -> tuple[PagePool, ...]:
    """The page pools that a request for a page size (KiB, or SMALL, LARGE, ANY) may use, in the order of trial."""
    if page_size == SMALL:
        return host.pools[-1:]
    if page_size == LARGE:
        return host.pools[:-1]
    return tuple(pool for pool in host.pools if page_size in (ANY, pool.size_kb))


def choose_page_size(host: HostCell, cell: InstanceCell) -> int | None:
    """The page size (KiB) for an instance cell that asks for one; None if no pool has enough free pages."""
    for pool in pools_for(host, cell.pagesize or ANY):
        if cell.memory_kb <= pool.free_kb and cell.memory_kb % pool.size_kb == 0:
            return pool.size_kb
    return None


def has_memory(host: HostCell, cell: InstanceCell) -> bool:
    """Whether the memory of an instance cell without a page size fits, in whole pages of the smallest size.

    A cell with dedicated CPUs needs it free. For one with shared CPUs the total counts: `within_limits` checks the
    overcommit, but a guest is never overcommitted against itself.
    """
    if not host.pools:
        return cell.memory <= (host.free_memory if cell.is_pinned else host.memory)
    smallest = host.pools[-1]
    available_kb = smallest.free_kb if cell.is_pinned else smallest.total_kb
    return cell.memory_kb <= available_kb and cell.memory_kb % smallest.size_kb == 0


def has_shared_cpus(host: HostCell, cell: InstanceCell) -> bool:
    """Whether the host cell has at least as many shared CPUs as the instance cell asks for."""
    return cell.cpu_policy == "dedicated" or len(cell.cpuset) <= len(host.cpuset)


def has_free_pcpus(host: HostCell, cell: InstanceCell, overhead: int) -> bool:
    """Whether the host cell has enough free dedicated CPUs, regardless of their cores."""
    return len(cell.pcpuset) + overhead <= len(host.free_pcpus)


def within_limits(host: HostCell, cell: InstanceCell, limits: OvercommitLimits | None) -> bool:
    """Whether shared CPUs and memory stay within the overcommit ratios; True for a cell with dedicated CPUs only."""
    if limits is None or cell.cpu_policy == "dedicated":
        return True
    cpus, memory = host.cpu_usage + len(cell.cpuset), host.memory_usage + cell.memory
    return cpus <= len(host.cpuset) * limits.cpu_ratio and memory <= host.memory * limits.ram_ratio


Obstacle = tuple[Callable[[HostCell], bool], str]
"""A requirement on a host cell, and the sentence for when no cell of the host meets it."""

_PAGE_KINDS = {SMALL: "pages of the smallest size", LARGE: "large pages", ANY: "pages of any size"}


def first_obstacle(host: HostTopology, instance: InstanceTopology, limits: OvercommitLimits | None) -> str:
    """Why the first instance cell that fits on no host cell does not fit; empty if each fits on some host cell."""
    if len(instance.cells) > len(host.cells):
        return f"{_quantity(len(instance.cells), 'NUMA cell')} asked, the host has {len(host.cells)}"
    for position, cell in enumerate(instance.cells):
        overhead = instance.overhead_of(position)
        if not any(fit_cell(each, cell, overhead, limits) for each in host.cells):
            return _obstacle_of(host, cell, overhead, limits)
    return ""


def _obstacle_of(host: HostTopology, cell: InstanceCell, overhead: int, limits: OvercommitLimits | None) -> str:
    for is_met, sentence in _obstacles(host, cell, overhead, limits):
        if not any(map(is_met, host.cells)):
            return sentence
    cpus = _quantity(len(cell.cpuset | cell.pcpuset) + overhead, "CPU")
    return f"no NUMA cell has room for {cpus} and {cell.memory} MB at once"


def _obstacles(
    host: HostTopology, cell: InstanceCell, overhead: int, limits: OvercommitLimits | None
) -> Iterator[Obstacle]:
    """Everything that can prevent a fit, in the order in which `fit_cell` checks it."""
    if cell.pagesize is not None:
        yield lambda each: choose_page_size(each, cell) is not None, _no_pages(host, cell, cell.pagesize)
    else:
        yield lambda each: has_memory(each, cell), _no_memory(host, cell)
    most = max(len(each.cpuset) for each in host.cells)
    wanted = _quantity(len(cell.cpuset), "shared CPU")
    yield lambda each: has_shared_cpus(each, cell), f"no NUMA cell has {wanted}; the most is {most}"
    if cell.is_pinned:
        yield from _pinning_obstacles(host, cell, overhead)
    if limits is not None and cell.cpu_policy != "dedicated":
        yield partial(within_limits, cell=cell, limits=limits), _beyond_limits(host, cell, limits)


def _pinning_obstacles(host: HostTopology, cell: InstanceCell, overhead: int) -> Iterator[Obstacle]:
    wanted = _quantity(len(cell.pcpuset) + overhead, "free dedicated CPU")
    emulator = " (one for the emulator)" if overhead else ""
    most = max(len(each.free_pcpus) for each in host.cells)
    yield (
        lambda each: has_free_pcpus(each, cell, overhead),
        f"no NUMA cell has {wanted}{emulator}; the most is {most}",
    )
    count, policy = len(cell.pcpuset), cell.cpu_thread_policy
    sentence = f"no NUMA cell has {wanted}{emulator} that thread policy {policy or 'prefer'} allows"
    if count == 0:
        strict = "an isolated emulator" if overhead else f"thread policy {policy}"
        sentence = f"{strict} cannot be had for NUMA cell {cell.id}, which has no dedicated CPU"
    yield lambda each: pin_cpus(each, count, policy, overhead) is not None, sentence


def _no_pages(host: HostTopology, cell: InstanceCell, page_size: int) -> str:
    kind = _PAGE_KINDS.get(page_size, f"{page_size} KiB pages")
    pools = [pool for each in host.cells for pool in pools_for(each, page_size)]
    if not pools:
        return f"no NUMA cell offers {kind}"
    most = max(0, *(pool.free_kb for pool in pools)) // 1024
    if most >= cell.memory:
        return f"no NUMA cell has {cell.memory} MB free in whole {kind}"
    return f"no free {kind} for {cell.memory} MB in one NUMA cell; the most is {most} MB"


def _no_memory(host: HostTopology, cell: InstanceCell) -> str:
    free = " free" if cell.is_pinned else ""
    most = max(_available_kb(each, cell) for each in host.cells) // 1024
    if most >= cell.memory:
        return f"no NUMA cell has {cell.memory} MB{free} in whole pages"
    return f"no NUMA cell has {cell.memory} MB{free}; the most is {most} MB"


def _available_kb(host: HostCell, cell: InstanceCell) -> int:
    """The memory of a host cell, KiB, that counts for an instance cell without a page size."""
    if not host.pools:
        return 1024 * (host.free_memory if cell.is_pinned else host.memory)
    return host.pools[-1].free_kb if cell.is_pinned else host.pools[-1].total_kb


def _beyond_limits(host: HostTopology, cell: InstanceCell, limits: OvercommitLimits) -> str:
    cpus = max(len(each.cpuset) * limits.cpu_ratio - each.cpu_usage for each in host.cells)
    memory = max(each.memory * limits.ram_ratio - each.memory_usage for each in host.cells)
    wanted = _quantity(len(cell.cpuset), "shared CPU")
    if cpus < 0:
        return "every NUMA cell has promised more shared CPUs than it may"
    if len(cell.cpuset) > cpus:
        return f"no NUMA cell may promise {wanted} more; the most is {max(0, math.floor(cpus))}"
    if cell.memory > memory:
        return f"no NUMA cell may promise {cell.memory} MB more; the most is {max(0, math.floor(memory))} MB"
    return f"no NUMA cell may promise {wanted} and {cell.memory} MB more at once"


def _quantity(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}"
