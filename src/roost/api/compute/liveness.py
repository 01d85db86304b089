# SPDX-License-Identifier: Apache-2.0
"""The options by which services are shown as up or down, and hosts in zones."""

from __future__ import annotations

from roost.api.call import Call
from roost.records.service_catalogue import LivenessAndZones
from roost.scheduler.options import ServiceOptions
from roost.services.rpc_service import HeartbeatOptions


def seconds_until_down(call: Call) -> float:
    """After how many seconds without a heartbeat a service counts as down."""
    return call.parts.settings.fill(HeartbeatOptions).seconds_until_down


def default_zone(call: Call) -> str:
    """The zone of hosts whose aggregates name none."""
    return call.parts.settings.fill(ServiceOptions).default_availability_zone


def liveness_and_zones(call: Call) -> LivenessAndZones:
    """What decides whether services are up, and in which zones they are."""
    return LivenessAndZones(seconds_until_down(call), default_zone(call))
