# SPDX-License-Identifier: Apache-2.0
"""Where servers would go: nothing is claimed, recorded or changed.

One server is asked of the conductor and the scheduler, as building it would be. Several are placed one after the
other on a snapshot of the cloud, each with what the earlier ones took, as `roost plan` does.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from roost.api.bounded_work import Deadline
from roost.api.call import Call, CurrentCall, answer, named_in_body
from roost.api.roost.planning import planned_by
from roost.api.roost.snapshots import snapshot_for
from roost.library import Scheduler
from roost.questions.plan import REQUESTS, PlannedPlacement, PlannedRequest, place, plan_record, spec_of

MOST_SECONDS = 20.0
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
