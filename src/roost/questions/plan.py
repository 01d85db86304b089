# SPDX-License-Identifier: Apache-2.0
"""Answers as records: how many of each flavor fit, a past decision explained, a file of requests placed in turn.

The file of `roost plan` is a list of requests, YAML or JSON, by the words of commands; errors name the file and the
line. Its requests are placed one after the other on a copy of the cloud. A past decision is asked about with the
fleet as it was then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from roost.errors import BadInput, FieldError, NoValidHost, UnknownName, nearest
from roost.filters.availability_zone import AvailabilityZoneFilter
from roost.model import Decision, Flavor, RequestSpec
from roost.model.fields import AMOUNT, NAME, NAMES, Amount, ListOf, Record, refuse_unknown
from roost.model.json_records import to_json
from roost.model.kinds import OrNull, WholeNumber
from roost.model.request import HINTS, Destination, with_canonical_uuids
from roost.questions.funnel import nearest_host
from roost.questions.records import Headroom
from roost.sources.documents import line_of, line_of_error, parse_document, place_in, read_text
from roost.sources.fleet_file import Fleet

if TYPE_CHECKING:
    from roost.library import Scheduler

Counted = Headroom | BadInput
"""The headroom of a flavor, or what is wrong with it."""
Count = Callable[[str, RequestSpec], Headroom]
"""Counts the headroom of a request; gets the name of its flavor, too."""
KeyOf = Callable[[RequestSpec], Hashable]
"""Gives what is equal for requests that have the same headroom; None where that is not known."""


def each_by_itself(spec: RequestSpec) -> None:
    """Stands for the key of requests of which none is known to be like another."""


def count_in_turn(
    specs: Mapping[str, RequestSpec], count: Count, key_of: KeyOf = each_by_itself
) -> Iterator[tuple[str, Counted]]:
    """Name of each flavor and its headroom, or what is wrong with it. Of those that are alike one is counted."""
    known: dict[Hashable, Counted] = {}
    for name, spec in specs.items():
        key = key_of(spec)
        found = known.get(key) if key is not None else None
        if found is None:
            found = known[key] = _count(name, spec, count)
        yield name, found


def _count(name: str, spec: RequestSpec, count: Count) -> Counted:
    try:
        return count(name, spec)
    except BadInput as error:
        return error


def count_each(specs: Mapping[str, RequestSpec], count: Count, key_of: KeyOf = each_by_itself) -> dict[str, Counted]:
    """Name of each flavor -> its headroom, or what is wrong with it. BadInput if something is wrong with all."""
    counted = dict(count_in_turn(specs, count, key_of))
    errors = [each for each in counted.values() if isinstance(each, BadInput)]
    if errors and len(errors) == len(counted):
        raise errors[0]
    return counted


def headroom_record(name: str, counted: Counted) -> dict[str, Any]:
    """The record of one flavor: its name and its headroom, or `error`."""
    if isinstance(counted, BadInput):
        return {"flavor": name, "error": str(counted)}
    record: dict[str, Any] = to_json(counted)
    return {"flavor": name} | record


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


@dataclass(frozen=True)
class PlanFile:
    """The requests of a file, in its order, and where each is."""

    requests: Sequence[PlannedRequest]
    place_of: Callable[[int], str]
    """Position -> the file, and the line if it can be found."""

    @classmethod
    def load(cls, file: str) -> PlanFile:
        """The requests in a file, `-` for standard input; BadInput with file and line for what is wrong."""
        path = Path(file)
        text = read_text(path)
        document, _ = parse_document(text, path)
        root = ""
        if isinstance(document, Mapping):
            root, document = "requests", _requests_of(document, path)
        try:
            requests = REQUESTS.strict(document, root)
        except FieldError as error:
            raise BadInput(f"{place_in(path, line_of_error(text, error))}: {error.message}", error.hint) from None
        if not requests:
            raise BadInput(f"{path}: there is no request in it", REMEDY)
        return cls(requests, lambda at: place_in(path, line_of(text, f"{root}[{at}]")))

    def specs(self, fleet: Fleet, scheduler: Scheduler) -> Iterator[RequestSpec]:
        """A request for the scheduler of each; BadInput with file and line for a name that is not in the fleet."""
        for at, request in enumerate(self.requests):
            try:
                yield spec_of(request, fleet, scheduler)
            except BadInput as error:
                where = f"{self.place_of(at)}: request {request.name}"
                raise BadInput(f"{where}: {error.message}", error.hint) from None


def _requests_of(document: Mapping[str, Any], path: Path) -> Any:
    try:
        refuse_unknown(document, ("requests",))
    except FieldError as error:
        raise BadInput(f"{path}: {error.message}", "write requests: and a list below it") from None
    return document.get("requests")


class PlannedPlacement(NamedTuple):
    """A request of a plan, and what was decided."""

    request: PlannedRequest
    decision: Decision
    fits: bool

    @property
    def hosts(self) -> list[str]:
        """The host of each instance; empty where the request does not fit."""
        return [each.host for each in self.decision.selections] if self.fits else []


def place(scheduler: Scheduler, request: PlannedRequest, spec: RequestSpec) -> PlannedPlacement:
    """Place a request on the scheduler's copy of the fleet, with what earlier ones took."""
    try:
        return PlannedPlacement(request, scheduler.place(spec, alternates=0), True)
    except NoValidHost as failure:
        return PlannedPlacement(request, failure.decision, False)


def plan_record(found: Sequence[PlannedPlacement]) -> dict[str, Any]:
    """Whether all requests fit, and what was decided of each."""
    requests = [
        {
            "name": each.request.name,
            "count": each.request.count,
            "fits": each.fits,
            "hosts": each.hosts,
            **to_json(each.decision),
        }
        for each in found
    ]
    return {"fits": all(each.fits for each in found), "requests": requests}
