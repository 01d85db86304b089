# SPDX-License-Identifier: Apache-2.0
"""Filters by the number of I/O-heavy operations, such as builds, resizes and copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import BoolArray
from roost.hosts.host_changes import limit_remedy, name_of
from roost.model.remedy import Remedy
from roost.model.request import RequestSpec
from roost.options.declare import option


class IoOpsFilter(Filter):
    """Leave out hosts that already run too many I/O-heavy operations."""

    never_fails = True
    reads = frozenset({"num_io_ops"})

    @dataclass(frozen=True)
    class Options:
        """The limit per host."""

        max_io_ops_per_host: int = option(
            8, min=0, old=("max_io_ops_per_host",), help="I/O-heavy operations a host may run before it is skipped"
        )

    def thresholds(self, hosts: Any) -> Any:
        """The number of operations from which on a host is left out, per host or one for all."""
        return self.options.max_io_ops_per_host

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts with fewer operations than the limit."""
        mask: BoolArray = hosts.num_io_ops < self.thresholds(hosts)
        return mask

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The number of running operations, and the limit."""
        return f"{host.num_io_ops} I/O operations running; the limit is {self.thresholds(host)}"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """A limit that is one more than what the host runs."""
        instead = f"wait until fewer than {self.thresholds(host)} run on {name_of(host)}"
        return limit_remedy(host, "max_io_ops_per_host", host.num_io_ops + 1, instead)


class AggregateIoOpsFilter(IoOpsFilter):
    """Leave out hosts that already run too many I/O-heavy operations, with a limit that aggregates may set.

    Works like IoOpsFilter. The limit is the smallest value of the metadata `max_io_ops_per_host` among the host's
    aggregates, or else the option.
    """

    reads = frozenset({"num_io_ops", "aggregates"})

    def thresholds(self, hosts: Any) -> Any:
        """The smallest limit that the host's aggregates set, or else the option."""
        return hosts.aggregate_min("max_io_ops_per_host", default=self.options.max_io_ops_per_host)
