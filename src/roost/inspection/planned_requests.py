# SPDX-License-Identifier: Apache-2.0
"""A request of a plan, by the words of commands, and the request for the scheduler that it stands for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from roost.errors import FieldError, UnknownName, nearest
from roost.filters.availability_zone import AvailabilityZoneFilter
from roost.library import Scheduler
from roost.model import Flavor, RequestSpec
from roost.model.fields import AMOUNT, NAME, NAMES, Amount, ListOf, Record
from roost.model.kinds import OrNull, WholeNumber
from roost.model.request import HINTS, Destination, with_canonical_uuids
from roost.scheduler.explain.host_names import nearest_host
from roost.sources.fleet_file import Fleet

MOST_INSTANCES = 100_000
_COUNT = WholeNumber(least=1, most=MOST_INSTANCES)
_OPTIONAL_NAME = OrNull(NAME)
_SIZES = ("vcpus", "ram", "disk")


@dataclass(frozen=True)
class PlannedRequest:
    """One request of a plan, by the words of `roost place` and `roost server create`."""

    name: Annotated[str, NAME]
    flavor: Annotated[str | None, _OPTIONAL_NAME] = None
    """Name or id of a flavor of the fleet; or else the next three give the size."""
    vcpus: Annotated[int | None, OrNull(AMOUNT)] = None
    ram: Annotated[int | None, OrNull(AMOUNT)] = None
    """Memory, MiB."""
    disk: Amount = 0
    """Root disk, GiB."""
    image: Annotated[str | None, _OPTIONAL_NAME] = None
    count: Annotated[int, _COUNT] = 1
    """How many instances; all are placed, or none."""
    hints: Annotated[Mapping[str, tuple[str, ...]], HINTS] = field(default_factory=dict)
    group: Annotated[str | None, _OPTIONAL_NAME] = None
    availability_zone: Annotated[str | None, _OPTIONAL_NAME] = None
    host: Annotated[str | None, _OPTIONAL_NAME] = None
    """The host to take, if the filters let it."""
    force_hosts: Annotated[tuple[str, ...], NAMES] = ()
    """Only these, and no filter is asked."""
    ignore_hosts: Annotated[tuple[str, ...], NAMES] = ()
    project: Annotated[str | None, _OPTIONAL_NAME] = None

    def __post_init__(self) -> None:
        """FieldError for a size that is given twice, or not at all."""
        given = [name for name in _SIZES if getattr(self, name)]
        if self.flavor is not None and given:
            raise FieldError(given[0], "and flavor contradict each other", "give one or the other")
        if self.flavor is None and None in (self.vcpus, self.ram):
            raise FieldError("", "the size of the instance is missing", "give flavor, or vcpus, ram and disk")


REMEDY = "write - and a request, line by line"
REQUESTS = OrNull(ListOf(Record(PlannedRequest, hint="each request has a name"), remedy=REMEDY), unset=())
"""A list of requests, as files and bodies have it."""


def spec_of(request: PlannedRequest, fleet: Fleet, scheduler: Scheduler) -> RequestSpec:
    """The request for the scheduler; UnknownName for what the fleet does not have."""
    if request.availability_zone:
        check_zone(request.availability_zone, fleet, scheduler)
    check_hosts([*request.force_hosts, *request.ignore_hosts, *([request.host] if request.host else [])], fleet)
    return RequestSpec(
        flavor=_flavor(request, fleet),
        image=fleet.image(request.image) if request.image else None,
        num_instances=request.count,
        project_id=request.project,
        availability_zone=request.availability_zone,
        scheduler_hints=with_canonical_uuids(request.hints) if request.hints else {},
        instance_group=fleet.server_group(request.group) if request.group else None,
        requested_destination=Destination(host=request.host) if request.host else None,
        ignore_hosts=request.ignore_hosts or None,
        force_hosts=request.force_hosts or None,
    )


def _flavor(request: PlannedRequest, fleet: Fleet) -> Flavor:
    if request.flavor is not None:
        return fleet.flavor(request.flavor)
    return Flavor(vcpus=request.vcpus or 0, memory_mb=request.ram or 0, root_gb=request.disk, name="custom")


def check_hosts(names: Collection[str], fleet: Fleet) -> None:
    """Raise UnknownName for the first name that no host of the fleet has; case is ignored, as by the scheduler."""
    for name in names:
        if not fleet.table.rows_of_hosts_ignoring_case([name]):
            raise UnknownName(f"unknown host {name!r}", nearest_host(fleet.table, name))


def check_zone(zone: str, fleet: Fleet, scheduler: Scheduler) -> None:
    """Raise UnknownName for a zone that neither a host nor an AvailabilityZoneFilter's default has."""
    defaults = {
        rule.options.default_availability_zone
        for rule in scheduler.pipeline.rules.filters
        if isinstance(rule, AvailabilityZoneFilter)
    }
    known = fleet.zones() | defaults
    if zone not in known:
        raise UnknownName(f"unknown availability zone {zone!r}", nearest(zone, known))
