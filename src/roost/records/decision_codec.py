# SPDX-License-Identifier: Apache-2.0
"""Decisions, and the table of hosts that they saw, as JSON data and back: equal in every value.

A decision: steps, scores of the best hosts, choices, and the request as it was placed. A table goes column by column.
Objects that many hosts share - aggregates, flavors, amounts - are written once per payload and referred to by number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from roost.hosts import HostTable
from roost.hosts.encoded import Array
from roost.hosts.guests import topology_json
from roost.hosts.instances import NO_PROPERTIES, Instance
from roost.hosts.numa_cells import host_topology_from_json
from roost.hosts.pci import pools_from_json
from roost.messages.objects.request import request_from_object, request_to_short_object
from roost.model import Aggregate, Decision, Flavor, RequestSpec, Service
from roost.model.decision import Candidate, RankedList, ScoredHost, Scores, Selection, Step
from roost.model.kinds import FrozenDict

AnyData = Any
"""JSON data."""


class SharedWriter:
    """Writes objects that a payload refers to by number, each once."""

    def __init__(self) -> None:
        self.entries: list[AnyData] = []
        """What was written, in the order of the numbers."""
        self._numbers: dict[int, int] = {}
        self._held: list[object] = []
        """Keeps the objects alive: the identity of one that is gone may be given to another."""

    def number_of(self, shared: object, write: Callable[[Any], AnyData]) -> int:
        """The number of an object, written when it is first asked for."""
        number = self._numbers.get(id(shared))
        if number is None:
            data = write(shared)
            number = self._numbers[id(shared)] = len(self.entries)
            self.entries.append(data)
            self._held.append(shared)
        return number


class SharedReader:
    """Reads the objects that a payload refers to by number, each once."""

    def __init__(self, entries: list[AnyData]) -> None:
        self._entries = entries
        self._made: dict[tuple[int, Callable[[AnyData], Any]], Any] = {}

    def get(self, number: int, read: Callable[[AnyData], Any]) -> Any:
        """The object of this number."""
        key = number, read
        if key not in self._made:
            self._made[key] = read(self._entries[number])
        return self._made[key]


class Codec(NamedTuple):
    """How the values of a column are written and read."""

    write: Callable[[Any, SharedWriter], AnyData]
    read: Callable[[AnyData, SharedReader], Any]


# --- instances ---------------------------------------------------------------------------------------


def write_instance(instance: Instance, shared: SharedWriter) -> AnyData:
    """An instance as a list of its fields."""
    return [
        instance.uuid,
        instance.project_id,
        instance.flavor_id,
        _number_unless_empty(instance.image_props, shared),
        _number_unless_empty(instance.resources, shared),
        instance.image_ref,
        None if instance.flavor is None else shared.number_of(instance.flavor, _write_flavor),
        _number_unless_empty(instance.system_metadata, shared),
        _write_time(instance.created_at),
        _write_time(instance.recorded_at),
    ]


def read_instance(data: AnyData, shared: SharedReader) -> Instance:
    """The instance that `write_instance` wrote."""
    uuid, project_id, flavor_id, image_props, resources, image_ref, flavor, metadata, created_at, recorded_at = data
    return Instance(
        uuid,
        project_id,
        flavor_id,
        NO_PROPERTIES if image_props is None else shared.get(image_props, dict),
        {} if resources is None else shared.get(resources, dict),
        image_ref,
        None if flavor is None else shared.get(flavor, _read_flavor),
        NO_PROPERTIES if metadata is None else shared.get(metadata, dict),
        _read_time(created_at),
        _read_time(recorded_at),
    )


def _number_unless_empty(values: Mapping[str, Any], shared: SharedWriter) -> int | None:
    return shared.number_of(values, dict) if values else None


def _write_flavor(flavor: Flavor) -> AnyData:
    return [flavor.id, flavor.to_details()]


def _read_flavor(data: AnyData) -> Flavor:
    flavor_id, details = data
    return Flavor.from_details(details, flavor_id)


def _write_time(time: datetime | str | None) -> AnyData:
    """A time as a list with its ISO text; a time that was a text stays one."""
    return [time.isoformat()] if isinstance(time, datetime) else time


def _read_time(data: AnyData) -> Any:
    return datetime.fromisoformat(data[0]) if isinstance(data, list) else data


# --- aggregates --------------------------------------------------------------------------------------


def write_aggregates(aggregates: tuple[Aggregate, ...], shared: SharedWriter) -> AnyData:
    """Aggregates as their numbers."""
    return [shared.number_of(each, _write_aggregate) for each in aggregates]


def read_aggregates(data: AnyData, shared: SharedReader) -> tuple[Aggregate, ...]:
    """The aggregates of these numbers."""
    return tuple(shared.get(number, _read_aggregate) for number in data)


def _write_aggregate(aggregate: Aggregate) -> AnyData:
    return [aggregate.name, dict(aggregate.metadata), list(aggregate.hosts), aggregate.id, aggregate.uuid]


def _read_aggregate(data: AnyData) -> Aggregate:
    name, metadata, hosts, number, uuid = data
    return Aggregate(name, metadata, tuple(hosts), number, uuid)


# --- columns -----------------------------------------------------------------------------------------


def _plain(write: Callable[[Any], AnyData], read: Callable[[AnyData], Any]) -> Codec:
    return Codec(lambda value, shared: write(value), lambda data, shared: read(data))


def _same(value: Any) -> Any:
    return value


def _write_texts(triples: tuple[tuple[str, ...], ...]) -> AnyData:
    return [list(each) for each in triples]


def _read_texts(data: AnyData) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(each) for each in data)


def _write_mappings(records: tuple[Mapping[str, Any], ...] | None) -> AnyData:
    return None if records is None else [dict(each) for each in records]


def _read_mappings(data: AnyData) -> tuple[Mapping[str, Any], ...] | None:
    return None if data is None else tuple(data)


def _write_service(service: Service) -> AnyData:
    return dict(vars(service))


_AS_IT_IS = _plain(_same, _same)
_CODECS: dict[str, Codec] = {
    **dict.fromkeys(("cell", "hypervisor_type", "version", "host_ip", "trust_level"), _AS_IT_IS),
    "ratios": _plain(list, tuple),
    "supported_instances": _plain(_write_texts, _read_texts),
    "cpu_info": _plain(lambda value: dict(value) if isinstance(value, Mapping) else value, _same),
    "stats": _plain(dict, FrozenDict),
    "metrics": _plain(_write_mappings, _read_mappings),
    "service": _plain(_write_service, lambda data: Service(**data)),
    "aggregates": Codec(write_aggregates, read_aggregates),
    "traits": _plain(sorted, frozenset),
    "pci_pools": _plain(lambda pools: [pool.to_dict() for pool in pools], pools_from_json),
    "numa": _plain(topology_json, lambda data: None if data is None else host_topology_from_json(data)),
    "allocation_candidates": _plain(_write_mappings, _read_mappings),
}


def codec_of(column: str) -> Codec:
    """How the values of a dictionary-encoded column are written and read."""
    return _CODECS[column]


Data = dict[str, Any]
"""JSON data."""


@dataclass(frozen=True)
class DecisionRecord:
    """A decision as it is kept: what was asked, what came of it, and by whom and from which state."""

    id: int
    created_at: datetime
    request_id: str | None
    project_id: str | None
    run_uuid: str
    """The scheduler that decided, from its start or last reload on."""
    position: int
    """The state of its table that it decided from."""
    data: Data
    """As `decision_to_data` made it."""

    @property
    def decision(self) -> Decision:
        """Steps, scores and choices; scores of the best hosts only."""
        return decision_from_data(self.data)

    @property
    def request(self) -> RequestSpec:
        """The request as it was put to the hosts: completed, with its group as it was then."""
        return request_from_object(self.data["request"])

    @property
    def rounds(self) -> int:
        """How often hosts were chosen: more than once where another scheduler claimed them first."""
        return int(self.data["rounds"])


def decision_to_data(decision: Decision, spec: RequestSpec, uuids: Sequence[str], rounds: int) -> Data:
    """A decision and its request as JSON data. `uuids`: of the instances that were asked for."""
    scores = _ScoresWriter()
    best = decision.best.noted if isinstance(decision.best, RankedList) else ()
    is_single = len(decision.selections) == 1  # its scores are those of the best host
    return {
        "hosts": decision.hosts,
        "wanted": decision.wanted,
        "failed_at": decision.failed_at,
        "steps": decision.steps,
        "weighers": decision.weighers,
        "best": [scores.write(each) for each in best],
        "selections": [_selection_to_data(each, None if is_single else scores) for each in decision.selections],
        "scales": scores.scales,
        "time_us": {stage: round(spent, 1) for stage, spent in decision.time_us.items()},
        "rounds": rounds,
        "servers": list(uuids),
        "request": request_to_short_object(spec),
    }


def decision_from_data(data: Data) -> Decision:
    """The decision that `decision_to_data` wrote; selections are without limits and rows."""
    best = [_noted(each, data["scales"]) for each in data["best"]]
    return Decision(
        hosts=data["hosts"],
        wanted=data["wanted"],
        steps=tuple(Step(*step) for step in data["steps"]),
        weighers=tuple(data["weighers"]),
        best=RankedList(best),
        selections=tuple(_selection_from_data(each, data["scales"], best) for each in data["selections"]),
        time_us=data["time_us"],
        failed_at=data["failed_at"],
    )


class _ScoresWriter:
    """Writes hosts with their scores; what all of them share - names, extremes and multipliers - once."""

    def __init__(self) -> None:
        self.scales: list[Any] = []
        self._numbers: dict[tuple[int, int, int], int] = {}

    def write(self, noted: ScoredHost) -> Any:
        """A host, its weight and its raw numbers."""
        (host, node), weight, (names, numbers, spans, multipliers) = noted
        key = id(names), id(spans), id(multipliers)
        scale = self._numbers.get(key)
        if scale is None:
            scale = self._numbers[key] = len(self.scales)
            self.scales.append((names, spans, multipliers))
        return host, node, weight, numbers, scale


def _noted(data: Any, scales: Sequence[Any]) -> ScoredHost:
    host, node, weight, numbers, scale = data
    names, spans, multipliers = scales[scale]
    pairs = tuple((low, high) for low, high in spans)
    return (host, node), weight, (tuple(names), tuple(numbers), pairs, tuple(multipliers))


def _selection_to_data(selection: Selection, scores: _ScoresWriter | None) -> Any:
    """`scores`: writes those of the selection; None: they are those of the best host."""
    alternates = [(each.host, each.node) for each in selection.alternates]
    ranked = selection.ranked
    scored = None
    if scores is not None and ranked is not None and isinstance(ranked.scores, Scores):
        scored = scores.write(((ranked.host, ranked.node), ranked.weight, ranked.scores.parts))
    return selection.host, selection.node, selection.instance_uuid, alternates, scored


def _selection_from_data(data: Any, scales: Sequence[Any], best: Sequence[ScoredHost]) -> Selection:
    host, node, uuid, alternates, scored = data
    noted = _noted(scored, scales) if scored else next((each for each in best if each[0] == (host, node)), None)
    return Selection(
        host,
        node,
        instance_uuid=uuid,
        ranked=RankedList([noted]).first if noted else None,
        alternates=tuple(Candidate(*each) for each in alternates),
    )


Image = dict[str, Any]
"""A table as JSON data."""


def image_of(table: HostTable) -> Image:
    """All that decides where a request goes."""
    shared = SharedWriter()
    image = {
        "names": [list(pair) for pair in table.names],
        "uuids": list(table.uuids.items()),
        "numbers": {name: _write_numbers(column) for name, column in table.numbers.items()},
        "encoded": {name: _write_encoded(table, name, shared) for name in table.encoded},
        "known_aggregates": write_aggregates(table.known_aggregates, shared),
        "instances": [
            [row, [write_instance(each, shared) for each in present.values()]]
            for row, present in table.instances.items()
            if present
        ],
        "packs_numa_cells": table.packs_numa_cells,
    }
    return image | {"shared": shared.entries}


def table_of(image: Image) -> HostTable:
    """The table that `image_of` wrote."""
    shared = SharedReader(image["shared"])
    count = len(image["names"])
    instances = ((row, read_instance(each, shared)) for row, instances in image["instances"] for each in instances)
    table = HostTable.of_columns(
        [(host, node) for host, node in image["names"]],
        {name: _read_numbers(data, count) for name, data in image["numbers"].items()},
        {name: _read_encoded(name, data, shared) for name, data in image["encoded"].items()},
        dict(image["uuids"]),
        instances,
    )
    table.known_aggregates = read_aggregates(image["known_aggregates"], shared)
    table.packs_numa_cells = image["packs_numa_cells"]
    return table


def _write_numbers(column: Array) -> Any:
    """A list of all numbers; one number that all hosts have alone."""
    return column[0].item() if len(column) and column.strides == (0,) else column.tolist()


def _read_numbers(data: Any, count: int) -> list[Any]:
    return data if isinstance(data, list) else [data] * count


def _write_encoded(table: HostTable, name: str, shared: SharedWriter) -> Any:
    """The values in use, and for each host the position of its value."""
    column, write = table.encoded[name], codec_of(name).write
    used = column.used()
    position = {code: at for at, code in enumerate(used)}
    return [[write(column.values[code], shared) for code in used], [position[code] for code in column.codes.tolist()]]


def _read_encoded(name: str, data: Any, shared: SharedReader) -> list[Any]:
    """The value of each host; equal ones are one object."""
    values, positions = data
    read = codec_of(name).read
    found = [read(each, shared) for each in values]
    return [found[at] for at in positions]
