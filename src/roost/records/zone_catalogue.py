# SPDX-License-Identifier: Apache-2.0
"""Availability zones as clients of the API see them, with the services in them."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from sqlalchemy import Engine

from roost.records.service_catalogue import LivenessAndZones, ServiceRecord, list_services
from roost.store.store_clock import PresentTime


class ZoneRecord(NamedTuple):
    """An availability zone in which at least one service is."""

    name: str
    is_available: bool
    """At least one of its services is enabled; whether they are up does not count."""
    services: tuple[ServiceRecord, ...]
    """The enabled ones, by host and binary."""


def list_zones(engine: Engine, now: PresentTime, options: LivenessAndZones) -> list[ZoneRecord]:
    """All zones by name, with that of services other than agents, in as many statements as `list_services`."""
    found: dict[str, list[ServiceRecord]] = defaultdict(list)
    for service in list_services(engine, now, options):
        enabled = found[service.zone]
        if not service.disabled:
            enabled.append(service)
    ordered = {name: sorted(found[name], key=lambda each: (each.host, each.binary)) for name in sorted(found)}
    return [ZoneRecord(name, bool(enabled), tuple(enabled)) for name, enabled in ordered.items()]
