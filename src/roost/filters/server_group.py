# SPDX-License-Identifier: Apache-2.0
"""Filters for server groups with an affinity or anti-affinity policy."""

from __future__ import annotations

from operator import attrgetter
from typing import ClassVar

import numpy as np

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import BoolArray
from roost.hosts.host_changes import name_of
from roost.model.group import ServerGroup
from roost.model.remedy import Remedy, RequestChange, counted
from roost.model.request import RequestSpec


class _GroupFilter(Filter):
    """Base of filters that apply to requests whose server group has a certain policy."""

    applies_if = attrgetter("instance_group")
    policy: ClassVar[str]
    looks_at_group = True

    def applies_to(self, spec: RequestSpec) -> bool:
        """True if the request has a server group with the policy of this class."""
        return spec.instance_group is not None and spec.instance_group.policy == self.policy

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """The result of `group_mask`; True for all hosts if the filter does not apply."""
        group = spec.instance_group
        if group is None or group.policy != self.policy:
            return np.ones(len(hosts), dtype=np.bool_)
        return self.group_mask(hosts, spec, group)

    def group_mask(self, hosts: Hosts, spec: RequestSpec, group: ServerGroup) -> BoolArray:
        """A mask for a group with the policy of this class: True if the host stays."""
        raise NotImplementedError


class ServerGroupAffinityFilter(_GroupFilter):
    """Keep only hosts that run members of the request's `affinity` group; all hosts for its first member."""

    policy = "affinity"

    def group_mask(self, hosts: Hosts, spec: RequestSpec, group: ServerGroup) -> BoolArray:
        """True for the hosts of the group, and for all hosts if it has none yet."""
        return hosts.named(group.hosts) if group.hosts else np.ones(len(hosts), dtype=np.bool_)

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The hosts that run the group."""
        group = spec.instance_group
        return f"the group {_display_name(group)} is on {', '.join(group.hosts) if group else ''}"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """A request outside the group: inside, only its own hosts will do."""
        group = spec.instance_group
        where = " or ".join(group.hosts) if group else ""
        text = f"make room on {where}, or ask outside the group {_display_name(group)}"
        return Remedy(text, (RequestChange("instance_group", None),))


class ServerGroupAntiAffinityFilter(_GroupFilter):
    """Leave out hosts that run as many members of the request's `anti-affinity` group as it allows per host.

    The group's rule `max_server_per_host` is the number of members per host, 1 by default. A host that runs the
    instance itself stays: the target of a move may be its source.
    """

    policy = "anti-affinity"
    reads = frozenset({"instances"})

    def group_mask(self, hosts: Hosts, spec: RequestSpec, group: ServerGroup) -> BoolArray:
        """True for hosts that run fewer members than allowed, or the instance itself."""
        mask: BoolArray = hosts.count_instances(group.member_set) < group.max_server_per_host
        if spec.instance_uuid:
            mask |= hosts.count_instances([spec.instance_uuid]) > 0
        return mask

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The number of members on the host, and the number allowed."""
        group = spec.instance_group
        members = set(group.members) & set(host.instances) if group else set()
        allowed = group.max_server_per_host if group else 1
        return f"runs {counted(len(members), 'member')} of the group {_display_name(group)}; {allowed} allowed"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """A group that allows one member more per host."""
        group = spec.instance_group
        members = sorted(set(group.members) & set(host.instances)) if group else []
        allowed, excess = len(members) + 1, len(members) + 1 - (group.max_server_per_host if group else 1)
        which = members[-1] if excess == 1 else f"{excess} of them"
        text = f"move {which} off {name_of(host)}, or use a group with max_server_per_host={allowed}"
        return Remedy(text, (RequestChange("instance_group.rules.max_server_per_host", allowed),))


class GroupAffinityFilter(ServerGroupAffinityFilter):
    """Keep only hosts that run members of the request's group, for groups of the old policy `legacy` (up to Juno)."""

    policy = "legacy"


class GroupAntiAffinityFilter(_GroupFilter):
    """Leave out hosts that run members of the request's group, for groups of the old policy `legacy` (up to Juno)."""

    policy = "legacy"

    def group_mask(self, hosts: Hosts, spec: RequestSpec, group: ServerGroup) -> BoolArray:
        """True for hosts that are not among the hosts of the group."""
        return ~hosts.named(group.hosts)

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """That the host runs the group already."""
        return f"the group {_display_name(spec.instance_group)} is on this host already"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """A request outside the group."""
        name = _display_name(spec.instance_group)
        text = f"move the members of the group {name} off {name_of(host)}, or ask outside the group"
        return Remedy(text, (RequestChange("instance_group", None),))


def _display_name(group: ServerGroup | None) -> str:
    return (group.name or group.uuid or "of the request") if group else ""
