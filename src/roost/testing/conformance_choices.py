# SPDX-License-Identifier: Apache-2.0
"""The second half of a conformance answer: weights, order, selections and what they consumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from roost.config import Settings
from roost.errors import RoostError
from roost.filters.availability_zone import AvailabilityZoneFilter
from roost.hosts import Hosts, HostTable
from roost.model import RequestSpec, Selection
from roost.model.aggregate import split_values
from roost.options import declared
from roost.plugins import WEIGHERS
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.prefilters import PrefilterOptions
from roost.scheduler.weighing import weigh
from roost.weighers.base import Weigher

_CONSUMED = ("free_ram_mb", "free_disk_mb", "vcpus_used", "num_instances", "num_io_ops")
_NO_PREFILTERS = PrefilterOptions(query_placement_for_availability_zone=False)


def weigher_classes(names: Sequence[str]) -> list[type[Weigher]]:
    """The built-in weighers of these names."""
    by_name = {each.__name__: each for each in WEIGHERS}
    return [by_name[name] for name in names]


def multiplier_options(weighers: Mapping[str, float | None]) -> dict[str, dict[str, float]]:
    """The options that set these multipliers, by section; None leaves a weigher its default."""
    sections: dict[str, dict[str, float]] = {}
    for weigher in weigher_classes(list(weighers)):
        multiplier = weighers[weigher.__name__]
        if multiplier is not None and weigher.Options is not None:
            (own,) = [each for each in declared(weigher.Options) if each.field == weigher.multiplier_option]
            sections.setdefault(own.group, {})[own.name] = multiplier
    return sections


def weights(hosts: Hosts, weighers: Sequence[Weigher], spec: RequestSpec) -> dict[str, Any]:
    """Raw numbers, weights and order of the hosts that passed; nothing where none did."""
    if not len(hosts):
        return {}
    try:
        raw = {each.name: _raw(each, hosts, spec) for each in weighers}
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


def _raw(weigher: Weigher, hosts: Hosts, spec: RequestSpec) -> dict[str, list[float]]:
    multipliers = np.broadcast_to(weigher.multipliers(hosts), (len(hosts),))
    return {"raw": weigher.clamped(hosts, spec).tolist(), "multiplier": multipliers.tolist()}


def selections(
    pipeline: Pipeline, hosts: Hosts, spec: RequestSpec, uuids: Sequence[str | None], alternates: int, zone: str
) -> dict[str, Any]:
    """A host for each instance with its alternates, and the resources of the chosen ones afterwards."""
    table = hosts.table
    try:
        decision = pipeline.place(
            table, spec, uuids, randomness=_NoChance(), clock=lambda: 0, alternates=alternates, hosts=hosts
        )
    except RoostError as error:
        return {"selections": {"error": error_of(error)}}
    return {
        "selections": [_selection(table, each, zone) for each in decision.selections],
        "consumed": _consumed(hosts, {(each.host, each.node) for each in decision.selections}),
    }


def plain_pipeline(filters: Sequence[Any], weighers: Sequence[Weigher]) -> Pipeline:
    """Filters and weighers alone: what nova asks placement is not in the answers."""
    return Pipeline(filters, weighers, checks_capacity=False, prefilters=_NO_PREFILTERS)


def default_zone(settings: Settings) -> str:
    """The zone of hosts that have none."""
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
    """In the order of the case's hosts."""
    return [
        {"host": view.host, "node": view.nodename, **{name: getattr(view, name) for name in _CONSUMED}}
        for view in hosts
        if (view.host, view.nodename) in chosen
    ]


def error_of(error: Exception) -> dict[str, str]:
    """An error under the class name that nova's has."""
    return {"type": getattr(error, "nova_type", type(error).__name__), "message": str(error)}


class _NoChance:
    """Where nothing is left to chance, nobody asks."""

    def randrange(self, stop: int, /) -> int:
        raise AssertionError("chance was asked")

    def shuffle(self, items: list[Any], /) -> None:
        raise AssertionError("chance was asked")

    def getrandbits(self, bits: int, /) -> int:
        raise AssertionError("chance was asked")
