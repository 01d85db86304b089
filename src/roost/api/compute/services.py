# SPDX-License-Identifier: Apache-2.0
"""Services and availability zones: list, enable, disable, force down, delete.

Services are named by uuid, before 2.53 by host and binary. Options say when one is shown as down, and in which zone a
host is. Zones have a name and a state, and for administrators the services in them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query, Response
from pydantic import ConfigDict, StringConstraints, model_validator

from roost.api.call import Call, CurrentCall, accepted, answer
from roost.api.compute.body_types import ABSENT, Body, HostName
from roost.api.microversions import naive_time, v
from roost.errors import BadInput
from roost.model.uuids import is_uuid
from roost.records.service_catalogue import (
    LivenessAndZones,
    ServiceRecord,
    delete_service,
    get_service,
    list_services,
)
from roost.records.services import set_service_flags
from roost.records.zone_catalogue import ZoneRecord, list_zones
from roost.scheduler.options import ServiceOptions
from roost.services.options import HeartbeatOptions


def seconds_until_down(call: Call) -> float:
    """After how many seconds without a heartbeat a service counts as down."""
    return call.parts.settings.fill(HeartbeatOptions).seconds_until_down


def default_zone(call: Call) -> str:
    """The zone of hosts whose aggregates name none."""
    return call.parts.settings.fill(ServiceOptions).default_availability_zone


def liveness_and_zones(call: Call) -> LivenessAndZones:
    """What decides whether services are up, and in which zones they are."""
    return LivenessAndZones(seconds_until_down(call), default_zone(call))


AGENT = "nova-compute"
APIS = ("nova-osapi_compute", "nova-metadata")
"""Binaries that clients are not shown: no server is ever scheduled to them."""
SHOWS_FORCED_DOWN, UUIDS = v(11), v(53)
Reason = Annotated[str, StringConstraints(min_length=1, max_length=255)]
Binary = Annotated[str, StringConstraints(min_length=1, max_length=255)]


# --- bodies ------------------------------------------------------------------------------------------


class ServiceChanges(Body):
    """The body that changes a service: at least one of status and forced_down."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"status": "disabled", "disabled_reason": "new memory on Monday"}]}
    )
    status: Literal["enabled", "disabled"] = ABSENT
    disabled_reason: Reason = ABSENT
    forced_down: bool = ABSENT

    @model_validator(mode="after")
    def _fits(self) -> ServiceChanges:
        if not self.model_fields_set & {"status", "forced_down"}:
            raise ValueError("No updates were requested. Fields 'status' or 'forced_down' should be specified.")
        if "disabled_reason" in self.model_fields_set and self.status != "disabled":
            raise ValueError("Specifying disabled_reason requires that status is 'disabled'.")
        return self


class NamedService(Body):
    """The body that enables or disables a service."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"host": "host1", "binary": AGENT}]})
    host: HostName
    binary: Binary


class ServiceWithReason(NamedService):
    """The body that disables a service with a reason."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"host": "host1", "binary": AGENT, "disabled_reason": "new memory"}]}
    )
    disabled_reason: Reason


