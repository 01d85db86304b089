# SPDX-License-Identifier: Apache-2.0
"""Is there local disk enough, after overcommit?"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.arrays import Array, BoolArray
from roost.model.request import RequestSpec


class DiskFilter(Filter):
    """Leave out hosts without the local disk (root, ephemeral and swap), counting their overcommit ratio."""

    never_fails = True
    reads = frozenset({"total_usable_disk_gb", "free_disk_mb", "disk_allocation_ratio"})

    def ratios(self, hosts: Any) -> Any:
        """Overcommit of disk, per host."""
        return hosts.disk_allocation_ratio

    def usable_mb(self, hosts: Any) -> Any:
        """Disk that may still be given out, MiB."""
        total = 1024 * hosts.total_usable_disk_gb
        return total * self.ratios(hosts) - (total - hosts.free_disk_mb)

    def distinguishes(self, spec: RequestSpec) -> Hashable:
        """How much disk."""
        return spec.flavor.disk_mb

    @np.errstate(invalid="ignore")  # an aggregate may say inf, and 0 x inf is no number
    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """Enough left, and enough in all."""
        asked = spec.flavor.disk_mb
        mask: BoolArray = (self.usable_mb(hosts) >= asked) & (1024 * hosts.total_usable_disk_gb >= asked)
        return mask

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Asked against what is there."""
        asked, total = spec.flavor.disk_mb, 1024 * host.total_usable_disk_gb
        if total < asked:
            return f"{asked} MiB of disk asked; the host has {total} in all"
        return f"{asked} MiB of disk asked; {self.usable_mb(host):.0f} left of {total} x {self.ratios(host):g}"

    @np.errstate(invalid="ignore")
    def ceilings(self, hosts: Hosts, spec: RequestSpec) -> dict[str, Array]:
        """Total disk times ratio, GiB."""
        return {"disk_gb": hosts.total_usable_disk_gb * self.ratios(hosts)}


class AggregateDiskFilter(DiskFilter):
    """The same, with the ratio taken from the host's aggregates where they set `disk_allocation_ratio`."""

    reads = DiskFilter.reads | {"aggregates"}

    def ratios(self, hosts: Any) -> Any:
        """The smallest ratio of its aggregates, or else its own."""
        return hosts.aggregate_min("disk_allocation_ratio", default=hosts.disk_allocation_ratio, cast=float)


class ExactDiskFilter(Filter):
    """Keep only hosts whose free disk is exactly what is asked for (made for bare metal)."""

    reads = frozenset({"free_disk_mb"})

    def distinguishes(self, spec: RequestSpec) -> Hashable:
        """How much disk."""
        return spec.flavor.disk_mb

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """Neither more nor less."""
        mask: BoolArray = hosts.free_disk_mb == spec.flavor.disk_mb
        return mask

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Asked against free."""
        return f"exactly {spec.flavor.disk_mb} MiB of disk asked; {host.free_disk_mb} free"

    def ceilings(self, hosts: Hosts, spec: RequestSpec) -> dict[str, Array]:
        """All disk, GiB."""
        return {"disk_gb": hosts.total_usable_disk_gb}
