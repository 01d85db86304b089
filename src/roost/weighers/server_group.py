# SPDX-License-Identifier: Apache-2.0
"""Weighers for server groups with a soft-affinity or soft-anti-affinity policy."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar

import numpy as np

from roost.hosts import Hosts, HostTable
from roost.hosts.encoded import Array
from roost.model.request import RequestSpec
from roost.options.declare import option
from roost.weighers.base import Weigher


class _SoftGroupWeigher(Weigher):
    """Base of weighers that count members of the request's server group, if the group has a certain policy."""

    applies_if = attrgetter("instance_group")
    policy: ClassVar[str]
    """The group policy for which the weigher applies."""
    sign: ClassVar[int]
    """1 if members attract each other, -1 if they repel each other."""
    reads = frozenset({"instances"})
    looks_at_group = True

    def applies_to(self, spec: RequestSpec) -> bool:
        """True if the request has a server group with the policy of this class."""
        return spec.instance_group is not None and spec.instance_group.policy == self.policy

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """Per host, the number of members that run on it times `sign`; 0 if the weigher does not apply."""
        if not self.applies_to(spec) or spec.instance_group is None:
            return np.zeros(len(hosts))
        return self.sign * hosts.count_instances(spec.instance_group.member_set).astype(np.int64)

    def reader(self, table: HostTable, spec: RequestSpec) -> Callable[[int], float]:
        """A function of a row: the number of members on it times `sign`."""
        members = spec.instance_group.member_set if spec.instance_group else frozenset[str]()
        return lambda row: float(self.sign * table.count_on(row, members))


class ServerGroupSoftAffinityWeigher(_SoftGroupWeigher):
    """Number of members of the request's `soft-affinity` group on the host; higher means more members."""

    policy = "soft-affinity"
    sign = 1
    multiplier_option = aggregate_key = "soft_affinity_weight_multiplier"

    @dataclass(frozen=True)
    class Options:
        """The multiplier."""

        soft_affinity_weight_multiplier: float = option(
            1.0,
            min=0.0,
            old=("soft_affinity_weight_multiplier",),
            help="weight of running other members of the group",
        )


class ServerGroupSoftAntiAffinityWeigher(_SoftGroupWeigher):
    """Number of members of the request's `soft-anti-affinity` group on the host, negated; higher means fewer."""

    policy = "soft-anti-affinity"
    sign = -1
    multiplier_option = aggregate_key = "soft_anti_affinity_weight_multiplier"

    @dataclass(frozen=True)
    class Options:
        """The multiplier."""

        soft_anti_affinity_weight_multiplier: float = option(
            1.0,
            min=0.0,
            old=("soft_anti_affinity_weight_multiplier",),
            help="weight of running no other members of the group",
        )
