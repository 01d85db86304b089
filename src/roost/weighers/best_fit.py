# SPDX-License-Identifier: Apache-2.0
"""Prefer the host on which the request leaves the least room."""

from dataclasses import dataclass

import numpy as np

from roost.hosts import Hosts
from roost.hosts.arrays import Array
from roost.model.request import RequestSpec
from roost.options import option
from roost.weighers.base import Weigher
from roost.weighers.packing import settle, used_share


class BestFitWeigher(Weigher):
    """Part of the host in use once the request is on it, 0 to 1; higher means less room left. Off by default.

    It is the mean over the resources that the request asks for, custom ones too, each as a share of what the host may
    give out: total less reserved, times allocation ratio. Unlike a negative multiplier of RAMWeigher, which looks for
    the fewest free MiB, it knows that 8 GiB are much on a small host and little on a large one.

    Example: a request for 8 vCPUs and 16 GiB, ratios 1.0.

    | host | size | in use | in use with the request | number |
    | --- | --- | --- | --- | --- |
    | a | 64 vCPUs, 128 GiB | 32 vCPUs, 64 GiB | 62.5 % and 62.5 % | 0.625 |
    | b | 64 vCPUs, 128 GiB | 56 vCPUs, 32 GiB | 100 % and 37.5 % | 0.6875 |
    | c | 16 vCPUs, 64 GiB | 4 vCPUs, 32 GiB | 75 % and 75 % | 0.75: it is chosen |
    """

    multiplier_option = aggregate_key = "best_fit_weight_multiplier"
    # A custom resource class is not named here: whatever changes one also notes a change of `instances`.
    reads = frozenset(
        {
            *("limit:VCPU", "limit:MEMORY_MB", "limit:DISK_GB"),
            *("allocated:VCPU", "allocated:MEMORY_MB", "allocated:DISK_GB"),
            *("aggregates", "instances"),
        }
    )

    looks_at_size = True

    @dataclass(frozen=True)
    class Options:
        """How much it counts."""

        best_fit_weight_multiplier: float = option(
            0.0, help="weight of leaving little room on the host; positive packs, negative spreads, 0 is off"
        )

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """The mean share in use, the request included."""
        total = np.zeros(len(hosts))
        for resource_class, amount in spec.amounts.items():
            total += used_share(hosts, resource_class, amount)
        return settle(total / max(1, len(spec.amounts)))
