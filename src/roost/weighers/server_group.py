# SPDX-License-Identifier: Apache-2.0
"""Server groups that would rather be together, or apart."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from roost.hosts import Hosts, HostTable
from roost.hosts.arrays import Array
from roost.model.request import RequestSpec
from roost.options import option
from roost.weighers.base import Weigher


class _SoftGroupWeigher(Weigher):
    """Counts members of the request's group, where the group has the policy of the class."""

    policy: ClassVar[str]
    sign: ClassVar[int]
    reads = frozenset({"instances"})
    looks_at_group = True

    def applies_to(self, spec: RequestSpec) -> bool:
        """The request's group has this policy."""
        return spec.instance_group is not None and spec.instance_group.policy == self.policy

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """How many members run there, with the sign of the policy."""
        if not self.applies_to(spec) or spec.instance_group is None:
            return np.zeros(len(hosts))
        return self.sign * hosts.count_instances(spec.instance_group.member_set).astype(np.int64)

    def reader(self, table: HostTable, spec: RequestSpec) -> Callable[[int], float]:
        """The same of one row."""
        members = spec.instance_group.member_set if spec.instance_group else frozenset[str]()
        return lambda row: float(self.sign * table.count_on(row, members))


class ServerGroupSoftAffinityWeigher(_SoftGroupWeigher):
    """Members of a `soft-affinity` group on the host; higher means more company."""

    policy = "soft-affinity"
    sign = 1
    multiplier_option = aggregate_key = "soft_affinity_weight_multiplier"

    @dataclass(frozen=True)
    class Options:
        """How much it counts."""

        soft_affinity_weight_multiplier: float = option(
            1.0,
            min=0.0,
            old=("soft_affinity_weight_multiplier",),
            help="weight of running other members of the group",
        )


class ServerGroupSoftAntiAffinityWeigher(_SoftGroupWeigher):
    """Members of a `soft-anti-affinity` group on the host, counted negative; higher means fewer."""

    policy = "soft-anti-affinity"
    sign = -1
    multiplier_option = aggregate_key = "soft_anti_affinity_weight_multiplier"

    @dataclass(frozen=True)
    class Options:
        """How much it counts."""

        soft_anti_affinity_weight_multiplier: float = option(
            1.0,
            min=0.0,
            old=("soft_anti_affinity_weight_multiplier",),
            help="weight of running no other members of the group",
        )
