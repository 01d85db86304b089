# SPDX-License-Identifier: Apache-2.0
"""Conversion of flavors, images and server groups from and to nova's objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roost.errors import FieldError
from roost.messages.objects.envelope import close_envelope, fields_to_send, is_envelope, open_record, store_unheld
from roost.model import Flavor, Image, ServerGroup
from roost.model.fields import (
    AMOUNT,
    MAPPING,
    NAMES,
    OPTIONAL_TEXT,
    PLAIN_DATA,
    lenient_parsers,
    listed,
    make_record,
    parse_present,
)
from roost.model.group import MAX_SERVER
from roost.model.image import ImageProperties, parse_properties
from roost.model.image_property_values import CONVERTERS_PER_NODE, ImagePropertyError

_FLAVOR = lenient_parsers(Flavor)
_IMAGE = lenient_parsers(
    Image, "id", "name", "disk_format", "container_format", "status", "min_ram", "min_disk", "size"
)
_GROUP = lenient_parsers(ServerGroup, "name", "uuid", "members", "hosts")
_IMAGE_DEFAULTS = {"id": None, "name": "", "min_ram": 0, "min_disk": 0, "disk_format": None, "container_format": None}
_IMAGE_DEFAULTS |= {"status": None, "size": None}


def flavor_from_object(value: Any, where: str = "flavor") -> Flavor:
    """The flavor of a Flavor object or of a plain mapping. `where`: path for errors."""
    if isinstance(value, Flavor):
        return value
    data = open_record(value, "Flavor", where).data
    for name in ("vcpus", "memory_mb"):
        if name not in data:
            raise FieldError(f"{where}.{name}", "is missing", "a flavor cannot do without it")
    return store_unheld(make_record(Flavor, where, **parse_present(_FLAVOR, data, where)), data, where)


def flavor_to_object(flavor: Flavor) -> dict[str, Any]:
    """The Flavor object of a flavor."""
    held = {name: getattr(flavor, name) for name in _FLAVOR} | {"extra_specs": dict(flavor.extra_specs)}
    return close_envelope("Flavor", fields_to_send(flavor, held))


# --- images ---------------------------------------------------------------------------------------


def image_from_object(value: Any, where: str = "image") -> Image | None:
    """The image of an ImageMeta object or of a plain mapping; None for null and for an empty mapping."""
    if value is None or isinstance(value, Image):
        return value
    data = open_record(value, "ImageMeta", where).data
    if not data and not is_envelope(value):
        return None
    parsed = parse_present(_IMAGE, data, where)
    properties = _properties(data.get("properties"), f"{where}.properties")
    return store_unheld(make_record(Image, where, properties=properties, **parsed), data, where)


def _properties(value: Any, where: str) -> ImageProperties:
    if value is None:
        return ImageProperties()
    opened = open_record(value, "ImageMetaProps", where)
    raw = dict(MAPPING.lenient(opened.data, where))
    for name in CONVERTERS_PER_NODE:
        if isinstance(raw.get(name), (list, tuple)):
            raw |= _numbered_per_node(name, raw.pop(name), f"{where}.{name}")
    return _valid_properties(raw, where) if opened.is_newer else _parsed_properties(raw, where)


def _numbered_per_node(name: str, per_node: Any, where: str) -> dict[str, Any]:
    """The values per NUMA node under the names of raw image properties: hw_numa_cpus.0, hw_numa_cpus.1, ..."""
    found = {}
    for at, each in enumerate(listed(per_node, where)):
        is_set = isinstance(each, (list, tuple, set, frozenset))
        numbers = [AMOUNT.lenient(cpu, f"{where}[{at}]") for cpu in listed(each, where)] if is_set else []
        found[f"{name}.{at}"] = ",".join(map(str, numbers)) if is_set else each
    return found


def _parsed_properties(raw: Mapping[str, Any], where: str) -> ImageProperties:
    try:
        return parse_properties(PLAIN_DATA.strict(raw, ""))
    except ImagePropertyError as error:
        raise FieldError(f"{where}.{error.field.removeprefix('properties.')}", error.problem, error.hint) from None
    except FieldError as error:
        raise error.under(where) from None


def _valid_properties(raw: Mapping[str, Any], where: str) -> ImageProperties:
    """The properties of an object with a newer version: invalid values are left out, as unknown properties are."""
    known: dict[str, Any] = {}
    for name, value in raw.items():
        try:
            _parsed_properties({name: value}, where)
        except FieldError:
            continue
        known[name] = value
    return _parsed_properties(known, where)


def image_to_object(image: Image | None) -> dict[str, Any] | None:
    """The ImageMeta object of an image; None for None. Fields without a value are left out: nova refuses null."""
    if image is None:
        return None
    held = {name: value for name in _IMAGE if (value := getattr(image, name)) is not None}
    properties = close_envelope("ImageMetaProps", plain_properties(image.properties))
    data = fields_to_send(image, held | {"properties": properties}, _IMAGE_DEFAULTS)
    return close_envelope("ImageMeta", {name: value for name, value in data.items() if value is not None})


def plain_properties(properties: ImageProperties) -> dict[str, Any]:
    """Image properties as JSON data: sets become sorted lists."""
    return {name: _json_value(value) for name, value in properties.to_dict().items()}


def _json_value(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return [_json_value(each) for each in value] if isinstance(value, list) else value


# --- server groups --------------------------------------------------------------------------------


def group_from_object(value: Any, where: str = "instance_group") -> ServerGroup | None:
    """The server group of an InstanceGroup object; older versions have a list of policies. None for null."""
    if value is None or isinstance(value, ServerGroup):
        return value
    data = open_record(value, "InstanceGroup", where).data
    rules = MAPPING.lenient(data.get("_rules") or data.get("rules"), f"{where}.rules")
    known = {name: rule for name, rule in rules.items() if name == MAX_SERVER}
    policy, parsed = _policy(data, where), parse_present(_GROUP, data, where)
    return store_unheld(make_record(ServerGroup, where, policy=policy, rules=known, **parsed), data, where)


def _policy(data: Mapping[str, Any], where: str) -> str | None:
    policy: str | None = OPTIONAL_TEXT.lenient(data.get("policy"), f"{where}.policy")
    return policy or next(iter(NAMES.lenient(data.get("policies"), f"{where}.policies")), None)


def group_to_object(group: ServerGroup | None) -> dict[str, Any] | None:
    """The InstanceGroup object of a group, with the fields `policy` and `policies`; None for None."""
    if group is None:
        return None
    held: dict[str, Any] = {name: getattr(group, name) for name in ("policy", "policies", "name", "uuid")}
    held |= {"members": list(group.members), "hosts": list(group.hosts)}
    held |= {"_rules": {name: str(rule) for name, rule in group.rules.items()}}
    defaults = {"policies": group.policies, "name": "", "members": [], "hosts": [], "_rules": {}}
    return close_envelope("InstanceGroup", fields_to_send(group, held, defaults))
