# SPDX-License-Identifier: Apache-2.0
"""The filter for hosts that report all metrics that MetricsWeigher needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from roost.errors import HostFault
from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import BoolArray
from roost.model.remedy import OptionChange, Remedy
from roost.model.request import RequestSpec
from roost.options.declare import option, parse_weight_setting


class MetricsFilter(Filter):
    """Leave out hosts that lack a metric which `[metrics] weight_setting` names."""

    reads = frozenset({"metrics"})

    @dataclass(frozen=True)
    class Options:
        """The metrics that a host must report."""

        weight_setting: tuple[str, ...] = option(
            (), group="metrics", in_fleet=True, help="metric names and their ratios, such as cpu.frequency=1.0"
        )

    def applies_to(self, spec: RequestSpec) -> bool:
        """Always True: even without a setting, a host that reports no list of metrics is an error."""
        return True

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts that report all named metrics; HostFault for a host without a list of metrics."""
        return hosts.per_value("metrics", lambda metrics: not self.missing(metrics))

    def missing(self, metrics: Sequence[Any] | None) -> list[str]:
        """The named metrics that are not among those reported; HostFault if no list was reported."""
        if metrics is None:
            raise HostFault(self.name, "a host reports no list of metrics at all", "TypeError")
        reported = {each["name"] for each in metrics}
        return [name for name in dict(parse_weight_setting(self.options.weight_setting)) if name not in reported]

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The named metrics that the host does not report."""
        return f"does not report {', '.join(self.missing(host.metrics))}"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """A setting without the metrics that the host does not report."""
        missing = self.missing(host.metrics)
        left = [each for each in self.options.weight_setting if each.partition("=")[0].strip() not in missing]
        names = ", ".join(missing)
        text = f"let {host.host} report {names} (option compute_monitors), or take it out of [metrics] weight_setting"
        return Remedy(text, (OptionChange("metrics", "weight_setting", left),))
