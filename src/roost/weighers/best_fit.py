# SPDX-License-Identifier: Apache-2.0
"""The weigher that prefers the host with the least free resources after the placement."""

from dataclasses import dataclass

import numpy as np

from roost.hosts import Hosts
from roost.hosts.arrays import Array
from roost.model.request import RequestSpec
from roost.options.declare import option
from roost.weighers.base import Weigher
from roost.weighers.packing import round_shares, used_share


class BestFitWeigher(Weigher):
    """Share of the host in use after the placement, 0 to 1; higher means less is left. Off by default.

    It is the mean over the resource classes that the request asks for, custom classes included. Each is a share of
    what the host may allocate: (total - reserved) x allocation ratio. A negative multiplier of RAMWeigher prefers the
    host with the fewest free MiB. BestFitWeigher is relative: 8 GiB are much on a small host, little on a large one.

    Example: a request for 8 vCPUs and 16 GiB, ratios 1.0.

    | host | size | in use | in use with the request | number |
    | --- | --- | --- | --- | --- |
    | a | 64 vCPUs, 128 GiB | 32 vCPUs, 64 GiB | 62.5 % and 62.5 % | 0.625 |
    | b | 64 vCPUs, 128 GiB | 56 vCPUs, 32 GiB | 100 % and 37.5 % | 0.6875 |
    | c | 16 vCPUs, 64 GiB | 4 vCPUs, 32 GiB | 75 % and 75 % | 0.75: it is chosen |
    """

    multiplier_option = aggregate_key = "best_fit_weight_multiplier"
    # Columns of custom resource classes need not be listed: every change of one also notes `instances`.
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
        """The multiplier."""

        best_fit_weight_multiplier: float = option(
            0.0, help="weight of leaving few free resources on the host; positive packs, negative spreads, 0 is off"
        )

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """The mean share in use with the request included."""
        total = np.zeros(len(hosts))
        for resource_class, amount in spec.amounts.items():
            total += used_share(hosts, resource_class, amount)
        return round_shares(total / max(1, len(spec.amounts)))
