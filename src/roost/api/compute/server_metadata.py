# SPDX-License-Identifier: Apache-2.0
"""Metadata of a server: texts that clients attach to it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Response
from pydantic import ConfigDict, Field

from roost.api.call import CurrentCall, accepted, answer
from roost.api.compute.body_types import Body, MetadataKey, MetadataValue
from roost.errors import BadInput, UnknownName

INDEX, SHOW, CREATE, UPDATE, UPDATE_ALL, DELETE = (
    f"os_compute_api:server-metadata:{name}" for name in ("index", "show", "create", "update", "update_all", "delete")
)

Metadata = Annotated[
    dict[MetadataKey, MetadataValue],
    Field(max_length=128, json_schema_extra={"additionalProperties": False}),  # other keys than the pattern allows
]
_MISSING = "Metadata item was not found"


class MetadataBody(Body):
    """Entries to be set."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"metadata": {"role": "web"}}]})

    metadata: Metadata


class MetadataItemBody(Body):
    """One entry to be set."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"meta": {"role": "web"}}]})

    meta: Annotated[Metadata, Field(min_length=1, max_length=1)]


def list_metadata(server_id: str, call: CurrentCall) -> Response:
    """All entries."""
    return answer({"metadata": dict(call.find_server(server_id, INDEX).metadata)})


def add_metadata(server_id: str, body: MetadataBody, call: CurrentCall) -> Response:
    """Set these entries, and leave the others."""
    found = call.client.set_server_metadata(call.find_server(server_id, CREATE).uuid, body.metadata)
    return answer({"metadata": found["metadata"]})


def replace_metadata(server_id: str, body: MetadataBody, call: CurrentCall) -> Response:
    """Set these entries, and remove the others."""
    uuid = call.find_server(server_id, UPDATE_ALL).uuid
    return answer({"metadata": call.client.set_server_metadata(uuid, body.metadata, replace=True)["metadata"]})


def show_metadata_item(server_id: str, key: str, call: CurrentCall) -> Response:
    """One entry."""
    found = call.find_server(server_id, SHOW).metadata
    if key not in found:
        raise UnknownName(_MISSING)
    return answer({"meta": {key: found[key]}})


def set_metadata_item(server_id: str, key: str, body: MetadataItemBody, call: CurrentCall) -> Response:
    """Set one entry."""
    if key not in body.meta:
        raise BadInput("Request body and URI mismatch")
    call.client.set_server_metadata(call.find_server(server_id, UPDATE).uuid, body.meta)
    return answer({"meta": body.meta})


def delete_metadata_item(server_id: str, key: str, call: CurrentCall) -> Response:
    """Remove one entry."""
    found = call.find_server(server_id, DELETE)
    if key not in found.metadata:
        raise UnknownName(_MISSING)
    call.client.delete_server_metadata(found.uuid, key)
    return accepted(204)
