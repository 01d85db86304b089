# SPDX-License-Identifier: Apache-2.0
"""Growth of time and memory with the number of hosts: the exponent over workloads that differ only in size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import linear_regression
from typing import Any

from benchmarks.workload import Workload

MEASURED = {"cold": "median_us", "trace": "us_per_decision", "memory": "megabytes"}
"""Kind of workload -> the measure whose growth is computed."""


def growth(known: Iterable[Workload], results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Kind -> hosts, figures and exponent of its workloads with `grows`; kinds with a missing result are left out."""
    found = {}
    for kind, measure in MEASURED.items():
        names = [each.name for each in known if each.kind == kind and each.grows]
        if len(names) > 1 and all(name in results for name in names):
            points = sorted((results[name]["hosts"], results[name][measure]) for name in names)
            hosts, figures = zip(*points, strict=True)
            found[kind] = {"hosts": hosts, measure: figures, "exponent": round(exponent(hosts, figures), 2)}
    return found


def exponent(sizes: Sequence[float], figures: Sequence[float]) -> float:
    """Exponent of the power law fitted by least squares of the logarithms: 0 is constant, 1 is linear growth."""
    return linear_regression([math.log(each) for each in sizes], [math.log(each) for each in figures]).slope
