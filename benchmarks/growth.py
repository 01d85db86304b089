# SPDX-License-Identifier: Apache-2.0
"""How time and memory grow with the number of hosts: the exponent, from workloads that differ in nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import linear_regression
from typing import Any

from benchmarks.workload import Workload

MEASURED = {"cold": "median_us", "trace": "us_per_decision", "memory": "megabytes"}
"""Kind of workload -> the measure whose growth is looked at."""


def growth(known: Iterable[Workload], results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """By kind, from those that `grows`: hosts, figures, exponent. Without the kinds of which one was not run."""
    found = {}
    for kind, measure in MEASURED.items():
        names = [each.name for each in known if each.kind == kind and each.grows]
        if len(names) > 1 and all(name in results for name in names):
            points = sorted((results[name]["hosts"], results[name][measure]) for name in names)
            hosts, figures = zip(*points, strict=True)
            found[kind] = {"hosts": hosts, measure: figures, "exponent": round(exponent(hosts, figures), 2)}
    return found


def exponent(sizes: Sequence[float], figures: Sequence[float]) -> float:
    """0: the same at any size; 1: twice the size, twice the figure. Least squares of the logarithms."""
    return linear_regression([math.log(each) for each in sizes], [math.log(each) for each in figures]).slope
