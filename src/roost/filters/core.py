# SPDX-License-Identifier: Apache-2.0
"""Filters for free CPUs."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import Array, BoolArray
from roost.hosts.host_changes import change_host, room_remedy
from roost.model.remedy import Remedy, RequestChange
from roost.model.request import RequestSpec


class CoreFilter(Filter):
    """Leave out hosts without enough free CPUs, with the host's overcommit ratio taken into account.

    An instance never gets more CPUs than the host physically has. A host that reports no CPU count passes.
    """

    never_fails = True
    reads = frozenset({"vcpus_total", "vcpus_used", "cpu_allocation_ratio"})

    def ratios(self, hosts: Any) -> Any:
        """The overcommit ratio per host: virtual CPUs per physical CPU."""
        return hosts.cpu_allocation_ratio

    def distinguishes(self, spec: RequestSpec) -> Hashable:
        """The number of CPUs requested."""
        return spec.flavor.vcpus

    @np.errstate(invalid="ignore")  # an aggregate may set the ratio to inf, and 0 x inf is NaN
    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts with enough free CPUs and enough physical CPUs, or without a CPU count."""
        asked, total = spec.flavor.vcpus, hosts.vcpus_total
        limits = total * self.ratios(hosts)
        fits = (limits - hosts.vcpus_used >= asked) & ((total >= asked) | (limits <= 0))
        mask: BoolArray = fits | (total == 0)
        return mask

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The requested number of CPUs, and the number that the host has or has left."""
        asked, total = spec.flavor.vcpus, host.vcpus_total
        if total < asked:
            return f"{asked} CPUs asked; the host has {total} in all"
        limit = total * self.ratios(host)
        return f"{asked} CPUs asked; {limit - host.vcpus_used:g} left of {total} x {self.ratios(host):g}"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """Fewer CPUs in use on the host, or fewer asked for."""
        total, limit = host.vcpus_total, host.vcpus_total * self.ratios(host)
        return room_remedy(
            host,
            "CPUs",
            asked=spec.flavor.vcpus,
            left=limit - host.vcpus_used,
            most=min(total, limit),
            free=lambda count: change_host(host, "vcpus_used", host.vcpus_used - count),
            ask=lambda count: (RequestChange("flavor.vcpus", count),),
        )

    @np.errstate(invalid="ignore")
    def ceilings(self, hosts: Hosts, spec: RequestSpec) -> dict[str, Array]:
        """`vcpu`: CPUs x ratio; NaN, which means no limit, for hosts without a CPU count."""
        limits = np.asarray(hosts.vcpus_total * self.ratios(hosts), dtype=np.float64)
        return {"vcpu": np.where(limits > 0, limits, np.nan)}


class AggregateCoreFilter(CoreFilter):
    """Leave out hosts without enough free CPUs, with an overcommit ratio that aggregates may set.

    Works like CoreFilter. The ratio is the smallest value of the metadata `cpu_allocation_ratio` among the host's
    aggregates, or else the host's own ratio.
    """

    reads = CoreFilter.reads | {"aggregates"}

    def ratios(self, hosts: Any) -> Any:
        """The smallest ratio that the host's aggregates set, or else the host's own."""
        return hosts.aggregate_min("cpu_allocation_ratio", default=hosts.cpu_allocation_ratio, cast=float)


class ExactCoreFilter(Filter):
    """Keep only hosts that have exactly the requested number of free CPUs; intended for bare metal."""

    reads = frozenset({"vcpus_total", "vcpus_used"})

    def distinguishes(self, spec: RequestSpec) -> Hashable:
        """The number of CPUs requested."""
        return spec.flavor.vcpus

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts with exactly the requested number of free CPUs; False without a CPU count."""
        total = hosts.vcpus_total
        mask: BoolArray = (total - hosts.vcpus_used == spec.flavor.vcpus) & (total != 0)
        return mask

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The requested number of CPUs, and the number that is free."""
        if not host.vcpus_total:
            return f"exactly {spec.flavor.vcpus} CPUs asked; the host reports no count"
        return f"exactly {spec.flavor.vcpus} CPUs asked; {host.vcpus_total - host.vcpus_used} free"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """The number of CPUs that the host has free; None if it has none."""
        free = host.vcpus_total - host.vcpus_used
        return Remedy(f"ask for exactly {free:,} CPUs", (RequestChange("flavor.vcpus", free),)) if free > 0 else None

    def ceilings(self, hosts: Hosts, spec: RequestSpec) -> dict[str, Array]:
        """`vcpu`: the physical CPUs of the host."""
        return {"vcpu": hosts.vcpus_total}
