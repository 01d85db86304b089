# SPDX-License-Identifier: Apache-2.0
"""How many more servers fit, as `roost capacity` counts them, and where servers would go: dry runs.

| what could be too much | what bounds it |
| --- | --- |
| flavors | pages: `limit` flavors, PAGE_SECONDS, MOST_ENTRIES |
| the servers that fit of one flavor | `most`, MOST_SECONDS |
| clients that ask at once | `ApiParts.fleet_work` |

A dry run claims, records and changes nothing. One server is asked of the conductor and the scheduler, by the handler
of the change itself. Several are placed one after the other on a snapshot of the cloud, each with what the earlier
ones took, as `roost plan` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Annotated, Any, Self, cast

from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from roost.api.bounded_work import Deadline, Overloaded
from roost.api.call import Call, CurrentCall, answer, named_in_body
from roost.api.compute.server_list import next_links
from roost.api.roost.decisions import NO_VALID_HOST
from roost.api.roost.hosts import snapshot_for
from roost.client.interface import CloudClient
from roost.errors import BadInput, RemoteNoValidHost
from roost.library import Scheduler
from roost.messages.context import RequestContext
from roost.model import RequestSpec
from roost.questions.headroom import AVAILABILITY_ZONE, MOST_PLACED, check_group_key
from roost.questions.plan import (
    REQUESTS,
    Counted,
    PlannedPlacement,
    PlannedRequest,
    count_in_turn,
    headroom_record,
    place,
    plan_record,
    spec_of,
)
from roost.questions.records import Headroom

MOST_SECONDS = 20.0
"""For an answer: a flavor that is not counted by then is left to the next page, or refused where it is the first."""
PAGE_SECONDS = 5.0
"""After that no further flavor is begun."""
MOST_ENTRIES = 50_000
"""Hosts and groups of hosts in a page, which are some megabytes: no flavor comes after so many."""
USUAL_MOST = 100_000


class CapacityQuery(BaseModel):
    """What is counted, and which page of it is wanted."""

    flavor: str | None = Field(None, min_length=1, max_length=255, description="name or id; all if none")
    by: str = Field(AVAILABILITY_ZONE, min_length=1, max_length=255, description="key of aggregates")
    most: int = Field(USUAL_MOST, ge=1, le=MOST_PLACED, description="counting stops there")
    n_plus_one: bool = Field(False, description="also find the host whose loss costs most")
    limit: int = Field(100, ge=1, le=1000, description="flavors at most; fewer where they take long")
    marker: str | None = Field(None, min_length=1, max_length=255, description="name of the last flavor seen")


def show(query: Annotated[CapacityQuery, Query()], call: CurrentCall) -> Response:
    """How many more servers of a flavor fit, or of each as if all room were for it, and what runs out first.

    All flavors come in pages, by name. A page ends where counting took long, too: as long as there are more, there is
    a link to the next.
    """
    if query.flavor and query.marker:
        raise BadInput("marker: is for pages of all flavors, and flavor names one", "leave out one of them")
    with call.parts.fleet_work.share():
        end, page_end = (Deadline(call.parts.clock, seconds) for seconds in (MOST_SECONDS, PAGE_SECONDS))
        fleet = snapshot_for(call).fleet
        scheduler = Scheduler(fleet, config_files=call.parts.config_files)
        check_group_key(scheduler.table, query.by)

        def count(name: str, spec: RequestSpec) -> Headroom:
            return scheduler.headroom(
                spec, query.by, loses_a_host=query.n_plus_one, most=query.most, progress=lambda *_: end.check()
            )

        if query.flavor:
            one = count(query.flavor, RequestSpec(flavor=fleet.flavor(query.flavor)))
            return answer({"capacity": [headroom_record(query.flavor, one)]})
        left = sorted(name for name in fleet.flavors if name > (query.marker or ""))
        names = left[: min(query.limit, call.parts.options.max_limit)]
        specs = {name: RequestSpec(flavor=fleet.flavors[name]) for name in names}
        page = _fill_page(count_in_turn(specs, count, scheduler.headroom_key), page_end)
        records = [headroom_record(name, each) for name, each in page.items()]
        links = next_links(call, "capacity", list(page), len(page)) if len(page) < len(left) else {}
        return answer({"capacity": records} | links)


def _fill_page(found: Iterable[tuple[str, Counted]], page_end: Deadline) -> dict[str, Counted]:
    """As many flavors as there is time and room for, and one at least; Overloaded where the first takes too long."""
    page: dict[str, Counted] = {}
    entries = 0
    try:
        for name, counted in found:
            page[name] = counted
            entries += len(counted.placed) + len(counted.groups) if isinstance(counted, Headroom) else 0
            if page_end.is_over or entries > MOST_ENTRIES:
                break
    except Overloaded:
        if not page:
            raise
    return page


class _Planner:
    """A client whose changes are dry runs; it keeps what they would do."""

    def __init__(self, client: CloudClient, steps: list[dict[str, Any]]) -> None:
        self._client, self._steps = client, steps

    def __getattr__(self, method: str) -> Callable[..., dict[str, Any]]:
        def plan(*args: Any, **kwargs: Any) -> dict[str, Any]:
            answer: dict[str, Any] = getattr(self._client, method)(*args, **kwargs, dry_run=True)
            self._steps.extend(answer["plan"])
            return answer

        return plan


def planned_by(call: Call, change: Callable[[Call], Any]) -> dict[str, Any]:
    """What a change would do: {"fits": bool, "plan": steps}; where no host fits, a summary says why.

    `change` does it with a call whose client plans only; it checks rights and input as it always does.
    """
    steps: list[dict[str, Any]] = []

    def client_for(context: RequestContext) -> CloudClient:
        return cast(CloudClient, _Planner(call.parts.client_for(context), steps))

    try:
        change(replace(call, parts=replace(call.parts, client_for=client_for)))
    except RemoteNoValidHost as error:
        return {"fits": False, "plan": [], "summary": str(error) if call.is_admin else NO_VALID_HOST}
    return {"fits": True, "plan": steps if call.is_admin else [_without_host(each) for each in steps]}


def _without_host(step: dict[str, Any]) -> dict[str, Any]:
    """A step as members see it. Handlers ask for some with the rights of an operator, whom conductors tell all."""
    return step | {"host": None, "summary": ""}


MOST_INSTANCES = 10_000
"""Of all servers of a plan: each has its scores in the answer, a kilobyte."""
SEVERAL = "roost:capacity"
"""The rule for plans of several servers, which look at the whole fleet."""
Name = Annotated[str, Field(min_length=1, max_length=255)]
Count = Annotated[int, Field(ge=1, le=1000)]
Amount = Annotated[int, Field(ge=0, le=2**31 - 1)]


class PlannedServer(BaseModel):
    """A server that might be created, by the words of `roost plan` files."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"name": "web", "flavor": "small", "count": 2}]}
    )

    name: Name
    flavor: Name | None = None
    """Its name or id. In a plan of several, vcpus, ram (MiB) and disk (GB) may stand for it."""
    vcpus: Amount | None = None
    ram: Amount | None = None
    disk: Amount | None = None
    image: Name | None = None
    count: Count | None = None
    hints: dict[str, str | list[str]] | None = None
    group: Name | None = None
    """Name or uuid of a server group."""
    availability_zone: Name | None = None
    host: Name | None = None
    """The host to take, if the filters let it."""
    force_hosts: list[Name] | None = None
    """In a plan of several: only these, and no filter is asked."""
    ignore_hosts: list[Name] | None = None
    """In a plan of several: not these."""
    project: Name | None = None
    """In a plan of several: for whom; a plan of one is for the caller."""

    def given(self) -> dict[str, Any]:
        """What the client said."""
        return self.model_dump(exclude_none=True)


