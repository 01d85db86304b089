# SPDX-License-Identifier: Apache-2.0
"""Which host CPUs become the dedicated CPUs of a guest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from roost.hosts.numa_cells import HostCell

Core = tuple[int, ...]


class Pins(NamedTuple):
    """Host CPUs for a guest."""

    cpus: tuple[int, ...] = ()
    """One for each dedicated guest CPU, in the guest's order."""
    reserved: frozenset[int] = frozenset()
    """For the emulator threads."""


def pin_cpus(host: HostCell, count: int, thread_policy: str | None, overhead: int) -> Pins | None:
    """Host CPUs for `count` dedicated guest CPUs and `overhead` emulator CPUs, or None where it cannot be done.

    Threads of one core are used together, as many of them as there are: so a guest stays on few cores.
    """
    if count == 0:
        return Pins() if _may_pin_nothing(host, thread_policy, overhead) else None
    if thread_policy == "isolate":
        return _pin_one_per_core(host, count, overhead)
    least = 2 if thread_policy == "require" else 1
    for threads in range(host.threads_per_core, least - 1, -1):
        if pins := _pin_together(host.free_cores, threads, count, overhead):
            return pins
    if thread_policy == "require":
        return None
    return _pin_together([(cpu,) for core in host.free_cores for cpu in core], 1, count, overhead)


def _may_pin_nothing(host: HostCell, thread_policy: str | None, overhead: int) -> bool:
    """A cell of a mixed guest whose dedicated CPUs are all in other cells. Stricter than it need be, as nova is."""
    if overhead or thread_policy == "isolate":
        return False
    return thread_policy != "require" or any(len(core) >= 2 for core in host.free_cores)


def _pin_together(cores: Sequence[Core], threads: int, count: int, overhead: int) -> Pins | None:
    """`threads` CPUs from each core that has them free."""
    chosen = [cpu for core in cores if len(core) >= threads for cpu in core[:threads]][:count]
    if len(chosen) < count:
        return None
    taken = frozenset(chosen)
    return _with_reserved(chosen, (cpu for core in cores for cpu in core if cpu not in taken), overhead)


def _pin_one_per_core(host: HostCell, count: int, overhead: int) -> Pins | None:
    """One CPU from each core that is wholly free; the other threads of these cores stay idle."""
    threads = host.threads_per_core
    if threads > 1 and host.pcpuset != host.cpuset:
        return None  # the other threads may be shared CPUs, which nobody keeps idle
    whole = [core for core in host.free_cores if len(core) >= threads][:count]
    if len(whole) < count:
        return None
    touched = frozenset(whole)
    untouched = (cpu for core in host.free_cores if core not in touched for cpu in core)
    return _with_reserved([core[0] for core in whole], untouched, overhead)


def _with_reserved(chosen: Iterable[int], left: Iterable[int], overhead: int) -> Pins | None:
    reserved = tuple(islice(left, overhead))
    return Pins(tuple(chosen), frozenset(reserved)) if len(reserved) == overhead else None
