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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from roost.errors import RoostError
from roost.filters.availability_zone import AvailabilityZoneFilter
from roost.filters.base import Filter
from roost.hosts import HostRecord, Hosts, HostTable
from roost.hosts.encoded import RowArray
from roost.model import RequestSpec, Selection
from roost.model.group import split_values
from roost.model.json_records import request_from_json
from roost.model.numa import derive_topology
from roost.options.declare import declared
from roost.options.settings import Settings
from roost.plugins.registry import FILTERS, WEIGHERS
from roost.scheduler.all_options import read_options
from roost.scheduler.build import make_plugins
from roost.scheduler.checks import filter_checks, is_forced
from roost.scheduler.full_scan import weigh
from roost.scheduler.options import SchedulerOptions
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.prefilters import PrefilterOptions, named_host_checks
from roost.sources.fields import HOST_FIELDS
from roost.weighers.base import Weigher

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


_DEFAULTS: dict[str, Any] = {
    "free_ram_mb": 0,
    "free_disk_mb": 0,
    "vcpus_used": 0,
    "cpu_allocation_ratio": 16.0,
    "ram_allocation_ratio": 1.5,
    "disk_allocation_ratio": 1.0,
    "host_ip": "10.0.0.1",
}
_COUNTERS = {"num_instances": "num_instances", "num_io_ops": "io_workload", "failed_builds": "failed_builds"}
_REQUEST_NAMES = {"group": "instance_group"}


def build_table(hosts: Sequence[Mapping[str, Any]], service_down_time: int) -> tuple[HostTable, RowArray]:
    """The table of a case, and its rows in the order in which the case lists the hosts."""
    records = [build_record(host) for host in hosts]
    table = HostTable.of(records)
    up = [record.service.is_up(service_down_time) for record in records]
    rows = np.array([table.find_row((record.host, record.nodename)) for record in records], dtype=np.intp)
    table.writable_column("is_up")[rows] = up
    table.writable_column("is_bare_metal")[:] = False  # today's nova uses resource classes for bare metal
    return table, rows


def build_record(host: Mapping[str, Any]) -> HostRecord:
    """The record of one host. Counters that are not given are read from `stats`, as in nova, else 0."""
    values = dict(_DEFAULTS)
    for name, value in host.items():
        if value is None and name not in ("metrics", "cpu_info", "numa", "host_ip", "hypervisor_type"):
            continue
        values[name] = None if value is None else HOST_FIELDS[name].kind.strict(value, name)
    values.pop("cpu_info_is_dict", None)
    for counter, stat in _COUNTERS.items():
        values.setdefault(counter, int(values.get("stats", {}).get(stat, 0)))
    return HostRecord(**values)


def build_request(request: Mapping[str, Any]) -> RequestSpec:
    """The request of a case. Fields with other names in the format are renamed, null fields take their defaults."""
    plain = {_REQUEST_NAMES.get(name, name): value for name, value in request.items() if value is not None}
    plain.pop("instance_uuids", None)
    is_derived = plain.get("numa_topology") == "auto" and plain.pop("numa_topology")
    spec = request_from_json(plain)
    if is_derived:
        return replace(spec, numa_topology=derive_topology(spec.flavor, spec.image))
    return spec


_CONSUMED = ("free_ram_mb", "free_disk_mb", "vcpus_used", "num_instances", "num_io_ops")
_NO_PREFILTERS = PrefilterOptions(query_placement_for_availability_zone=False)


def weigher_classes(names: Sequence[str]) -> list[type[Weigher]]:
    """The built-in weigher classes with these names, in order."""
    by_name = {each.__name__: each for each in WEIGHERS}
    return [by_name[name] for name in names]


def multiplier_options(weighers: Mapping[str, float | None]) -> dict[str, dict[str, float]]:
    """Section -> option -> value that sets these multipliers; None leaves a weigher its default."""
    sections: dict[str, dict[str, float]] = {}
    for weigher in weigher_classes(list(weighers)):
        multiplier = weighers[weigher.__name__]
        if multiplier is not None and weigher.Options is not None:
            (own,) = [each for each in declared(weigher.Options) if each.field == weigher.multiplier_option]
            sections.setdefault(own.group, {})[own.name] = multiplier
    return sections


