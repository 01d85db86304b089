# SPDX-License-Identifier: Apache-2.0
"""Metrics of a host as plugins see them, with the names of nova's MonitorMetric and MonitorMetricList."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from roost.errors import FieldError
from roost.model.flavor import AttributesAsItems
from roost.model.kinds import Timestamp

PERCENTAGES = frozenset(
    {"cpu.user.percent", "cpu.kernel.percent", "cpu.idle.percent", "cpu.iowait.percent", "cpu.percent"}
)
"""Metrics that agents report as fractions (0.25), and nova uses as whole percentages (25)."""
_TIME = Timestamp()


@dataclass(frozen=True)
class Metric(AttributesAsItems):
    """A metric of a host. Percentages are whole numbers: 25 for a quarter."""

    name: str
    value: Any
    timestamp: datetime | None = None
    """When it was measured, in UTC; None if the agent does not say."""
    source: str | None = None
    """The monitor that measured it."""

    @classmethod
    def of(cls, reported: Mapping[str, Any]) -> Metric:
        """The metric of an entry of the column `metrics`."""
        try:
            timestamp = _TIME.strict(reported.get("timestamp"), "timestamp")
        except FieldError:
            timestamp = None
        return cls(reported["name"], reported["value"], timestamp, reported.get("source"))

    def to_dict(self) -> dict[str, Any]:
        """The metric as agents report it: a percentage is a fraction, the time is a text."""
        value = self.value / 100 if self.name in PERCENTAGES else self.value
        timestamp = self.timestamp.replace(tzinfo=None).isoformat() if self.timestamp else None
        return {"name": self.name, "value": value, "timestamp": timestamp, "source": self.source}


class MetricList(list[Metric]):
    """The metrics of a host, in the order of the report."""

    @property
    def objects(self) -> list[Metric]:
        """The metrics, under nova's name for the elements of a list object."""
        return self

    def to_list(self) -> list[dict[str, Any]]:
        """The metrics as agents report them, each as a dict."""
        return [each.to_dict() for each in self]
