# SPDX-License-Identifier: Apache-2.0
"""Conversion of the smaller parts of a request (destination, retries, limits, groups) from and to nova's objects."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from uuid import NAMESPACE_DNS, UUID, uuid5

from roost.errors import FieldError
from roost.hosts.numa_cells import OvercommitLimits
from roost.messages.objects.envelope import (
    Message,
    close_envelope,
    close_list,
    fields_to_send,
    is_envelope,
    open_list,
    open_record,
    store_unheld,
)
from roost.model.fields import AMOUNT, OPTIONAL_TEXT, TEXT, lenient_parsers, listed, make_record, parse_present
from roost.model.kinds import Parser
from roost.model.request import (
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

_CELL_NAMESPACE = uuid5(NAMESPACE_DNS, "cells.roost.invalid")
_LIMITS = ("vcpu", "memory_mb", "disk_gb", "numa_topology")
_PARSERS: Mapping[type, Mapping[str, Parser]] = {
    cls: lenient_parsers(cls)
    for cls in (RequestGroup, RequestLevelParams, NetworkMetadata, NetworkRequest, SecurityGroup)
}
"""Record class -> lenient parsers of its fields, for records whose fields all have nova's names."""


def _record(cls: type[Message], value: Any, where: str) -> Message:
    """A record of a class in `_PARSERS`, from an object with the name of the class or from a mapping."""
    if isinstance(value, cls):
        return value
    data = open_record(value, cls.__name__, where).data
    return store_unheld(make_record(cls, where, **parse_present(_PARSERS[cls], data, where)), data, where)


# --- destination ----------------------------------------------------------------------------------

_DESTINATION = lenient_parsers(
    Destination, "host", "node", "allow_cross_cell_move", "aggregates", "forbidden_aggregates"
)


def destination_from_object(value: Any, where: str = "requested_destination") -> Destination | None:
    """The requested destination; None for null. Of a nova cell only name and uuid are read: URLs hold passwords."""
    if value is None or isinstance(value, Destination):
        return value
    data = open_record(value, "Destination", where).data
    name, uuid = _cell_names(data.get("cell"), f"{where}.cell")
    parsed = parse_present(_DESTINATION, data, where)
    return make_record(Destination, where, cell=name or uuid, cell_uuid=uuid, **parsed).received(data)


def _cell_names(value: Any, where: str) -> tuple[str | None, str | None]:
    """(name, uuid) of a nova cell; None for what is not set."""
    if value is None or isinstance(value, str):
        return OPTIONAL_TEXT.lenient(value, where), None
    data = open_record(value, "CellMapping", where).data
    name, uuid = (OPTIONAL_TEXT.lenient(data.get(each), f"{where}.{each}") for each in ("name", "uuid"))
    return name, uuid


def destination_to_object(destination: Destination | None) -> dict[str, Any] | None:
    """The Destination object of a destination; None for None. A nova cell has only its name and uuid."""
    if destination is None:
        return None
    held: dict[str, Any] = {name: getattr(destination, name) for name in ("host", "node", "allow_cross_cell_move")}
    held["aggregates"] = list(destination.aggregates) or None
    held["forbidden_aggregates"] = sorted(destination.forbidden_aggregates) or None
    held["cell"] = cell_mapping_to_object(destination)
    defaults = dict.fromkeys(held) | {"allow_cross_cell_move": False}
    return close_envelope("Destination", fields_to_send(destination, held, defaults))


def cell_mapping_to_object(destination: Destination) -> dict[str, Any] | None:
    """The CellMapping object of the destination's nova cell; None if it names none."""
    if destination.cell is None:
        return None
    uuid = destination.cell_uuid or cell_uuid(destination.cell)
    return close_envelope("CellMapping", {"name": destination.cell, "uuid": uuid})


@lru_cache(maxsize=64)
def cell_uuid(cell: str) -> str:
    """The uuid of a nova cell: its name if that is a uuid, else a uuid derived from the name."""
    try:
        return str(UUID(cell))
    except ValueError:
        return str(uuid5(_CELL_NAMESPACE, cell))


# --- retries --------------------------------------------------------------------------------------


def retry_from_object(value: Any, where: str = "retry") -> Retry | None:
    """The tried hosts; None for null and for an empty mapping. The legacy form lists [host, node] pairs."""
    if value is None or isinstance(value, Retry):
        return value
    data = open_record(value, "SchedulerRetries", where).data
    if not data:
        return None
    nodes = open_list(data.get("hosts"), "ComputeNodeList", f"{where}.hosts")
    pairs = [_tried_host(each, f"{where}.hosts[{at}]") for at, each in enumerate(listed(nodes, f"{where}.hosts"))]
    attempts = AMOUNT.lenient(data.get("num_attempts", 1), f"{where}.num_attempts")
    return make_record(Retry, where, num_attempts=attempts, hosts=pairs).received(data)


