# SPDX-License-Identifier: Apache-2.0
"""Fill up the hosts that are in use before an empty one."""

from dataclasses import dataclass

import numpy as np

from roost.hosts import Hosts
from roost.hosts.arrays import Array
from roost.model.request import RequestSpec
from roost.model.resources import DISK_GB, MEMORY_MB, VCPU
from roost.options import option
from roost.weighers.base import Weigher
from roost.weighers.packing import settle, used_share


class StackWeigher(Weigher):
    """0 for an empty host, else 1 and the share in use of its fullest resource; higher means fuller.

    The resources are CPUs, memory and local disk, each as a share of what the host may give out. The 1 is there for
    mixes: it sets hosts in use apart from empty ones by about half of the multiplier, however little they are used.
    Off by default; positive keeps hosts empty that could be switched off, negative spreads over empty hosts first.

    Example: hosts with 64 vCPUs and 256 GiB, whatever the request.

    | host | in use | number |
    | --- | --- | --- |
    | a | nothing | 0 |
    | b | 1 vCPU, 2 GiB | 1.015625 |
    | c | 48 vCPUs, 64 GiB: 75 % and 25 % | 1.75 |
    | d | 16 vCPUs, 224 GiB: 25 % and 87.5 % | 1.875: it is chosen, if the request fits |
    """

    multiplier_option = aggregate_key = "stack_weight_multiplier"
    reads = frozenset(
        {
            *("limit:VCPU", "limit:MEMORY_MB", "limit:DISK_GB"),
            *("allocated:VCPU", "allocated:MEMORY_MB", "allocated:DISK_GB"),
            "aggregates",
        }
    )

    @dataclass(frozen=True)
    class Options:
        """How much it counts."""

        stack_weight_multiplier: float = option(
            0.0, help="weight of hosts in use, fullest first; positive packs, negative spreads, 0 is off"
        )

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """How full, and whether in use at all."""
        fullest = np.zeros(len(hosts))
        for resource_class in (VCPU, MEMORY_MB, DISK_GB):
            np.maximum(fullest, used_share(hosts, resource_class), out=fullest)
        return settle((fullest > 0) + fullest)
