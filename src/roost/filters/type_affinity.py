# SPDX-License-Identifier: Apache-2.0
"""Filters for hosts that take certain flavors only."""

from __future__ import annotations

from collections.abc import Collection, Hashable

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import BoolArray
from roost.hosts.host_changes import change_host, extend_label, name_of
from roost.model.group import Aggregate, split_values
from roost.model.remedy import Remedy
from roost.model.request import RequestSpec


class AggregateTypeAffinityFilter(Filter):
    """Leave out hosts that aggregate metadata `instance_type`, a list of flavor names, reserves for other flavors."""

    run_filter_once_per_request = True
    reads = frozenset({"aggregates"})

    def distinguishes(self, spec: RequestSpec) -> Hashable:
        """The name of the flavor."""
        return spec.flavor.name

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts that are reserved for the request's flavor, or for no flavor."""
        return hosts.per_value("aggregates", lambda each: self._admits(each, spec.flavor.name))

    def _admits(self, aggregates: Collection[Aggregate], flavor: str) -> bool:
        names = split_values(aggregates, "instance_type")
        return not names or flavor in names

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The flavors that the host is reserved for, and the flavor of the request."""
        names = ", ".join(sorted(split_values(host.aggregates, "instance_type")))
        return f"kept for the flavors {names}; the request is for {spec.flavor.name}"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """The flavor among those that the host is reserved for; None for one without a name to list."""
        if not spec.flavor.name:
            return None
        text, change = extend_label(host, "instance_type", spec.flavor.name)
        return Remedy(text, (change,))


class TypeAffinityFilter(Filter):
    """Leave out hosts that run an instance of another flavor; flavors are compared by id."""

    reads = frozenset({"instances"})

    def distinguishes(self, spec: RequestSpec) -> Hashable:
        """The id of the flavor."""
        return repr(spec.flavor.id)

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts that run no instances, or only instances of the request's flavor."""
        return hosts.per_value_of(hosts.table.flavor_ids, lambda ids: ids <= {spec.flavor.id})

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The other flavors that run on the host, and the flavor of the request."""
        others = {each.flavor_id for each in host.instances.values()} - {spec.flavor.id}
        return f"runs instances of the flavors {', '.join(sorted(map(str, others)))}; {spec.flavor.id} asked"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """The host without its instances of other flavors."""
        same = [uuid for uuid, each in host.instances.items() if each.flavor_id == spec.flavor.id]
        others = [uuid for uuid in host.instances if uuid not in same]
        text = f"move {', '.join(others[:3])}{' and others' if len(others) > 3 else ''} off {name_of(host)}"
        return Remedy(text, (change_host(host, "instances", same),))
