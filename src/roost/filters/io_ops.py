# SPDX-License-Identifier: Apache-2.0
"""Hosts that are busy building, resizing or copying."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.arrays import BoolArray
from roost.model.request import RequestSpec
from roost.options import option


class IoOpsFilter(Filter):
    """Leave out hosts that already run too many I/O-heavy operations."""

    never_fails = True
    reads = frozenset({"num_io_ops"})

    @dataclass(frozen=True)
    class Options:
        """The limit."""

        max_io_ops_per_host: int = option(
            8, min=0, old=("max_io_ops_per_host",), help="I/O-heavy operations a host may run before it is skipped"
        )

    def thresholds(self, hosts: Any) -> Any:
        """How many are too many, per host."""
        return self.options.max_io_ops_per_host

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """Fewer than the limit."""
        mask: BoolArray = hosts.num_io_ops < self.thresholds(hosts)
        return mask

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """How many there are."""
        return f"{host.num_io_ops} I/O operations running; the limit is {self.thresholds(host)}"


class AggregateIoOpsFilter(IoOpsFilter):
    """The same, with the limit taken from the host's aggregates where they set one."""

    reads = frozenset({"num_io_ops", "aggregates"})

    def thresholds(self, hosts: Any) -> Any:
        """The smallest limit of its aggregates."""
        return hosts.aggregate_min("max_io_ops_per_host", default=self.options.max_io_ops_per_host)
