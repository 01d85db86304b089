# SPDX-License-Identifier: Apache-2.0
"""Filters by the number of instances on a host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import BoolArray
from roost.hosts.host_changes import count_of, limit_remedy, name_of
from roost.model.remedy import Remedy
from roost.model.request import RequestSpec
from roost.options.declare import option


class NumInstancesFilter(Filter):
    """Leave out hosts that already run too many instances."""

    never_fails = True
    reads = frozenset({"num_instances"})

    @dataclass(frozen=True)
    class Options:
        """The limit per host."""

        max_instances_per_host: int = option(
            50, min=1, old=("max_instances_per_host",), help="instances a host may run before it is skipped"
        )

    def thresholds(self, hosts: Any) -> Any:
        """The number of instances from which on a host is left out, per host or one for all."""
        return self.options.max_instances_per_host

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts with fewer instances than the limit."""
        mask: BoolArray = hosts.num_instances < self.thresholds(hosts)
        return mask

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The number of running instances, and the limit."""
        return f"{host.num_instances} instances running; the limit is {self.thresholds(host)}"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """A limit that is one more than what the host runs."""
        too_many = count_of(host.num_instances - self.thresholds(host) + 1, "instances")
        instead = f"move {too_many} off {name_of(host)}"
        return limit_remedy(host, "max_instances_per_host", host.num_instances + 1, instead)


class AggregateNumInstancesFilter(NumInstancesFilter):
    """Leave out hosts that already run too many instances, with a limit that aggregates may set.

    Works like NumInstancesFilter. The limit is the smallest value of the metadata `max_instances_per_host` among the
    host's aggregates, or else the option.
    """

    reads = frozenset({"num_instances", "aggregates"})

    def thresholds(self, hosts: Any) -> Any:
        """The smallest limit that the host's aggregates set, or else the option."""
        return hosts.aggregate_min("max_instances_per_host", default=self.options.max_instances_per_host)
