# SPDX-License-Identifier: Apache-2.0
"""Hosts that report what the metrics weigher needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roost.errors import HostFault
from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.arrays import BoolArray
from roost.model.request import RequestSpec
from roost.model.weight_setting import name_and_number
from roost.options import option


class MetricsFilter(Filter):
    """Leave out hosts that do not report a metric which `[metrics] weight_setting` names."""

    reads = frozenset({"metrics"})

    @dataclass(frozen=True)
    class Options:
        """The metrics that count."""

        weight_setting: tuple[str, ...] = option(
            (), group="metrics", help="metric names and their ratios, such as cpu.frequency=1.0"
        )

    def applies_to(self, spec: RequestSpec) -> bool:
        """Always: even without a setting a host must have a list of metrics."""
        return True

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """Reports all of them."""
        return hosts.per_value("metrics", lambda metrics: not self.missing(metrics))

    def missing(self, metrics: Sequence[Mapping[str, Any]] | None) -> list[str]:
        """The named metrics that are not there."""
        if metrics is None:
            raise HostFault(self.name, "a host reports no list of metrics at all", "TypeError")
        reported = {each["name"] for each in metrics}
        return [name for name in name_and_number(self.options.weight_setting) if name not in reported]

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Which ones are missing."""
        return f"does not report {', '.join(self.missing(host.metrics))}"
