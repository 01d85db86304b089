# SPDX-License-Identifier: Apache-2.0
"""Answers cases of the conformance format: `python -m roost.testing.vectors < cases.jsonl > answers.jsonl`.

Reads one case per line and writes one answer per line, flushed after each, so that a program can keep the process
open and converse with it. A line of a recorded file, which holds a case and nova's answer, is accepted too. An
invalid case gives an answer with only `id` and `error`. Errors have the class names of nova's. In nova, placement
checks capacity, so the capacity stage is left out here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from roost.errors import RoostError
from roost.filters.base import Filter
from roost.hosts import Hosts
from roost.plugins.registry import FILTERS
from roost.scheduler.all_options import read_options
from roost.scheduler.build import make_plugins
from roost.scheduler.checks import filter_checks, is_forced
from roost.scheduler.options import SchedulerOptions
from roost.scheduler.prefilters import named_host_checks
from roost.testing.conformance_cases import build_request, build_table
from roost.testing.conformance_choices import (
    default_zone,
    error_of,
    multiplier_options,
    plain_pipeline,
    selections,
    weigher_classes,
    weights,
)

Pairs = list[list[str]]


def answer(case: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to one case, in the conformance format."""
    try:
        prepared = _Case(case)
    except (RoostError, AttributeError, LookupError, TypeError, ValueError) as error:
        return {"id": case.get("id"), "error": error_of(error)}
    return {"id": case.get("id"), "alone": prepared.alone(), **prepared.chain(), **prepared.choice()}


class _Case:
    """A parsed case: hosts, request, filters and weighers."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        multipliers = multiplier_options(case.get("weighers") or {})
        settings = read_options(explicit=_sections(case.get("options") or {}, multipliers))
        options = settings.fill(SchedulerOptions)
        self.table, self.order = build_table(case["hosts"], options.service_down_time)
        self.table.packs_numa_cells = options.packing_host_numa_cells_allocation_strategy
        self.spec = build_request(case["request"])
        self.index = case.get("index", 0)
        by_name = {each.__name__: each for each in FILTERS}
        self.filters: list[Filter] = make_plugins([by_name[name] for name in case.get("filters") or ()], settings)
        self.weighers = make_plugins(weigher_classes(list(case.get("weighers") or {})), settings)
        uuids = case["request"].get("instance_uuids")
        self.uuids = uuids or [self.spec.instance_uuid] * self.spec.num_instances
        self.alternates = case.get("num_alternates", 2)
        self.zone = default_zone(settings)

    def hosts(self) -> Hosts:
        """All hosts, in the order of the case."""
        return self.table.in_the_running().take(self.order)

    def alone(self) -> dict[str, Any]:
        """Filter name -> (host, node) pairs that it passes when run alone on all hosts, or its error."""
        return {rule.name: self._alone(rule) for rule in self.filters}

    def _alone(self, rule: Filter) -> Pairs | dict[str, Any]:
        (check,) = filter_checks([rule], self.spec, 0)
        try:
            return _pairs(check.survivors(self.hosts()))
        except RoostError as error:
            return {"error": error_of(error)}

    def chain(self) -> dict[str, Any]:
        """The hosts that remain after each filter that runs, until none is left; then weights and order."""
        steps: list[dict[str, Any]] = []
        try:
            hosts = self.hosts()
            for check in named_host_checks(self.spec):
                hosts = check.survivors(hosts) if len(hosts) else hosts
                if check.name == "ignore_hosts" and not len(hosts):
                    return {"chain": [], "filtered": []}  # nova stops here, before the filters
            checks = [] if is_forced(self.spec) else list(filter_checks(self.filters, self.spec, self.index))
            if not is_forced(self.spec):
                steps.append({"filter": None, "passed": _pairs(hosts)})
            for check in checks:
                if not len(hosts) and len(steps) > 1:
                    break
                hosts = check.survivors(hosts) if len(hosts) else hosts
                steps.append({"filter": check.name, "passed": _pairs(hosts)})
        except RoostError as error:
            return {"chain": steps, "filter_error": error_of(error)}
        return {"chain": steps, "filtered": _pairs(hosts), **weights(hosts, self.weighers, self.spec)}

    def choice(self) -> dict[str, Any]:
        """The selections of a complete placement of all instances, and the resources they consumed."""
        pipeline = plain_pipeline(self.filters, self.weighers)
        return selections(pipeline, self.hosts(), self.spec, self.uuids, self.alternates, self.zone)


def _sections(options: Mapping[str, Any], multipliers: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Section -> option -> value; `name` belongs to [filter_scheduler], `group.name` to its group."""
    sections: dict[str, dict[str, Any]] = {group: dict(names) for group, names in multipliers.items()}
    for key, value in options.items():
        group, dot, name = key.partition(".")
        sections.setdefault(group if dot else "filter_scheduler", {})[name if dot else key] = value
    return sections


def _pairs(hosts: Hosts) -> Pairs:
    return [list(hosts.table.names[int(row)]) for row in np.asarray(hosts.rows)]


def main() -> None:
    """Answer the cases on stdin, line by line, until it ends."""
    for line in sys.stdin:
        if line.strip():
            sys.stdout.write(json.dumps(_answer_line(line)) + "\n")
            sys.stdout.flush()


def _answer_line(line: str) -> dict[str, Any]:
    """The answer to one line; an error where the line is no JSON object."""
    try:
        case = json.loads(line)
    except ValueError as error:
        return {"id": None, "error": error_of(error)}
    if not isinstance(case, dict):
        return {"id": None, "error": {"type": "TypeError", "message": "a case is a JSON object"}}
    return answer(case["case"] if isinstance(case.get("case"), dict) else case)


if __name__ == "__main__":
    main()
