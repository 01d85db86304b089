# SPDX-License-Identifier: Apache-2.0
"""Has the host the PCI devices?"""

from __future__ import annotations

import numpy as np

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView, pci_fit
from roost.hosts.arrays import BoolArray
from roost.model.request import RequestSpec


class PciPassthroughFilter(Filter):
    """Keep only hosts with free PCI devices for all PCI requests together.

    Which NUMA node the devices are on is the concern of NUMATopologyFilter.
    """

    reads = frozenset({"pci_pools", "allocation_candidates"})

    def applies_to(self, spec: RequestSpec) -> bool:
        """Devices are asked for."""
        return bool(spec.pci_requests)

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """The pools have them."""
        if not spec.pci_requests:
            return np.ones(len(hosts), dtype=np.bool_)
        return hosts.narrow_candidates(
            ["pci_pools"],
            lambda host, each: pci_fit.supports(host.pci_pools, spec.pci_requests, mappings=each.get("mappings")),
        )

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Which devices are missing."""
        return (
            pci_fit.devices_reason(host.pci_pools, spec.pci_requests)
            or "no allocation candidate provides the devices"
        )
