# SPDX-License-Identifier: Apache-2.0
"""The smaller records that hang on a request - destination, retries, limits, groups - from the wire and back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from uuid import NAMESPACE_DNS, UUID, uuid5

from roost.errors import FieldError
from roost.hosts.numa import OvercommitLimits
from roost.model import checks
from roost.model.request_parts import (
    Destination,
    Limits,
    NetworkMetadata,
    NetworkRequest,
    NumaLimits,
    RequestGroup,
    RequestLevelParams,
    Retry,
    SecurityGroup,
)
from roost.wire import values
from roost.wire.envelope import close_envelope, close_list, is_envelope, open_list, open_record
from roost.wire.values import Message

_ROOST = uuid5(NAMESPACE_DNS, "cells.roost.invalid")
_NETWORK_FIELDS = ("network_id", "address", "port_id", "pci_request_id", "tag", "arq_uuid", "device_profile")
_NETWORK_TAKERS: Mapping[str, values.Take] = dict.fromkeys(_NETWORK_FIELDS, values.optional_text)
_LIMITS = ("vcpu", "memory_mb", "disk_gb", "numa_topology")


def _record(kind: type[Message], name: str, takers: Mapping[str, values.Take], value: Any, where: str) -> Message:
    """A record whose fields are called as nova's are."""
    if isinstance(value, kind):
        return value
    data = open_record(value, name, where).data
    return values.carried(values.made(kind, where, **values.taken(takers, data, where)), data, where)


# --- destination ----------------------------------------------------------------------------------

_DESTINATION: dict[str, values.Take] = {
    **dict.fromkeys(("host", "node"), values.optional_text),
    "allow_cross_cell_move": values.flag,
    **dict.fromkeys(("aggregates", "forbidden_aggregates"), values.texts),
}


def destination_from_object(value: Any, where: str = "requested_destination") -> Destination | None:
    """Where the caller wants it. Of a cell only the names are kept: its addresses hold passwords."""
    if value is None or isinstance(value, Destination):
        return value
    data = open_record(value, "Destination", where).data
    name, uuid = _cell(data.get("cell"), f"{where}.cell")
    taken = values.taken(_DESTINATION, data, where)
    return values.made(Destination, where, cell=name or uuid, cell_uuid=uuid, **taken).received(data)


def _cell(value: Any, where: str) -> tuple[str | None, str | None]:
    """A cell's name and uuid."""
    if value is None or isinstance(value, str):
        return values.optional_text(value, where), None
    data = open_record(value, "CellMapping", where).data
    name, uuid = (values.optional_text(data.get(each), f"{where}.{each}") for each in ("name", "uuid"))
    return name, uuid


def destination_to_object(destination: Destination | None) -> dict[str, Any] | None:
    """Its envelope; a cell goes with its name and uuid alone."""
    if destination is None:
        return None
    held: dict[str, Any] = {name: getattr(destination, name) for name in ("host", "node", "allow_cross_cell_move")}
    held["aggregates"] = list(destination.aggregates) or None
    held["forbidden_aggregates"] = sorted(destination.forbidden_aggregates) or None
    held["cell"] = cell_to_object(destination)
    usual = dict.fromkeys(held) | {"allow_cross_cell_move": False}
    return close_envelope("Destination", values.set_fields(destination, held, usual))


def cell_to_object(destination: Destination) -> dict[str, Any] | None:
    """The envelope of the cell that a destination names."""
    if destination.cell is None:
        return None
    uuid = destination.cell_uuid or cell_uuid(destination.cell)
    return close_envelope("CellMapping", {"name": destination.cell, "uuid": uuid})


@lru_cache(maxsize=64)
def cell_uuid(cell: str) -> str:
    """The uuid under which a cell is known to nova: its name where that is one, else one made from it."""
    try:
        return str(UUID(cell))
    except ValueError:
        return str(uuid5(_ROOST, cell))


# --- retries --------------------------------------------------------------------------------------


