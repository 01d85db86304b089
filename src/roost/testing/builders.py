# SPDX-License-Identifier: Apache-2.0
"""Builders of host tables and requests from keyword arguments, with defaults for everything else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roost.hosts import HostRecord, HostTable, Instance
from roost.hosts.numa_cells import host_topology_from_json
from roost.hosts.pci import pools_from_json
from roost.model import Aggregate, Destination, Flavor, Image, RequestSpec, Retry, ServerGroup, Service
from roost.model.numa import topology_from_json
from roost.model.pci import pci_request_from_json

_FLAVOR = {"vcpus": 1, "memory_mb": 512, "root_gb": 0, "ephemeral_gb": 0, "swap": 0}
_FLAVOR_FIELDS = (*_FLAVOR, "name", "id", "extra_specs")
_REQUEST_PARTS: dict[str, Any] = {"instance_group": ServerGroup, "retry": Retry, "requested_destination": Destination}


def make_hosts(count: int | None = None, **columns: Any) -> HostTable:
    """A host table. A list gives one value per host, any other value applies to all hosts.

    Hosts are named host1, host2, ... unless `host` is given. Aggregates may be given as their metadata, instances as
    uuids: `make_hosts(aggregates=[[{"availability_zone": "az1"}], []])`; services, instances, PCI pools and NUMA
    topologies as mappings, as in a fleet file. Without lists, there are `count` hosts (default: 1).
    """
    return HostTable.of(make_records(count, **columns))


def make_records(count: int | None = None, **columns: Any) -> list[HostRecord]:
    """Host records, with the arguments of `make_hosts`. Raises ValueError for lists of different lengths."""
    lengths = {len(values) for name, values in columns.items() if isinstance(values, list)}
    if len(lengths) > 1:
        raise ValueError(f"columns of different lengths: {sorted(lengths)}")
    total = lengths.pop() if lengths else (1 if count is None else count)
    columns.setdefault("host", [f"host{number}" for number in range(1, total + 1)])
    rows = [
        {name: values[at] if isinstance(values, list) else values for name, values in columns.items()}
        for at in range(total)
    ]
    return [HostRecord(**_convert_row(row)) for row in rows]


def _convert_row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _CONVERTERS[name](value) if name in _CONVERTERS else value for name, value in row.items()}


def _instance(each: Any) -> Instance:
    if isinstance(each, str):
        return Instance(each)
    return Instance(**each) if isinstance(each, Mapping) else each


def _aggregate(each: Aggregate | Mapping[str, str], number: int) -> Aggregate:
    return each if isinstance(each, Aggregate) else Aggregate(f"aggregate{number}", each, id=number)


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "aggregates": lambda found: tuple(_aggregate(each, at) for at, each in enumerate(found, start=1)),
    "allocation_candidates": tuple,
    "instances": lambda found: tuple(_instance(each) for each in found),
    "metrics": lambda found: None if found is None else tuple(found),
    "numa": lambda found: host_topology_from_json(found) if isinstance(found, Mapping) else found,
    "pci_pools": lambda found: pools_from_json(found) if isinstance(found, list) else found,
    "service": lambda found: Service(**found) if isinstance(found, Mapping) else found,
    "supported_instances": lambda found: tuple(tuple(each) for each in found),
    "traits": frozenset,
}
"""Column -> converter of a host's value from its JSON form to that of a HostRecord."""


def make_spec(image: Mapping[str, Any] | Image | None = None, **fields: Any) -> RequestSpec:
    """A request. Sizes (MiB, GiB) and extra_specs set its flavor, a mapping of properties its image.

    Group, retry record, destination, PCI requests and NUMA topology may be given as mappings. The default flavor has
    1 vCPU, 512 MiB and no disk.
    """
    sizes = {name: fields.pop(name) for name in _FLAVOR_FIELDS if name in fields}
    flavor = fields.pop("flavor", None) or Flavor(**(_FLAVOR | sizes))
    if isinstance(image, Mapping):
        image = Image(id="image1", properties=image)  # type: ignore[arg-type]
    return RequestSpec(flavor=flavor, image=image, **{name: _part(name, value) for name, value in fields.items()})


def _part(name: str, value: Any) -> Any:
    if name == "pci_requests":
        return tuple(pci_request_from_json(each) if isinstance(each, Mapping) else each for each in value)
    if not isinstance(value, Mapping) or name not in (*_REQUEST_PARTS, "numa_topology"):
        return value
    return topology_from_json(value) if name == "numa_topology" else _REQUEST_PARTS[name](**value)
