# SPDX-License-Identifier: Apache-2.0
"""Filters for free memory."""

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


class RamFilter(Filter):
    """Leave out hosts without enough free memory, with the host's overcommit ratio taken into account.

    An instance never gets more than the host's physical memory, however large the ratio.
    """

    never_fails = True
    reads = frozenset({"total_usable_ram_mb", "free_ram_mb", "ram_allocation_ratio"})

    def ratios(self, hosts: Any) -> Any:
        """The overcommit ratio of memory per host."""
        return hosts.ram_allocation_ratio

    def usable_mb(self, hosts: Any) -> Any:
        """Memory that can still be allocated, MiB, per host."""
        total = hosts.total_usable_ram_mb
        return total * self.ratios(hosts) - (total - hosts.free_ram_mb)

    def distinguishes(self, spec: RequestSpec) -> Hashable:
        """The amount of memory requested, MiB."""
        return spec.flavor.memory_mb

    @np.errstate(invalid="ignore")  # an aggregate may set the ratio to inf, and 0 x inf is NaN
    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts with enough memory left and enough physical memory."""
        asked = spec.flavor.memory_mb
        mask: BoolArray = (self.usable_mb(hosts) >= asked) & (hosts.total_usable_ram_mb >= asked)
        return mask

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The requested memory, and the memory that the host has or has left, MiB."""
        asked, total = spec.flavor.memory_mb, host.total_usable_ram_mb
        if total < asked:
            return f"{asked} MiB of memory asked; the host has {total} in all"
        ratio = self.ratios(host)
        return f"{asked} MiB of memory asked; {self.usable_mb(host):.0f} left of {total} x {ratio:g}"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """Less memory in use on the host, or less asked for."""
        total = host.total_usable_ram_mb
        return room_remedy(
            host,
            "MiB of memory",
            asked=spec.flavor.memory_mb,
            left=self.usable_mb(host),
            most=min(total, total * self.ratios(host)),
            free=lambda mb: change_host(host, "free_ram_mb", host.free_ram_mb + mb),
            ask=lambda mb: (RequestChange("flavor.memory_mb", mb),),
        )

    @np.errstate(invalid="ignore")
    def ceilings(self, hosts: Hosts, spec: RequestSpec) -> dict[str, Array]:
        """`memory_mb`: total memory x ratio, MiB."""
        return {"memory_mb": hosts.total_usable_ram_mb * self.ratios(hosts)}


class AggregateRamFilter(RamFilter):
    """Leave out hosts without enough free memory, with an overcommit ratio that aggregates may set.

    Works like RamFilter. The ratio is the smallest value of the metadata `ram_allocation_ratio` among the host's
    aggregates, or else the host's own ratio.
    """

    reads = RamFilter.reads | {"aggregates"}

    def ratios(self, hosts: Any) -> Any:
        """The smallest ratio that the host's aggregates set, or else the host's own."""
        return hosts.aggregate_min("ram_allocation_ratio", default=hosts.ram_allocation_ratio, cast=float)


class ExactRamFilter(Filter):
    """Keep only hosts that have exactly the requested amount of free memory; intended for bare metal."""

    reads = frozenset({"free_ram_mb"})

    def distinguishes(self, spec: RequestSpec) -> Hashable:
        """The amount of memory requested, MiB."""
        return spec.flavor.memory_mb

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts with exactly the requested amount of free memory."""
        mask: BoolArray = hosts.free_ram_mb == spec.flavor.memory_mb
        return mask

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The requested memory, and the memory that is free, MiB."""
        return f"exactly {spec.flavor.memory_mb} MiB of memory asked; {host.free_ram_mb} free"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """The memory that the host has free; None if it has none."""
        free = host.free_ram_mb
        change = RequestChange("flavor.memory_mb", free)
        return Remedy(f"ask for exactly {free:,} MiB of memory", (change,)) if free > 0 else None

    def ceilings(self, hosts: Hosts, spec: RequestSpec) -> dict[str, Array]:
        """`memory_mb`: total memory, MiB."""
        return {"memory_mb": hosts.total_usable_ram_mb}