def retry_from_object(value: Any, where: str = "retry") -> Retry | None:
    """Hosts that were tried; an empty mapping is no retry. The older form lists [host, node] pairs."""
    if value is None or isinstance(value, Retry):
        return value
    data = open_record(value, "SchedulerRetries", where).data
    if not data:
        return None
    nodes = open_list(data.get("hosts"), "ComputeNodeList", f"{where}.hosts")
    pairs = [_tried(each, f"{where}.hosts[{at}]") for at, each in enumerate(values.listed(nodes, f"{where}.hosts"))]
    attempts = values.number(data.get("num_attempts", 1), f"{where}.num_attempts")
    return values.made(Retry, where, num_attempts=attempts, hosts=pairs).received(data)


def _tried(value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        return value
    data = open_record(value, "ComputeNode", where).data
    return values.text(data.get("host"), f"{where}.host"), data.get("hypervisor_hostname")


def retry_to_object(retry: Retry | None) -> dict[str, Any] | None:
    """Its envelope, with the pairs as compute nodes."""
    if retry is None:
        return None
    nodes = [close_envelope("ComputeNode", {"host": host, "hypervisor_hostname": node}) for host, node in retry.hosts]
    data = {"num_attempts": retry.num_attempts, "hosts": close_list("ComputeNodeList", nodes)}
    return close_envelope("SchedulerRetries", data)


# --- limits ---------------------------------------------------------------------------------------


def limits_from_object(value: Any, where: str = "limits") -> Limits | None:
    """Overcommit ceilings."""
    if value is None or isinstance(value, Limits):
        return value
    opened = open_record(value, "SchedulerLimits", where)
    takers: dict[str, values.Take] = dict.fromkeys(_LIMITS[:3], values.optional_number)
    takers["numa_topology"] = _numa_limits
    return values.made(Limits, where, **values.taken(takers, opened.data, where)).received(opened.data)


def _numa_limits(value: Any, where: str) -> NumaLimits | None:
    """The two ratios. Juno and Kilo had ceilings for each cell, or other names: these are not taken."""
    if value is None or isinstance(value, NumaLimits):
        return value
    data = open_record(value, "NUMATopologyLimits", where).data
    names = ("cpu_allocation_ratio", "ram_allocation_ratio")
    if not all(name in data for name in names):
        return None
    ratios = {name: checks.number(data[name], f"{where}.{name}", least=0) for name in names}
    return values.made(NumaLimits, where, **ratios)


def limits_to_object(limits: Limits | None) -> dict[str, Any] | None:
    """Their envelope."""
    if limits is None:
        return None
    held = limits_data({name: getattr(limits, name) for name in _LIMITS})
    if limits.sent is not None:
        held = {name: value for name, value in held.items() if name in limits.sent.names or value is not None}
    return close_envelope("SchedulerLimits", held)


def limits_data(limits: Mapping[str, Any], numa_version: str | None = None) -> dict[str, Any]:
    """All four ceilings as they are sent; those that are not set are null. Fractions are cut off, as nova does."""
    return {name: _ceiling(limits.get(name), numa_version) for name in _LIMITS}


def _ceiling(value: Any, numa_version: str | None) -> Any:
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, OvercommitLimits):
        value = NumaLimits(value.cpu_ratio, value.ram_ratio)
    if isinstance(value, NumaLimits):
        ratios = {name: getattr(value, name) for name in ("cpu_allocation_ratio", "ram_allocation_ratio")}
        return close_envelope("NUMATopologyLimits", ratios, numa_version)
    return value if is_envelope(value) else int(value)


# --- what it needs besides its flavor -------------------------------------------------------------

_GROUP: dict[str, values.Take] = {
    "use_same_provider": lambda value, where: value is None or checks.flag(value, where),
    "resources": lambda value, where: {
        name: values.number(amount, f"{where}.{name}") for name, amount in values.mapping(value, where).items()
    },
    **dict.fromkeys(
        ("required_traits", "forbidden_traits", "forbidden_aggregates", "provider_uuids"),
        values.texts,
    ),
    "aggregates": values.lists_of_texts,
    **dict.fromkeys(("requester_id", "in_tree"), values.optional_text),
}
_PARAMS: dict[str, values.Take] = {
    **dict.fromkeys(("root_required", "root_forbidden"), values.texts),
    "same_subtree": values.lists_of_texts,
}
_NETWORKS: dict[str, values.Take] = {"physnets": values.texts, "tunneled": values.flag}
_SECURITY: dict[str, values.Take] = dict.fromkeys(("name", "uuid"), values.optional_text)


