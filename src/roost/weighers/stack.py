# SPDX-License-Identifier: Apache-2.0
"""The weigher that fills up hosts in use before it uses empty ones."""

from dataclasses import dataclass

import numpy as np

from roost.hosts import Hosts
from roost.hosts.arrays import Array
from roost.model.request import RequestSpec
from roost.model.resources import DISK_GB, MEMORY_MB, VCPU
from roost.options.declare import option
from roost.weighers.base import Weigher
from roost.weighers.packing import round_shares, used_share


class StackWeigher(Weigher):
    """0 for an empty host, else 1 + the share in use of its fullest resource; higher means fuller.

    The resources are CPUs, memory and local disk, each as a share of what the host may allocate. The 1 matters in
    combination with other weighers: it separates hosts in use from empty ones by about half of the multiplier,
    however little they are used. Off by default; a positive multiplier leaves hosts empty that could be switched off,
    a negative one spreads over empty hosts first.

    Example: hosts with 64 vCPUs and 256 GiB, for any request.

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
        """The multiplier."""

        stack_weight_multiplier: float = option(
            0.0, help="weight of hosts in use, fullest first; positive packs, negative spreads, 0 is off"
        )

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """Per host, the largest of its shares in use, plus 1 if it is not 0."""
        fullest = np.zeros(len(hosts))
        for resource_class in (VCPU, MEMORY_MB, DISK_GB):
            np.maximum(fullest, used_share(hosts, resource_class), out=fullest)
        return round_shares((fullest > 0) + fullest)
