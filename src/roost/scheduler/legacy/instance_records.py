# SPDX-License-Identifier: Apache-2.0
"""Instances in messages of Icehouse and Juno: dicts of their fields, or objects that contain such a dict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roost.errors import FieldError
from roost.model.fields import ListOf
from roost.model.uuids import UUID

DATA = "nova_object.data"
_UUIDS = ListOf(UUID)
SECRETS = frozenset({"admin_password", "admin_pass", "adminPass", "injected_files"})
"""Arguments that only the chosen host receives; see `without_secrets`."""
_FLAVOR, _IMAGE = "instance_type_", "image_"
_SIZES = ("memory_mb", "vcpus", "root_gb", "ephemeral_gb")
_OF_IMAGES = ("min_ram", "min_disk", "disk_format", "container_format")
"""Fields of an image besides its properties."""


def fields_of(record: Any, where: str) -> Mapping[str, Any]:
    """The fields of a record that is a dict or a serialised object; `where` is its path in the message."""
    data = record.get(DATA, record) if isinstance(record, Mapping) else record
    if not isinstance(data, Mapping):
        raise FieldError(where, f"{type(data).__name__} is no record", "send a mapping of its fields")
    return data


def with_fields(record: Mapping[str, Any], **values: Any) -> dict[str, Any]:
    """A copy of the record with these values, in the format that it has."""
    return {**record, DATA: {**record[DATA], **values}} if DATA in record else {**record, **values}


def uuid_of(record: Any, where: str) -> str:
    """The uuid of an instance, in its one spelling."""
    return UUID.strict(sent_uuid_of(record, where), f"{where}.uuid")


def sent_uuid_of(record: Any, where: str) -> Any:
    """The uuid of an instance as the message spells it: agents and listeners are sent that."""
    return fields_of(record, where).get("uuid")


def uuids_in(request_spec: Any, most: int) -> dict[str, str]:
    """Uuid -> its spelling in the request, of the instances that it lists, or the one of its instance_properties.

    FieldError where there are more than `most`.
    """
    listed = fields_of(request_spec, "request_spec").get("instance_uuids")
    if listed is None:
        where = "request_spec.instance_properties"
        instance = request_spec.get("instance_properties")
        return {uuid_of(instance, where): sent_uuid_of(instance, where)}
    if not isinstance(listed, list | tuple):
        raise FieldError("request_spec.instance_uuids", "is no list of uuids")
    if len(listed) > most:
        raise FieldError("request_spec.instance_uuids", f"more than {most} at once", "ask in several requests")
    return dict(zip(_UUIDS.strict(listed, "request_spec.instance_uuids"), listed, strict=True))


def without_secrets(value: Any) -> Any:
    """A copy without passwords and injected files at any depth, for notifications."""
    if isinstance(value, Mapping):
        return {name: without_secrets(each) for name, each in value.items() if name not in SECRETS}
    return [without_secrets(each) for each in value] if isinstance(value, list | tuple) else value


def request_for(instance: Any) -> dict[str, Any]:
    """A request_spec that would place a running instance, built from the fields of the instance."""
    fields = fields_of(instance, "instance")
    noted = _system_metadata(fields)
    flavor = {name: fields[name] for name in _SIZES if fields.get(name) is not None}
    flavor |= {name: _number(value) for name, value in _under(noted, _FLAVOR).items() if value is not None}
    return {
        "image": _image(fields, noted),
        "instance_properties": dict(fields),
        "instance_type": flavor,
        "instance_uuids": [sent_uuid_of(instance, "instance")],
        "num_instances": 1,
    }


def _image(fields: Mapping[str, Any], noted: Mapping[str, Any]) -> dict[str, Any]:
    """The image recorded in system metadata; empty for an instance that boots from a volume."""
    if not fields.get("image_ref"):
        return {}
    known = _under(noted, _IMAGE)
    own = {name: _number(known.pop(name)) for name in _OF_IMAGES if known.get(name) is not None}
    known.pop("base_image_ref", None)
    return {"id": fields["image_ref"], **own, "properties": known}


def _system_metadata(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Name -> value, from the list or the dict that releases send."""
    found = fields.get("system_metadata") or {}
    if isinstance(found, list):
        return {row["key"]: row.get("value") for row in found if isinstance(row, Mapping) and "key" in row}
    return found if isinstance(found, Mapping) else {}


def _under(noted: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in noted.items() if name.startswith(prefix)}


def _number(value: Any) -> Any:
    """The number that a decimal text stands for: system metadata is text."""
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 20 else value