def request_groups_from_object(value: Any, where: str = "requested_resources") -> tuple[RequestGroup, ...]:
    """What ports and accelerators need."""
    groups = enumerate(values.listed(value, where))
    return tuple(_record(RequestGroup, "RequestGroup", _GROUP, each, f"{where}[{at}]") for at, each in groups)


def request_group_to_object(group: RequestGroup) -> dict[str, Any]:
    """The envelope of one group."""
    held = {name: _plain(getattr(group, name)) for name in _GROUP}
    usual = {name: _plain(getattr(RequestGroup(), name)) for name in _GROUP}
    return close_envelope("RequestGroup", values.set_fields(group, held, usual))


def level_params_from_object(value: Any, where: str = "request_level_params") -> RequestLevelParams:
    """Conditions on the host as a whole; none for null."""
    empty: dict[str, Any] = {}
    return _record(RequestLevelParams, "RequestLevelParams", _PARAMS, empty if value is None else value, where)


def level_params_to_object(params: RequestLevelParams) -> dict[str, Any]:
    """Their envelope."""
    held = {name: _plain(getattr(params, name)) for name in _PARAMS}
    return close_envelope("RequestLevelParams", values.set_fields(params, held, {name: [] for name in _PARAMS}))


def network_metadata_from_object(value: Any, where: str = "network_metadata") -> NetworkMetadata | None:
    """Networks that should be near."""
    return None if value is None else _record(NetworkMetadata, "NetworkMetadata", _NETWORKS, value, where)


def network_metadata_to_object(metadata: NetworkMetadata) -> dict[str, Any]:
    """Their envelope."""
    held = {"physnets": sorted(metadata.physnets), "tunneled": metadata.tunneled}
    return close_envelope("NetworkMetadata", held)


def networks_from_object(value: Any, where: str = "requested_networks") -> tuple[NetworkRequest, ...]:
    """Networks and ports that the instance is to have."""
    listed = values.listed(open_list(value, "NetworkRequestList", where), where)
    return tuple([_network(each, f"{where}[{at}]") for at, each in enumerate(listed)])


def _network(value: Any, where: str) -> NetworkRequest:
    return _record(NetworkRequest, "NetworkRequest", _NETWORK_TAKERS, value, where)


def networks_to_object(networks: tuple[NetworkRequest, ...]) -> dict[str, Any]:
    """The envelope of all."""
    objects = []
    for each in networks:
        held = {name: getattr(each, name) for name in _NETWORK_FIELDS}
        fields = values.set_fields(each, held, dict.fromkeys(_NETWORK_FIELDS))
        objects.append(close_envelope("NetworkRequest", fields))
    return close_list("NetworkRequestList", objects)


def security_groups_from_object(value: Any, where: str = "security_groups") -> tuple[SecurityGroup, ...]:
    """Security groups, or their names."""
    listed = values.listed(open_list(value, "SecurityGroupList", where), where)
    return tuple(_security_group(each, f"{where}[{at}]") for at, each in enumerate(listed))


def _security_group(value: Any, where: str) -> SecurityGroup:
    if isinstance(value, str):
        return SecurityGroup(name=value)
    if value is None:
        raise FieldError(where, "is no security group")
    return _record(SecurityGroup, "SecurityGroup", _SECURITY, value, where)


def security_groups_to_object(groups: tuple[SecurityGroup, ...]) -> dict[str, Any]:
    """The envelope of all."""
    held = [{name: value for name in _SECURITY if (value := getattr(each, name)) is not None} for each in groups]
    return close_list("SecurityGroupList", [close_envelope("SecurityGroup", each) for each in held])


def _plain(value: Any) -> Any:
    """A value as JSON has it: sets are sorted lists."""
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return dict(value) if isinstance(value, Mapping) else value
