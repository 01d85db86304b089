# SPDX-License-Identifier: Apache-2.0
"""Server groups: members together, or apart."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.arrays import BoolArray
from roost.model.group import ServerGroup
from roost.model.request import RequestSpec


class _GroupFilter(Filter):
    """Applies where the request's group has the policy that the class enforces."""

    policy: ClassVar[str]
    looks_at_group = True

    def applies_to(self, spec: RequestSpec) -> bool:
        """The request's group has this policy."""
        return spec.instance_group is not None and spec.instance_group.policy == self.policy

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """The rule, where it applies."""
        group = spec.instance_group
        if group is None or group.policy != self.policy:
            return np.ones(len(hosts), dtype=np.bool_)
        return self.group_mask(hosts, spec, group)

    def group_mask(self, hosts: Hosts, spec: RequestSpec, group: ServerGroup) -> BoolArray:
        """The rule itself."""
        raise NotImplementedError


class ServerGroupAffinityFilter(_GroupFilter):
    """Keep members of an `affinity` group on the host where the group is already; the first is free to choose."""

    policy = "affinity"

    def group_mask(self, hosts: Hosts, spec: RequestSpec, group: ServerGroup) -> BoolArray:
        """One of the group's hosts, if it has any yet."""
        return hosts.named(group.hosts) if group.hosts else np.ones(len(hosts), dtype=np.bool_)

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Where the group is."""
        group = spec.instance_group
        return f"the group {_called(group)} is on {', '.join(group.hosts) if group else ''}"


class ServerGroupAntiAffinityFilter(_GroupFilter):
    """Keep members of an `anti-affinity` group apart: one to a host, or as many as its rule allows.

    A host that already runs the very instance being placed stays: a move may end where it began.
    """

    policy = "anti-affinity"
    reads = frozenset({"instances"})

    def group_mask(self, hosts: Hosts, spec: RequestSpec, group: ServerGroup) -> BoolArray:
        """Fewer members than allowed, or this one among them."""
        mask: BoolArray = hosts.count_instances(group.member_set) < group.max_server_per_host
        if spec.instance_uuid:
            mask |= hosts.count_instances([spec.instance_uuid]) > 0
        return mask

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """How many members it runs and may run."""
        group = spec.instance_group
        members = set(group.members) & set(host.instances) if group else set()
        allowed = group.max_server_per_host if group else 1
        return f"runs {len(members)} members of the group {_called(group)}; {allowed} allowed"


class GroupAffinityFilter(ServerGroupAffinityFilter):
    """The rule of ServerGroupAffinityFilter for groups of the old policy `legacy` (up to Juno)."""

    policy = "legacy"


class GroupAntiAffinityFilter(_GroupFilter):
    """Keep members of a group of the old policy `legacy` (up to Juno) off the hosts where the group is."""

    policy = "legacy"

    def group_mask(self, hosts: Hosts, spec: RequestSpec, group: ServerGroup) -> BoolArray:
        """None of the group's hosts."""
        return ~hosts.named(group.hosts)

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """That the group is there."""
        return f"the group {_called(spec.instance_group)} is on this host already"


def _called(group: ServerGroup | None) -> str:
    return (group.name or group.uuid or "of the request") if group else ""
