# SPDX-License-Identifier: Apache-2.0
"""CPU pinning: which host CPUs become the dedicated CPUs of a guest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from roost.hosts.numa_cells import HostCell

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
