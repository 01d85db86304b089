# SPDX-License-Identifier: Apache-2.0
"""Images: /image/v2/images. They have properties and sizes, which rules read, and no data."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Query, Response

from roost.api.call import Call, CurrentCall, accepted, answer
from roost.api.image.bodies import NewImageBody, Operation, changes_of, check_property_count
from roost.api.times import utc_text
from roost.errors import Forbidden
from roost.inventory import (
    ImageFilters,
    ImageRecord,
    NewImage,
    Page,
    create_image,
    delete_image,
    get_image,
    list_images,
    update_image,
)

DEFAULT_LIMIT = 25
"""Images on a page, where the client does not say; Glance's."""
PUBLIC, SHARED = "public", "shared"
IN = "in:"
_TextFilter = Annotated[str | None, Query(max_length=4096)]


def list_page(
    call: CurrentCall,
    name: _TextFilter = None,
    id: _TextFilter = None,  # noqa: A002 - the name of the parameter
    visibility: _TextFilter = None,
    owner: _TextFilter = None,
    status: _TextFilter = None,
    marker: _TextFilter = None,
    limit: Annotated[int | None, Query(ge=0)] = None,
    sort_key: _TextFilter = None,
    sort_dir: Annotated[str | None, Query(pattern="^(asc|desc)$")] = None,
    sort: _TextFilter = None,
) -> Response:
    """The images that the caller may see: its project's own, and public ones."""
    if sort:
        sort_key, _, sort_dir = sort.partition(",")[0].partition(":")
    ids = None if id is None else id.removeprefix(IN).split(",") if id.startswith(IN) else [id]
    project = None if call.is_admin else call.caller.project_id
    wanted = ImageFilters(name, ids, None if visibility == "all" else visibility, owner, status, project)
    size = min(DEFAULT_LIMIT if limit is None else limit, call.parts.options.max_limit)
    page = Page(size, marker or None, sort_key or None, sort_dir == "desc")
    found = list_images(call.parts.engine, wanted, page)
    record: dict[str, Any] = {
        "images": [_describe(each) for each in found],
        "schema": "/v2/schemas/images",
        "first": "/v2/images",
    }
    if size and len(found) == size:
        given = {"name": name, "id": id, "visibility": visibility, "owner": owner, "status": status, "limit": limit}
        given |= {"sort_key": sort_key, "sort_dir": sort_dir, "marker": found[-1].id}
        record["next"] = f"/v2/images?{urlencode({key: value for key, value in given.items() if value})}"
    return answer(record)


def show(call: CurrentCall, image_id: str) -> Response:
    """An image."""
    return answer(_describe(_find(call, image_id, "get_image")))


def create(call: CurrentCall, body: NewImageBody) -> Response:
    """A new image, which can be used at once."""
    visibility = body.visibility or SHARED
    _check_visibility(call, visibility)
    owner = body.owner if body.owner and call.is_admin else call.caller.project_id or None
    wanted = NewImage(
        name=body.name or "",
        properties=body.properties,
        id=str(body.id) if body.id else None,
        min_ram=body.min_ram,
        min_disk=body.min_disk,
        visibility=visibility,
        owner=owner,
        disk_format=body.disk_format,
        container_format=body.container_format,
    )
    made = create_image(call.parts.engine, wanted, call.parts.servers.times)
    return answer(_describe(made), 201, {"Location": call.link(f"/image/v2/images/{made.id}")})


def update(call: CurrentCall, image_id: str, body: list[Operation]) -> Response:
    """Change an image by a list of operations: add, replace and remove, each of one field or property."""
    stored = _find(call, image_id, "modify_image")
    fields, properties = changes_of(body)
    if "visibility" in fields and fields["visibility"] != stored.visibility:
        _check_visibility(call, str(fields["visibility"]))
    if "owner" in fields and not call.is_admin:
        raise Forbidden("Owner of an image can be changed by administrators alone.")
    check_property_count([name for name, value in (stored.properties | properties).items() if value is not None])
    times = call.parts.servers.times
    return answer(_describe(update_image(call.parts.engine, image_id, times, fields, properties)))


def take_data(call: CurrentCall, image_id: str) -> Response:
    """Take no data: clients without a terminal send the end of their standard input."""
    _find(call, image_id, "upload_image")
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


def _describe(image: ImageRecord) -> dict[str, Any]:
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
    return {name: _property_text(value) for name, value in image.properties.items() if name not in own} | own


def _property_text(value: Any) -> Any:
    """A property as text, as Glance has all of them; fleet files may have numbers and lists."""
    return value if isinstance(value, str) or value is None else str(value)
