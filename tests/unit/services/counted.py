# SPDX-License-Identifier: Apache-2.0
"""Decisions to count, and what Prometheus would read of them."""

from prometheus_client.parser import text_string_to_metric_families

from roost.model.decision import Decision, Selection

METHODS = ("select_destinations", "update_aggregates")
TIMES = {"prefilter": 0.0, "capacity": 20.0, "filter": 30.0, "weigh": 40.0, "choose": 5.0, "total": 95.0}


def decision(*steps, placed=1, failed_at=None):
    selections = tuple(Selection(f"h{at}", "n") for at in range(placed))
    return Decision(100, 1, tuple(steps), (), (), selections, TIMES, failed_at)


def samples(metrics):
    """Everything that is exposed, by name and labels, through Prometheus's own parser."""
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(metrics, name, **labels):
    return samples(metrics)[(name, *sorted(labels.items()))]
