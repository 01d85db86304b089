# SPDX-License-Identifier: Apache-2.0
"""Use up CPUs and memory together, so that neither is left without the other."""

from dataclasses import dataclass

import numpy as np

from roost.hosts import Hosts
from roost.hosts.arrays import Array
from roost.model.request import RequestSpec
from roost.model.resources import MEMORY_MB, VCPU
from roost.options import option
from roost.weighers.base import Weigher
from roost.weighers.packing import settle, used_share


class BalanceWeigher(Weigher):
    """How much closer the request brings the shares of CPUs and memory in use, -1 to 1; higher means closer.

    A host is out of balance by the distance between the two shares; the number is the distance before less the
    distance after. A request for much memory thus goes where memory is left over, one for many CPUs where CPUs are.
    It tells hosts that want such a request from those that do not, and says nothing of how full they are: use it
    together with BestFitWeigher or StackWeigher. Off by default.

    The distance afterwards would not do: an empty host is in perfect balance, and always would come first.

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
        """How much it counts."""

        balance_weight_multiplier: float = option(
            0.0, help="weight of evening out the use of CPUs and memory; positive evens out, 0 is off"
        )

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """Distance before less distance after; 0 for a host that has none of the one or the other."""
        before = used_share(hosts, VCPU) - used_share(hosts, MEMORY_MB)
        vcpus, memory_mb = spec.amounts.get(VCPU, 0), spec.amounts.get(MEMORY_MB, 0)
        after = used_share(hosts, VCPU, vcpus) - used_share(hosts, MEMORY_MB, memory_mb)
        has_both = (hosts.column("limit:VCPU") > 0) & (hosts.column("limit:MEMORY_MB") > 0)
        return settle(np.where(has_both, np.abs(before) - np.abs(after), 0.0))
