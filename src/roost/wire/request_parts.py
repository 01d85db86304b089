# SPDX-License-Identifier: Apache-2.0
"""The smaller records that hang on a request - destination, retries, limits, groups - from the wire and back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from uuid import NAMESPACE_DNS, UUID, uuid5

from roost.errors import FieldError
from roost.hosts.numa import OvercommitLimits
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
from roost.validation.containers import listed
from roost.validation.kinds import Parser
from roost.validation.records import lenient_parsers, make_record, parse_present
from roost.validation.vocabulary import AMOUNT, OPTIONAL_TEXT, TEXT
from roost.wire.envelope import close_envelope, close_list, is_envelope, open_list, open_record
from roost.wire.unheld_fields import Message, fields_to_send, keep_unheld

_ROOST = uuid5(NAMESPACE_DNS, "cells.roost.invalid")
_LIMITS = ("vcpu", "memory_mb", "disk_gb", "numa_topology")
_PARSERS: Mapping[type, Mapping[str, Parser]] = {
    cls: lenient_parsers(cls)
    for cls in (RequestGroup, RequestLevelParams, NetworkMetadata, NetworkRequest, SecurityGroup)
}
"""Records whose fields all have nova's names and are read as their kinds say."""


def _record(cls: type[Message], value: Any, where: str) -> Message:
    """A record of one of these classes, from its envelope, which has the name of the class, or from a mapping."""
    if isinstance(value, cls):
        return value
    data = open_record(value, cls.__name__, where).data
    return keep_unheld(make_record(cls, where, **parse_present(_PARSERS[cls], data, where)), data, where)


# --- destination ----------------------------------------------------------------------------------

_DESTINATION = lenient_parsers(
    Destination, "host", "node", "allow_cross_cell_move", "aggregates", "forbidden_aggregates"
)


def destination_from_object(value: Any, where: str = "requested_destination") -> Destination | None:
    """Where the caller wants it. Of a cell only the names are kept: its addresses hold passwords."""
    if value is None or isinstance(value, Destination):
        return value
    data = open_record(value, "Destination", where).data
    name, uuid = _cell(data.get("cell"), f"{where}.cell")
    parsed = parse_present(_DESTINATION, data, where)
    return make_record(Destination, where, cell=name or uuid, cell_uuid=uuid, **parsed).received(data)


def _cell(value: Any, where: str) -> tuple[str | None, str | None]:
    """A cell's name and uuid."""
    if value is None or isinstance(value, str):
        return OPTIONAL_TEXT.lenient(value, where), None
    data = open_record(value, "CellMapping", where).data
    name, uuid = (OPTIONAL_TEXT.lenient(data.get(each), f"{where}.{each}") for each in ("name", "uuid"))
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
    return close_envelope("Destination", fields_to_send(destination, held, usual))


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
    pairs = [_tried(each, f"{where}.hosts[{at}]") for at, each in enumerate(listed(nodes, f"{where}.hosts"))]
    attempts = AMOUNT.lenient(data.get("num_attempts", 1), f"{where}.num_attempts")
    return make_record(Retry, where, num_attempts=attempts, hosts=pairs).received(data)


def _tried(value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        return value
    data = open_record(value, "ComputeNode", where).data
    return TEXT.lenient(data.get("host"), f"{where}.host"), data.get("hypervisor_hostname")


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
    return make_record(Limits, where, **parse_present(_CEILINGS, opened.data, where)).received(opened.data)


def _numa_limits(value: Any, where: str) -> NumaLimits | None:
    """The two ratios. Juno and Kilo had ceilings for each cell, or other names: these are ignored."""
    if value is None or isinstance(value, NumaLimits):
        return value
    data = open_record(value, "NUMATopologyLimits", where).data
    names = ("cpu_allocation_ratio", "ram_allocation_ratio")
    if not all(name in data for name in names):
        return None
    return make_record(NumaLimits, where, **{name: data[name] for name in names})


_CEILINGS: Mapping[str, Parser] = {**lenient_parsers(Limits, *_LIMITS[:3]), "numa_topology": _numa_limits}


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

_NO_GROUP = RequestGroup()


def request_groups_from_object(value: Any, where: str = "requested_resources") -> tuple[RequestGroup, ...]:
    """What ports and accelerators need."""
    return tuple(_record(RequestGroup, each, f"{where}[{at}]") for at, each in enumerate(listed(value, where)))


def request_group_to_object(group: RequestGroup) -> dict[str, Any]:
    """The envelope of one group."""
    held = {name: _plain(getattr(group, name)) for name in _PARSERS[RequestGroup]}
    usual = {name: _plain(getattr(_NO_GROUP, name)) for name in _PARSERS[RequestGroup]}
    return close_envelope("RequestGroup", fields_to_send(group, held, usual))


def level_params_from_object(value: Any, where: str = "request_level_params") -> RequestLevelParams:
    """Conditions on the host as a whole; none for null."""
    return _record(RequestLevelParams, {} if value is None else value, where)


def level_params_to_object(params: RequestLevelParams) -> dict[str, Any]:
    """Their envelope."""
    held = {name: _plain(getattr(params, name)) for name in _PARSERS[RequestLevelParams]}
    return close_envelope("RequestLevelParams", fields_to_send(params, held, {name: [] for name in held}))


def network_metadata_from_object(value: Any, where: str = "network_metadata") -> NetworkMetadata | None:
    """Networks that should be near."""
    return None if value is None else _record(NetworkMetadata, value, where)


def network_metadata_to_object(metadata: NetworkMetadata) -> dict[str, Any]:
    """Their envelope."""
    held = {"physnets": sorted(metadata.physnets), "tunneled": metadata.tunneled}
    return close_envelope("NetworkMetadata", held)


def networks_from_object(value: Any, where: str = "requested_networks") -> tuple[NetworkRequest, ...]:
    """Networks and ports that the instance is to have."""
    entries = listed(open_list(value, "NetworkRequestList", where), where)
    return tuple([_record(NetworkRequest, each, f"{where}[{at}]") for at, each in enumerate(entries)])


def networks_to_object(networks: tuple[NetworkRequest, ...]) -> dict[str, Any]:
    """The envelope of all."""
    objects = []
    for each in networks:
        held = {name: getattr(each, name) for name in _PARSERS[NetworkRequest]}
        fields = fields_to_send(each, held, dict.fromkeys(held))
        objects.append(close_envelope("NetworkRequest", fields))
    return close_list("NetworkRequestList", objects)


def security_groups_from_object(value: Any, where: str = "security_groups") -> tuple[SecurityGroup, ...]:
    """Security groups, or their names."""
    entries = listed(open_list(value, "SecurityGroupList", where), where)
    return tuple(_security_group(each, f"{where}[{at}]") for at, each in enumerate(entries))


def _security_group(value: Any, where: str) -> SecurityGroup:
    if isinstance(value, str):
        return SecurityGroup(name=value)
    if value is None:
        raise FieldError(where, "is no security group")
    return _record(SecurityGroup, value, where)


def security_groups_to_object(groups: tuple[SecurityGroup, ...]) -> dict[str, Any]:
    """The envelope of all."""
    names = _PARSERS[SecurityGroup]
    held = [{name: value for name in names if (value := getattr(each, name)) is not None} for each in groups]
    return close_list("SecurityGroupList", [close_envelope("SecurityGroup", each) for each in held])


def _plain(value: Any) -> Any:
    """A value as JSON has it: sets are sorted lists."""
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return dict(value) if isinstance(value, Mapping) else value
