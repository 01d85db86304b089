# SPDX-License-Identifier: Apache-2.0
"""Servers one by one: shown, renamed, deleted. Lists are in `server_list.py`, new ones in `new_servers.py`."""

from __future__ import annotations

from fastapi import Response
from pydantic import ConfigDict, Field

from roost.api.call import CurrentCall, accepted, answer
from roost.api.compute.body_types import Body, Name
from roost.api.compute.server_json import describe_server
from roost.api.microversions import v
from roost.errors import BadInput

SHOW, UPDATE, DELETE = (f"os_compute_api:servers:{name}" for name in ("show", "update", "delete"))


class ServerChanges(Body):
    """What of a server a client can change."""

    name: Name | None = None
    description: str | None = Field(None, max_length=255)
    accessIPv4: str | None = Field(None, max_length=255)  # noqa: N815 - a name of the API
    accessIPv6: str | None = Field(None, max_length=255)  # noqa: N815 - a name of the API


class UpdateBody(Body):
    """The body of a change."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"server": {"name": "web-1", "description": "front"}}]})

    server: ServerChanges


def show_server(server_id: str, call: CurrentCall) -> Response:
    """A server with all that is known of it."""
    return answer({"server": describe_server(call, call.find_server(server_id, SHOW))})


def update_server(server_id: str, body: UpdateBody, call: CurrentCall) -> Response:
    """Give a server another name or description."""
    found = call.find_server(server_id, UPDATE)
    wanted = body.server.model_dump(exclude_unset=True, include={"name", "description"})
    if "description" in wanted and call.version < v(19):
        raise BadInput("Additional properties are not allowed ('description' was unexpected)")
    if wanted:
        call.client.update_server(found.uuid, wanted)
    return answer({"server": describe_server(call, call.find_server(server_id, UPDATE))})


def delete_server(server_id: str, call: CurrentCall) -> Response:
    """Begin to delete a server."""
    call.client.delete_server(call.find_server(server_id, DELETE).uuid)
    return accepted(204)
