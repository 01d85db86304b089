# SPDX-License-Identifier: Apache-2.0
"""The file of `roost plan`: a list of requests, YAML or JSON. Errors name the file and the line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from roost.cli.request_arguments import MOST_INSTANCES, check_hosts, check_zone
from roost.errors import BadInput, FieldError
from roost.fleet import Fleet
from roost.fleet.document import parse_document, read_text
from roost.fleet.line_numbers import line_of, line_of_error
from roost.fleet.option_lines import place_in
from roost.library import Scheduler
from roost.model import Flavor, RequestSpec
from roost.model.hints import HINTS, with_canonical_uuids
from roost.model.request_parts import Destination
from roost.validation.containers import ListOf
from roost.validation.kinds import OrNull, WholeNumber
from roost.validation.records import Record, refuse_unknown
from roost.validation.vocabulary import AMOUNT, NAME, NAMES, Amount

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


_REMEDY = "write - and a request, line by line"
REQUESTS = OrNull(ListOf(Record(PlannedRequest, hint="each request has a name"), remedy=_REMEDY), unset=())


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
            raise BadInput(f"{path}: there is no request in it", _REMEDY)
        return cls(requests, lambda at: place_in(path, line_of(text, f"{root}[{at}]")))

    def specs(self, fleet: Fleet, scheduler: Scheduler) -> Iterator[RequestSpec]:
        """A request for the scheduler of each; BadInput with file and line for a name that is not in the fleet."""
        for at, request in enumerate(self.requests):
            try:
                yield _spec(request, fleet, scheduler)
            except BadInput as error:
                where = f"{self.place_of(at)}: request {request.name}"
                raise BadInput(f"{where}: {error.message}", error.hint) from None


def _requests_of(document: Mapping[str, Any], path: Path) -> Any:
    try:
        refuse_unknown(document, ("requests",))
    except FieldError as error:
        raise BadInput(f"{path}: {error.message}", "write requests: and a list below it") from None
    return document.get("requests")


def _spec(request: PlannedRequest, fleet: Fleet, scheduler: Scheduler) -> RequestSpec:
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