class PlanBody(BaseModel):
    """One server, or several that are placed one after the other."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"server": {"name": "web", "flavor": "small"}}]}
    )

    server: PlannedServer | None = None
    servers: Annotated[list[PlannedServer], Field(min_length=1, max_length=100)] | None = None

    @model_validator(mode="after")
    def has_one(self) -> Self:
        """Refuse both and none, and more than an answer is made for."""
        if (self.server is None) == (self.servers is None):
            raise ValueError("give either server or servers")
        count = sum(each.count or 1 for each in self.servers or ())
        if count > MOST_INSTANCES:
            raise ValueError(f"{count} servers in all, and {MOST_INSTANCES} at most: roost plan FILE takes more")
        return self


def make(call: CurrentCall, body: PlanBody) -> Response:
    """Where a server would go, or several; `fits` says whether there is room for all."""
    with named_in_body():
        if body.server is not None:
            request = body.server.given()
            return answer(planned_by(call, lambda planning: planning.client.create_servers(request)))
        call.authorize(SEVERAL)
        return answer(_plan_several(call, [each.given() for each in body.servers or ()]))


def _plan_several(call: Call, wanted: list[dict[str, Any]]) -> dict[str, Any]:
    requests: list[PlannedRequest] = list(REQUESTS.strict(wanted, "servers") or ())
    with call.parts.fleet_work.share():
        deadline = Deadline(call.parts.clock, MOST_SECONDS)
        fleet = snapshot_for(call).fleet
        scheduler = Scheduler(fleet, config_files=call.parts.config_files)
        found: list[PlannedPlacement] = []
        for request in requests:
            deadline.check()
            found.append(place(scheduler, request, spec_of(request, fleet, scheduler)))
    return plan_record(found)
