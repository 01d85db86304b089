# SPDX-License-Identifier: Apache-2.0
"""Images: /image/v2/images. They have properties and sizes, which rules read, and no data."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from roost.api.call import Call, CurrentCall, accepted, answer
from roost.api.image.bodies import (
    FORMATS,
    NewImageBody,
    Operation,
    changes_of,
    check_formats,
    check_property_count,
)
from roost.api.times import utc_text
from roost.errors import BadInput, Forbidden
from roost.records.image_catalogue import ImageRecord, NewImage, create_image, delete_image, get_image, update_image

PUBLIC, SHARED = "public", "shared"


def show(call: CurrentCall, image_id: str) -> Response:
    """An image."""
    return answer(describe_image(_find(call, image_id, "get_image")))


def create(call: CurrentCall, body: NewImageBody) -> Response:
    """A new image, which can be used at once."""
    visibility = body.visibility or SHARED
    _check_visibility(call, visibility)
    if body.owner not in (None, call.caller.project_id) and not call.is_admin:
        raise Forbidden("Images for another owner are made by administrators alone.")
    wanted = NewImage(
        name=body.name or "",
        properties=body.properties,
        id=str(body.id) if body.id else None,
        min_ram=body.min_ram,
        min_disk=body.min_disk,
        visibility=visibility,
        owner=body.owner or call.caller.project_id or None,
        disk_format=body.disk_format,
        container_format=body.container_format,
    )
    made = create_image(call.parts.engine, wanted, call.parts.servers.times)
    return answer(describe_image(made), 201, {"Location": call.link(f"/image/v2/images/{made.id}")})


def update(call: CurrentCall, image_id: str, body: list[Operation]) -> Response:
    """Change an image by a list of operations: add, replace and remove, each of one field or property."""
    fields, properties = _allowed_changes(call, body, _find(call, image_id, "modify_image"))
    times = call.parts.servers.times
    changed = update_image(
        call.parts.engine,
        image_id,
        times,
        fields,
        properties,
        check=lambda stored: _allowed_changes(call, body, stored),  # it may be another one by now
    )
    return answer(describe_image(changed))


def _allowed_changes(call: Call, body: list[Operation], stored: ImageRecord) -> tuple[dict[str, Any], dict[str, Any]]:
    """The new fields and properties; an error for those that this image cannot have, or the caller not give it."""
    call.authorize("modify_image", _target(stored))
    fields, properties = changes_of(body, stored.properties)
    if "visibility" in fields and fields["visibility"] != stored.visibility:
        _check_visibility(call, str(fields["visibility"]))
    if "owner" in fields and not call.is_admin:
        raise Forbidden("Owner of an image can be changed by administrators alone.")
    if fields.keys() & set(FORMATS):
        check_formats(*(fields.get(name, getattr(stored, name)) for name in FORMATS))
    check_property_count([name for name, value in (stored.properties | properties).items() if value is not None])
    return fields, properties


def take_data(call: CurrentCall, request: Request, image_id: str) -> Response:
    """Take no data: clients without a terminal send the end of their standard input."""
    _find(call, image_id, "upload_image")
    if request.state.exchange.has_data:
        raise BadInput("Images here have no data: leave out the file.")
    return accepted(204)


def remove(call: CurrentCall, image_id: str) -> Response:
    """Delete an image; servers that were built of it stay."""
    _find(call, image_id, "delete_image")
    delete_image(call.parts.engine, image_id)
    return accepted(204)


def _find(call: Call, image_id: str, rule: str) -> ImageRecord:
    """The image; UnknownName where the caller may not see it, Forbidden where the rule does not allow it."""
    project = None if call.is_admin else call.caller.project_id
    found = get_image(call.parts.engine, image_id, project)
    call.authorize(rule, _target(found))
    return found


def _target(image: ImageRecord) -> dict[str, str | None]:
    return {"project_id": image.owner, "owner": image.owner, "user_id": None, "visibility": image.visibility}


def _check_visibility(call: Call, visibility: str) -> None:
    if visibility == PUBLIC:
        call.authorize("publicize_image")


def describe_image(image: ImageRecord) -> dict[str, Any]:
    """An image as Image v2 has it: properties are keys of their own."""
    own: dict[str, Any] = {
        "id": image.id,
        "name": image.name,
        "status": image.status or "active",
        "visibility": image.visibility,
        "owner": image.owner,
        "min_ram": image.min_ram,
        "min_disk": image.min_disk,
        "size": image.size,
        "virtual_size": None,
        "disk_format": image.disk_format,
        "container_format": image.container_format,
        "checksum": None,
        "os_hash_algo": None,
        "os_hash_value": None,
        "os_hidden": False,
        "protected": False,
        "tags": [],
        "created_at": utc_text(image.created_at),
        "updated_at": utc_text(image.updated_at or image.created_at),
        "self": f"/v2/images/{image.id}",
        "file": f"/v2/images/{image.id}/file",
        "schema": "/v2/schemas/image",
    }
    return {name: image.text_of(name) for name in image.properties if name not in own} | own
