# SPDX-License-Identifier: Apache-2.0
"""Values of a table of hosts as JSON data and back, exactly: what a column, an instance and an aggregate hold.

Objects that many hosts share - aggregates, flavors, amounts - are written once per payload and referred to by number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from roost.hosts.guests import topology_json
from roost.hosts.instances import NO_PROPERTIES, Instance
from roost.hosts.numa_cells import host_topology_from_json
from roost.hosts.pci import pools_from_json
from roost.model import Aggregate, Flavor, Service
from roost.model.kinds import FrozenDict

Data = Any
"""JSON data."""


class SharedWriter:
    """Writes objects that a payload refers to by number, each once."""

    def __init__(self) -> None:
        self.entries: list[Data] = []
        """What was written, in the order of the numbers."""
        self._numbers: dict[int, int] = {}
        self._held: list[object] = []
        """Keeps the objects alive: the identity of one that is gone may be given to another."""

    def number_of(self, shared: object, write: Callable[[Any], Data]) -> int:
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

    def __init__(self, entries: list[Data]) -> None:
        self._entries = entries
        self._made: dict[tuple[int, Callable[[Data], Any]], Any] = {}

    def get(self, number: int, read: Callable[[Data], Any]) -> Any:
        """The object of this number."""
        key = number, read
        if key not in self._made:
            self._made[key] = read(self._entries[number])
        return self._made[key]


class Codec(NamedTuple):
    """How the values of a column are written and read."""

    write: Callable[[Any, SharedWriter], Data]
    read: Callable[[Data, SharedReader], Any]


# --- instances ---------------------------------------------------------------------------------------


def write_instance(instance: Instance, shared: SharedWriter) -> Data:
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


def read_instance(data: Data, shared: SharedReader) -> Instance:
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


def _write_flavor(flavor: Flavor) -> Data:
    return [flavor.id, flavor.to_details()]


def _read_flavor(data: Data) -> Flavor:
    flavor_id, details = data
    return Flavor.from_details(details, flavor_id)


def _write_time(time: datetime | str | None) -> Data:
    """A time as a list with its ISO text; a time that was a text stays one."""
    return [time.isoformat()] if isinstance(time, datetime) else time


def _read_time(data: Data) -> Any:
    return datetime.fromisoformat(data[0]) if isinstance(data, list) else data


# --- aggregates --------------------------------------------------------------------------------------


def write_aggregates(aggregates: tuple[Aggregate, ...], shared: SharedWriter) -> Data:
    """Aggregates as their numbers."""
    return [shared.number_of(each, _write_aggregate) for each in aggregates]


def read_aggregates(data: Data, shared: SharedReader) -> tuple[Aggregate, ...]:
    """The aggregates of these numbers."""
    return tuple(shared.get(number, _read_aggregate) for number in data)


def _write_aggregate(aggregate: Aggregate) -> Data:
    return [aggregate.name, dict(aggregate.metadata), list(aggregate.hosts), aggregate.id, aggregate.uuid]


def _read_aggregate(data: Data) -> Aggregate:
    name, metadata, hosts, number, uuid = data
    return Aggregate(name, metadata, tuple(hosts), number, uuid)


# --- columns -----------------------------------------------------------------------------------------


def _plain(write: Callable[[Any], Data], read: Callable[[Data], Any]) -> Codec:
    return Codec(lambda value, shared: write(value), lambda data, shared: read(data))


def _same(value: Any) -> Any:
    return value


def _write_texts(triples: tuple[tuple[str, ...], ...]) -> Data:
    return [list(each) for each in triples]


def _read_texts(data: Data) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(each) for each in data)


def _write_mappings(records: tuple[Mapping[str, Any], ...] | None) -> Data:
    return None if records is None else [dict(each) for each in records]


def _read_mappings(data: Data) -> tuple[Mapping[str, Any], ...] | None:
    return None if data is None else tuple(data)


def _write_service(service: Service) -> Data:
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
