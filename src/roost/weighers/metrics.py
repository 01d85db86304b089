# SPDX-License-Identifier: Apache-2.0
"""The weigher by metrics that agents report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roost.errors import HostFault
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import Array
from roost.model.request import RequestSpec
from roost.options.declare import option, parse_weight_setting
from roost.weighers.base import Weigher


class MetricsWeigher(Weigher):
    """Sum of metric x ratio over `[metrics] weight_setting`; the ratios decide what higher means.

    A metric that is named twice counts with both ratios.
    """

    multiplier_option = "weight_multiplier"
    aggregate_key = "metrics_weight_multiplier"
    reads = frozenset({"metrics", "aggregates"})

    @dataclass(frozen=True)
    class Options:
        """The multiplier, the metrics with their ratios, and how to treat hosts without them."""

        weight_multiplier: float = option(1.0, group="metrics", help="weight of the metrics")
        weight_setting: tuple[str, ...] = option(
            (), group="metrics", in_fleet=True, help="metric names and their ratios, such as cpu.frequency=1.0"
        )
        required: bool = option(True, group="metrics", help="a host without one of the metrics is an error")
        weight_of_unavailable: float = option(
            -10000.0,
            group="metrics",
            help="the raw number of a host without one of the metrics, if they are not required",
        )

    def may_fail(self) -> bool:
        """True if metrics are required: a host without one of them raises an error."""
        return bool(self.options.required and parse_weight_setting(self.options.weight_setting))

    def is_off(self, multipliers: Any) -> bool:
        """False if metrics are required: a missing metric is an error even with multiplier 0."""
        return super().is_off(multipliers) and not self.options.required

    def applies_to(self, spec: RequestSpec) -> bool:
        """True if `weight_setting` names metrics, for any request."""
        return bool(self.options.weight_setting and parse_weight_setting(self.options.weight_setting))

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """Per host, the weighted sum of its metrics."""
        settings = parse_weight_setting(self.options.weight_setting)
        if not settings:
            return np.zeros(len(hosts))
        return hosts.per_combination(["metrics", "aggregates"], lambda host: self._sum(host, settings), np.float64)

    def _sum(self, host: HostView, settings: Sequence[tuple[str, float]]) -> float:
        values = {each["name"]: each["value"] for each in host.metrics or ()}
        multiplier = host.aggregate_min(self.aggregate_key, default=self.multiplier(), cast=float)
        total = 0.0
        for name, ratio in settings:
            if name in values:
                total += values[name] * ratio
            elif self.options.required:
                problem = f"host {host.host} reports no metric {name}"
                hint = "enable MetricsFilter, or set [metrics] required = false"
                raise HostFault(self.name, problem, "ComputeHostMetricNotFound", hint)
            elif ratio * multiplier != 0:
                return float(self.options.weight_of_unavailable)
        return total
