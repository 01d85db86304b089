# SPDX-License-Identifier: Apache-2.0
"""The filter for the requested availability zone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from operator import attrgetter

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import BoolArray
from roost.model.group import Aggregate, split_values
from roost.model.remedy import Remedy, RequestChange
from roost.model.request import RequestSpec
from roost.options.declare import option


class AvailabilityZoneFilter(Filter):
    """Leave out hosts outside the requested availability zone.

    The zones of a host are the values of the metadata key `availability_zone` of its aggregates. A host without any
    is in the default zone.
    """

    applies_if = attrgetter("availability_zone")
    run_filter_once_per_request = True
    reads = frozenset({"aggregates"})

    @dataclass(frozen=True)
    class Options:
        """The zone of hosts whose aggregates name none."""

        default_availability_zone: str = option(
            "nova", group="DEFAULT", in_fleet=True, help="zone of hosts whose aggregates name none"
        )

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts in the requested zone, and for all hosts if the request names none."""
        zone = spec.availability_zone
        return hosts.per_value("aggregates", lambda each: not zone or zone in self.zones_of(each))

    def zones_of(self, aggregates: Collection[Aggregate]) -> set[str]:
        """The zones of a host with these aggregates; at least the default zone."""
        return split_values(aggregates, "availability_zone") or {self.options.default_availability_zone}

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The requested zone, and the zones of the host."""
        zones = ", ".join(sorted(self.zones_of(host.aggregates)))
        return f"zone {spec.availability_zone} asked; the host is in {zones}"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """The zone of the host, or none."""
        zone = min(self.zones_of(host.aggregates))
        return Remedy(f"ask for zone {zone}, or for no zone", (RequestChange("availability_zone", zone),))
