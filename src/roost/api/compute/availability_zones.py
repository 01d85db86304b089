# SPDX-License-Identifier: Apache-2.0
"""Availability zones: by name and state, and for administrators with the services in them."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from roost.api.call import Call, CurrentCall, answer
from roost.api.compute.liveness import liveness_and_zones
from roost.api.compute.services import APIS
from roost.api.times import naive_time
from roost.records.service_catalogue import ServiceRecord
from roost.records.zone_catalogue import ZoneRecord, list_zones


def list_names(call: CurrentCall) -> Response:
    """List the zones that servers can be in."""
    internal = liveness_and_zones(call).internal_zone
    return _answer([_shown(each, None) for each in _read(call) if each.name != internal])


def list_details(call: CurrentCall) -> Response:
    """List all zones with their hosts and services."""
    return _answer([_shown(each, _hosts(each.services)) for each in _read(call)])


def _read(call: Call) -> list[ZoneRecord]:
    """All zones, the available ones first."""
    found = list_zones(call.parts.engine, call.parts.servers.times, liveness_and_zones(call))
    return sorted(found, key=lambda zone: not zone.is_available)


def _answer(zones: list[dict[str, Any]]) -> Response:
    return answer({"availabilityZoneInfo": zones})


def _shown(zone: ZoneRecord, hosts: dict[str, Any] | None) -> dict[str, Any]:
    return {"zoneName": zone.name, "zoneState": {"available": zone.is_available}, "hosts": hosts or None}


def _hosts(services: tuple[ServiceRecord, ...]) -> dict[str, dict[str, Any]]:
    """Host -> binary -> whether it is enabled and up; APIs are left out."""
    found: dict[str, dict[str, Any]] = {}
    for each in services:
        if each.binary not in APIS:
            state = {"active": True, "available": each.is_up, "updated_at": naive_time(each.updated_at)}
            found.setdefault(each.host, {})[each.binary] = state
    return found
