# SPDX-License-Identifier: Apache-2.0
"""Is the host in the zone that was asked for?"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.arrays import BoolArray
from roost.model.aggregate import Aggregate, split_values
from roost.model.request import RequestSpec
from roost.options import option


class AvailabilityZoneFilter(Filter):
    """Leave out hosts outside the requested availability zone.

    A host's zones are what its aggregates say under `availability_zone`. Only a host that no aggregate gives a
    zone is in the default zone.
    """

    run_filter_once_per_request = True
    reads = frozenset({"aggregates"})

    @dataclass(frozen=True)
    class Options:
        """The zone of hosts that have none."""

        default_availability_zone: str = option(
            "nova", group="DEFAULT", help="zone of hosts that no aggregate puts in one"
        )

    def applies_to(self, spec: RequestSpec) -> bool:
        """A zone is asked for."""
        return bool(spec.availability_zone)

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """In the zone, where one is asked for."""
        zone = spec.availability_zone
        return hosts.per_value("aggregates", lambda each: not zone or zone in self.zones_of(each))

    def zones_of(self, aggregates: Collection[Aggregate]) -> set[str]:
        """The zones that these aggregates put a host in."""
        return split_values(aggregates, "availability_zone") or {self.options.default_availability_zone}

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Asked against where it is."""
        zones = ", ".join(sorted(self.zones_of(host.aggregates)))
        return f"zone {spec.availability_zone} asked; the host is in {zones}"
