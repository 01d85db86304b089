# SPDX-License-Identifier: Apache-2.0
"""Images: /image/v2/images. They have properties and sizes, which rules read, and no data."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal, get_args
from uuid import UUID

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from roost.api.call import Call, CurrentCall, accepted, answer
from roost.api.microversions import utc_text
from roost.errors import BadInput, Conflict, Forbidden
from roost.records.image_catalogue import ImageRecord, NewImage, create_image, delete_image, get_image, update_image

MOST_PROPERTIES = 128
Visibility = Literal["public", "private", "shared", "community"]
DiskFormat = Literal["ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "iso", "ploop", "gpt"]
ContainerFormat = Literal["ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed"]
AMAZONS = ("ami", "ari", "aki")
"""Formats that are of the disk and of the container at once."""
Text255 = Annotated[str, Field(max_length=255)]
LARGEST = 2**31 - 1
Amount = Annotated[int, Field(strict=True, ge=0, le=LARGEST)]

FIELDS = frozenset({"name", "visibility", "owner", "min_ram", "min_disk", "disk_format", "container_format"})
"""What a client may change besides properties."""
FORMATS = ("disk_format", "container_format")
_CHOICES: dict[str, tuple[str, ...]] = {
    "visibility": get_args(Visibility),
    "disk_format": get_args(DiskFormat),
    "container_format": get_args(ContainerFormat),
}
_ABSENT: dict[str, Any] = {"tags": [], "protected": False, "os_hidden": False}
"""What images here do not have -> its value of all of them, which clients may send."""
_READ_ONLY = frozenset(
    {"id", "status", "size", "virtual_size", "checksum", "os_hash_algo", "os_hash_value", "created_at"}
    | {"updated_at", "self", "file", "schema", "location", "locations", "direct_url", "stores", "first", "next"}
    | {"deleted", "deleted_at"}
)
_RESERVED = "os_glance_"
"""How names of properties begin that Glance gives its images itself."""
_OLDER_OPERATIONS = ("add", "replace", "remove")


class NewImageBody(BaseModel):
    """An image to be created; any further key is a property, whose value is a text."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "additionalProperties": {"type": "string", "maxLength": 4096},
            "example": {
                "name": "debian-13",
                "disk_format": "qcow2",
                "container_format": "bare",
                "hw_cpu_policy": "shared",
            },
        },
    )
    name: Text255 | None = None
    id: UUID | None = None
    visibility: Visibility | None = None
    owner: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    min_ram: Amount = 0
    min_disk: Amount = 0
    disk_format: DiskFormat | None = None
    container_format: ContainerFormat | None = None
    tags: Annotated[list[Any], Field(max_length=0)] | None = None
    protected: Literal[False] = False
    os_hidden: Literal[False] = False

    @model_validator(mode="after")
    def _check_properties(self) -> NewImageBody:
        check_properties(self.properties)
        check_formats(self.disk_format, self.container_format)
        return self

    @property
    def properties(self) -> dict[str, Any]:
        """Keys that are no fields."""
        return dict(self.model_extra or {})


class Operation(BaseModel):
    """One change of an image: a JSON patch, as far as Glance takes it, or its older form: {"add": PATH, ...}."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"op": "add", "path": "/os_distro", "value": "debian"}}
    )
    op: Literal["add", "replace", "remove"]
    path: Annotated[str, Field(min_length=2, max_length=300, pattern="^/[^/]+$")]
    value: Any = None

    @model_validator(mode="before")
    @classmethod
    def _read_older_form(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "op" in given or "path" in given:
            return given
        named = [each for each in _OLDER_OPERATIONS if each in given]
        if len(named) != 1:
            return given
        rest = {key: value for key, value in given.items() if key not in named}
        return {"op": named[0], "path": given[named[0]], **rest}

    @model_validator(mode="after")
    def _check_value(self) -> Operation:
        if self.op != "remove" and "value" not in self.model_fields_set:
            raise ValueError(f"{self.op} needs a value")
        return self

    @property
    def key(self) -> str:
        """The field or property that is meant."""
        return self.path[1:].replace("~1", "/").replace("~0", "~")


def changes_of(operations: Sequence[Operation], stored: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields that are replaced, and properties that are set, or removed where the value is None.

    `stored`: properties that the image has. Conflict where another one is replaced or removed.
    """
    fields: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    for each in operations:
        _check_writable(each.key)
        if each.key in _ABSENT:
            _check_absent(each)
        elif each.key in FIELDS:
            fields[each.key] = _field_value(each)
        else:
            is_there = properties[each.key] is not None if each.key in properties else each.key in stored
            properties[each.key] = _property_value(each, is_there)
    check_properties({key: value for key, value in properties.items() if value is not None})
    return fields, properties


