# SPDX-License-Identifier: Apache-2.0
"""The NUMA topology of an instance: parsed from JSON, or derived from its flavor and image.

`derive_topology` is the place to start reading. `roost.hosts.numa` fits a topology to a host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from roost.errors import FieldError
from roost.model.cpu_policy import (
    ANY,
    CPU_POLICIES,
    EMULATOR_POLICIES,
    LARGE,
    PINNED_POLICIES,
    SMALL,
    THREAD_POLICIES,
    NumaRequestError,
    all_cpus,
    check_locked_memory,
    check_memory_encryption,
    read_cpu_settings,
    read_node_count,
    read_node_lists,
    read_page_size,
)
from roost.model.fields import AMOUNT, MAPPING, Amount, ListOf, Record, refuse_unknown
from roost.model.flavor import Flavor
from roost.model.image import Image, ImageProperties
from roost.model.image_property_values import LARGEST_CPU
from roost.model.kinds import Kind, OneOf, OrNull, Schema, WholeNumber
from roost.model.message_fields import FromMessage

__all__ = [
    "ANY",
    "LARGE",
    "SMALL",
    "InstanceCell",
    "InstanceTopology",
    "NumaRequestError",
    "cpus_from_json",
    "derive_topology",
    "topology_from_json",
]

Share = tuple[frozenset[int], int]
"""Guest CPUs and memory (MiB) of one NUMA node."""


class CpuNumber(WholeNumber):
    """The number of a CPU."""

    @property
    def schema(self) -> Schema:
        """The schema of an amount: the published schema has no upper bound for CPUs."""
        return AMOUNT.schema


CPUS = OrNull(
    ListOf(
        CpuNumber(most=LARGEST_CPU),
        make=frozenset,
        mismatch="is not a list of CPUs",
        remedy="write numbers, as in [0, 1]",
        types=(list, tuple, set, frozenset),
    ),
    unset=frozenset(),
)
"""A set of CPUs, as a list of their numbers; null is the empty set."""
Cpus = Annotated[frozenset[int], CPUS]


class _PageSize(WholeNumber):
    """A page size in KiB, or one of the negative constants SMALL, LARGE and ANY."""

    def strict(self, value: Any, field: str) -> int:
        """The number; 0 is refused."""
        size = super().strict(value, field)
        if size == 0:
            raise FieldError(field, "0 is no page size", "KiB, or -1 small, -2 large, -3 any; null for none")
        return size


def _word_or_null(words: tuple[str, ...]) -> Kind[str | None]:
    return OrNull(OneOf(words, remedy=f"one of: {', '.join(words)}, or null"))


_EMULATOR_POLICY = _word_or_null(EMULATOR_POLICIES)


@dataclass(frozen=True)
class InstanceCell(FromMessage):
    """One NUMA cell of a guest. After it was fitted to a host: with the host cell's id, page size and CPU pinning."""

    id: Amount
    cpuset: Cpus
    """Guest CPUs that share host CPUs with other instances."""
    pcpuset: Cpus
    """Guest CPUs that get a dedicated host CPU."""
    memory: Amount
    """MiB."""
    pagesize: Annotated[int | None, OrNull(_PageSize(least=ANY))] = None
    """KiB, or SMALL, LARGE or ANY; None if not requested."""
    cpu_policy: Annotated[str | None, _word_or_null(CPU_POLICIES)] = None
    """shared, dedicated or mixed; None means shared."""
    cpu_thread_policy: Annotated[str | None, _word_or_null(THREAD_POLICIES)] = None
    """prefer, require or isolate; None means prefer."""
    cpu_pinning: tuple[tuple[int, int], ...] = ()
    """(guest CPU, host CPU) pairs."""
    cpuset_reserved: frozenset[int] = frozenset()
    """Host CPUs reserved for the emulator threads."""

    unheld: ClassVar[Mapping[str, Any]] = MappingProxyType({"cpu_topology": None})

    @property
    def is_pinned(self) -> bool:
        """Whether the CPU policy dedicates host CPUs to it."""
        return self.cpu_policy in PINNED_POLICIES

    @property
    def memory_kb(self) -> int:
        """Memory in KiB, the unit of page sizes."""
        return 1024 * self.memory


@dataclass(frozen=True)
class InstanceTopology(FromMessage):
    """The NUMA cells of a guest, in the guest's order. All cells have one CPU policy and one thread policy."""

    cells: tuple[InstanceCell, ...]
    emulator_threads_policy: str | None = None
    """isolate: the emulator threads get a dedicated host CPU, near the first NUMA cell; or share, or None."""

    @property
    def is_pinned(self) -> bool:
        """Whether the CPU policy dedicates host CPUs to it."""
        return any(cell.is_pinned for cell in self.cells)

    def overhead_of(self, position: int) -> int:
        """Host CPUs that the cell at this position needs for the emulator threads: 0 or 1."""
        return int(position == 0 and self.emulator_threads_policy == "isolate")


# --- from flavor and image ------------------------------------------------------------------------


