# SPDX-License-Identifier: Apache-2.0
"""Servers one by one: shown, renamed, deleted. Lists are in `server_list.py`, new ones in `new_servers.py`."""

from __future__ import annotations

from fastapi import Response
from pydantic import ConfigDict

from roost.api.call import CurrentCall, accepted, answer
from roost.api.compute.body_types import ABSENT, Body, Name
from roost.api.compute.server_bodies import SINCE, WrittenDetails, check_keys
from roost.api.compute.server_json import describe_changed_server, describe_server

SHOW, UPDATE, DELETE = (f"os_compute_api:servers:{name}" for name in ("show", "update", "delete"))


class ServerChanges(WrittenDetails):
    """What of a server a client can change."""

    name: Name = ABSENT


class UpdateBody(Body):
    """The body of a change."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"server": {"name": "web-1", "description": "front"}}]})

    server: ServerChanges


def show_server(server_id: str, call: CurrentCall) -> Response:
    """A server with all that is known of it."""
    return answer({"server": describe_server(call, call.find_server(server_id, SHOW))})


def update_server(server_id: str, body: UpdateBody, call: CurrentCall) -> Response:
    """Give a server another name, description, host name, and the like."""
    found = call.find_server(server_id, UPDATE)
    check_keys(call, body.server, SINCE, {})
    if wanted := body.server.details():
        call.client.update_server(found.uuid, wanted)
    return answer({"server": describe_changed_server(call, call.find_server(server_id, UPDATE))})


def delete_server(server_id: str, call: CurrentCall) -> Response:
    """Begin to delete a server."""
    call.client.delete_server(call.find_server(server_id, DELETE).uuid)
    return accepted(204)
