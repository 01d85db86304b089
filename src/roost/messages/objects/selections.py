# SPDX-License-Identifier: Apache-2.0
"""Replies of select_destinations: one Selection object per host, or the legacy dict."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from roost.errors import FieldError
from roost.messages.objects.envelope import VERSION, close_envelope, open_envelope
from roost.messages.objects.request_parts import cell_uuid, limits_data, limits_from_object
from roost.model import RequestSpec
from roost.model.fields import AMOUNT, MAPPING, NAMES, OPTIONAL_TEXT, TEXT, MappingOf
from roost.model.kinds import shown

LONGEST_ALLOCATION = 1 << 20
"""Maximum length of an allocation request, characters."""
_AMOUNTS = MappingOf(AMOUNT)
_PROVIDERS = MappingOf(NAMES)


class ObjectVersions(NamedTuple):
    """Object versions that the caller's release can read; it refuses newer objects."""

    selection: str = "1.1"
    """Version of Selection; 1.0 has no availability zone."""
    numa_limits: str = "1.1"
    allocation: str = "1.36"
    """Microversion of placement that allocation requests are written in."""
    has_mappings: bool = True
    """Whether allocation requests contain `mappings`: request group -> resource providers."""


LATEST = ObjectVersions()
_VERSIONS_BY_MINOR = (
    (8, ObjectVersions("1.0", "1.0", "1.17", has_mappings=False)),  # up to Queens, and clients that send dicts
    (11, ObjectVersions("1.0", "1.1", "1.30", has_mappings=False)),  # Rocky
    (12, ObjectVersions("1.0", "1.1", "1.31", has_mappings=False)),  # Stein, Train
)
"""(last minor version of RequestSpec, versions that its senders can read). Later senders read LATEST."""


def versions_for(spec_obj: Any) -> ObjectVersions:
    """The versions that the sender of a request can read, deduced from the version of the RequestSpec."""
    version = spec_obj.get(VERSION) if isinstance(spec_obj, Mapping) else "1.0"
    return _versions_of(version) if isinstance(version, str) else LATEST


@lru_cache(maxsize=64)
def _versions_of(version: str) -> ObjectVersions:
    minor = version.rpartition(".")[2]
    return next(
        (versions for last, versions in _VERSIONS_BY_MINOR if minor.isdecimal() and int(minor) <= last), LATEST
    )


class SelectedHost(NamedTuple):
    """A selected host for one instance, with the data of its Selection object."""

    host: str
    node: str
    node_uuid: str
    cell: str
    """Name or uuid of the nova cell."""
    limits: Mapping[str, Any]
    """Overcommit ceilings by nova's names; ceilings that are not set are missing."""
    allocations: Mapping[str, Mapping[str, int]] | None
    """Provider uuid -> resource class -> claimed amount; None if nothing was claimed."""
    availability_zone: str | None
    mappings: Mapping[str, Sequence[str]] | None = None
    """Request group -> uuids of resource providers; see `mappings_of`."""

    @property
    def amounts(self) -> Mapping[str, int] | None:
        """Resource class -> amount claimed from the node's own provider; None if nothing was claimed."""
        return None if self.allocations is None else self.allocations.get(self.node_uuid, {})


def mappings_of(spec: RequestSpec, node_uuid: str) -> dict[str, list[str]]:
    """Request group -> resource providers that serve it: always the node. nova passes them to ports."""
    requesters = [each.requester_id for each in spec.requested_resources if each.requester_id]
    return {name: [node_uuid] for name in ("", *requesters)}


def selection_to_object(chosen: SelectedHost, versions: ObjectVersions = LATEST) -> dict[str, Any]:
    """The Selection object of a selected host, in the versions that the caller can read."""
    request: dict[str, Any] | None = None
    if chosen.allocations is not None:
        taken = {uuid: {"resources": dict(amounts)} for uuid, amounts in chosen.allocations.items()}
        request = {"allocations": taken}
        if chosen.mappings is not None and versions.has_mappings:
            request["mappings"] = {name: list(each) for name, each in chosen.mappings.items()}
    data = {
        "service_host": chosen.host,
        "nodename": chosen.node,
        "compute_node_uuid": chosen.node_uuid,
        "cell_uuid": cell_uuid(chosen.cell),
        "limits": close_envelope("SchedulerLimits", limits_data(chosen.limits, versions.numa_limits)),
        "allocation_request": json.dumps(request),
        "allocation_request_version": None if request is None else versions.allocation,
    }
    if versions.selection != "1.0":
        data["availability_zone"] = chosen.availability_zone
    return close_envelope("Selection", data, versions.selection)


def selection_to_dict(chosen: SelectedHost, versions: ObjectVersions = LATEST) -> dict[str, Any]:
    """The legacy dict of a selected host: host, nodename, limits that are set."""
    ceilings = limits_data(chosen.limits, versions.numa_limits)
    limits = {name: value for name, value in ceilings.items() if value is not None}
    return {"host": chosen.host, "nodename": chosen.node, "limits": limits}


def selection_from_object(primitive: Any, where: str = "selection") -> SelectedHost:
    """The selected host of a Selection 1.x object. `where`: path for errors."""
    data = open_envelope(primitive, "Selection", where).data
    names = ("service_host", "nodename", "compute_node_uuid", "cell_uuid")
    host, node, node_uuid, cell = (TEXT.lenient(data.get(name), f"{where}.{name}") for name in names)
    limits = limits_from_object(data.get("limits"), f"{where}.limits")
    allocation = _allocation(data.get("allocation_request"), f"{where}.allocation_request")
    zone = OPTIONAL_TEXT.lenient(data.get("availability_zone"), f"{where}.availability_zone")
    allocations = _allocations(allocation, f"{where}.allocation_request")
    mappings = _mappings(allocation.get("mappings"), f"{where}.allocation_request.mappings")
    return SelectedHost(host, node, node_uuid, cell, limits.to_dict() if limits else {}, allocations, zone, mappings)


def _allocation(value: Any, where: str) -> Mapping[str, Any]:
    """The allocation request, parsed from JSON text; empty for null."""
    if value is None:
        return {}
    if not isinstance(value, str) or len(value) > LONGEST_ALLOCATION:
        raise FieldError(where, f"{shown(value)} is no JSON text")
    try:
        return MAPPING.lenient(json.loads(value), where)
    except (ValueError, RecursionError):
        raise FieldError(where, f"{shown(value)} is no JSON text") from None


def _allocations(request: Mapping[str, Any], where: str) -> dict[str, dict[str, int]] | None:
    """Provider uuid -> resource class -> amount; None without an allocation request."""
    if not request:
        return None
    taken = {}
    for uuid, each in MAPPING.lenient(request.get("allocations"), f"{where}.allocations").items():
        own = MAPPING.lenient(each, f"{where}.allocations.{uuid}")
        taken[str(uuid)] = dict(_AMOUNTS.lenient(own.get("resources"), f"{where}.resources"))
    return taken


def _mappings(value: Any, where: str) -> dict[str, tuple[str, ...]] | None:
    return None if value is None else dict(_PROVIDERS.lenient(value, where))
