# SPDX-License-Identifier: Apache-2.0
"""The weigher that balances the use of CPUs and memory, so that neither is left over without the other."""

from dataclasses import dataclass

import numpy as np

from roost.hosts import Hosts
from roost.hosts.arrays import Array
from roost.model.request import RequestSpec
from roost.model.resources import MEMORY_MB, VCPU
from roost.options.declare import option
from roost.weighers.base import Weigher
from roost.weighers.packing import round_shares, used_share


class BalanceWeigher(Weigher):
    """How much closer the request brings the shares of CPUs and memory in use, -1 to 1; higher means closer.

    The imbalance of a host is the distance between the two shares; the number is the distance before minus the
    distance after the placement. A request for much memory is thus placed where memory is left over, one for many
    CPUs where CPUs are. The number does not depend on how full a host is: combine this weigher with BestFitWeigher or
    StackWeigher. Off by default.

    The distance after the placement alone would not be enough: an empty host is perfectly balanced and would always
    rank first.

    Example: a request for 8 vCPUs and 16 GiB, which are 12.5 % and 6.25 % of hosts with 64 vCPUs and 256 GiB.

    | host | in use | distance before | after | number |
    | --- | --- | --- | --- | --- |
    | a | nothing | 0 | 0.0625 | -0.0625 |
    | b | 32 vCPUs, 64 GiB: 50 % and 25 % | 0.25 | 0.3125 | -0.0625 |
    | c | 16 vCPUs, 192 GiB: 25 % and 75 % | 0.5 | 0.4375 | 0.0625: it is chosen |
    """

    multiplier_option = aggregate_key = "balance_weight_multiplier"
    reads = frozenset({"limit:VCPU", "limit:MEMORY_MB", "allocated:VCPU", "allocated:MEMORY_MB", "aggregates"})

    looks_at_size = True

    @dataclass(frozen=True)
    class Options:
        """The multiplier."""

        balance_weight_multiplier: float = option(
            0.0, help="weight of balancing the use of CPUs and memory; positive balances, 0 is off"
        )

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """The distance before minus the distance after the placement; 0 for a host without CPUs or without memory."""
        before = used_share(hosts, VCPU) - used_share(hosts, MEMORY_MB)
        vcpus, memory_mb = spec.amounts.get(VCPU, 0), spec.amounts.get(MEMORY_MB, 0)
        after = used_share(hosts, VCPU, vcpus) - used_share(hosts, MEMORY_MB, memory_mb)
        has_both = (hosts.column("limit:VCPU") > 0) & (hosts.column("limit:MEMORY_MB") > 0)
        return round_shares(np.where(has_both, np.abs(before) - np.abs(after), 0.0))
