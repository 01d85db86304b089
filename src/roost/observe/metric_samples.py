# SPDX-License-Identifier: Apache-2.0
"""The numbers of a process at one moment: taken from a registry, added to those of others, written for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from roost.observe.metric_definitions import MEASURES

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
Series = tuple[str, tuple[tuple[str, str], ...]]
"""Name (that of the metric, or of a part such as _bucket) and labels."""
Numbers = dict[str, dict[Series, float]]
"""By metric, then by series."""

_BY_NAME = {measure.name: measure for measure in MEASURES}
_TOGETHER: Mapping[str, Callable[[float, float], float]] = {"sum": float.__add__, "max": max, "min": min}


def numbers_of(registry: CollectorRegistry) -> Numbers:
    """All that this registry holds now, but the moments at which series were made."""
    numbers: Numbers = {}
    for family in registry.collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        numbers[name] = {
            (sample.name, tuple(sorted(sample.labels.items()))): float(sample.value)
            for sample in family.samples
            if not sample.name.endswith("_created")
        }
    return numbers


def without_gauges(numbers: Numbers) -> Numbers:
    """What stays true of a process that has ended: all it counted."""
    return {name: series for name, series in numbers.items() if _BY_NAME[name].kind != "gauge"}


def together(many: Iterable[Numbers]) -> Numbers:
    """What several processes say as one: sums, or what is worst of the gauges that cannot be added up."""
    total: Numbers = {}
    for numbers in many:
        for name, series in numbers.items():
            add = _TOGETHER[_BY_NAME[name].of_workers]
            known = total.setdefault(name, {})
            for each, value in series.items():
                known[each] = add(known[each], value) if each in known else value
    return total


def rendered(numbers: Numbers) -> bytes:
    """The text that Prometheus reads."""
    return generate_latest(_Written(numbers))


class _Written(Collector):
    """What the exposition takes its lines from."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers

    def collect(self) -> Iterator[Metric]:
        """In the order in which they are declared."""
        for measure in MEASURES:
            family = Metric(measure.name.removesuffix("_total"), measure.meaning, measure.kind)
            for (name, labels), value in self._numbers.get(measure.name, {}).items():
                family.add_sample(name, dict(labels), value)
            if family.samples:
                yield family
