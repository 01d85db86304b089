# SPDX-License-Identifier: Apache-2.0
"""What /metrics answers: Roost's metrics in Prometheus's text format, in the order of their definitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from roost.observe.metric_definitions import METRIC_DEFINITIONS, MetricDefinition

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


def render_metrics(families: Iterable[Metric], now: float) -> bytes:
    """Text format of those families that Roost defines; all others are left out.

    `now`: monotonic seconds, for gauges that are exposed as an age.
    """
    return generate_latest(_DefinedFamilies(families, now))


class _DefinedFamilies(Collector):
    """Families in the order of METRIC_DEFINITIONS, with the same order of samples for one process and for several."""

    def __init__(self, families: Iterable[Metric], now: float) -> None:
        self._families, self._now = {family.name: family for family in families}, now

    def collect(self) -> Iterator[Metric]:
        """Called by `generate_latest`."""
        for definition in METRIC_DEFINITIONS:
            name = definition.name.removesuffix("_total")
            found = self._families.get(name)
            if found is not None and found.samples:
                family = Metric(name, definition.meaning, definition.kind)
                family.samples = self._exposed(definition, found.samples)
                yield family

    def _exposed(self, definition: MetricDefinition, samples: list[Sample]) -> list[Sample]:
        # The creation times that prometheus_client adds would double the number of series.
        kept = sorted((each for each in samples if not each.name.endswith("_created")), key=_series)
        if not definition.is_age:
            return kept
        # 0 is what prometheus_client writes before the first `set`, a moment after a worker has started.
        return [each._replace(value=self._now - each.value) for each in kept if each.value]


def _series(sample: Sample) -> tuple[list[tuple[str, str]], str]:
    """Sort key that keeps the series of a histogram together: buckets in their order, then _count and _sum."""
    return sorted(pair for pair in sample.labels.items() if pair[0] != "le"), sample.name
