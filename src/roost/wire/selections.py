# SPDX-License-Identifier: Apache-2.0
"""What select_destinations answers: one Selection per host, or the older dict."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from roost.errors import FieldError
from roost.model import RequestSpec
from roost.validation.containers import MappingOf
from roost.validation.display import shown
from roost.validation.vocabulary import AMOUNT, MAPPING, NAMES, OPTIONAL_TEXT, TEXT
from roost.wire.envelope import VERSION, close_envelope, open_envelope
from roost.wire.request_parts import cell_uuid, limits_data, limits_from_object

LONGEST_ALLOCATION = 1 << 20
"""Characters of an allocation request."""
_AMOUNTS = MappingOf(AMOUNT)
_PROVIDERS = MappingOf(NAMES)


class ObjectVersions(NamedTuple):
    """Which versions the caller's release can read; it refuses objects that are newer."""

    selection: str = "1.1"
    """1.0 has no zone."""
    numa_limits: str = "1.1"
    allocation: str = "1.36"
    """Microversion of placement in which allocation requests are written."""
    has_mappings: bool = True
    """Whether such a request says who serves which group."""


TODAY = ObjectVersions()
_FORMS = (
    (8, ObjectVersions("1.0", "1.0", "1.17", has_mappings=False)),  # to Queens, and all who send dicts
    (11, ObjectVersions("1.0", "1.1", "1.30", has_mappings=False)),  # Rocky
    (12, ObjectVersions("1.0", "1.1", "1.31", has_mappings=False)),  # Stein, Train
)
"""Up to which minor version of RequestSpec, of those that a release sends. Later ones read what is written today."""


def versions_for(spec_obj: Any) -> ObjectVersions:
    """What the sender of this request can read: its release shows in the version of the request."""
    version = spec_obj.get(VERSION) if isinstance(spec_obj, Mapping) else "1.0"
    return _form_of(version) if isinstance(version, str) else TODAY


@lru_cache(maxsize=64)
def _form_of(version: str) -> ObjectVersions:
    minor = version.rpartition(".")[2]
    return next((form for last, form in _FORMS if minor.isdecimal() and int(minor) <= last), TODAY)


class SelectedHost(NamedTuple):
    """A host for one instance, with what goes to it."""

    host: str
    node: str
    node_uuid: str
    cell: str
    """Its name or its uuid."""
    limits: Mapping[str, Any]
    """Overcommit ceilings by nova's names; only those that are set."""
    amounts: Mapping[str, int] | None
    """What was claimed per resource class; None where nothing was."""
    availability_zone: str | None
    mappings: Mapping[str, Sequence[str]] | None = None
    """Request group -> who serves it; see `mappings_of`."""


def mappings_of(spec: RequestSpec, node_uuid: str) -> dict[str, list[str]]:
    """Who serves which request group: the node serves them all. nova hands these to the ports that asked."""
    asked = [each.requester_id for each in spec.requested_resources if each.requester_id]
    return {name: [node_uuid] for name in ("", *asked)}


def selection_to_object(chosen: SelectedHost, form: ObjectVersions = TODAY) -> dict[str, Any]:
    """A Selection."""
    request: dict[str, Any] | None = None
    if chosen.amounts is not None:
        request = {"allocations": {chosen.node_uuid: {"resources": dict(chosen.amounts)}}}
        if chosen.mappings is not None and form.has_mappings:
            request["mappings"] = {name: list(each) for name, each in chosen.mappings.items()}
    data = {
        "service_host": chosen.host,
        "nodename": chosen.node,
        "compute_node_uuid": chosen.node_uuid,
        "cell_uuid": cell_uuid(chosen.cell),
        "limits": close_envelope("SchedulerLimits", limits_data(chosen.limits, form.numa_limits)),
        "allocation_request": json.dumps(request),
        "allocation_request_version": None if request is None else form.allocation,
    }
    if form.selection != "1.0":
        data["availability_zone"] = chosen.availability_zone
    return close_envelope("Selection", data, form.selection)


def selection_to_dict(chosen: SelectedHost, form: ObjectVersions = TODAY) -> dict[str, Any]:
    """The older form, without limits that are not set."""
    ceilings = limits_data(chosen.limits, form.numa_limits)
    limits = {name: value for name, value in ceilings.items() if value is not None}
    return {"host": chosen.host, "nodename": chosen.node, "limits": limits}


def selection_from_object(primitive: Any, where: str = "selection") -> SelectedHost:
    """A host from a reply; Selection of any 1.x."""
    data = open_envelope(primitive, "Selection", where).data
    names = ("service_host", "nodename", "compute_node_uuid", "cell_uuid")
    host, node, node_uuid, cell = (TEXT.lenient(data.get(name), f"{where}.{name}") for name in names)
    limits = limits_from_object(data.get("limits"), f"{where}.limits")
    asked = _allocation(data.get("allocation_request"), f"{where}.allocation_request")
    zone = OPTIONAL_TEXT.lenient(data.get("availability_zone"), f"{where}.availability_zone")
    amounts = _amounts(asked, node_uuid, f"{where}.allocation_request")
    mappings = _mappings(asked.get("mappings"), f"{where}.allocation_request.mappings")
    return SelectedHost(host, node, node_uuid, cell, limits.to_dict() if limits else {}, amounts, zone, mappings)


def _allocation(value: Any, where: str) -> Mapping[str, Any]:
    """The allocation request inside its text; nothing for null."""
    if value is None:
        return {}
    if not isinstance(value, str) or len(value) > LONGEST_ALLOCATION:
        raise FieldError(where, f"{shown(value)} is no JSON text")
    try:
        return MAPPING.lenient(json.loads(value), where)
    except (ValueError, RecursionError):
        raise FieldError(where, f"{shown(value)} is no JSON text") from None


def _amounts(asked: Mapping[str, Any], node_uuid: str, where: str) -> dict[str, int] | None:
    """What is allocated of the node itself."""
    if not asked:
        return None
    allocations = MAPPING.lenient(asked.get("allocations"), f"{where}.allocations")
    own = MAPPING.lenient(allocations.get(node_uuid), f"{where}.allocations.{node_uuid}")
    return dict(_AMOUNTS.lenient(own.get("resources"), f"{where}.resources"))


def _mappings(value: Any, where: str) -> dict[str, tuple[str, ...]] | None:
    return None if value is None else dict(_PROVIDERS.lenient(value, where))
