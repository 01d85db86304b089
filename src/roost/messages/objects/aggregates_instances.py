# SPDX-License-Identifier: Apache-2.0
"""Conversion of aggregates and instances, which other services report to schedulers, from and to nova's objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roost.errors import FieldError
from roost.hosts import Instance
from roost.hosts.instances import IMAGE_PREFIX
from roost.messages.objects.envelope import close_envelope, close_list, is_envelope, open_envelope, open_list
from roost.messages.objects.flavor_image_group import flavor_from_object, flavor_to_object
from roost.model import Aggregate
from roost.model.fields import (
    MAPPING,
    NAMES,
    OPTIONAL_AMOUNT,
    OPTIONAL_TEXT,
    PLAIN_DATA,
    TEXT,
    TEXT_MAPPING,
    listed,
    make_record,
)
from roost.model.image import parse_properties
from roost.model.kinds import FrozenDict, OrNull, Timestamp
from roost.model.resources import requested_amounts
from roost.model.uuids import UuidText

_UUID = UuidText()
_CREATED_AT = OrNull(Timestamp())


def aggregates_from_object(value: Any, where: str = "aggregates") -> list[Aggregate]:
    """The aggregates of an Aggregate, an AggregateList or a plain list. `where`: path for errors."""
    if is_envelope(value) and value["nova_object.name"] == "Aggregate":
        return [_aggregate(value, where)]
    entries = listed(open_list(value, "AggregateList", where), where)
    return [_aggregate(each, f"{where}[{at}]") for at, each in enumerate(entries)]


def _aggregate(value: Any, where: str) -> Aggregate:
    data = open_envelope(value, "Aggregate", where).data
    return make_record(
        Aggregate,
        where,
        name=TEXT.lenient(data.get("name"), f"{where}.name"),
        metadata=TEXT_MAPPING.lenient(data.get("metadata"), f"{where}.metadata"),
        hosts=NAMES.lenient(data.get("hosts"), f"{where}.hosts"),
        id=OPTIONAL_AMOUNT.lenient(data.get("id"), f"{where}.id"),
        uuid=OPTIONAL_TEXT.lenient(data.get("uuid"), f"{where}.uuid"),
    )


def aggregate_to_object(aggregate: Aggregate) -> dict[str, Any]:
    """The Aggregate object of an aggregate."""
    identity = {name: value for name in ("id", "uuid", "name") if (value := getattr(aggregate, name)) is not None}
    return close_envelope(
        "Aggregate", identity | {"hosts": list(aggregate.hosts), "metadata": dict(aggregate.metadata)}
    )


def instances_from_object(value: Any, where: str = "instance_info") -> list[Instance]:
    """The instances of an Instance, an InstanceList or a plain list. `where`: path for errors."""
    if is_envelope(value) and value["nova_object.name"] == "Instance":
        return [_instance(value, where)]
    entries = listed(open_list(value, "InstanceList", where), where)
    return [_instance(each, f"{where}[{at}]") for at, each in enumerate(entries)]


def _instance(value: Any, where: str) -> Instance:
    data = open_envelope(value, "Instance", where).data
    flavor = flavor_from_object(data["flavor"], f"{where}.flavor") if data.get("flavor") else None
    number = OPTIONAL_AMOUNT.lenient(data.get("instance_type_id"), f"{where}.instance_type_id")
    metadata = MAPPING.lenient(data.get("system_metadata"), f"{where}.system_metadata")
    props, rest = split_system_metadata(metadata)
    return Instance(
        _UUID.lenient(data.get("uuid"), f"{where}.uuid"),
        OPTIONAL_TEXT.lenient(data.get("project_id"), f"{where}.project_id"),
        flavor.id if number is None and flavor else number,
        props,
        requested_amounts(flavor) if flavor else {},
        image_ref=OPTIONAL_TEXT.lenient(data.get("image_ref"), f"{where}.image_ref"),
        flavor=flavor,
        system_metadata=rest,
        created_at=_CREATED_AT.lenient(data.get("created_at"), f"{where}.created_at"),
    )


def split_system_metadata(metadata: Mapping[str, Any]) -> tuple[Mapping[str, str], Mapping[str, Any]]:
    """The image properties in an instance's system metadata, and the entries that do not follow from them."""
    props = _image_props(metadata)
    rest = {key: text for key, text in metadata.items() if props.get(key.removeprefix(IMAGE_PREFIX)) != text}
    return props, FrozenDict(rest)


def _image_props(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Image property -> text, as weighers compare it; invalid properties are left out."""
    props: dict[str, str] = {}
    for key, raw in metadata.items():
        if key.startswith(IMAGE_PREFIX):
            try:
                properties = parse_properties({key.removeprefix(IMAGE_PREFIX): PLAIN_DATA.strict(raw, key)})
            except FieldError:
                continue
            props |= {name: properties.text_of(name) for name in properties}
    return props


def instances_to_object(instances: Sequence[Instance]) -> dict[str, Any]:
    """The InstanceList object of the instances."""
    return close_list("InstanceList", [close_envelope("Instance", _instance_data(each)) for each in instances])


def _instance_data(instance: Instance) -> Mapping[str, Any]:
    metadata = {f"{IMAGE_PREFIX}{name}": each for name, each in instance.image_props.items()}
    data: dict[str, Any] = {
        "uuid": instance.uuid,
        "project_id": instance.project_id,
        "system_metadata": {**metadata, **instance.system_metadata},
    }
    if instance.flavor:
        data["flavor"] = flavor_to_object(instance.flavor)
    if instance.created_at:
        data["created_at"] = instance.created_at.isoformat()
    return data | ({"instance_type_id": instance.flavor_id} if isinstance(instance.flavor_id, int) else {})
