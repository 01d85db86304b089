# SPDX-License-Identifier: Apache-2.0
"""The filter for hosts on which the NUMA topology of the guest fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import Array, BoolArray
from roost.hosts.guests import fit_guest
from roost.hosts.host_changes import name_of, plural
from roost.hosts.numa import topology_reason
from roost.hosts.numa_cells import OvercommitLimits, has_threads
from roost.model.cpu_policy import shapes_topology
from roost.model.remedy import Remedy, RequestChange
from roost.model.request import RequestSpec


class NUMATopologyFilter(Filter):
    """Keep only hosts on which the guest's NUMA cells fit: CPUs, pinning, memory, page sizes, PCI devices.

    A request without a NUMA topology passes on all hosts; one with a topology needs a host that reports NUMA cells.
    """

    reads = frozenset({"numa", "pci_pools", "ratios", "allocation_candidates"})

    def applies_to(self, spec: RequestSpec) -> bool:
        """True if the request has a NUMA topology or requires CPU threads."""
        return spec.numa_topology is not None or wants_threads(spec)

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts with CPU threads, if they are required, and NUMA cells that the guest fits on."""
        mask = np.ones(len(hosts), dtype=np.bool_)
        if wants_threads(spec):
            mask &= hosts.per_value("numa", lambda topology: topology is None or has_threads(topology))
        if spec.numa_topology is not None:
            mask &= hosts.per_value("numa", lambda topology: topology is not None)
            left = np.flatnonzero(mask)
            columns = ["numa", "ratios"]
            columns += ["pci_pools"] if spec.pci_requests or len(hosts.table.encoded["pci_pools"].values) > 1 else []
            if len(left):
                mask[left] = _fits(hosts.take(left), spec, columns)
        return mask

    def ceilings(self, hosts: Hosts, spec: RequestSpec) -> dict[str, Array]:
        """`numa_topology`: the overcommit ratios that the claim on the compute host must respect."""
        if spec.numa_topology is None:
            return {}
        limits = np.empty(len(hosts), dtype=object)
        limits[:] = [limits_of(host) for host in hosts]
        return {"numa_topology": limits}

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The first obstacle, with the numbers."""
        if wants_threads(spec) and host.numa is not None and not has_threads(host.numa):
            return "CPU threads required; the host's cores have one each"
        if host.numa is None:
            return "a NUMA topology asked; the host reports none"
        assert spec.numa_topology is not None  # noqa: S101 - or there would be no rejection
        return (
            topology_reason(host.numa, spec.numa_topology, limits_of(host))
            or "no PCI device near enough to its cells"
        )

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """A flavor and an image without a NUMA topology. What else would help depends on all guests of the host."""
        specs = [key for key in spec.flavor.extra_specs if shapes_topology(key)]
        image: Mapping[str, Any] = spec.image.properties if spec.image else {}
        properties = [name for name in image if shapes_topology(name.replace("_", ":", 1))]
        parts = [plural("the extra spec", specs)] if specs else []
        parts += [plural("the image property", properties)] if properties else []
        text = f"ask without {' and '.join(parts) or 'a NUMA topology'}"
        text = f"move guests off {name_of(host)}, or {text}" if host.numa else text
        changes = [RequestChange(f"flavor.extra_specs.{key}", None) for key in specs]
        changes += [RequestChange(f"image.properties.{name}", None) for name in properties]
        return Remedy(text, (*changes, RequestChange("numa_topology", None)))


def _fits(hosts: Hosts, spec: RequestSpec, columns: Sequence[str]) -> BoolArray:
    """A mask: on which hosts the guest fits; candidates matter only to PCI devices, whose providers they name."""
    if not spec.pci_requests:
        return hosts.have_candidates() & hosts.per_combination(columns, lambda host: guest_fits(host, spec, {}))
    return hosts.narrow_candidates(columns, lambda host, each: guest_fits(host, spec, each))


def limits_of(host: HostView) -> OvercommitLimits:
    """The host's overcommit ratios of CPUs and memory."""
    return OvercommitLimits(host.cpu_allocation_ratio, host.ram_allocation_ratio)


def guest_fits(host: HostView, spec: RequestSpec, candidate: Mapping[str, Any]) -> bool:
    """Whether the guest fits on the host with the resource providers of an allocation candidate."""
    packs = host.table.packs_numa_cells
    mappings = candidate.get("mappings")
    return fit_guest(host.numa, host.pci_pools, spec, limits_of(host), packs, mappings) is not None


def wants_threads(spec: RequestSpec) -> bool:
    """Whether the flavor or the image requires dedicated CPUs on sibling threads."""
    if not (spec.flavor.extra_specs or spec.image):
        return False
    properties: Mapping[str, Any] = spec.image.properties if spec.image else {}
    policies = (spec.flavor.extra_specs.get("hw:cpu_policy"), properties.get("hw_cpu_policy"))
    threads = (spec.flavor.extra_specs.get("hw:cpu_thread_policy"), properties.get("hw_cpu_thread_policy"))
    return "dedicated" in policies and "require" in threads
