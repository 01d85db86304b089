# SPDX-License-Identifier: Apache-2.0
"""What clients send to create and change images."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal, get_args
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator

from roost.errors import BadInput

MOST_PROPERTIES = 128
Visibility = Literal["public", "private", "shared", "community"]
VISIBILITIES = get_args(Visibility)
Text255 = Annotated[str, Field(max_length=255)]
LARGEST = 2**31 - 1

FIELDS = frozenset({"name", "visibility", "owner", "min_ram", "min_disk", "disk_format", "container_format"})
"""What a client may change besides properties."""
_IGNORED = frozenset({"tags", "protected", "os_hidden"})
"""What clients send and images here do not have; only their defaults are accepted."""
_READ_ONLY = frozenset(
    {"id", "status", "size", "virtual_size", "checksum", "os_hash_algo", "os_hash_value", "created_at"}
    | {"updated_at", "self", "file", "schema", "locations", "direct_url", "stores", "first", "next"}
)


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
    owner: Text255 | None = None
    min_ram: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    min_disk: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    disk_format: Text255 | None = None
    container_format: Text255 | None = None
    tags: Annotated[list[Any], Field(max_length=0)] | None = None
    protected: Literal[False] = False
    os_hidden: Literal[False] = False

    @model_validator(mode="after")
    def _check_properties(self) -> NewImageBody:
        check_properties(self.properties)
        return self

    @property
    def properties(self) -> dict[str, Any]:
        """Keys that are no fields."""
        return dict(self.model_extra or {})


class Operation(BaseModel):
    """One change of an image: a JSON patch, as far as Glance takes it."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"op": "add", "path": "/os_distro", "value": "debian"}}
    )
    op: Literal["add", "replace", "remove"]
    path: Annotated[str, Field(min_length=2, max_length=300, pattern="^/[^/]+$")]
    value: Any = None

    @property
    def key(self) -> str:
        """The field or property that is meant."""
        return self.path[1:].replace("~1", "/").replace("~0", "~")


def changes_of(operations: Sequence[Operation]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields that are replaced, and properties that are set, or removed where the value is None."""
    fields: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    for each in operations:
        if each.key in _READ_ONLY:
            raise BadInput(f"Attribute '{each.key}' is read-only.")
        if each.key in _IGNORED:
            if each.value not in (None, False, []):
                raise BadInput(f"Attribute '{each.key}': images here have none.")
        elif each.key in FIELDS:
            fields[each.key] = _field_value(each)
        else:
            properties[each.key] = None if each.op == "remove" else each.value
    check_properties({key: value for key, value in properties.items() if value is not None})
    return fields, properties


def _field_value(operation: Operation) -> Any:
    """The value of a field; BadInput for one that cannot be without."""
    numbers = ("min_ram", "min_disk")
    value = operation.value
    if operation.op == "remove" or (value is None and operation.key not in ("disk_format", "container_format")):
        raise BadInput(f"Attribute '{operation.key}' cannot be removed.", "replace it")
    if operation.key in numbers and (
        not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST
    ):
        raise BadInput(f"Attribute '{operation.key}': {str(value)[:40]!r} is no whole number from 0 on")
    if operation.key not in numbers and not isinstance(value, str | None):
        raise BadInput(f"Attribute '{operation.key}': {str(value)[:40]!r} is no text")
    if operation.key == "visibility" and value not in VISIBILITIES:
        raise BadInput(f"Attribute 'visibility': {str(value)[:40]!r} is none", f"one of {', '.join(VISIBILITIES)}")
    return value


def check_properties(properties: dict[str, Any]) -> None:
    """Raise BadInput for more properties than an image may have, and for values that are no texts."""
    check_property_count(properties)
    for key, value in properties.items():
        if key in _READ_ONLY:
            raise BadInput(f"Attribute '{key[:60]}' is read-only.")
        if not isinstance(value, str) or len(key) > 255 or len(value) > 4096:
            raise BadInput(f"Property '{key[:60]}': its value is no text of at most 4096 characters")


def check_property_count(names: Collection[str]) -> None:
    """Raise BadInput for more properties than an image may have."""
    if len(names) > MOST_PROPERTIES:
        raise BadInput(f"more than {MOST_PROPERTIES} properties")
