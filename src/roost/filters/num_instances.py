# SPDX-License-Identifier: Apache-2.0
"""Hosts that run many instances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.arrays import BoolArray
from roost.model.request import RequestSpec
from roost.options import option


class NumInstancesFilter(Filter):
    """Leave out hosts that already run too many instances."""

    never_fails = True
    reads = frozenset({"num_instances"})

    @dataclass(frozen=True)
    class Options:
        """The limit."""

        max_instances_per_host: int = option(
            50, min=1, old=("max_instances_per_host",), help="instances a host may run before it is skipped"
        )

    def thresholds(self, hosts: Any) -> Any:
        """How many are too many, per host."""
        return self.options.max_instances_per_host

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """Fewer than the limit."""
        mask: BoolArray = hosts.num_instances < self.thresholds(hosts)
        return mask

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """How many there are."""
        return f"{host.num_instances} instances running; the limit is {self.thresholds(host)}"


class AggregateNumInstancesFilter(NumInstancesFilter):
    """The same, with the limit taken from the host's aggregates where they set one."""

    reads = frozenset({"num_instances", "aggregates"})

    def thresholds(self, hosts: Any) -> Any:
        """The smallest limit of its aggregates."""
        return hosts.aggregate_min("max_instances_per_host", default=self.options.max_instances_per_host)
