# SPDX-License-Identifier: Apache-2.0
"""Servers as conductors describe them: with failed attempts, migrations and, for administrators, every fault.

Also what a change of a server or of a host would do. The changes themselves are in the compute API.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from roost.api.call import Call, CurrentCall, answer
from roost.api.compute.server_actions import ActionRequest, act_on_server
from roost.api.compute.server_list import next_links, page_size
from roost.api.compute.servers import DELETE, delete_server
from roost.api.roost.questions import planned_by
from roost.errors import BadInput, Forbidden
from roost.records.listing import ServerFilters
from roost.records.server import STATUSES, Server
from roost.records.server_views import describe_fully, describe_server, shows_fault

BY_UUID = (("uuid", "asc"),)
Record = dict[str, Any]
Text = Annotated[str | None, Query(min_length=1, max_length=255)]
Wanted = Annotated[str, Path(min_length=1, max_length=255, description="uuid or name")]


class HostChanges(BaseModel):
    """What might be set of a host."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"disabled": True, "reason": "new memory on Friday"}]}
    )

    disabled: bool | None = None
    reason: str | None = Field(None, min_length=1, max_length=255)
    forced_down: bool | None = None


def list_servers(
    call: CurrentCall,
    host: Text = None,
    project_id: Text = None,
    status: Annotated[str | None, Query(max_length=32, description="such as ACTIVE or ERROR")] = None,
    name: Text = None,
    reservation_id: Text = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
    marker: Annotated[str | None, Query(max_length=36, description="id of the last one seen")] = None,
) -> Response:
    """A page of the servers that match all filters, by uuid; for others than administrators of their project."""
    if status is not None and status not in STATUSES:
        raise BadInput(f"status: {status!r} is none", f"one of {', '.join(STATUSES)}")
    own = _own_project(call)
    if own is not None and (host or project_id not in (None, own)):
        raise Forbidden("Servers of a host, and of other projects, are for administrators.")
    wanted = ServerFilters(
        name=name,
        host=host,
        statuses=None if status is None else [status],
        project_id=project_id if own is None else own,
        reservation_id=reservation_id,
    )
    size = page_size(call, limit)
    store = call.parts.servers
    found = store.list_page(wanted, BY_UUID, marker, size)
    faults = store.read_latest_faults([each.uuid for each in found if shows_fault(each)])
    shown = [describe_server(each, faults.get(each.uuid), call.is_admin) for each in found]
    return answer({"servers": shown} | next_links(call, "servers", [each.uuid for each in found], size))


def show_server(call: CurrentCall, server_id: Wanted) -> Response:
    """One server."""
    return answer(_describe(call, call.parts.servers.resolve(server_id, _own_project(call))))


def plan_action(call: CurrentCall, server_id: Wanted, body: ActionRequest) -> Response:
    """What an action of the compute API would do with a server; the key `delete` stands for its deletion."""
    found = call.parts.servers.resolve(server_id, _own_project(call)).uuid
    if list(body.root) == ["delete"]:
        call.authorize(DELETE)
        return answer(planned_by(call, lambda planning: delete_server(found, planning)))
    return answer(planned_by(call, lambda planning: act_on_server(found, body, planning)))


def plan_host_changes(
    call: CurrentCall, host: Annotated[str, Path(min_length=1, max_length=255)], body: HostChanges
) -> Response:
    """What setting flags of a host would do."""
    changes = body.model_dump(exclude_none=True)
    return answer(planned_by(call, lambda planning: planning.client.set_host(host, **changes)))


def _own_project(call: Call) -> str | None:
    """The project whose servers alone the caller sees; None: the caller sees those of all."""
    return None if call.is_admin else call.caller.project_id or ""


def _describe(call: Call, server: Server) -> Record:
    store = call.parts.servers
    faults = store.read_latest_faults([server.uuid]) if call.is_admin or shows_fault(server) else {}
    if call.is_admin:
        return describe_fully(server, faults.get(server.uuid), store.list_migrations(server.uuid))
    return describe_server(server, faults.get(server.uuid), False)
