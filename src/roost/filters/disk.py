# SPDX-License-Identifier: Apache-2.0
"""Filters for free local disk."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import Array, BoolArray
from roost.hosts.host_changes import change_host, room_remedy
from roost.model.remedy import Remedy, disk_changes, exact_disk_changes
from roost.model.request import RequestSpec


class DiskFilter(Filter):
    """Leave out hosts without enough free local disk for root, ephemeral and swap disk.

    The host's overcommit ratio is taken into account, but an instance never gets more than the physical disk.
    """

    never_fails = True
    reads = frozenset({"total_usable_disk_gb", "free_disk_mb", "disk_allocation_ratio"})

    def ratios(self, hosts: Any) -> Any:
        """The overcommit ratio of local disk per host."""
        return hosts.disk_allocation_ratio

    def usable_mb(self, hosts: Any) -> Any:
        """Disk that can still be allocated, MiB, per host."""
        total = 1024 * hosts.total_usable_disk_gb
        return total * self.ratios(hosts) - (total - hosts.free_disk_mb)

    def distinguishes(self, spec: RequestSpec) -> Hashable:
        """The amount of disk requested, MiB."""
        return spec.flavor.disk_mb

    @np.errstate(invalid="ignore")  # an aggregate may set the ratio to inf, and 0 x inf is NaN
    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts with enough disk left and enough physical disk."""
        asked = spec.flavor.disk_mb
        mask: BoolArray = (self.usable_mb(hosts) >= asked) & (1024 * hosts.total_usable_disk_gb >= asked)
        return mask

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The requested disk, and the disk that the host has or has left, MiB."""
        asked, total = spec.flavor.disk_mb, 1024 * host.total_usable_disk_gb
        if total < asked:
            return f"{asked} MiB of disk asked; the host has {total} in all"
        return f"{asked} MiB of disk asked; {self.usable_mb(host):.0f} left of {total} x {self.ratios(host):g}"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """Less disk in use on the host, or less asked for."""
        total = 1024 * host.total_usable_disk_gb
        return room_remedy(
            host,
            "MiB of disk",
            asked=spec.flavor.disk_mb,
            left=self.usable_mb(host),
            most=min(total, total * self.ratios(host)),
            free=lambda mb: change_host(host, "free_disk_mb", host.free_disk_mb + mb),
            ask=lambda mb: disk_changes(spec.flavor, mb),
        )

    @np.errstate(invalid="ignore")
    def ceilings(self, hosts: Hosts, spec: RequestSpec) -> dict[str, Array]:
        """`disk_gb`: total disk x ratio, GiB."""
        return {"disk_gb": hosts.total_usable_disk_gb * self.ratios(hosts)}


class AggregateDiskFilter(DiskFilter):
    """Leave out hosts without enough free local disk, with an overcommit ratio that aggregates may set.

    Works like DiskFilter. The ratio is the smallest value of the metadata `disk_allocation_ratio` among the host's
    aggregates, or else the host's own ratio.
    """

    reads = DiskFilter.reads | {"aggregates"}

    def ratios(self, hosts: Any) -> Any:
        """The smallest ratio that the host's aggregates set, or else the host's own."""
        return hosts.aggregate_min("disk_allocation_ratio", default=hosts.disk_allocation_ratio, cast=float)


class ExactDiskFilter(Filter):
    """Keep only hosts that have exactly the requested amount of free disk; intended for bare metal."""

    reads = frozenset({"free_disk_mb"})

    def distinguishes(self, spec: RequestSpec) -> Hashable:
        """The amount of disk requested, MiB."""
        return spec.flavor.disk_mb

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts with exactly the requested amount of free disk."""
        mask: BoolArray = hosts.free_disk_mb == spec.flavor.disk_mb
        return mask

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The requested disk, and the disk that is free, MiB."""
        return f"exactly {spec.flavor.disk_mb} MiB of disk asked; {host.free_disk_mb} free"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """The disk that the host has free; None if it has none."""
        free = host.free_disk_mb
        changes = exact_disk_changes(spec.flavor, free)
        return Remedy(f"ask for exactly {free:,} MiB of disk", changes) if free > 0 else None

    def ceilings(self, hosts: Hosts, spec: RequestSpec) -> dict[str, Array]:
        """`disk_gb`: total disk, GiB."""
        return {"disk_gb": hosts.total_usable_disk_gb}
