# SPDX-License-Identifier: Apache-2.0
"""The filter for free PCI devices."""

from __future__ import annotations

from operator import attrgetter

import numpy as np

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView, pci
from roost.hosts.encoded import BoolArray
from roost.hosts.host_changes import count_of, name_of
from roost.hosts.pci import free_devices, matches
from roost.model.pci import ALIAS_EXTRA_SPEC
from roost.model.remedy import Remedy, RequestChange
from roost.model.request import RequestSpec


class PciPassthroughFilter(Filter):
    """Keep only hosts with enough free PCI devices for all PCI requests of the instance.

    The NUMA nodes of the devices are checked by NUMATopologyFilter.
    """

    applies_if = attrgetter("pci_requests")
    reads = frozenset({"pci_pools", "allocation_candidates"})

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts whose pools have the devices, with the providers of an allocation candidate."""
        if not spec.pci_requests:
            return np.ones(len(hosts), dtype=np.bool_)
        return hosts.narrow_candidates(
            ["pci_pools"],
            lambda host, each: pci.supports(host.pci_pools, spec.pci_requests, mappings=each.get("mappings")),
        )

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The first PCI request that cannot be served, with the numbers."""
        return pci.devices_reason(host.pci_pools, spec.pci_requests) or "no allocation candidate provides the devices"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """A request without the devices: which guests hold those of the host is not known here."""
        named = ALIAS_EXTRA_SPEC in spec.flavor.extra_specs
        what = f"without the extra spec {ALIAS_EXTRA_SPEC}" if named else "without the devices"
        changes = [RequestChange(f"flavor.extra_specs.{ALIAS_EXTRA_SPEC}", None)] * named
        return Remedy(
            f"free {self._missing(host, spec)} on {name_of(host)}, or ask {what}",
            (*changes, RequestChange("pci_requests", [])),
        )

    def _missing(self, host: HostView, spec: RequestSpec) -> str:
        """What would have to be freed: `1 more device`, if that can be counted."""
        first, *others = spec.pci_requests
        missing = first.count - free_devices(pool for pool in host.pci_pools if matches(pool, first))
        return count_of(missing, "more devices") if missing > 0 and not others else "such devices"