def _tried_host(value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        return value
    data = open_record(value, "ComputeNode", where).data
    return TEXT.lenient(data.get("host"), f"{where}.host"), data.get("hypervisor_hostname")


def retry_to_object(retry: Retry | None) -> dict[str, Any] | None:
    """The SchedulerRetries object, with tried hosts as ComputeNode objects; None for None."""
    if retry is None:
        return None
    nodes = [close_envelope("ComputeNode", {"host": host, "hypervisor_hostname": node}) for host, node in retry.hosts]
    data = {"num_attempts": retry.num_attempts, "hosts": close_list("ComputeNodeList", nodes)}
    return close_envelope("SchedulerRetries", data)


# --- limits ---------------------------------------------------------------------------------------


def limits_from_object(value: Any, where: str = "limits") -> Limits | None:
    """The overcommit ceilings of a SchedulerLimits object or mapping; None for null."""
    if value is None or isinstance(value, Limits):
        return value
    opened = open_record(value, "SchedulerLimits", where)
    return make_record(Limits, where, **parse_present(_CEILINGS, opened.data, where)).received(opened.data)


def _numa_limits(value: Any, where: str) -> NumaLimits | None:
    """The overcommit ratios of NUMA cells; None for null and for the forms of Juno and Kilo, which are ignored."""
    if value is None or isinstance(value, NumaLimits):
        return value
    data = open_record(value, "NUMATopologyLimits", where).data
    names = ("cpu_allocation_ratio", "ram_allocation_ratio")
    if not all(name in data for name in names):
        return None
    return make_record(NumaLimits, where, **{name: data[name] for name in names})


_CEILINGS: Mapping[str, Parser] = {**lenient_parsers(Limits, *_LIMITS[:3]), "numa_topology": _numa_limits}


def limits_to_object(limits: Limits | None) -> dict[str, Any] | None:
    """The SchedulerLimits object of overcommit ceilings; None for None."""
    if limits is None:
        return None
    held = limits_data({name: getattr(limits, name) for name in _LIMITS})
    if limits.sent is not None:
        held = {name: value for name, value in held.items() if name in limits.sent.names or value is not None}
    return close_envelope("SchedulerLimits", held)


def limits_data(limits: Mapping[str, Any], numa_version: str | None = None) -> dict[str, Any]:
    """The fields of SchedulerLimits; ceilings that are not set are null. Fractions are truncated, as in nova."""
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


# --- additional resources, networks, security groups -------------------------------------------------------------

_NO_GROUP = RequestGroup()


def request_groups_from_object(value: Any, where: str = "requested_resources") -> tuple[RequestGroup, ...]:
    """The additional resources of ports and accelerators; empty for null."""
    return tuple(_record(RequestGroup, each, f"{where}[{at}]") for at, each in enumerate(listed(value, where)))


def request_group_to_object(group: RequestGroup) -> dict[str, Any]:
    """The RequestGroup object of a group."""
    held = {name: _plain(getattr(group, name)) for name in _PARSERS[RequestGroup]}
    defaults = {name: _plain(getattr(_NO_GROUP, name)) for name in _PARSERS[RequestGroup]}
    return close_envelope("RequestGroup", fields_to_send(group, held, defaults))


def level_params_from_object(value: Any, where: str = "request_level_params") -> RequestLevelParams:
    """The request-level parameters; empty ones for null."""
    return _record(RequestLevelParams, {} if value is None else value, where)


def level_params_to_object(params: RequestLevelParams) -> dict[str, Any]:
    """The RequestLevelParams object of request-level parameters."""
    held = {name: _plain(getattr(params, name)) for name in _PARSERS[RequestLevelParams]}
    return close_envelope("RequestLevelParams", fields_to_send(params, held, {name: [] for name in held}))


def network_metadata_from_object(value: Any, where: str = "network_metadata") -> NetworkMetadata | None:
    """The network metadata for NUMA affinity; None for null."""
    return None if value is None else _record(NetworkMetadata, value, where)


def network_metadata_to_object(metadata: NetworkMetadata) -> dict[str, Any]:
    """The NetworkMetadata object of network metadata."""
    held = {"physnets": sorted(metadata.physnets), "tunneled": metadata.tunneled}
    return close_envelope("NetworkMetadata", held)


def networks_from_object(value: Any, where: str = "requested_networks") -> tuple[NetworkRequest, ...]:
    """The requested networks and ports, of a NetworkRequestList or a plain list; empty for null."""
    entries = listed(open_list(value, "NetworkRequestList", where), where)
    return tuple([_record(NetworkRequest, each, f"{where}[{at}]") for at, each in enumerate(entries)])


def networks_to_object(networks: tuple[NetworkRequest, ...]) -> dict[str, Any]:
    """The NetworkRequestList object of requested networks and ports."""
    objects = []
    for each in networks:
        held = {name: getattr(each, name) for name in _PARSERS[NetworkRequest]}
        fields = fields_to_send(each, held, dict.fromkeys(held))
        objects.append(close_envelope("NetworkRequest", fields))
    return close_list("NetworkRequestList", objects)


def security_groups_from_object(value: Any, where: str = "security_groups") -> tuple[SecurityGroup, ...]:
    """The security groups of a SecurityGroupList, or of a list of objects or names; empty for null."""
    entries = listed(open_list(value, "SecurityGroupList", where), where)
    return tuple(_security_group(each, f"{where}[{at}]") for at, each in enumerate(entries))


def _security_group(value: Any, where: str) -> SecurityGroup:
    if isinstance(value, str):
        return SecurityGroup(name=value)
    if value is None:
        raise FieldError(where, "is no security group")
    return _record(SecurityGroup, value, where)


def security_groups_to_object(groups: tuple[SecurityGroup, ...]) -> dict[str, Any]:
    """The SecurityGroupList object of security groups."""
    names = _PARSERS[SecurityGroup]
    held = [{name: value for name in names if (value := getattr(each, name)) is not None} for each in groups]
    return close_list("SecurityGroupList", [close_envelope("SecurityGroup", each) for each in held])


def _plain(value: Any) -> Any:
    """A value as JSON data: sets become sorted lists."""
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return dict(value) if isinstance(value, Mapping) else value
