# SPDX-License-Identifier: Apache-2.0
"""Why a NUMA cell of an instance fits on no NUMA cell of a host, as one sentence with the numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

from roost.hosts import numa_cell_fit as cell_fit
from roost.hosts.numa_cell_fit import OvercommitLimits
from roost.hosts.numa_cells import HostCell, HostTopology
from roost.hosts.numa_pinning import pin_cpus
from roost.model.cpu_policy import ANY, LARGE, SMALL
from roost.model.numa import InstanceCell, InstanceTopology

Obstacle = tuple[Callable[[HostCell], bool], str]
"""A requirement on a host cell, and the sentence for when no cell of the host meets it."""

_PAGE_KINDS = {SMALL: "pages of the smallest size", LARGE: "large pages", ANY: "pages of any size"}


def first_obstacle(host: HostTopology, instance: InstanceTopology, limits: OvercommitLimits | None) -> str:
    """Why the first instance cell that fits on no host cell does not fit; empty if each fits on some host cell."""
    if len(instance.cells) > len(host.cells):
        return f"{_quantity(len(instance.cells), 'NUMA cell')} asked, the host has {len(host.cells)}"
    for position, cell in enumerate(instance.cells):
        overhead = instance.overhead_of(position)
        if not any(cell_fit.fit_cell(each, cell, overhead, limits) for each in host.cells):
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
        yield lambda each: cell_fit.choose_page_size(each, cell) is not None, _no_pages(host, cell, cell.pagesize)
    else:
        yield lambda each: cell_fit.has_memory(each, cell), _no_memory(host, cell)
    most = max(len(each.cpuset) for each in host.cells)
    wanted = _quantity(len(cell.cpuset), "shared CPU")
    yield lambda each: cell_fit.has_shared_cpus(each, cell), f"no NUMA cell has {wanted}; the most is {most}"
    if cell.is_pinned:
        yield from _pinning_obstacles(host, cell, overhead)
    if limits is not None and cell.cpu_policy != "dedicated":
        yield partial(cell_fit.within_limits, cell=cell, limits=limits), _beyond_limits(host, cell, limits)


def _pinning_obstacles(host: HostTopology, cell: InstanceCell, overhead: int) -> Iterator[Obstacle]:
    wanted = _quantity(len(cell.pcpuset) + overhead, "free dedicated CPU")
    emulator = " (one for the emulator)" if overhead else ""
    most = max(len(each.free_pcpus) for each in host.cells)
    yield (
        lambda each: cell_fit.has_free_pcpus(each, cell, overhead),
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
    pools = [pool for each in host.cells for pool in cell_fit.pools_for(each, page_size)]
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
