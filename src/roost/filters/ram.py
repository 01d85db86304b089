# SPDX-License-Identifier: Apache-2.0
"""Is there memory enough, after overcommit?"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.arrays import Array, BoolArray
from roost.model.request import RequestSpec


class RamFilter(Filter):
    """Leave out hosts without the memory, counting their overcommit ratio.

    An instance never gets more than the host's physical memory, however large the ratio.
    """

    never_fails = True
    reads = frozenset({"total_usable_ram_mb", "free_ram_mb", "ram_allocation_ratio"})

    def ratios(self, hosts: Any) -> Any:
        """Overcommit of memory, per host."""
        return hosts.ram_allocation_ratio

    def usable_mb(self, hosts: Any) -> Any:
        """Memory that may still be given out, MiB."""
        total = hosts.total_usable_ram_mb
        return total * self.ratios(hosts) - (total - hosts.free_ram_mb)

    def distinguishes(self, spec: RequestSpec) -> Hashable:
        """How much memory."""
        return spec.flavor.memory_mb

    @np.errstate(invalid="ignore")  # an aggregate may say inf, and 0 x inf is no number
    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """Enough left, and enough in all."""
        asked = spec.flavor.memory_mb
        mask: BoolArray = (self.usable_mb(hosts) >= asked) & (hosts.total_usable_ram_mb >= asked)
        return mask

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Asked against what is there."""
        asked, total = spec.flavor.memory_mb, host.total_usable_ram_mb
        if total < asked:
            return f"{asked} MiB of memory asked; the host has {total} in all"
        ratio = self.ratios(host)
        return f"{asked} MiB of memory asked; {self.usable_mb(host):.0f} left of {total} x {ratio:g}"

    @np.errstate(invalid="ignore")
    def ceilings(self, hosts: Hosts, spec: RequestSpec) -> dict[str, Array]:
        """Total memory times ratio, MiB."""
        return {"memory_mb": hosts.total_usable_ram_mb * self.ratios(hosts)}


class AggregateRamFilter(RamFilter):
    """The same, with the ratio taken from the host's aggregates where they set `ram_allocation_ratio`."""

    reads = RamFilter.reads | {"aggregates"}

    def ratios(self, hosts: Any) -> Any:
        """The smallest ratio of its aggregates, or else its own."""
        return hosts.aggregate_min("ram_allocation_ratio", default=hosts.ram_allocation_ratio, cast=float)


class ExactRamFilter(Filter):
    """Keep only hosts whose free memory is exactly what is asked for (made for bare metal)."""

    reads = frozenset({"free_ram_mb"})

    def distinguishes(self, spec: RequestSpec) -> Hashable:
        """How much memory."""
        return spec.flavor.memory_mb

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """Neither more nor less."""
        mask: BoolArray = hosts.free_ram_mb == spec.flavor.memory_mb
        return mask

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Asked against free."""
        return f"exactly {spec.flavor.memory_mb} MiB of memory asked; {host.free_ram_mb} free"

    def ceilings(self, hosts: Hosts, spec: RequestSpec) -> dict[str, Array]:
        """Total memory, MiB."""
        return {"memory_mb": hosts.total_usable_ram_mb}
