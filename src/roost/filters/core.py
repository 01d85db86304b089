# SPDX-License-Identifier: Apache-2.0
"""Are there CPUs enough, after overcommit?"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.arrays import Array, BoolArray
from roost.model.request import RequestSpec


class CoreFilter(Filter):
    """Leave out hosts without the CPUs, counting their overcommit ratio.

    An instance never gets more CPUs than the host physically has. A host that reports no CPU count passes.
    """

    never_fails = True
    reads = frozenset({"vcpus_total", "vcpus_used", "cpu_allocation_ratio"})

    def ratios(self, hosts: Any) -> Any:
        """Virtual CPUs per physical one, per host."""
        return hosts.cpu_allocation_ratio

    def distinguishes(self, spec: RequestSpec) -> Hashable:
        """How many CPUs."""
        return spec.flavor.vcpus

    @np.errstate(invalid="ignore")  # an aggregate may say inf, and 0 x inf is no number
    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """Enough left, and enough in all; or no count to go by."""
        asked, total = spec.flavor.vcpus, hosts.vcpus_total
        limits = total * self.ratios(hosts)
        fits = (limits - hosts.vcpus_used >= asked) & ((total >= asked) | (limits <= 0))
        mask: BoolArray = fits | (total == 0)
        return mask

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Asked against what is there."""
        asked, total = spec.flavor.vcpus, host.vcpus_total
        if total < asked:
            return f"{asked} CPUs asked; the host has {total} in all"
        limit = total * self.ratios(host)
        return f"{asked} CPUs asked; {limit - host.vcpus_used:g} left of {total} x {self.ratios(host):g}"

    @np.errstate(invalid="ignore")
    def ceilings(self, hosts: Hosts, spec: RequestSpec) -> dict[str, Array]:
        """CPUs times ratio; none where there is no count."""
        limits = np.asarray(hosts.vcpus_total * self.ratios(hosts), dtype=np.float64)
        return {"vcpu": np.where(limits > 0, limits, np.nan)}


class AggregateCoreFilter(CoreFilter):
    """The same, with the ratio taken from the host's aggregates where they set `cpu_allocation_ratio`."""

    reads = CoreFilter.reads | {"aggregates"}

    def ratios(self, hosts: Any) -> Any:
        """The smallest ratio of its aggregates, or else its own."""
        return hosts.aggregate_min("cpu_allocation_ratio", default=hosts.cpu_allocation_ratio, cast=float)


class ExactCoreFilter(Filter):
    """Keep only hosts whose free CPUs are exactly what is asked for (made for bare metal)."""

    reads = frozenset({"vcpus_total", "vcpus_used"})

    def distinguishes(self, spec: RequestSpec) -> Hashable:
        """How many CPUs."""
        return spec.flavor.vcpus

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """Neither more nor less, and a count to go by."""
        total = hosts.vcpus_total
        mask: BoolArray = (total - hosts.vcpus_used == spec.flavor.vcpus) & (total != 0)
        return mask

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Asked against free."""
        if not host.vcpus_total:
            return f"exactly {spec.flavor.vcpus} CPUs asked; the host reports no count"
        return f"exactly {spec.flavor.vcpus} CPUs asked; {host.vcpus_total - host.vcpus_used} free"

    def ceilings(self, hosts: Hosts, spec: RequestSpec) -> dict[str, Array]:
        """All CPUs."""
        return {"vcpu": hosts.vcpus_total}
