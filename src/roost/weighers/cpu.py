# SPDX-License-Identifier: Apache-2.0
"""The weigher by free CPUs."""

from collections.abc import Callable
from dataclasses import dataclass

from roost.hosts import Hosts, HostTable
from roost.hosts.encoded import Array
from roost.model.request import RequestSpec
from roost.options.declare import option
from roost.weighers.base import Weigher


class CPUWeigher(Weigher):
    """Free virtual CPUs, overcommit included; higher means more are free. A negative multiplier packs."""

    minval = 0
    multiplier_option = aggregate_key = "cpu_weight_multiplier"
    reads = frozenset({"vcpus_total", "vcpus_used", "cpu_allocation_ratio"})

    @dataclass(frozen=True)
    class Options:
        """The multiplier."""

        cpu_weight_multiplier: float = option(1.0, help="weight of free CPUs; negative packs")

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """Total CPUs x overcommit ratio - used CPUs."""
        return hosts.vcpus_total * hosts.cpu_allocation_ratio - hosts.vcpus_used

    def reader(self, table: HostTable, spec: RequestSpec) -> Callable[[int], float]:
        """A function of a row: its free virtual CPUs, clamped."""
        names = ("vcpus_total", "cpu_allocation_ratio", "vcpus_used")
        total, ratio, used = (table.buffers[name] for name in names)
        return self.bounded(lambda row: total[row] * ratio[row] - used[row])
