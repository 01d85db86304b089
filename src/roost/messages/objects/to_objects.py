# SPDX-License-Identifier: Apache-2.0
"""Serializer of RPC clients and servers: converts records in arguments and results to and from nova's objects.

`request_from_dicts` parses requests of releases before Mitaka: a request_spec dict and a filter_properties dict,
whose members may be plain mappings or versioned objects, also mixed in one message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roost.errors import FieldError
from roost.hosts import Instance
from roost.messages.objects.aggregates_instances import (
    aggregate_to_object,
    aggregates_from_object,
    instances_from_object,
    instances_to_object,
)
from roost.messages.objects.envelope import NAME, is_envelope
from roost.messages.objects.flavor_image_group import flavor_from_object, group_from_object, image_from_object
from roost.messages.objects.numa_pci import pci_requests_from_object, topology_from_object
from roost.messages.objects.request import instance_count, request_from_object, request_to_object
from roost.messages.objects.request_parts import destination_from_object, limits_from_object, retry_from_object
from roost.messages.objects.selections import SelectedHost, selection_from_object, selection_to_object
from roost.model import Aggregate, RequestSpec, ServerGroup
from roost.model.fields import MAPPING, NAMES, OPTIONAL_TEXT, PLAIN_DATA, make_record
from roost.model.kinds import OrNull
from roost.model.legacy import LegacyDicts
from roost.model.request import HINTS

_SPEC, _PROPERTIES = "request_spec", "filter_properties"
_OPTIONAL_NAMES = OrNull(NAMES)


def request_from_dicts(request_spec: Any, filter_properties: Any) -> RequestSpec:
    """The request in a pair of dicts. Errors name the path, such as `request_spec.instance_type.vcpus`."""
    request = MAPPING.lenient(request_spec, _SPEC)
    properties = MAPPING.lenient(filter_properties, _PROPERTIES)
    fields = _fields_of_request_spec(request, properties) | _fields_of_filter_properties(properties)
    return make_record(RequestSpec, "", **fields, older_form=LegacyDicts(request, properties))


def _fields_of_request_spec(request: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    instance = MAPPING.lenient(request.get("instance_properties"), f"{_SPEC}.instance_properties")
    where = f"{_SPEC}.instance_properties"
    uuids = NAMES.lenient(request.get("instance_uuids"), f"{_SPEC}.instance_uuids")
    count = instance_count(len(uuids) or request.get("num_instances"), f"{_SPEC}.num_instances")
    uuid = OPTIONAL_TEXT.lenient(instance.get("uuid"), f"{where}.uuid")
    devices = instance.get("pci_requests") or properties.get("pci_requests")
    names = ("project_id", "user_id", "availability_zone")
    return {
        "flavor": _flavor(request, properties),
        "image": _image(request.get("image")),
        "num_instances": count,
        "instance_uuid": uuid or next(iter(uuids), None),
        **{name: OPTIONAL_TEXT.lenient(instance.get(name), f"{where}.{name}") for name in names},
        "numa_topology": topology_from_object(instance.get("numa_topology") or None, f"{where}.numa_topology"),
        "pci_requests": pci_requests_from_object(devices or None, f"{where}.pci_requests"),
    }


def _flavor(request: Mapping[str, Any], properties: Mapping[str, Any]) -> Any:
    for where, given in ((_SPEC, request), (_PROPERTIES, properties)):
        if given.get("instance_type"):
            return flavor_from_object(given["instance_type"], f"{where}.instance_type")
    raise FieldError(f"{_SPEC}.instance_type", "is missing", "a request cannot do without a flavor")


def _image(value: Any) -> Any:
    """The image of a mapping or object; None for any other value, since old releases sent various ones."""
    is_image = isinstance(value, Mapping) or hasattr(value, "properties")
    return image_from_object(value, f"{_SPEC}.image") if is_image else None


def _fields_of_filter_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    def path(name: str) -> str:
        return f"{_PROPERTIES}.{name}"

    lists = ("ignore_hosts", "force_hosts", "force_nodes")
    return {
        **{name: _OPTIONAL_NAMES.lenient(properties.get(name), path(name)) for name in lists},
        "scheduler_hints": HINTS.lenient(properties.get("scheduler_hints"), path("scheduler_hints")),
        "retry": retry_from_object(properties.get("retry") or None, path("retry")),
        "limits": limits_from_object(properties.get("limits") or None, path("limits")),
        "instance_group": _group(properties),
        "requested_destination": destination_from_object(
            properties.get("requested_destination") or None, path("requested_destination")
        ),
        "config_options": PLAIN_DATA.strict(
            MAPPING.lenient(properties.get("config_options"), path("config_options")), path("config_options")
        ),
    }


def _group(properties: Mapping[str, Any]) -> ServerGroup | None:
    """The group object, or a group built from the `group_...` members of releases from Juno to Newton."""
    if properties.get("instance_group"):
        return group_from_object(properties["instance_group"], f"{_PROPERTIES}.instance_group")
    if properties.get("group_updated") is not True:
        return None
    members = {name: properties.get(f"group_{name}") for name in ("policies", "hosts", "members", "uuid")}
    return group_from_object(members, _PROPERTIES)


MAX_NESTING = 16
"""Maximum nesting of lists and mappings around objects."""

_WRITERS: Mapping[type, Callable[[Any], Any]] = {
    RequestSpec: request_to_object,
    SelectedHost: selection_to_object,
    Aggregate: aggregate_to_object,
}
_READERS: Mapping[str, Callable[[Any, str], Any]] = {
    "RequestSpec": request_from_object,
    "Selection": selection_from_object,
    "Aggregate": lambda value, where: aggregates_from_object(value, where)[0],
    "AggregateList": aggregates_from_object,
    "InstanceList": instances_from_object,
}


class NovaObjects:
    """Converts requests, selections, aggregates and instances to and from nova's objects, also inside containers."""

    def to_wire(self, value: Any) -> Any:
        """The value with records replaced by nova's objects: JSON data."""
        if (write := _WRITERS.get(type(value))) is not None:
            return write(value)
        if isinstance(value, Mapping):
            return {key: self.to_wire(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            if value and all(isinstance(each, Instance) for each in value):
                return instances_to_object(value)
            return [self.to_wire(each) for each in value]
        return sorted(value) if isinstance(value, (set, frozenset)) else value

    def from_wire(self, value: Any, where: str = "result", deepest: int = MAX_NESTING) -> Any:
        """The value with nova's objects replaced by records; unknown objects are left unchanged."""
        if not isinstance(value, (list, dict)):
            return value
        if not deepest:
            raise FieldError(where, "is nested too deeply", f"at most {MAX_NESTING} levels")
        if is_envelope(value):
            return self._read(value, where)
        if isinstance(value, dict):
            return {key: self.from_wire(each, f"{where}.{key}", deepest - 1) for key, each in value.items()}
        return [self.from_wire(each, f"{where}[{at}]", deepest - 1) for at, each in enumerate(value)]

    def _read(self, value: Any, where: str) -> Any:
        read = _READERS.get(value[NAME]) if isinstance(value[NAME], str) else None
        return value if read is None else read(value, where)
