# SPDX-License-Identifier: Apache-2.0
"""The part of a conformance answer after filtering: weights, order, selections, and consumed resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from roost.errors import RoostError
from roost.filters.availability_zone import AvailabilityZoneFilter
from roost.hosts import Hosts, HostTable
from roost.model import RequestSpec, Selection
from roost.model.aggregate import split_values
from roost.options.declare import declared
from roost.options.settings import Settings
from roost.plugins.registry import WEIGHERS
from roost.scheduler.full_scan import weigh
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.prefilters import PrefilterOptions
from roost.weighers.base import Weigher

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