def weights(hosts: Hosts, weighers: Sequence[Weigher], spec: RequestSpec) -> dict[str, Any]:
    """Raw weights, multipliers, total weights and order of the filtered hosts; empty where there are none."""
    if not len(hosts):
        return {}
    try:
        raw = {each.name: _raw_weights(each, hosts, spec) for each in weighers}
        weighed = weigh(hosts, weighers, spec)
    except RoostError as error:
        return {"weigh_error": error_of(error)}
    order = weighed.best(len(hosts)).tolist()
    pairs = [hosts.table.names[hosts.row_at(position)] for position in order]
    return {
        "raw_weights": raw,
        "weights": [[*pair, weight] for pair, weight in zip(pairs, weighed.weights[order].tolist(), strict=True)],
        "order": [[*pair] for pair in pairs],
    }


def _raw_weights(weigher: Weigher, hosts: Hosts, spec: RequestSpec) -> dict[str, list[float]]:
    multipliers = np.broadcast_to(weigher.multipliers(hosts), (len(hosts),))
    return {"raw": weigher.clamped(hosts, spec).tolist(), "multiplier": multipliers.tolist()}


def selections(
    pipeline: Pipeline, hosts: Hosts, spec: RequestSpec, uuids: Sequence[str | None], alternates: int, zone: str
) -> dict[str, Any]:
    """The selected host of each instance with its alternates, and the usage of the selected hosts afterwards."""
    table = hosts.table
    try:
        decision = pipeline.place(
            table, spec, uuids, randomness=_NoRandomness(), clock=lambda: 0, alternates=alternates, hosts=hosts
        )
    except RoostError as error:
        return {"selections": {"error": error_of(error)}}
    return {
        "selections": [_selection(table, each, zone) for each in decision.selections],
        "consumed": _consumed(hosts, {(each.host, each.node) for each in decision.selections}),
    }


def plain_pipeline(filters: Sequence[Any], weighers: Sequence[Weigher]) -> Pipeline:
    """A pipeline without capacity check and prefilters: in nova they are placement's, and not in the answers."""
    return Pipeline(filters, weighers, checks_capacity=False, prefilters=_NO_PREFILTERS)


def default_zone(settings: Settings) -> str:
    """The availability zone of hosts whose aggregates name none."""
    return settings.fill(AvailabilityZoneFilter.Options).default_availability_zone


def _selection(table: HostTable, selection: Selection, zone: str) -> list[list[str]]:
    return [
        [each.host, each.node, _zone_of(table, each.host, each.node, zone)]
        for each in (selection, *selection.alternates)
    ]


def _zone_of(table: HostTable, host: str, node: str, zone: str) -> str:
    row = table.find_row((host, node))
    aggregates = table.encoded["aggregates"].at(row) if row is not None else ()
    return min(split_values(aggregates, "availability_zone"), default=zone)


def _consumed(hosts: Hosts, chosen: set[tuple[str, str]]) -> list[dict[str, Any]]:
    """The usage of the chosen (host, node) pairs, in the order of the hosts in the case."""
    return [
        {"host": view.host, "node": view.nodename, **{name: getattr(view, name) for name in _CONSUMED}}
        for view in hosts
        if (view.host, view.nodename) in chosen
    ]


def error_of(error: Exception) -> dict[str, str]:
    """The message of an error, and the class name of the corresponding error of nova."""
    return {"type": getattr(error, "nova_type", type(error).__name__), "message": str(error)}


class _NoRandomness:
    """A source of randomness that must not be used: cases are deterministic."""

    def randrange(self, stop: int, /) -> int:
        raise AssertionError("chance was asked")

    def shuffle(self, items: list[Any], /) -> None:
        raise AssertionError("chance was asked")

    def getrandbits(self, bits: int, /) -> int:
        raise AssertionError("chance was asked")


if __name__ == "__main__":
    main()