def _check_writable(key: str) -> None:
    """Raise Forbidden for what is not for clients to write."""
    if key in _READ_ONLY:
        raise Forbidden(f"Attribute '{key}' is read-only.")
    if key.startswith(_RESERVED):
        raise Forbidden(f"Attribute '{key[:60]}' is reserved.", f"so is all that begins with {_RESERVED}")


def _check_absent(operation: Operation) -> None:
    """Raise BadInput for anything but the value that all images here have."""
    usual, value = _ABSENT[operation.key], operation.value
    if operation.op == "remove" or type(value) is not type(usual) or value != usual:
        raise BadInput(f"Attribute '{operation.key}': images here have none.", f"its value is {usual}")


def _property_value(operation: Operation, is_there: bool) -> Any:
    """The new value of a property; None where it is removed."""
    if operation.op != "add" and not is_there:
        raise Conflict(f"Property '{operation.key[:60]}' does not exist.", "add it")
    if operation.op == "remove":
        return None
    if operation.value is None:
        raise BadInput(f"Property '{operation.key[:60]}': null is no value", "remove it")
    return operation.value


def _field_value(operation: Operation) -> Any:
    """The value of a field; BadInput for one that cannot be without."""
    name, value = operation.key, operation.value
    if operation.op == "remove" or (value is None and name not in FORMATS):
        raise BadInput(f"Attribute '{name}' cannot be removed.", "replace it")
    if name in ("min_ram", "min_disk"):
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST:
            raise BadInput(f"Attribute '{name}': {str(value)[:40]!r} is no whole number from 0 on")
    elif name in _CHOICES:
        _check_choice(name, value)
    elif not isinstance(value, str):
        raise BadInput(f"Attribute '{name}': {str(value)[:40]!r} is no text")
    return value


def _check_choice(name: str, value: Any) -> None:
    """Raise BadInput for a value that is none of those that there are; null is one of a format."""
    if value not in (*_CHOICES[name], *([None] if name in FORMATS else [])):
        raise BadInput(f"Attribute '{name}': {str(value)[:40]!r} is none", f"one of {', '.join(_CHOICES[name])}")


def check_formats(disk_format: str | None, container_format: str | None) -> None:
    """Raise BadInput for formats that do not go together."""
    both = {disk_format, container_format} - {None}
    if len(both) == 2 and both & set(AMAZONS):
        raise BadInput(
            f"disk_format {disk_format} does not go with container_format {container_format}",
            f"{', '.join(AMAZONS)} are formats of both",
        )


def check_properties(properties: dict[str, Any]) -> None:
    """Raise BadInput for more properties than an image may have, and for what can be none; Forbidden for others."""
    check_property_count(properties)
    for key, value in properties.items():
        _check_writable(key)
        if not isinstance(value, str) or len(key) > 255 or len(value) > 4096:
            raise BadInput(f"Property '{key[:60]}': its value is no text of at most 4096 characters")
        if not key:
            raise BadInput("a property has no name")


def check_property_count(names: Collection[str]) -> None:
    """Raise BadInput for more properties than an image may have."""
    if len(names) > MOST_PROPERTIES:
        raise BadInput(f"more than {MOST_PROPERTIES} properties")


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