def derive_topology(flavor: Flavor, image: Image | None) -> InstanceTopology | None:
    """The NUMA topology that flavor and image request; None if they request none."""
    specs = flavor.extra_specs
    properties = image.properties if image else ImageProperties()
    cpus = read_cpu_settings(specs, properties, flavor.vcpus)
    page_size = read_page_size(specs, properties)
    check_locked_memory(specs, properties, page_size)
    check_memory_encryption(specs, properties)
    count = read_node_count(specs, properties)
    if not (count or page_size or specs.get("hw:pmem") or cpus.policy in PINNED_POLICIES):
        return None
    shares = _split_as_given(flavor, count or 1, *read_node_lists(specs, properties))
    cells = tuple(
        InstanceCell(
            node, own - cpus.dedicated, own & cpus.dedicated, memory, page_size, cpus.policy, cpus.thread_policy
        )
        for node, (own, memory) in enumerate(shares or _split_evenly(flavor, count or 1))
    )
    return InstanceTopology(cells, cpus.emulator_policy)


def _split_evenly(flavor: Flavor, count: int) -> list[Share]:
    if flavor.vcpus % count or flavor.memory_mb % count or count > max(1, flavor.vcpus):
        raise NumaRequestError(
            "ImageNUMATopologyAsymmetric",
            f"{flavor.vcpus} vCPUs and {flavor.memory_mb} MB do not divide evenly by hw:numa_nodes {count}",
            "change the number of nodes, or give hw:numa_cpus.N and hw:numa_mem.N for each",
        )
    ordered = sorted(all_cpus(flavor.vcpus))
    each, memory = flavor.vcpus // count, flavor.memory_mb // count
    return [(frozenset(ordered[node * each : (node + 1) * each]), memory) for node in range(count)]


def _split_as_given(
    flavor: Flavor, count: int, cpus: Sequence[frozenset[int]] | None, memory: Sequence[int] | None
) -> list[Share]:
    """The shares given per node by hw:numa_cpus.N and hw:numa_mem.N; empty if neither is given."""
    if cpus is None and memory is None:
        return []
    cpus, memory = cpus or (), memory or ()
    if len(cpus) != count or len(memory) != count:
        raise NumaRequestError(
            "ImageNUMATopologyIncomplete",
            f"{count} NUMA nodes, but hw:numa_cpus.N for {len(cpus)} and hw:numa_mem.N for {len(memory)} of them",
            "give both for every node, or neither for any",
        )
    _check_cpus_of_nodes(cpus, all_cpus(flavor.vcpus))
    if sum(memory) != flavor.memory_mb or min(memory) < 0:
        raise NumaRequestError(
            "ImageNUMATopologyMemoryOutOfRange",
            f"hw:numa_mem.N are {', '.join(map(str, memory))} MB, which is not the flavor's {flavor.memory_mb} MB",
            "make them add up to the memory of the flavor",
        )
    return list(zip(cpus, memory, strict=True))


def _check_cpus_of_nodes(cpus: Sequence[frozenset[int]], every: frozenset[int]) -> None:
    times = Counter(chain.from_iterable(cpus))
    seen = frozenset(times)
    if twice := [cpu for cpu, count in times.items() if count > 1]:
        message = f"hw:numa_cpus.N put CPU {min(twice)} into more than one node"
        raise NumaRequestError("ImageNUMATopologyCPUDuplicates", message, "put every CPU into one node")
    if beyond := seen - every:
        message = f"hw:numa_cpus.N name CPU {min(beyond)}, the flavor has {len(every)} vCPUs"
        raise NumaRequestError("ImageNUMATopologyCPUOutOfRange", message, "count CPUs from 0")
    if left := every - seen:
        message = f"hw:numa_cpus.N put CPU {min(left)} into no node"
        raise NumaRequestError("ImageNUMATopologyCPUsUnassigned", message, "put every CPU into one node")


# --- from JSON ------------------------------------------------------------------------------------


def _check_cell(cell: InstanceCell) -> None:
    if both := cell.cpuset & cell.pcpuset:
        raise FieldError("pcpuset", f"CPU {min(both)} is in cpuset too", "share it or dedicate it")


_CELL = Record(
    InstanceCell,
    ("id", "cpuset", "pcpuset", "memory", "pagesize", "cpu_policy", "cpu_thread_policy"),
    null_is_absent=True,
    rule=_check_cell,
)


def topology_from_json(data: Any) -> InstanceTopology:
    """A topology from its JSON object: {"cells": [...], "emulator_threads_policy": null}."""
    record = MAPPING.strict(data, "numa_topology")
    refuse_unknown(record, ("cells", "emulator_threads_policy"), "numa_topology")
    listed = record.get("cells")
    if not isinstance(listed, (list, tuple)) or not listed:
        raise FieldError("numa_topology.cells", "is no list of cells", "give at least one")
    cells = _CELLS.strict(listed, "numa_topology.cells")
    policy = record.get("emulator_threads_policy")
    return InstanceTopology(cells, _EMULATOR_POLICY.strict(policy, "numa_topology.emulator_threads_policy"))


def _check_cells(cells: Sequence[InstanceCell]) -> None:
    if len({cell.id for cell in cells}) < len(cells):
        raise FieldError("", "two cells have the same id", "number them 0, 1, ...")
    if len({(cell.cpu_policy, cell.cpu_thread_policy) for cell in cells}) > 1:
        raise FieldError("", "CPU policies differ", "give every cell the same ones")


_CELLS = ListOf(_CELL, rule=_check_cells)


def cpus_from_json(value: Any, where: str) -> frozenset[int]:
    """A set of CPUs from a list of their numbers; None is the empty set."""
    found: frozenset[int] = CPUS.strict(value, where)
    return found