class ServiceForcedDown(NamedService):
    """The body that says whether a service counts as down whatever its heartbeats say."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"host": "host1", "binary": AGENT, "forced_down": True}]}
    )
    forced_down: bool = True


# --- read --------------------------------------------------------------------------------------------


def list_all(
    call: CurrentCall,
    host: Annotated[str | None, Query(max_length=255)] = None,
    binary: Annotated[str | None, Query(max_length=255)] = None,
) -> Response:
    """List services other than APIs: all, or those of a host or a binary."""
    parts = call.parts
    found = list_services(parts.engine, parts.servers.times, liveness_and_zones(call), host=host, binary=binary)
    return answer({"services": [_shown(call, each) for each in found if each.binary not in APIS]})


# --- write -------------------------------------------------------------------------------------------


def change(service: str, body: ServiceChanges, call: CurrentCall) -> Response:
    """Enable, disable or force down the service of an agent."""
    parts, options = call.parts, liveness_and_zones(call)
    named = _number_or_uuid(call, service)
    found = get_service(parts.engine, named, parts.servers.times, options)
    disabled = None if body.status is None else body.status == "disabled"
    _set_flags(
        call,
        found.host,
        found.binary,
        disabled=disabled,
        disabled_reason=body.disabled_reason,
        forced_down=body.forced_down,
    )
    return answer({"service": _shown(call, get_service(parts.engine, named, parts.servers.times, options))})


def remove(service: str, call: CurrentCall) -> Response:
    """Delete a service; that of an agent with its hypervisors, if no server is there."""
    delete_service(call.parts.engine, _number_or_uuid(call, service))
    return accepted(204)


def _number_or_uuid(call: Call, service: str) -> str | int:
    if call.version >= UUIDS:
        if not is_uuid(service):
            raise BadInput(f"Invalid uuid {service[:60]}")
        return service
    if not (service.isascii() and service.isdecimal() and len(service) < 20):
        raise BadInput(f"Invalid input received: id must be an integer, not {service[:60]!r}")
    return int(service)


def enable(body: NamedService, call: CurrentCall) -> Response:
    """Enable a service, before 2.53."""
    _set_flags(call, body.host, body.binary, disabled=False)
    return _answer_named(body, status="enabled")


def disable(body: NamedService, call: CurrentCall) -> Response:
    """Disable a service, before 2.53."""
    _set_flags(call, body.host, body.binary, disabled=True)
    return _answer_named(body, status="disabled")


def disable_with_reason(body: ServiceWithReason, call: CurrentCall) -> Response:
    """Disable a service and say why, before 2.53."""
    _set_flags(call, body.host, body.binary, disabled=True, disabled_reason=body.disabled_reason)
    return _answer_named(body, status="disabled", disabled_reason=body.disabled_reason)


def force_down(body: ServiceForcedDown, call: CurrentCall) -> Response:
    """Force a service down, or no more, from 2.11 to 2.52."""
    _set_flags(call, body.host, body.binary, forced_down=body.forced_down)
    return _answer_named(body, forced_down=body.forced_down)


def _answer_named(body: NamedService, **changed: Any) -> Response:
    return answer({"service": {"host": body.host, "binary": body.binary} | changed})


def _set_flags(call: Call, host: str, binary: str, **flags: Any) -> None:
    if binary != AGENT:
        problem = f"Updating a {binary} service is not supported. Only {AGENT} services can be updated."
        raise BadInput(problem)
    set_service_flags(call.parts.engine, host, **flags, now=call.parts.clock.now())


# --- answers -----------------------------------------------------------------------------------------


def _shown(call: Call, service: ServiceRecord) -> dict[str, Any]:
    shown = {
        "id": service.uuid if call.version >= UUIDS else service.id,
        "binary": service.binary,
        "host": service.host,
        "zone": service.zone,
        "status": "disabled" if service.disabled else "enabled",
        "state": "up" if service.is_up else "down",
        "updated_at": naive_time(service.updated_at),
        "disabled_reason": service.disabled_reason,
    }
    return shown | ({"forced_down": service.forced_down} if call.version >= SHOWS_FORCED_DOWN else {})


def list_names(call: CurrentCall) -> Response:
    """List the zones that servers can be in."""
    internal = liveness_and_zones(call).internal_zone
    return _answer([_shown_zone(each, None) for each in _read(call) if each.name != internal])


def list_details(call: CurrentCall) -> Response:
    """List all zones with their hosts and services."""
    return _answer([_shown_zone(each, _hosts(each.services)) for each in _read(call)])


def _read(call: Call) -> list[ZoneRecord]:
    """All zones, the available ones first."""
    found = list_zones(call.parts.engine, call.parts.servers.times, liveness_and_zones(call))
    return sorted(found, key=lambda zone: not zone.is_available)


def _answer(zones: list[dict[str, Any]]) -> Response:
    return answer({"availabilityZoneInfo": zones})


def _shown_zone(zone: ZoneRecord, hosts: dict[str, Any] | None) -> dict[str, Any]:
    return {"zoneName": zone.name, "zoneState": {"available": zone.is_available}, "hosts": hosts or None}


def _hosts(services: tuple[ServiceRecord, ...]) -> dict[str, dict[str, Any]]:
    """Host -> binary -> whether it is enabled and up; APIs are left out."""
    found: dict[str, dict[str, Any]] = {}
    for each in services:
        if each.binary not in APIS:
            state = {"active": True, "available": each.is_up, "updated_at": naive_time(each.updated_at)}
            found.setdefault(each.host, {})[each.binary] = state
    return found
